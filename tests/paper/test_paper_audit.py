"""The audit's Python lines are run: every number beside them is what they print."""

from __future__ import annotations

import doctest
from pathlib import Path

AUDIT = Path(__file__).parents[2] / "docs" / "paper.md"


def test_the_audit_prints_what_it_says() -> None:
    found = doctest.testfile(str(AUDIT), module_relative=False)
    assert found.attempted > 15
    assert found.failed == 0
