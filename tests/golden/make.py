"""Make the golden files: certificates, and a store of unfinished runs, of every kind, each on four kinds of machines.

    python -m tests.golden.make

One processor plays the others: OpenBLAS and numpy choose their arithmetic by environment variables. MACHINE.zip has
`store.db` and a certificate for each case, made by the command line alone. `tests.golden.check` says what has to hold
of them, wherever it runs.
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
from collections.abc import Mapping
from pathlib import Path

from benchmarks.machine_kernels import PLAIN, Kernel
from tests.golden.golden_cases import CASES
from tests.golden.lines import HOME, asking, called, carried_out, folder_with_data, seeded

MACHINES = {
    "skylake": Kernel("SkylakeX", 2),
    "haswell": Kernel("Haswell"),
    "prescott": Kernel("Prescott"),
    "plain": PLAIN,
}

RECORDED = (
    "compare-sign-recorded-history-items",
    "estimate-estimate-active-weights-file",
    "estimate-estimate-auto-mix",
    "rank-order-recorded",
    "tasks-macro-recorded-each-history",
)
"""Cases of `golden_cases` that end at once."""

ASK = "questions.jsonl --model scripted/0.7"
PAST = (
    "run questions.jsonl --model scripted/0.5 --eps 0.12",
    "run questions.jsonl --model scripted/0.8 --eps 0.12",
)
UNFINISHED: Mapping[str, tuple[str, str]] = {
    "categories": (f"run {ASK} --eps 0.06 --no-history --max-calls 40", "resume RUN --max-calls 115"),
    "history": (f"run {ASK} --eps 0.06 --max-calls 40 --seed 2", "resume RUN --max-calls 115"),
    "expected": (f"run {ASK} --eps 0.1 --target expected --max-calls 40", "resume RUN --max-calls 300"),
    "gate": (f"gate {ASK} --min 0.74 --max-calls 20", "resume RUN --max-calls 115"),
    "compare": (
        "compare questions.jsonl --model scripted/0.7 --model scripted/0.68 --not-worse 0.01 --max-calls 30",
        "resume RUN --max-calls 115",
    ),
    "tasks": (f"tasks {ASK} --eps 0.05 --each-eps 0.2 --max-calls 40", "resume RUN --max-calls 115"),
    "rank": (
        "rank questions.jsonl --model scripted/0.7 --model scripted/0.6 --tie 0.05 --max-calls 40",
        "resume RUN --max-calls 240",
    ),
    "growing": (
        "extend north.jsonl --model scripted/0.7 --eps 0.12 --max-calls 20",
        "resume RUN --max-calls 60",
    ),
    "killed": ("run questions.jsonl --model python:golden_models:slow --eps 0.08", "resume RUN"),
}
"""Name -> the command that begins a run, which a budget or a kill ends, and the one that goes on with it."""
STORE = Path("cereval.db")
ENOUGH = 24


def make_files(folder: Path) -> None:
    """Make the certificates and the store of this process's machine."""
    with tempfile.TemporaryDirectory() as place, folder_with_data(Path(place)):
        for line in PAST:
            assert called(*asking(seeded(line))).code == 0
        for name, (begin, _) in UNFINISHED.items():
            if name == "killed":
                kill(begin)
            else:
                called(*asking(seeded(begin)), "-o", str(folder / f"{name}.json"))
        put_into_one_file(STORE)
        shutil.copy(STORE, folder / "store.db")
    for name in RECORDED:
        with tempfile.TemporaryDirectory() as place, folder_with_data(Path(place)):
            carried_out(name, CASES[name])
            shutil.copy(f"{name}.json", folder)


def kill(line: str) -> None:
    """Run a command in a process of its own, and kill it when some answers are stored."""
    before = answers()
    command = [sys.executable, "-m", "cereval", *asking(seeded(line)), "-j", "2"]
    process = subprocess.Popen(
        command, env={**os.environ, "GOLDEN_DELAY_S": "0.04"}, stdout=subprocess.DEVNULL
    )
    while answers() < before + ENOUGH:
        assert process.poll() is None, f"ended before it could be killed: {line}"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()


def answers() -> int:
    """Count the answers in the store."""
    connection = sqlite3.connect(STORE, timeout=30)
    try:
        return int(connection.execute("select count(*) from answers").fetchone()[0])
    finally:
        connection.close()


def put_into_one_file(path: Path) -> None:
    connection = sqlite3.connect(path)
    for order in ("wal_checkpoint(truncate)", "journal_mode=delete"):
        connection.execute(f"pragma {order}")
    connection.execute("vacuum")
    connection.close()


def main() -> None:
    """Make the files of every machine, each in a process of its own."""
    for name, kernel in MACHINES.items():
        with tempfile.TemporaryDirectory() as folder:
            order = [sys.executable, "-c", f"from tests.golden.make import *; make_files(Path({folder!r}))"]
            subprocess.run(order, env={**os.environ, **kernel.environment}, check=True)
            packed = Path(shutil.make_archive(str(HOME / name), "zip", folder))
        print(packed.name, packed.stat().st_size, "bytes", flush=True)


if __name__ == "__main__":
    main()
