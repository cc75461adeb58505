"""The makers of golden files work: their certificates verify, and their store lists what it was made of."""

from __future__ import annotations

from pathlib import Path

from tests.golden.lines import alike, read
from tests.golden.make import make_certificates
from tests.golden.make_store import expected_store, make_store

CASES = ("estimate-estimate-auto-history", "compare-sign-recorded", "growing-benchmark-live")
STORIES = ("estimate-budget", "compare-sign-finished", "rank-top-finished")


def test_certificates_are_valid_and_the_same_every_time(tmp_path: Path) -> None:
    noted, again = (make_certificates(tmp_path / name, CASES) for name in ("once", "twice"))
    assert [noted[name]["verify"] for name in CASES] == ["valid"] * len(CASES)
    assert alike(again, noted)
    assert (
        read(tmp_path / "once" / "certificates" / f"{CASES[0]}.json")["digest"] == noted[CASES[0]]["digest"]
    )


def test_a_store_lists_its_runs_and_goes_on(tmp_path: Path) -> None:
    stories = make_store(tmp_path / "store.db", STORIES)
    found = expected_store(tmp_path / "store.db", stories)
    assert {run["story"] for run in found["runs"]} == set(STORIES)
    for story in found["stories"].values():
        assert all(one["verify"] == "valid" for one in story["further"])
