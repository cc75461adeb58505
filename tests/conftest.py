"""What every test shares: the same examples in every run and no stopwatch, so that a green tree stays green."""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from _pytest import pytester as nested
from hypothesis import settings

# Before numpy is imported. Tests run in as many processes as there are cores: threads for small matrices only get in
# one another's way (they took a third of all time).
for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

# Databases wait for the disk at every commit. Where memory can hold all files of the tests, nobody waits.
MEMORY = Path("/dev/shm")
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 * 2**30:
    os.environ.setdefault("TMPDIR", str(MEMORY))
    tempfile.tempdir = None

from cereval.runner.loop import GRACE_S  # noqa: E402

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


SETTINGS = count()
DRAWS_SEEDS = "cereval.questions.session.randbits"


@pytest.fixture(autouse=True, scope="session")
def seed_zero() -> Iterator[None]:
    """Have seeds that nobody gives be 0, so that tests repeat. For the session: modules' fixtures run commands too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DRAWS_SEEDS, lambda _: 0)
        yield


@pytest.fixture(autouse=True)
def different_seeds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every command of a test marked `fresh` get another seed, as users do, and the same ones in every run."""
    if request.node.get_closest_marker("fresh") is not None:
        monkeypatch.setattr(DRAWS_SEEDS, random.Random(request.node.nodeid).getrandbits)


@pytest.fixture(autouse=True)
def wait_for_calls_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a minute, not two seconds, for the calls in flight at the goal: a loaded machine may need them."""
    monkeypatch.setitem(GRACE_S, "goal", 60.0)


@pytest.fixture(autouse=True)
def own_settings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every test a folder of settings that is not there yet: what one test types is not trusted in the next."""
    # Not `mktemp`, which reads the folder of all tests to find the next number.
    folder = tmp_path_factory.getbasetemp() / "settings" / str(next(SETTINGS))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))


@pytest.fixture
def pytester(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> pytest.Pytester:
    """Have sessions inside a test forget their own test files only: numpy cannot be loaded a second time."""
    own = str(tmp_path_factory.getbasetemp())

    class Snapshot(nested.SysModulesSnapshot):
        def __init__(self, **_: object) -> None:
            super().__init__(
                preserve=lambda name: not str(getattr(sys.modules[name], "__file__", "")).startswith(own)
            )

    monkeypatch.setattr(nested, "SysModulesSnapshot", Snapshot)
    made: pytest.Pytester = request.getfixturevalue("pytester")
    return made
