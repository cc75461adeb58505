"""Sessions of every kind from several threads, after an error in the middle of a step, and of sizes without end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, Queue
from typing import Any

import numpy as np
import pytest
from tests.questions.questions import QUESTIONS, Question

from cereval.errors import InvalidInput, Misuse
from cereval.plan import MOST_ITEMS
from cereval.questions.compare.session import CompareSession
from cereval.questions.growing.session import Growing
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session
from cereval.questions.rank.session import RankSession
from cereval.questions.replay import drive
from cereval.questions.session import AskTell, tell
from cereval.records import Draw

THREADS, ROUNDS = 8, 5


@pytest.fixture(autouse=True)
def _hurried() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def told_by_threads(session: AskTell, table: Any) -> None:
    """Every thread asks, waits its turn in a queue, tells, and reads."""
    waiting: Queue[Draw] = Queue()

    def work() -> None:
        while not session.done:
            try:
                for draw in session.ask(2):
                    waiting.put(draw)
            except Misuse:
                assert session.done
            while True:
                try:
                    draw = waiting.get_nowait()
                except Empty:
                    break
                tell(session, draw, tuple(table[draw.item, list(draw.models)].tolist()))
                session.result()

    with ThreadPoolExecutor(THREADS) as pool:
        for one in [pool.submit(work) for _ in range(THREADS)]:
            one.result(60)


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_threads_change_nothing(question: Question) -> None:
    alone = question.recorded()
    drive(alone, question.table)
    for _ in range(ROUNDS):
        crowd = question.recorded()
        told_by_threads(crowd, question.table)
        assert crowd.result() == alone.result()
        assert crowd.log == alone.log


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_after_an_error_in_the_middle_of_a_step_nothing_can_be_trusted(
    question: Question, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = question.recorded()

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("by accident")

    first, second = session.ask(2)
    monkeypatch.setattr(session, "_observe", broken)
    with pytest.raises(ZeroDivisionError):
        tell(session, first, (1.0,) * session.asked)
    calls: list[Callable[[], Any]] = [
        lambda: session.ask(1),
        lambda: tell(session, second, (1.0,) * session.asked),
        lambda: session.fail(second),
        lambda: session.change(session.goal.spec(), 9),
        session.result,
    ]
    for call in calls:
        with pytest.raises(Misuse, match=r"cannot go on.*by accident.*open a new one"):
            call()


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_a_refused_call_breaks_nothing(question: Question) -> None:
    session = question.recorded()
    (draw,) = session.ask(1)
    with pytest.raises((InvalidInput, Misuse)):
        session.tell(draw, *(7,) * session.asked)
    with pytest.raises(InvalidInput):
        session.ask(0)
    with pytest.raises(Misuse):
        session.fail(Draw(99, 0, 0.5))
    drive_on = question.recorded()
    for one in (session, drive_on):
        if one is drive_on:
            one.ask(1)
        tell(one, draw, tuple(question.table[draw.item, list(draw.models)].tolist()))
        drive(one, question.table)
    assert session.result() == drive_on.result()


def grown(first: int, more: int) -> Growing:
    session = Growing(first, goal=Estimate(0.4), seed=1)
    drive(session.last, np.ones(first))
    session.extend(more)
    return session


@pytest.mark.parametrize(
    "make",
    [
        lambda: Session(10**9),
        lambda: Session(MOST_ITEMS + 1, target="expected"),
        lambda: CompareSession(10**9),
        lambda: RankSession(10**9, ["a", "b"]),
        lambda: RankSession(MOST_ITEMS // 10, [f"model {number}" for number in range(11)]),
        lambda: Growing(10**9),
        lambda: grown(100, 10**9),
    ],
)
def test_more_items_than_there_is_memory_for_are_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidInput, match=r"n_items must be at most [\d,]+( for 1?\d models)?, got 1\d+"):
        make()
