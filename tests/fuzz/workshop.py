"""A folder of small files that work: data, a store with runs of every kind, certificates, a seal, a saved session."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shutil
import sys
from pathlib import Path

from tests.fuzz.commands import KINDS, LOGS
from tests.fuzz.files import packed, resealed, unpacked

GOLDEN = Path(__file__).parent.parent / "golden"
ITEMS = 40
QUIET = ["--store", "sqlite:///store.db", "--display", "none", "--json"]
TASK = {
    "data": "questions.jsonl",
    "model": "scripted/0.7",
    "eps": 0.2,
    "confidence": 0.95,
    "scorer": "exact",
    "template": "{{ question }}",
    "seed": 3,
    "max_calls": 100,
}
LINES = {
    "estimate": "run questions.jsonl --model scripted/0.6 --eps 0.25 --tag a",
    "compare": "compare questions.jsonl --model scripted/0.9 --model scripted/0.4 --eps 0.2",
    "rank": "rank questions.jsonl --model scripted/0.9 --model scripted/0.4 --model scripted/0.1 --tie 0.4",
    "tasks": "tasks questions.jsonl --model scripted/0.7 --eps 0.4",
    "growing": "extend questions.jsonl --model scripted/0.7 --eps 0.3",
    "begun": "run questions.jsonl --model scripted/0.75 --eps 0.02 --max-calls 10",
    "outside": "run questions.jsonl --model external/people --eps 0.3",
}


def build(folder: Path) -> None:
    """Fill an empty folder. To be called in a process of its own: it changes the working folder."""
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    for path in GOLDEN.glob("*"):
        if path.suffix in (".csv", ".jsonl") or path.name == "golden_models.py":
            shutil.copy(path, path.name)
    for name in (
        "questions.jsonl",
        "items.jsonl",
        "more.jsonl",
        "north.jsonl",
        "south.jsonl",
        "scores.csv",
        "weights.csv",
    ):
        path = Path(name)
        size = ITEMS + (1 if path.suffix == ".csv" else 0) + (8 if name == "more.jsonl" else 0)
        path.write_text("\n".join(path.read_text().splitlines()[:size]) + "\n")
    _other_formats()
    _keys()
    _runs()
    _certified_log()


def _other_formats() -> None:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    rows = [json.loads(line) for line in Path("questions.jsonl").read_text().splitlines()]
    for name, delimiter in (("questions.csv", ","), ("questions.tsv", "\t")):
        with Path(name).open("w", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
            table.writeheader()
            table.writerows(rows)
    Path("questions.rows.json").write_text(json.dumps(rows))
    pq.write_table(pa.Table.from_pylist(rows), "questions.parquet")
    pq.write_table(pyarrow.csv.read_csv("scores.csv"), "scores.parquet")
    for name in ("one", "two"):
        Path("tables", name).mkdir(parents=True)
        shutil.copy("scores.parquet", Path("tables", name, "scores.parquet"))
        items = [json.loads(line) for line in Path("items.jsonl").read_text().splitlines()]
        pq.write_table(pa.Table.from_pylist(items), Path("tables", name, "items.parquet"))
    Path("task.yaml").write_text("\n".join(f"{name}: {json.dumps(value)}" for name, value in TASK.items()))
    Path("fleet.yaml").write_text(
        "models: [scripted/0.7, scripted/0.2]\ndata: questions.jsonl\nscorer: exact\neps: 0.3\n"
    )
    Path("candidates.yaml").write_text(
        "good: scripted/0.8\nbrief: {model: scripted/0.8, system: Be brief., temperature: 0}\n"
        "bad: {model: scripted/0.3, template: '@template.txt', request: {top_p: 0.9}}\n"
    )
    for name, pattern in LOGS.items():
        path = next((GOLDEN.parent / "integrations" / "logs").glob(pattern))
        (shutil.copytree if path.is_dir() else shutil.copy)(path, name)
    Path("template.txt").write_text("Answer with a number.\n{{ question }}")
    Path("judge.txt").write_text("{question} {answer} {reference} {criteria} [[5]]")
    os.mkfifo("fifo")


def _keys() -> None:
    """Make a pair of keys, where the library for it is there."""
    with contextlib.suppress(ImportError):
        from cryptography.hazmat.primitives import serialization as kinds
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
        pem, plain = kinds.Encoding.PEM, kinds.NoEncryption()
        Path("key.pem").write_bytes(key.private_bytes(pem, kinds.PrivateFormat.PKCS8, plain))
        Path("key.pub").write_bytes(
            key.public_key().public_bytes(pem, kinds.PublicFormat.SubjectPublicKeyInfo)
        )


def _certified_log() -> None:
    """Put a certificate into a log of Inspect, and the draws that it is about into its samples."""
    parts, certificate = unpacked(Path("log.eval")), json.loads(Path("estimate.json").read_text())
    certificate["plan"]["scorer"] = {"spec": {"name": "includes"}}
    parts["header.json"]["eval"]["metadata"] = {"cereval_certificate": resealed(certificate)}
    samples = [part for name, part in parts.items() if name.startswith("samples/")]
    for number, (sample, entry) in enumerate(zip(samples, certificate["log"], strict=False)):
        sample["metadata"]["cereval"] = {"draw": number, "item": entry["item"]}
        sample["scores"] = {"includes": {"value": entry["score"]}}
    packed(Path("certified.eval"), {name: json.dumps(part).encode() for name, part in parts.items()})


def _runs() -> None:
    from cereval.cli.main import main

    def said(*words: str) -> dict[str, object]:
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            code = main([*words])
        assert code in (0, 3), (words, code, err.getvalue())
        found: dict[str, object] = json.loads(out.getvalue())
        return found

    ids = {}
    for name, line in LINES.items():
        extra = ["--certificate", f"{name}.json"] if name in KINDS else []
        ids[name] = said(*line.split(), *extra, "--seed", "5", *QUIET)["run_id"]
    Path("ids.json").write_text(json.dumps(ids))
    run = ["run", "questions.jsonl", "--model", "scripted/0.6", "--eps", "0.2"]
    signed = ["--sign", "key.pem"] if Path("key.pem").exists() else []
    said("seal", *run, *signed, "-o", "plan.seal.json", "--store", "sqlite:///store.db", "--json")
    shutil.copy("store.db", "before.db")
    said(*run, "--seal", "plan.seal.json", "-o", "sealed.json", *QUIET)
    said(
        "ask", str(ids["outside"]), "-n", "5", "-o", "batch.jsonl", "--store", "sqlite:///store.db", "--json"
    )
    batch = [{**json.loads(line), "score": 1} for line in Path("batch.jsonl").read_text().splitlines()]
    Path("batch.jsonl").write_text("\n".join(map(json.dumps, batch)))
    with Path("batch.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(batch[0]))
        table.writeheader()
        table.writerows(batch)
