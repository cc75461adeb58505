"""Quick versions of `benchmarks.repair`, `benchmarks.failing` and `benchmarks.hostile`.

Every run has another seed here, as for users (`fresh`), the same ones each time; populations are fixed. The bounds are
those that a miss rate of delta exceeds with probability below 1e-6: a test that fails has found something.
"""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks import hostile
from benchmarks.coverage import most_misses
from benchmarks.failing import KINDS, HungError, limited, outcome
from benchmarks.hostile import invented, seeds, swap, temperature
from benchmarks.repair import WAYS, Outcome

SURE = 1 - 1e-6


def repaired(way: str, runs: int, seed: int | None) -> list[Outcome]:
    return [WAYS[way](np.random.default_rng([number, 18]), seed) for number in range(runs)]


@pytest.mark.fresh
@pytest.mark.parametrize(
    ("way", "runs"), [("evaluate", 40), ("run", 4), ("gate", 4), ("rank", 2), ("choose, then rank", 1)]
)
def test_repairing_what_failed_does_no_harm_where_seeds_are_drawn(way: str, runs: int) -> None:
    found = repaired(way, runs, None)
    assert sum(one.missed for one in found) <= most_misses(runs, certainty=SURE)
    assert (way == "choose, then rank") == all(one.kept > 0 for one in found), (
        "certificates say what was kept"
    )


@pytest.mark.fresh
def test_the_bound_of_forty_runs_is_far_below_what_a_fixed_seed_misses() -> None:
    found = repaired("evaluate", 40, 0)
    assert most_misses(40, certainty=SURE) < 15
    assert sum(one.missed for one in found) >= 36
    assert np.mean([one.estimate - one.truth for one in found]) > 0.12


@pytest.mark.parametrize(("way", "runs"), [("run", 4), ("gate", 5), ("rank", 3)])
def test_a_fixed_seed_is_a_trap_everywhere(way: str, runs: int) -> None:
    assert sum(one.missed for one in repaired(way, runs, 0)) >= 0.6 * runs


@pytest.mark.parametrize("number", range(len(KINDS)), ids=list(KINDS))
def test_calls_that_fail_for_good_hold_nothing_up(number: int) -> None:
    found = outcome(number, limit_s=600)
    assert (found.hung, found.missed) == (False, False)
    assert found.failures > 0


def test_a_run_that_hangs_is_noticed() -> None:
    import asyncio

    with pytest.raises(HungError), limited(0.05):
        asyncio.run(asyncio.sleep(5))


def test_what_verify_cannot_know_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile, "SIZE", 120)
    done, found = seeds()
    assert found == "at least 75%: above; verify: valid", done
    assert invented()[1].endswith("verify: valid")
    told = swap()[1]
    assert "kept answers: above (asked 0" in told
    assert "--fresh: below" in told
    assert "--target benchmark: [0.470, 0.470]" in temperature()[1]
