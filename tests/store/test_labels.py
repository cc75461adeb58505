"""Labels of people: a reply takes as many as are wanted, and none is used and taken back."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from cereval.errors import Misuse
from cereval.records import Draw
from cereval.store import labels as kept
from cereval.store.base import Answer, Store
from cereval.store.labels import Labels


def replies(store: Store, count: int) -> Labels:
    store.create_run("r", {}, "d", "m")
    store.add_draws("r", [Draw(index, index, 0.5) for index in range(count)])
    labels = Labels(store)
    for index in range(count):
        labels.keep("r", Answer(index, "reply", score=0.0))
    return labels


def test_a_label_counts_or_is_taken_back_and_never_both(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever settles looks at the moment at which somebody else takes it back; the clock goes on with every look."""
    now = 1e9

    def look() -> float:
        nonlocal now
        now += 0.001
        return now

    monkeypatch.setattr(kept, "time", SimpleNamespace(time=look))
    labels = replies(store, 15)
    with ThreadPoolExecutor(2) as pool:
        for draw in range(15):
            labels.rate("r", draw, "Ann", 1.0, raters=1)
            (rated,) = [one.at for one in labels.ratings(["r"]) if one.draw == draw]
            now = rated + kept.UNDO_S + (draw % 3 - 2) * 0.001
            taken = pool.submit(labels.take_back, ["r"], "Ann")
            counted = any(one.counts for one in labels.settle(["r"]) if one.draw == draw)
            was_taken = taken.result() is not None
            now += kept.UNDO_S
            counts = [one.counts for one in labels.settle(["r"]) if one.draw == draw]
            assert counts == ([] if was_taken else [True])
            assert not (counted and was_taken)


def test_what_counts_is_not_changed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = replies(store, 1)
    labels.rate("r", 0, "Ann", 1.0, raters=1)
    labels.rate("r", 0, "Ann", 0.0, raters=1)
    assert [(one.score, one.counts) for one in labels.settle(["r"])] == [(0.0, False)]
    monkeypatch.setattr(kept, "UNDO_S", 0.0)
    assert [one.counts for one in labels.settle(["r"])] == [True]
    labels.rate("r", 0, "Ann", 0.0, raters=1)
    with pytest.raises(Misuse, match="the label of Ann for draw 0 of run r counts already"):
        labels.rate("r", 0, "Ann", 1.0, raters=1)
    assert labels.take_back(["r"], "Ann") is None
    assert [one.score for one in labels.ratings(["r"])] == [0.0]


def test_a_reply_takes_as_many_labels_as_are_wanted(store: Store) -> None:
    labels, together = replies(store, 3), threading.Barrier(4)

    def rate(rater: str) -> list[str]:
        refusals = []
        together.wait()
        for draw in range(3):
            try:
                labels.rate("r", draw, rater, 1.0, raters=2)
            except Misuse as error:
                refusals.append(str(error))
        return refusals

    with ThreadPoolExecutor(4) as pool:
        refusals = [line for lines in pool.map(rate, ("Ann", "Bo", "Cy", "Di")) for line in lines]
    assert sorted(refusals) == [f"draw {n} of run r has its 2 labels already" for n in (0, 0, 1, 1, 2, 2)]
    assert len(labels.ratings(["r"])) == 6
