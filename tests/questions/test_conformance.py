"""What holds for every kind of question, live and recorded: one suite, and a toy sixth kind that passes it too.

The command line has the same of its own (tests/cli/test_kinds_live.py); a real `kill -9` is there and in
`benchmarks.crash`.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
import sqlite3
from collections.abc import Iterator
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from tests.certificate.forging import leaves, other, repaired
from tests.questions.majority import Majority
from tests.questions.questions import ALL, QUESTIONS, Before, Live, Question, groups, own_log, same_result
from tests.waiting import turns

from cereval import ENGINE
from cereval import questions as kinds
from cereval.certificate.format import issue, schema
from cereval.certificate.verify import verify
from cereval.errors import CallError, CerevalError, StoreError
from cereval.models.base import EndpointError
from cereval.plan import Known, Plan
from cereval.questions import kind_of
from cereval.questions.log import Change
from cereval.questions.replay import drive
from cereval.records import Draw
from cereval.report import page_of
from cereval.runner import loop
from cereval.runner.resume import recall_with_change
from cereval.runner.run import Outcome
from cereval.runner.start import evidence
from cereval.store.sql import SqlStore

GOES_ON = Change(0, 0, {}, 100_000)
"""A budget that is never spent."""


@pytest.fixture(scope="module", autouse=True)
def toy() -> Iterator[None]:
    """The one line that a new kind takes; taken back, so that other tests know the built-in kinds alone."""
    kinds.register(Majority())
    yield
    for registry in (kinds._KINDS, kinds._made):
        registry.pop("majority")


@pytest.fixture(scope="module", params=QUESTIONS, ids=str)
def question(request: pytest.FixtureRequest) -> Question:
    found: Question = request.param
    return found


@pytest.fixture(scope="module")
def whole(question: Question, tmp_path_factory: pytest.TempPathFactory) -> tuple[Live, Outcome]:
    """The question carried out in one sitting."""
    live = Live(question, tmp_path_factory.mktemp(question.kind))
    return live, live.run()


@pytest.fixture
def live(question: Question, tmp_path: Path) -> Live:
    return Live(question, tmp_path)


# -- one question, one session ----------------------------------------------------------------------------------------


def test_recorded_and_live_are_the_same_session(question: Question, whole: tuple[Live, Outcome]) -> None:
    _, outcome = whole
    session = question.recorded()
    result = drive(session, question.table)
    assert result.stopped == outcome.result.stopped == "goal"
    assert own_log(session, outcome.plan) == outcome.certificate["log"]
    assert same_result(result, outcome.result)
    assert kind_of(outcome.plan).name == question.kind


def test_the_answer_is_right_and_every_call_is_kept(question: Question, whole: tuple[Live, Outcome]) -> None:
    live, outcome = whole
    assert question.covers(outcome.result, question.table)
    assert len(live.asked) == len(set(live.asked))
    with live.store() as store:
        assert live.answered(store) == set(live.asked)
        statuses = {run.status for run in store.runs()}
    assert statuses == {"finished"}


@pytest.mark.parametrize("connections", [1, 32])
def test_calls_in_flight_change_nothing(live: Live, whole: tuple[Live, Outcome], connections: int) -> None:
    rng = random.Random(connections)

    async def wait(_: Draw, __: int) -> None:
        await turns(rng.choice((0, 1, 9)))

    outcome = live.run(settings={"connections": connections}, before=wait)
    assert outcome.certificate == whole[1].certificate


# -- interrupted and resumed ------------------------------------------------------------------------------------------


class Copied:
    """A store that is copied before and after each of its writes: what `kill -9` at that moment leaves behind."""

    def __init__(self, store: Any, database: Path, folder: Path) -> None:
        self.store, self.database, self.folder = store, database, folder
        self.copies: list[Path] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.store, name)
        if name not in ("create_run", "mark", "add_draws", "add_answers", "finish"):
            return found

        def write(*arguments: Any, **more: Any) -> Any:
            self._copy()
            try:
                return found(*arguments, **more)
            finally:
                self._copy()

        return write

    def _copy(self) -> None:
        self.copies.append(self.folder / f"{len(self.copies)}.db")
        source, target = sqlite3.connect(self.database), sqlite3.connect(self.copies[-1])
        source.backup(target)
        source.close()
        target.close()


def resume_all(live: Live) -> None:
    """Go on with every run as `cereval resume` does."""
    with live.store() as store:
        for run in store.runs():
            plan = Plan.from_dict(run.plan)
            if kind_of(plan).refusal(plan) is None and run.status != "finished":
                work, change = recall_with_change(run.run_id, store, {}, {}, None)
                asyncio.run(live._carried_out(work, store, change))


@pytest.mark.slow
def test_killed_anywhere_and_resumed_the_certificate_is_the_same_bit_for_bit(
    live: Live, whole: tuple[Live, Outcome], tmp_path: Path
) -> None:
    """How many writes there are depends on the machine: answers that arrive together are written together."""
    rng = random.Random(live.question.kind)
    with live.store() as store:
        copied = Copied(store, tmp_path / "runs.db", tmp_path)
        asyncio.run(live.carried_out(copied))  # type: ignore[arg-type]
    first, *later = copied.copies
    moments = sorted(rng.sample(range(len(later)), 3))
    for number, database in enumerate([first, *(later[moment] for moment in moments)]):
        again = live.at(database)
        with again.store() as store:
            before = again.answered(store)
        if number % 2:
            resume_all(again)
        outcome = again.run()
        assert outcome.certificate == whole[1].certificate, database.name
        assert not before & set(again.asked), "asked again what was answered"
        assert len(again.asked) == len(set(again.asked))


def test_cancelled_and_resumed_it_is_the_same(live: Live, whole: tuple[Live, Outcome]) -> None:
    async def cancelled(store: Any, after: int) -> None:
        async def wait(_: Draw, __: int) -> None:
            if len(live.asked) > after:
                await asyncio.Event().wait()

        task = asyncio.create_task(live.carried_out(store, before=wait))
        while not task.done() and len(live.asked) <= after:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    for after in (3, 17):
        with live.store() as store:
            asyncio.run(cancelled(store, after))
            assert all(run.status in ("interrupted", "failed", "created") for run in store.runs())
    outcome = live.run()
    assert outcome.certificate == whole[1].certificate
    again = live.run()
    assert (again.certificate, again.calls) == (outcome.certificate, outcome.calls)


def test_an_endpoint_that_breaks_ends_the_run_and_it_goes_on(live: Live, whole: tuple[Live, Outcome]) -> None:
    def gone(after: int) -> Before:
        async def refuse(_: Draw, __: int) -> None:
            if len(live.asked) > after:
                raise EndpointError("the server is gone")

        return refuse

    before: set[tuple[int, int]] = set()
    for after in (0, 1, 20):
        live.asked.clear()
        with pytest.raises(EndpointError, match="gone"):
            live.run(before=gone(after))
        assert not before & set(live.asked), "asked again what was answered"
        with live.store() as store:
            assert store.runs()[-1].status == "failed"
            before = live.answered(store)
    assert live.run().certificate == whole[1].certificate


# -- budgets ----------------------------------------------------------------------------------------------------------


def test_a_budget_of_calls_ends_the_run_and_more_can_be_had(live: Live) -> None:
    outcome = live.run(settings={"max_calls": 20})
    assert outcome.result.stopped == "budget"
    assert outcome.certificate["result"]["stopped"] == "budget"
    assert len(outcome.certificate["log"]) == 20
    assert verify(outcome.certificate).valid
    with live.store() as store:
        assert store.run(outcome.run_id).status == "budget"
    assert live.run(settings={"max_calls": 20}).certificate == outcome.certificate
    more = live.run(settings={"max_calls": 20}, change=GOES_ON)
    assert more.result.stopped == "goal"
    assert live.question.covers(more.result, live.question.table)
    verdict = verify(more.certificate)
    assert verdict.valid, verdict.reasons


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["max_usd", "max_minutes"])
def test_money_and_time_end_the_run_and_it_goes_on_as_if_they_had_not(
    live: Live, whole: tuple[Live, Outcome], budget: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that goes on by a second for each call, and is looked at all the time."""
    limits = {"max_usd": 0.2} if budget == "max_usd" else {"max_minutes": 0.25}
    with monkeypatch.context() as then:
        if budget == "max_minutes":
            then.setattr(loop, "time", SimpleNamespace(monotonic=lambda: float(len(live.asked))))
            then.setattr(loop, "TICK_S", 0)
        outcome = live.run(cost_usd=0.01, limits=limits)
    assert outcome.result.stopped == "budget"
    assert verify(outcome.certificate).valid
    if budget == "max_usd":
        assert outcome.cost_usd == pytest.approx(0.2)
        assert len(live.asked) == 20
    more = live.run(cost_usd=0.01)
    assert more.certificate == whole[1].certificate
    assert len(live.asked) == len(set(live.asked))


# -- certificates -----------------------------------------------------------------------------------------------------


def test_certificate_and_result_are_json_and_fit_the_published_schema(whole: tuple[Live, Outcome]) -> None:
    _, outcome = whole
    content = json.loads(json.dumps(outcome.certificate, allow_nan=False))
    assert content == outcome.certificate
    assert content["engine"] == ENGINE
    assert content["result"] == json.loads(json.dumps(outcome.result.as_dict(), allow_nan=False))
    if kind_of(outcome.plan).name != "majority":
        jsonschema.validate(content, schema(content["format"]))


def test_it_verifies_by_itself_and_against_the_store(whole: tuple[Live, Outcome]) -> None:
    live, outcome = whole
    with live.store() as store:
        verdict = verify(outcome.certificate, evidence(outcome.certificate, store))
    assert verdict.valid, verdict.reasons
    assert "log in the store" in verdict.checked
    assert kind_of(outcome.plan).audited in verdict.checked
    assert verify(outcome.certificate).valid


def test_every_field_changed_alone_is_found(whole: tuple[Live, Outcome]) -> None:
    rng, original = random.Random(0), whole[1].certificate
    forged = copy.deepcopy(dict(original))
    for path, holder, key in leaves(forged):
        kept, holder[key] = holder[key], other(holder[key], rng)
        assert verify(forged).status == "invalid", path
        holder[key] = kept
    for name in original:
        assert verify({key: value for key, value in original.items() if key != name}).status == "invalid", (
            name
        )
    assert verify({**original, "more": 1}).status == "invalid"


FREE = frozenset(
    "about after attempt candidates data data_hash data_name history model models scorer words".split()  # noqa: SIM905
)
"""What a forger may change who repairs all hashes: names, and what a plan says of the world; the store has them too."""

UNUSED = {
    kind: {("plan", "method"), ("plan", "max_calls")}
    for kind in ("compare", "rank", "tasks", "growing", "majority")
}
"""Of the plan, where the settings are what counts."""


@pytest.mark.slow
def test_a_forger_who_repairs_the_hashes_is_found_by_recomputing(whole: tuple[Live, Outcome]) -> None:
    rng, forged = random.Random(1), copy.deepcopy(dict(whole[1].certificate))
    unused = UNUSED.get(whole[0].question.kind, set())
    found = [one for one in leaves(forged) if FREE.isdisjoint(one[0]) and one[0] not in unused]
    stated = [one for one in found if one[0][0] in ("result", "settings", "plan")]
    drawn = [one for one in found if one[0][0] == "log" and one[0][-1] != "score"]
    for path, holder, key in [*stated, *rng.sample(drawn, 8)]:
        kept, holder[key] = holder[key], other(holder[key], rng)
        if key == "eps":  # one that is a little wider is reached too: a certificate of that is as true
            holder[key] = 0.9 * kept
        try:
            verdict = verify(repaired(forged))
        except (CerevalError, TypeError):  # no plan any more
            continue
        finally:
            holder[key] = kept
        assert verdict.status == "invalid", path
        assert "digest" not in verdict.reasons[0]


def test_a_forger_who_changes_an_answer_is_found_by_the_store(whole: tuple[Live, Outcome]) -> None:
    live, outcome = whole
    question, log = live.question, outcome.certificate["log"]
    item, model = log[-1]["item"], log[-1].get("model", 0)
    table = question.table
    table[item, model] = 1 - table[item, model]
    session = question.recorded()
    result = drive(session, table)
    known = Known(groups()) if outcome.plan.side_information == ("groups",) else Known()
    kind = kind_of(outcome.plan)
    forged = issue(kind, session, result, known, plan=outcome.plan)
    assert verify(forged).valid
    with live.store() as store:
        assert verify(forged, evidence(forged, store)).status == "invalid"


def test_what_another_engine_made_is_never_called_invalid_if_it_is_intact(
    whole: tuple[Live, Outcome],
) -> None:
    content = copy.deepcopy(dict(whole[1].certificate))
    content["log"][2], content["log"][5] = content["log"][5], content["log"][2]
    assert verify(repaired(content)).status == "invalid", "of this engine"
    content |= {"engine": ENGINE + 1}
    verdict = verify(repaired(content))
    assert verdict.status == "unchecked"
    assert f"this is engine {ENGINE}" in verdict.reasons[0]
    assert {"digest", "hash chain of the log", "counts"} <= set(verdict.checked)
    wrong = {**repaired(content), "digest": "0" * 64}
    assert verify(wrong).status == "invalid", "the digest does not depend on the engine"
    content["log"].pop()
    assert verify(repaired(content)).status == "invalid", "nor do the counts"


# -- pages ------------------------------------------------------------------------------------------------------------


def test_a_page_tells_it_from_the_store_alone(whole: tuple[Live, Outcome]) -> None:
    live, outcome = whole
    with live.store() as store:
        page = page_of(store, outcome.run_id).html
    assert escape(outcome.result.headline()) in page or escape(outcome.result.answer()) in page
    assert outcome.run_id in page


# -- calls that fail --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("connections", [1, 32])
def test_failures_for_good_in_any_order_never_wedge_a_run(live: Live, connections: int) -> None:
    rng = random.Random(f"{live.question.kind} {connections}")
    lost = {(item, model) for item in range(ALL) for model in range(3) if rng.random() < 0.2}

    async def stumble(draw: Draw, model: int) -> str | None:
        await turns(rng.choice((0, 1, 5, 20)))
        return "fails for good" if (draw.item, model) in lost else None

    outcome = live.run(settings={"connections": connections}, before=stumble)
    assert outcome.result.stopped in ("goal", "exhausted")
    assert live.question.covers(outcome.result, live.question.table)
    assert outcome.result.failures > 0
    assert verify(outcome.certificate).valid


def test_where_every_call_fails_the_run_stops_and_nothing_is_lost(
    live: Live, whole: tuple[Live, Outcome]
) -> None:
    async def fail(_: Draw, __: int) -> str:
        return "the server is down"

    with pytest.raises(CallError, match="calls all failed"):
        live.run(before=fail)
    with live.store() as store:
        assert live.answered(store) == set()
        assert {run.status for run in store.runs()} == {"failed"}
    assert live.run().certificate == whole[1].certificate


def test_a_store_that_breaks_loses_nothing(
    live: Live, whole: tuple[Live, Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    add, attempts, broken = SqlStore.add_answers, [], []

    def locked_once(self: Any, run_id: str, answers: Any) -> None:
        attempts.extend(answers)
        if len(attempts) > 3 and not broken:
            broken.append(run_id)
            raise StoreError("the database is locked")
        add(self, run_id, answers)

    monkeypatch.setattr(SqlStore, "add_answers", locked_once)
    with pytest.raises(StoreError, match="locked"):
        live.run()
    with live.store() as store:
        assert live.answered(store) == set(live.asked), "what could not be written is written at the close"
    assert live.run().certificate == whole[1].certificate
    assert len(live.asked) == len(set(live.asked))
