"""Make a run with history by the engine of commit 51283a0, whose draws later code does not decide again.

Run once, from the repository's root, in the environment of 8578b89, with the older code before it on the path:

    git worktree add /tmp/old51 51283a0
    PYTHONPATH=/tmp/old51/src python -m tests.golden.make_older
    git worktree remove --force /tmp/old51

It writes engine-51283a0.json, the certificate of a finished run with history, and engine-51283a0.db, which has that run
and another that its budget ended.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tests.golden.lines import HOME, asking, called, folder_with_data, headline
from tests.golden.make_store import KEPT, closed

NAME = "engine-51283a0"
EARLIER = (
    "run questions.jsonl --model scripted/0.5 --eps 0.12",
    "run questions.jsonl --model scripted/0.8 --eps 0.12",
)
FINISHED = f"run questions.jsonl --model scripted/0.7 --eps 0.08 -o {NAME}.json"
UNFINISHED = "run questions.jsonl --model scripted/0.6 --eps 0.08 --max-calls 40"


def make_older() -> None:
    """Run, verify with the same code, and keep."""
    with tempfile.TemporaryDirectory() as place, folder_with_data(Path(place)):
        for line in (*EARLIER, FINISHED, UNFINISHED):
            printed = called(*asking(line))
            print(line, printed.code, printed.facts["run_id"], headline(printed.facts))
        print(called("verify", f"{NAME}.json"))
        closed(KEPT)
        shutil.copy(KEPT, HOME / f"{NAME}.db")
        shutil.copy(f"{NAME}.json", HOME / f"{NAME}.json")


if __name__ == "__main__":
    make_older()
