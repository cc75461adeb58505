"""Make golden certificates of every kind, goal and method, and note what is expected of them.

    python -m tests.golden.make FOLDER [CASE ...]

It calls the command line only (`cereval.cli.main.main`), and writes FOLDER/certificates/CASE.json and
FOLDER/expected.json; without names, of every case, and what replays come to. `make_data` wrote the data beside this
file.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.golden.golden_cases import CASES, REPLAYS
from tests.golden.golden_models import chance
from tests.golden.lines import (
    HOME,
    IN_PYTHON,
    called,
    carried_out,
    folder_with_data,
    headline,
    log_digest,
    read,
    replayed,
    rounded,
    seeded,
    write,
)

CATEGORIES = ("sums", "gains", "totals", "counts")
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


def make_certificates(folder: Path, names: Iterable[str] = tuple(CASES)) -> dict[str, Any]:
    """Carry out cases, keep their certificates, and return what each came to."""
    kept = folder.absolute() / "certificates"
    kept.mkdir(parents=True, exist_ok=True)
    noted = {}
    for name in names:
        with tempfile.TemporaryDirectory() as place, folder_with_data(Path(place)):
            printed = carried_out(name, CASES[name])
            (kept / f"{name}.json").write_text(Path(f"{name}.json").read_text())
        noted[name] = certificate_facts(kept / f"{name}.json", printed.code, printed.facts)
        print(name, noted[name]["verify"], noted[name]["printed"]["stopped"], flush=True)
    return noted


def certificate_facts(path: Path, code: int, facts: Any) -> dict[str, Any]:
    """Say what a certificate holds, and what `verify` makes of it."""
    content = read(path)
    return {
        "kind": path.name.partition("-")[0],
        "format": content["format"],
        "engine": content["engine"],
        "run_id": content.get("run_id"),
        "digest": content["digest"],
        "log": log_digest(content["log"]),
        "entries": len(content["log"]),
        "result": headline(content["result"]),
        "commands": list(CASES[path.stem]),
        "code": code,
        "printed": headline(facts),
        "verify": called("verify", str(path)).facts["status"],
    }


def make_replays() -> dict[str, Any]:
    """Return what replays come to, also by methods that issue no certificate."""
    replays = {}
    with tempfile.TemporaryDirectory() as place, folder_with_data(Path(place)):
        for name, line in REPLAYS.items():
            printed = called(*seeded(line).split())
            replays[name] = {"command": line, "code": printed.code, "printed": headline(printed.facts)}
    return {"replays": replays, "python": {name: rounded(replayed(name)) for name in IN_PYTHON}}


if __name__ == "__main__":
    target, *wanted = sys.argv[1:]
    found = {"certificates": make_certificates(Path(target), wanted or tuple(CASES))}
    write(Path(target) / "expected.json", found if wanted else {**found, **make_replays()})
