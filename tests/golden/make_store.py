"""Make a golden store: finished, interrupted and budget-ended runs of every kind; and what going on leads to.

    python -m tests.golden.make_store FOLDER [STORY ...]

It writes FOLDER/store.db and FOLDER/store.json; without names, of every story.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.golden.lines import asking, called, folder_with_data, gone_on, headline, seeded, write

KEPT = Path("cereval.db")
SLOW, RIVAL = "python:golden_models:slow", "python:golden_models:rival"
FLAKY, PRICED = "python:golden_models:flaky", "python:golden_models:priced"
DELAY_S, CONNECTIONS, ENOUGH = "0.04", "2", 16
DONE, CTRL_C, KILLED = "done", "ctrl-c", "killed"


@dataclass(frozen=True, slots=True)
class Story:
    """How a run came about: the commands, how the last of them ended, and commands that go on with it."""

    name: str
    lines: tuple[str, ...]
    end: str = DONE
    further: tuple[str, ...] = ()


def story(name: str, *lines: str, end: str = DONE, further: Sequence[str] = ()) -> Story:
    """Tell a story; interrupted runs go on by `resume` and by the same command."""
    again = () if end == DONE else ("resume RUN", lines[-1])
    return Story(name, lines, end, tuple(further) or again)


ASK = "run questions.jsonl --model"
GATE = "gate questions.jsonl --model"
COMPARE = "compare questions.jsonl --model"
TASKS = "tasks questions.jsonl --model"
EXTEND = "extend north.jsonl --model"
RANK = "rank questions.jsonl --model"
MORE_CALLS, MORE_USD = ("resume RUN --max-calls 115",), ("resume RUN --max-usd 1",)

STORIES = (
    story("estimate-finished", f"{ASK} scripted/0.6 --eps 0.1"),
    story("estimate-finished-history", f"{ASK} scripted/0.7 --eps 0.1"),
    story("estimate-finished-failures", f"{ASK} {FLAKY} --eps 0.12"),
    story("estimate-finished-mix", f"{ASK} scripted/0.7 --eps 0.12 --mix sums=4,gains=3,totals=2,counts=1"),
    story("estimate-finished-population", f"{ASK} scripted/0.7 --eps 0.15 --target population"),
    story("estimate-finished-expected", f"{ASK} scripted/0.7 --eps 0.15 --target expected --no-history"),
    story(
        "estimate-changed-goal",
        f"{ASK} scripted/0.65 --eps 0.2 --no-history",
        "resume RUN --eps 0.12",
        further=("resume RUN --eps 0.08",),
    ),
    story(
        "estimate-changed-budget",
        f"{ASK} scripted/0.55 --eps 0.05 --max-calls 30",
        "resume RUN --max-calls 50",
        further=MORE_CALLS,
    ),
    story("estimate-budget", f"{ASK} scripted/0.5 --eps 0.05 --max-calls 40", further=MORE_CALLS),
    story("estimate-budget-usd", f"{ASK} {PRICED} --eps 0.08 --max-usd 0.03 -j 2", further=MORE_USD),
    story("estimate-interrupted", f"{ASK} {SLOW} --eps 0.08", end=CTRL_C),
    story("estimate-killed", f"{ASK} {SLOW} --eps 0.08 --seed 5 --no-history", end=KILLED),
    story("estimate-killed-weights", f"{ASK} {SLOW} --eps 0.1 --weights weights.csv", end=KILLED),
    story(
        "estimate-killed-changed",
        f"{ASK} {SLOW} --eps 0.05 --seed 6 --max-calls 20",
        "resume RUN --max-calls 110",
        end=KILLED,
        further=("resume RUN",),
    ),
    story("gate-pass", f"{GATE} scripted/0.7 --min 0.4"),
    story("gate-fail", f"{GATE} scripted/0.7 --min 0.9"),
    story("gate-budget", f"{GATE} scripted/0.7 --min 0.72 --max-calls 20", further=MORE_CALLS),
    story("gate-interrupted", f"{GATE} {SLOW} --min 0.68 --seed 7 --no-history", end=CTRL_C),
    story("gate-killed", f"{GATE} {SLOW} --min 0.72 --seed 8 --no-history", end=KILLED),
    story("compare-sign-finished", f"{COMPARE} scripted/0.8 --model scripted/0.5 --eps 0.05"),
    story(
        "compare-difference-finished", f"{COMPARE} scripted/0.8 --model {FLAKY} --within 0.2 --history none"
    ),
    story(
        "compare-not-worse-budget",
        f"{COMPARE} scripted/0.7 --model scripted/0.68 --not-worse 0.01 --max-calls 30",
        further=MORE_CALLS,
    ),
    story(
        "compare-difference-usd",
        f"{COMPARE} {PRICED} --model scripted/0.5 --within 0.1 --max-usd 0.03 -j 2",
        further=MORE_USD,
    ),
    story(
        "compare-sign-interrupted",
        f"{COMPARE} {SLOW} --model python:golden_models:steady --eps 0.1",
        end=CTRL_C,
    ),
    story(
        "compare-difference-killed",
        f"{COMPARE} {SLOW} --model {RIVAL} --within 0.15 --history none",
        end=KILLED,
    ),
    story("tasks-macro-finished", f"{TASKS} scripted/0.7 --eps 0.12"),
    story("tasks-each-finished-files", "tasks north.jsonl south.jsonl --model scripted/0.7 --each-eps 0.15"),
    story("tasks-at-least-finished", f"{TASKS} scripted/0.7 --at-least 0.85 --history none"),
    story(
        "tasks-which-fail-budget", f"{TASKS} scripted/0.7 --which-fail 0.6 --max-calls 40", further=MORE_CALLS
    ),
    story("tasks-macro-usd", f"{TASKS} {PRICED} --eps 0.08 --max-usd 0.03 -j 2", further=MORE_USD),
    story("tasks-macro-interrupted", f"{TASKS} {SLOW} --eps 0.08", end=CTRL_C),
    story("tasks-each-killed", f"{TASKS} {SLOW} --each-eps 0.25 --history none", end=KILLED),
    story(
        "growing-finished",
        f"{EXTEND} scripted/0.7 --eps 0.12 --seed 31",
        "extend RUN --data questions.jsonl",
        further=("extend RUN --data more.jsonl",),
    ),
    story(
        "growing-population-finished",
        f"{EXTEND} scripted/0.7 --eps 0.2 --seed 32 --target population",
        "extend RUN --data questions.jsonl",
    ),
    story("growing-usd", f"{EXTEND} {PRICED} --eps 0.1 --seed 33 --max-usd 0.03 -j 2", further=MORE_USD),
    story("growing-interrupted", f"{EXTEND} {SLOW} --eps 0.08 --seed 34", end=CTRL_C),
    story("growing-killed", f"{EXTEND} {SLOW} --eps 0.08 --seed 35", end=KILLED),
    story(
        "growing-second-interrupted",
        f"{EXTEND} {SLOW} --eps 0.08 --seed 36",
        "extend RUN --data questions.jsonl",
        end=CTRL_C,
        further=("resume RUN", "extend FIRST --data questions.jsonl"),
    ),
    story(
        "growing-second-killed",
        f"{EXTEND} {SLOW} --eps 0.08 --seed 37",
        "extend RUN --data questions.jsonl",
        end=KILLED,
        further=("resume RUN", "extend FIRST --data questions.jsonl"),
    ),
)

RANKINGS = (
    story("rank-order-finished", f"{RANK} scripted/0.9 --model scripted/0.6 --model {FLAKY} --seed 41"),
    story(
        "rank-top-finished",
        f"{RANK} scripted/0.9 --model scripted/0.6 --model scripted/0.3 --top 1 --seed 42",
        further=(f"{RANK} scripted/0.9 --model scripted/0.6 --model scripted/0.3 --seed 42",),
    ),
    story(
        "rank-order-budget",
        f"{RANK} scripted/0.7 --model scripted/0.5 --seed 43 --max-calls 40",
        further=(f"{RANK} scripted/0.7 --model scripted/0.5 --seed 43 --max-calls 240",),
    ),
    story(
        "rank-beats-usd",
        f"{RANK} {PRICED} --model scripted/0.4 --baseline scripted/0.4 --seed 44 --max-usd 0.02 -j 2",
        further=(f"{RANK} {PRICED} --model scripted/0.4 --baseline scripted/0.4 --seed 44 --max-usd 1",),
    ),
    story("rank-order-interrupted", f"{RANK} {SLOW} --model {RIVAL} --seed 45 --tie 0.02", end=CTRL_C),
    story("rank-order-killed", f"{RANK} {SLOW} --model {RIVAL} --seed 46 --prove-ties", end=KILLED),
)


TOLD = {told.name: told for told in (*STORIES, *RANKINGS)}


def make_store(file: Path, names: Iterable[str] = tuple(TOLD)) -> dict[str, Any]:
    """Live through stories in one store, keep it, and return which run each of them is about."""
    file = file.absolute()
    file.parent.mkdir(parents=True, exist_ok=True)
    stories = {}
    with tempfile.TemporaryDirectory() as place, folder_with_data(Path(place)):
        for told in (TOLD[name] for name in names):
            before = set(run_ids())
            last = lived_through(told)
            new = [run for run in run_ids() if run not in before]
            stories[told.name] = {"run_id": last, "runs": new, "end": told.end, "commands": list(told.lines)}
            print(told.name, told.end, new, flush=True)
        closed(KEPT)
        shutil.copy(KEPT, file)
    return stories


def lived_through(told: Story) -> str | None:
    """Carry out the commands of a story; return its last run."""
    last: str | None = None
    for number, line in enumerate(told.lines):
        whole = seeded(line).replace("RUN", str(last))
        if told.end != DONE and number == len(told.lines) - 1:
            started = interrupted(whole, signal.SIGINT if told.end == CTRL_C else signal.SIGKILL)
            return started or last
        printed = called(*asking(whole))
        assert printed.facts is not None, (told.name, printed.errors)
        last = printed.facts.get("run_id")
    return last


def interrupted(line: str, how: signal.Signals) -> str | None:
    """Run a command in a process of its own, and end it when some answers are stored; return the new run, if any."""
    before, ids = answers(), set(run_ids())
    command = [sys.executable, "-m", "cereval", *asking(line), "-j", CONNECTIONS]
    process = subprocess.Popen(
        command, env={**os.environ, "GOLDEN_DELAY_S": DELAY_S}, stdout=subprocess.DEVNULL
    )
    while answers() < before + ENOUGH:
        assert process.poll() is None, f"ended before it could be interrupted: {line}"
        time.sleep(0.01)
    process.send_signal(how)
    process.wait()
    new = [run for run in run_ids() if run not in ids]
    return new[0] if new else None


def answers() -> int:
    """Count the answers in the store."""
    if not KEPT.exists():
        return 0
    connection = sqlite3.connect(KEPT, timeout=30)
    try:
        return int(connection.execute("select count(*) from answers").fetchone()[0])
    finally:
        connection.close()


def run_ids() -> list[str]:
    """List the runs of the store."""
    return [run["run_id"] for run in called("runs").facts] if KEPT.exists() else []


def closed(path: Path) -> None:
    """Put all of a database into its one file."""
    connection = sqlite3.connect(path)
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.execute("pragma journal_mode=delete")
    connection.execute("vacuum")
    connection.close()


def expected_store(file: Path, stories: dict[str, Any]) -> dict[str, Any]:
    """Say what the store lists, and what going on with each of its runs leads to, each time on a copy."""
    file = file.absolute()
    kinds = {run: name for name, facts in stories.items() for run in facts["runs"]}
    with tempfile.TemporaryDirectory() as place, folder_with_data(Path(place)):
        shutil.copy(file, KEPT)
        runs = [expected_run(row, kinds[row["run_id"]], file) for row in called("runs").facts]
        for name, facts in stories.items():
            ids = {"RUN": str(facts["run_id"]), "FIRST": facts["runs"][0]}
            further = map(seeded, TOLD[name].further)
            lines = [" ".join(ids.get(word, word) for word in line.split()) for line in further]
            facts["further"] = [on_a_copy(line, file) for line in lines]
            print(name, [one["printed"].get("stopped") for one in facts["further"]], flush=True)
    return {"runs": runs, "stories": stories}


def expected_run(row: dict[str, Any], name: str, file: Path) -> dict[str, Any]:
    """Say what is listed of a run, what its page tells, and what `resume` without any flag leads to."""
    kind = name.partition("-")[0]
    found = {"run_id": row["run_id"], "story": name, "kind": kind, "status": row["status"], "listed": row}
    page = called("report", row["run_id"], "-o", "page.html")
    found["report"] = {"code": page.code, "errors": page.errors, "printed": headline(page.facts or {})}
    return {**found, "resume": on_a_copy(f"resume {row['run_id']}", file)}


def on_a_copy(line: str, file: Path) -> dict[str, Any]:
    """Carry out a command on a copy of the store."""
    KEPT.unlink(missing_ok=True)
    shutil.copy(file, KEPT)
    return gone_on(line)


if __name__ == "__main__":
    target, *wanted = sys.argv[1:]
    store = Path(target) / "store.db"
    made = make_store(store, wanted or tuple(TOLD))
    write(Path(target) / "store.json", expected_store(store, made))
