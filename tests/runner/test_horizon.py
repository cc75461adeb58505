"""Money and time as horizons: the interval that a budget of calls would give, on record, and verified."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.runner.runs import data, finish, model_for, stored

from cereval.certificate.verify import verify
from cereval.models.base import Messages, Reply
from cereval.runner.run import Outcome, kept_line
from cereval.runner.start import changes_of
from cereval.store.base import Store
from cereval.store.writer import AnswerWriter

SIZE = 1500
CALLS = 150


class Priced:
    """A model whose calls cost a cent, more or less."""

    name = "m"

    def __init__(self, inner: Any) -> None:
        self.inner, self.calls = inner, 0

    async def answer(self, messages: Messages, *, top_logprobs: int = 0) -> Reply:
        self.calls += 1
        reply = await self.inner.answer(messages, top_logprobs=top_logprobs)
        return replace(reply, cost_usd=0.009 + 0.002 * (self.calls % 2))

    async def close(self) -> None:
        pass


def finished(store: Store, **limits: Any) -> Outcome:
    pool = data(SIZE)
    calls = limits.pop("max_calls", None)
    asked = {"goal": {"goal": "estimate", "eps": 0.01}, "max_calls": calls}
    return finish(pool, store, Priced(model_for(pool)), connections=2, limits=limits, **asked)


def test_money_is_a_horizon_that_is_recorded_and_verified(tmp_path: Path) -> None:
    store = stored(tmp_path)
    spent = finished(store, max_usd=0.01 * CALLS)
    assert spent.result.stopped == "budget"
    changes = spent.certificate["changes"]
    assert changes
    assert all(0.7 * CALLS <= change["horizon"] <= 1.1 * CALLS for change in changes)
    assert [change.as_dict() for change in changes_of(store, spent.run_id)] == changes
    assert store.run(spent.run_id).status != "changed"
    assert verify(spent.certificate).reasons == ()
    known = finished(stored(tmp_path, "known"), max_calls=spent.result.n_evaluated)
    assert width(spent) <= 1.15 * width(known)


def test_a_horizon_is_recorded_even_if_the_run_ends_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = AnswerWriter.change

    async def late(self: AnswerWriter, *change: Any) -> None:
        await asyncio.sleep(0.1)
        await at_once(self, *change)

    monkeypatch.setattr(AnswerWriter, "change", late)
    store = stored(tmp_path)
    spent = finished(store, max_usd=0.01 * (CALLS - 2))
    assert [change.as_dict() for change in changes_of(store, spent.run_id)] == spent.certificate["changes"]
    assert store.run(spent.run_id).status != "changed"


def test_money_that_is_spent_is_named_when_a_run_is_to_go_on(tmp_path: Path) -> None:
    store = stored(tmp_path)
    first, again = finished(store, max_usd=0.3), finished(store, max_usd=0.3)
    assert (first.spent, again.spent, again.asked) == ("usd", "usd", 0)
    assert "--max-usd is used up" in kept_line(again)


def test_a_run_that_goes_on_with_more_money_gets_a_new_horizon(tmp_path: Path) -> None:
    store = stored(tmp_path)
    first = finished(store, max_usd=0.005 * CALLS)
    again = finished(store, max_usd=0.01 * CALLS)
    assert again.run_id == first.run_id
    assert again.result.n_evaluated > first.result.n_evaluated
    assert verify(again.certificate).reasons == ()


def width(outcome: Outcome) -> float:
    result: Any = outcome.result
    return float(result.upper - result.lower)
