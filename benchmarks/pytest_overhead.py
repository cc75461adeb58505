"""Measure what the pytest plugin costs: a gate beside plain pytest on the same tests, and its import.

    python -m benchmarks.pytest_overhead [--out FILE]

Seconds of processor time of a pytest of its own, the least of several alternating runs: a machine that does other
things at the same time makes runs slower, and never faster.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

CASES = 2000

MARKED = """
import pytest

@pytest.fixture
def model():
    return lambda case: case % 2 == 0

@pytest.mark.certify(min=0.5, undecided="pass")
@pytest.mark.parametrize("case", range({cases}))
def test_it(case, model, record_property):
    record_property("score", float(model(case)))
"""
"""Half of the cases are right and half are asked for: nothing is decided before all have run."""

IMPORT = """
import time, pytest
begun = time.process_time()
import cereval.integrations.pytest_plugin
print(time.process_time() - begun)
"""


def seconds(file: Path, *flags: str) -> float:
    """Measure the processor time of one pytest."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file.name, *flags]
    subprocess.run(command, cwd=file.parent, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def importing() -> float:
    """Measure the processor time of importing the plugin into a pytest that has begun."""
    done = subprocess.run([sys.executable, "-c", IMPORT], check=True, capture_output=True, text=True)
    return float(done.stdout)


def table(repeats: int) -> str:
    with TemporaryDirectory() as folder:
        file = Path(folder, "test_marked.py")
        file.write_text(MARKED.format(cases=CASES), encoding="utf-8")
        pairs = [(seconds(file, "--certify-seed=1"), seconds(file, "--no-certify")) for _ in range(repeats)]
    gate, plain = (min(times) for times in zip(*pairs, strict=True))
    start = min(importing() for _ in range(repeats))
    return "\n".join(
        [
            "| | with cereval | plain pytest | ours |",
            "|---|---:|---:|---:|",
            f"| {CASES:,} cases, all of them run | {gate:.2f} s | {plain:.2f} s | "
            f"{1000 * (gate - plain) / CASES:.2f} ms a case |",
            f"| start, no test marked | | | {1000 * start:.1f} ms |",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    found = table(asked.repeats)
    print(found)
    if asked.out is not None:
        head = f"# What the pytest plugin costs\n\n`python -m benchmarks.pytest_overhead --repeats {asked.repeats}`"
        asked.out.write_text(
            f"{head}: processor time, the least of {asked.repeats} runs each.\n\n{found}\n", "utf-8"
        )


if __name__ == "__main__":
    main()
