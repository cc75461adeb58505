"""Run command lines in this process, and say in short what came of them: for the makers and for tests."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cereval
from cereval.cli.main import main

HOME = Path(__file__).parent
DATA = (
    "questions.jsonl",
    "north.jsonl",
    "south.jsonl",
    "more.jsonl",
    "scores.csv",
    "north.csv",
    "south.csv",
    "items.jsonl",
    "weights.csv",
    "golden_models.py",
)
LOGGED = ("version", "model", "item", "probability", "score")
HEADLINE = (
    "estimate",
    "difference",
    "lower",
    "upper",
    "macro",
    "tasks",
    "failing",
    "versions",
    "order",
    "ties",
    "ties_proven",
    "undecided",
    "winners",
    "eliminated",
    "intervals",
    "decision",
    "stopped",
    "n_evaluated",
    "n_items",
    "failures",
    "confidence",
    "method",
    "guarantee",
    "target",
    "seed",
)


@dataclass(frozen=True, slots=True)
class Printed:
    """What a command did: its exit code, the JSON that it printed (None: nothing), and its errors."""

    code: int
    facts: Any
    errors: str


def called(*arguments: str) -> Printed:
    """Run a command line with `--json` in this process."""
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        code = main([*arguments, "--json"])
    text = out.getvalue()
    return Printed(code, json.loads(text) if text else None, errors.getvalue())


def asking(line: str | Sequence[str]) -> list[str]:
    """Split a command that may ask models, and keep it silent."""
    return [*(line.split() if isinstance(line, str) else line), "--display", "none"]


def seeded(line: str) -> str:
    """Give a command that begins a run a seed, where it has none: golden files are to be the same every time.

    >>> seeded("run questions.jsonl --eps 0.1"), seeded("resume RUN")
    ('run questions.jsonl --eps 0.1 --seed 0', 'resume RUN')
    """
    going_on = line.startswith(("resume", "extend RUN", "extend FIRST"))
    return line if going_on or "--seed" in line else f"{line} --seed 0"


def carried_out(name: str, lines: Sequence[str]) -> Printed:
    """Run the commands of a case in the working folder; the last writes `NAME.json`."""
    printed, last = Printed(0, {}, ""), len(lines) - 1
    for number, line in enumerate(lines):
        whole = seeded(line).replace("RUN", str(printed.facts.get("run_id")))
        output = ["-o", f"{name}.json"] if number == last else []
        printed = called(*asking(whole), *output)
        assert printed.facts is not None, (name, line, printed.errors)
    return printed


def certificate_of(name: str, lines: Sequence[str], folder: Path) -> dict[str, Any]:
    """Carry out a case in a folder; return the certificate that it writes."""
    with folder_with_data(folder):
        carried_out(name, lines)
        content: dict[str, Any] = read(Path(f"{name}.json"))
    return content


@contextmanager
def folder_with_data(folder: Path) -> Iterator[Path]:
    """Work in a folder that has the data and the models."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in DATA:
        shutil.copy(HOME / name, folder / name)
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir(before)


def rounded(value: Any) -> Any:
    """Round floats to 12 digits, at any depth."""
    if isinstance(value, float):
        return round(value, 12)
    if isinstance(value, Mapping):
        return {key: rounded(inner) for key, inner in value.items()}
    return [rounded(inner) for inner in value] if isinstance(value, list | tuple) else value


def log_digest(log: Sequence[Mapping[str, Any]]) -> str:
    """Hash what a log says: items, probabilities to 12 digits, scores, and whose or which version's they are."""
    rows = [[rounded(entry[name]) for name in LOGGED if name in entry] for entry in log]
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()


def asked_digest(log: Sequence[Mapping[str, Any]]) -> str:
    """Hash what was asked and what came of it, without the probabilities, whose last digits a machine decides."""
    return log_digest([{name: entry[name] for name in entry if name != "probability"} for entry in log])


def alike(found: Any, noted: Any, near: float = 1e-9) -> bool:
    """Compare JSON values; floats may differ in their last digits."""
    if isinstance(noted, Mapping) and isinstance(found, Mapping):
        return found.keys() == noted.keys() and all(alike(found[key], noted[key], near) for key in noted)
    if isinstance(noted, list) and isinstance(found, list):
        return len(found) == len(noted) and all(map(alike, found, noted, [near] * len(noted)))
    if isinstance(noted, float) and isinstance(found, float | int):
        return abs(found - noted) <= near
    return bool(found == noted)


def headline(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Pick the fields of a result that nobody may change; `calls` only of rankings: of runs it counts surplus ones."""
    wanted = (*HEADLINE, "calls") if "calls_full" in facts else HEADLINE
    return {name: rounded(facts[name]) for name in wanted if name in facts}


def read(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


IN_PYTHON: dict[str, dict[str, Any]] = {
    "partition-estimate": {"method": "partition", "goal": cereval.Estimate(0.12)},
    "partition-threshold": {"method": "partition", "goal": cereval.Threshold(0.45), "seed": 3},
    "cer-eval-estimate": {"method": "cer-eval", "goal": cereval.Estimate(0.25)},
    "cer-eval-threshold": {"method": "cer-eval", "goal": cereval.Threshold(0.45), "seed": 3},
}
"""Keywords of `cereval.replay` for the methods that need embeddings, which no live run has."""


def replayed(name: str) -> dict[str, Any]:
    """Replay a column of the scores in Python, with its items' places as embeddings."""
    rows = [line.split(",") for line in (HOME / "scores.csv").read_text().split()[1:]]
    scores = [float(row[2]) for row in rows]
    places = [[number % 7, number / 50, score] for number, score in enumerate(float(row[4]) for row in rows)]
    return headline(cereval.replay(scores, embeddings=places, **IN_PYTHON[name]).as_dict())


def gone_on(line: str, *, verified: bool = True) -> dict[str, Any]:
    """Carry out a command that goes on from what is in the store, and say what it led to."""
    # The store was made elsewhere: what it names must be confirmed here.
    printed = called(*asking(line), "-o", "went-on.json", "--trust")
    found = {"command": line, "code": printed.code, "printed": headline(printed.facts or {})}
    if printed.facts is None:
        return {**found, "errors": printed.errors}
    content = read(Path("went-on.json"))
    named = {"run_id": content.get("run_id"), "digest": content["digest"], "format": content["format"]}
    found |= {**named, "log": log_digest(content["log"]), "asked": asked_digest(content["log"])}
    return {**found, "verify": called("verify", "went-on.json").facts["status"]} if verified else found


def write(path: Path, facts: Any) -> None:
    """Write a JSON file."""
    path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
