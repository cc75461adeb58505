"""`python -m benchmarks.crash`: kill -9 at random moments, then resume; the certificate must not tell.

python -m benchmarks.crash --kills 50
"""

from __future__ import annotations

import argparse
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.serving import call, command, questions, run_flags, served


@dataclass(frozen=True)
class Crashed:
    """The certificate's bytes, the kills that hit a running process, and answered questions asked again."""

    certificate: bytes
    kills: int
    asked_again: int
    answers: int


def uninterrupted(folder: Path, url: str, into: Path, eps: float = 0.05) -> Crashed:
    """One run from start to end."""
    return killed_until_done(folder, url, into, random.Random(0), kills=0, eps=eps)


def killed_until_done(
    folder: Path, url: str, into: Path, rng: random.Random, kills: int, eps: float = 0.05
) -> Crashed:
    """Starts, kills and resumes up to `kills` times, then lets the run finish."""
    into.mkdir()
    store, output = into / "runs.db", into / "certificate.json"
    flags = run_flags(folder / "questions.jsonl", url, store, eps=eps, output=output, display="none")
    # Few connections, so that a run outlasts the wait for its first answers also on a busy machine.
    slowly = [*flags, "--max-connections", "4"]
    hits = asked_again = 0
    for _ in range(kills):
        before = _answered(store)
        hits += _killed(store, slowly, rng)
        asked_again += len(before - _answered(store))
    done = call("run", *flags)
    assert done.returncode == 0, done.stderr
    answers = _answered(store)
    assert len(answers) == len({draw for draw, _ in answers}), "two answers to one draw"
    return Crashed(output.read_bytes(), hits, asked_again, len(answers))


def _killed(store: Path, flags: list[str], rng: random.Random) -> bool:
    """Whether the process was still at work when it was killed, some time after its first new answer."""
    before = len(_answered(store))
    process = subprocess.Popen(command("run", *flags), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    patience = time.monotonic() + 60
    while process.poll() is None and len(_answered(store)) == before and time.monotonic() < patience:
        time.sleep(0.002)
    time.sleep(rng.uniform(0.0, 0.06))
    running = process.poll() is None
    process.kill()
    process.wait()
    return running


def _answered(store: Path) -> set[tuple[int, float]]:
    """Draws with an answer, and when it was stored: an answer that is asked again would have a new time."""
    if not store.exists():
        return set()
    connection = sqlite3.connect(store, timeout=30)
    try:
        return set(connection.execute("select draw, at from answers"))
    except sqlite3.OperationalError:
        return set()
    finally:
        connection.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--per-run", type=int, default=5, help="kills before a run may finish")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    questions(folder, 1500)
    rng, hits, number = random.Random(options.seed), 0, 0
    with served(folder / "key.json", "--delay", "0.02") as url:
        whole = uninterrupted(folder, url, folder / "whole", eps=0.03)
        while hits < options.kills:
            number += 1
            crashed = killed_until_done(folder, url, folder / str(number), rng, options.per_run, eps=0.03)
            hits += crashed.kills
            same = crashed.certificate == whole.certificate
            print(f"run {number}: {crashed.kills} kills, same: {same}, asked again: {crashed.asked_again}")
            if not same or crashed.asked_again:
                return 1
    shutil.rmtree(folder)
    print(f"{hits} kills, every certificate equal bit for bit, no answered question asked again")
    return 0


if __name__ == "__main__":
    sys.exit(main())
