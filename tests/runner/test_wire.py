"""Faults on the wire: a server on loopback, 30% of whose answers go wrong. 200 runs in `benchmarks.faults`."""

from __future__ import annotations

import asyncio

from benchmarks.faults import CONNECTIONS, many_runs


def test_no_answer_is_lost_or_paid_for_twice() -> None:
    tally, sent = asyncio.run(many_runs(2, 300, 0.12))
    assert tally.misses == 0
    assert sent == tally.answers
    assert tally.most_surplus <= CONNECTIONS
