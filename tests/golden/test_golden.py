"""What one machine began and certified holds on every other: see `tests.golden.make`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.machine_kernels import Kernel
from tests.golden.check import check_certificates, check_store, golden_files
from tests.golden.lines import read
from tests.golden.make import MACHINES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("machine", MACHINES)
def test_certificates_of_every_machine_are_valid(machine: str) -> None:
    assert check_certificates(machine) == []


@pytest.mark.parametrize("machine", ["prescott", "plain"])
def test_runs_of_other_machines_go_on(machine: str) -> None:
    assert check_store(machine) == []


def test_so_they_do_on_another_machine_than_this() -> None:
    """The runs of the other two; CI checks all of them on two more machines (`.ci/run`)."""
    order = [sys.executable, "-m", "tests.golden.check", "skylake", "haswell"]
    played = {
        **os.environ,
        **Kernel("Prescott").environment,
        "PYTHONPATH": os.pathsep.join(["src", *sys.path]),
    }
    done = subprocess.run(order, env=played, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("other", list(MACHINES)[1:])
def test_one_seed_has_one_answer_on_all_of_them(other: str) -> None:
    with golden_files(next(iter(MACHINES))) as first, golden_files(other) as second:
        for path in sorted(first.glob("*.json")):
            stated, found = read(path), read(second / path.name)
            assert near(found["result"], stated["result"]), path.name
            assert [entry["item"] for entry in found["log"]] == [entry["item"] for entry in stated["log"]]


def near(found: Any, stated: Any) -> bool:
    """Compare results: numbers to 1e-6, everything else exactly."""
    if isinstance(stated, dict):
        return found.keys() == stated.keys() and all(near(found[name], stated[name]) for name in stated)
    if isinstance(stated, list):
        return len(found) == len(stated) and all(map(near, found, stated))
    return abs(found - stated) <= 1e-6 if isinstance(stated, float) else bool(found == stated)
