"""Make the golden files: certificates of every kind, goal and method, a store, and what is expected of them.

Run once at commit 8578b89, in the repository's root, with the environment of that commit:

    python -m tests.golden.make data certificates store expected replays older

It calls the command line only (`cereval.cli.main.main`, or `python -m cereval` where a process is to be killed), and
writes into tests/golden: the data, certificates/*.json, store.db and expected.json. Running it with later code would
turn what is to be kept into what happens to come out: do not, unless the files are lost.
The files engine-51283a0.* come from `make_older.py`.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.golden.golden_cases import CASES, REFUSED, REPLAYS
from tests.golden.golden_models import chance
from tests.golden.lines import (
    CERTIFICATES,
    EXPECTED,
    HOME,
    IN_PYTHON,
    asking,
    called,
    carried_out,
    folder_with_data,
    headline,
    log_digest,
    read,
    replayed,
    rounded,
)
from tests.golden.make_store import expected_store, make_store

CATEGORIES = ("sums", "gains", "totals", "counts")
OLDER = "engine-51283a0"
IN_OLDER = ("--store", f"sqlite:///{OLDER}.db")
SKILLS = {"red": 0.85, "green": 0.7, "blue": 0.45}


def make_data() -> None:
    """Write 120 questions and 30 that come later, and a table of 150 items with the scores of five models."""
    questions = [question(number) for number in range(150)]
    write_rows("questions.jsonl", questions[:120])
    write_rows("north.jsonl", questions[:60])
    write_rows("south.jsonl", questions[60:120])
    write_rows("more.jsonl", questions)
    scores = [score_line(number) for number in range(150)]
    names = "item,red,green,blue,grey,violet"
    for file, rows in (("scores", scores), ("north", scores[:70]), ("south", scores[70:])):
        (HOME / f"{file}.csv").write_text("\n".join([names, *rows]) + "\n", encoding="utf-8")
    write_rows("items.jsonl", [item(number) for number in range(150)])
    weights = [f"q{number:03d},{0.5 + 2 * chance('weight', str(number)):.2f}" for number in range(150)]
    (HOME / "weights.csv").write_text("\n".join(["item,weight", *weights]) + "\n", encoding="utf-8")


def question(number: int) -> dict[str, Any]:
    """Ask for a sum."""
    category = CATEGORIES[int(4 * chance("category", str(number)) ** 1.3)]
    text = f"What is {number} + {7 * number % 31}?"
    weight = round(0.5 + chance("column", str(number)), 2)
    given = {"id": f"q{number:03d}", "question": text, "answer": str(number + 7 * number % 31)}
    return {**given, "category": category, "weight": weight, "level": number % 2 + 1}


def score_line(number: int) -> str:
    """Score five models on an item: three 0/1 that share its difficulty, one with partial credit, one with gaps."""
    name, shared = f"i{number:03d}", chance("difficulty", str(number))
    luck = {model: (shared + chance(model, str(number))) / 2 for model in SKILLS}
    plain = [str(int(luck[model] < skill)) for model, skill in SKILLS.items()]
    partial = f"{round(1 - shared * chance('grey', str(number)), 1)}"
    gaps = "" if chance("gap", str(number)) < 0.3 else str(int(shared < 0.6))
    return ",".join([name, *plain, partial, gaps])


def item(number: int) -> dict[str, Any]:
    """Describe an item of the scores table."""
    category = CATEGORIES[int(4 * chance("kind", str(number)) ** 1.3)]
    text = f"{category} of {number} apples and {number % 7} pears"
    return {"item": f"i{number:03d}", "text": text, "category": category, "version": 2020 + number % 3}


def write_rows(name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Write a JSONL file."""
    (HOME / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def make_certificates() -> None:
    """Carry out every case, and note what it came to."""
    CERTIFICATES.mkdir(exist_ok=True)
    noted = {}
    for name, lines in CASES.items():
        with tempfile.TemporaryDirectory() as place, folder_with_data(Path(place)) as folder:
            printed = carried_out(name, lines)
            (CERTIFICATES / f"{name}.json").write_text((folder / f"{name}.json").read_text())
        noted[name] = certificate_facts(name, lines, printed.code, printed.facts)
        print(name, noted[name]["verify"]["status"], noted[name]["printed"]["stopped"], flush=True)
    merge({"certificates": noted})


def certificate_facts(name: str, lines: Sequence[str], code: int, facts: Any) -> dict[str, Any]:
    """Say what a certificate holds, and what `verify` makes of it."""
    path = CERTIFICATES / f"{name}.json"
    content = read(path)
    return {
        "file": f"certificates/{name}.json",
        "kind": name.partition("-")[0],
        "format": content["format"],
        "run_id": content.get("run_id"),
        "digest": content["digest"],
        "log": log_digest(content["log"]),
        "entries": len(content["log"]),
        "result": headline(content["result"]),
        "commands": list(lines),
        "code": code,
        "printed": headline(facts),
        "verify": called("verify", str(path)).facts,
    }


def merge(facts: dict[str, Any]) -> None:
    """Replace parts of expected.json."""
    before = read(EXPECTED) if EXPECTED.exists() else {"commit": "8578b89"}
    EXPECTED.write_text(json.dumps(before | facts, indent=1) + "\n", encoding="utf-8")


def make_runs() -> None:
    """Make the store, and note how its runs came about."""
    merge({"store": {"stories": make_store()}})


def make_expected() -> None:
    """Note what the store lists, and what going on with each of its runs leads to."""
    merge({"store": expected_store(read(EXPECTED)["store"]["stories"])})


def make_replays() -> None:
    """Note what replays come to, also by methods that issue no certificate, and which methods no live run can use."""
    with tempfile.TemporaryDirectory() as place, folder_with_data(Path(place)):
        replays = {}
        for name, line in REPLAYS.items():
            printed = called(*line.split())
            replays[name] = {"command": line, "code": printed.code, "printed": headline(printed.facts)}
        refused = {name: called(*asking(line)) for name, line in REFUSED.items()}
    noted = {
        name: {"command": REFUSED[name], "code": one.code, "errors": one.errors}
        for name, one in refused.items()
    }
    python = {name: rounded(replayed(name)) for name in IN_PYTHON}
    merge({"replays": replays, "python": python, "refused": noted})


def make_older_facts() -> None:
    """Note what this code makes of the run of 51283a0."""
    with tempfile.TemporaryDirectory() as place, folder_with_data(Path(place)):
        for ending in ("json", "db"):
            shutil.copy(HOME / f"{OLDER}.{ending}", place)
        verdict = called("verify", f"{OLDER}.json")
        runs = called("runs", *IN_OLDER).facts
        resumed = {run["run_id"]: called(*asking(f"resume {run['run_id']}"), *IN_OLDER) for run in runs}
    noted = {name: {"code": one.code, "errors": one.errors} for name, one in resumed.items()}
    run_id = read(HOME / f"{OLDER}.json")["run_id"]
    merge({"older": {"run_id": run_id, "verify": verdict.facts, "runs": runs, "resume": noted}})


STEPS: dict[str, Callable[[], None]] = {
    "data": make_data,
    "certificates": make_certificates,
    "store": make_runs,
    "expected": make_expected,
    "replays": make_replays,
    "older": make_older_facts,
}

if __name__ == "__main__":
    for step in sys.argv[1:]:
        STEPS[step]()
