"""A page takes its steps from the one replay that reads the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from stories import Reply, pool, stored_run

from cereval.questions.session import AskTell
from cereval.records import Draw, Scored
from cereval.report.story import read_story
from cereval.store.base import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path / 'runs.db'}")
    yield opened
    opened.close()


def test_a_page_replays_its_run_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = stored_run(store, pool(), lambda item: Reply(score=float(item % 4 > 0)))
    told: list[int] = []
    record = AskTell._record

    def noted(session: AskTell, draw: Draw, scores: Scored) -> None:
        told.append(draw.index)
        record(session, draw, scores)

    monkeypatch.setattr(AskTell, "_record", noted)
    story = read_story(store, run_id)
    assert len(told) == len(set(told)) == len(story.asked)
    assert [step.calls for step in story.steps] == list(range(story.result.n_evaluated + 1))
