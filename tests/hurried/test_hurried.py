"""Days of a hurried team, in which every command must tell the truth. Many more of them:

python -m tests.hurried --days 200
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.fuzz.drive import preload
from tests.hurried import team
from tests.hurried.team import Day

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork")


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    preload()


@pytest.mark.parametrize("number", range(4))
def test_the_books_agree_after_every_command(number: int, tmp_path: Path) -> None:
    assert Day(tmp_path / "day", number).run().wrong == []


def test_what_is_wrong_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge itself: a model that is asked behind the back of the store, and a gate that decides by old answers."""
    monkeypatch.setattr(Day, "_habits", lambda day: [day._gate])
    monkeypatch.setattr(team, "SERVED", team.SERVED.replace('question + "\\n"', '2 * (question + "\\n")'))
    assert "answers were given" in str(Day(tmp_path / "twice", 0).run().wrong)
    monkeypatch.undo()
    monkeypatch.setattr(Day, "_habits", lambda day: [day._gate])
    monkeypatch.setattr(team, "MODEL", (*team.MODEL, "--reuse", "--seed", "1"))
    assert "a gate kept answers" in str(Day(tmp_path / "stale", 0).run().wrong)
