"""What every store must do, on SQLite and PostgreSQL alike."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cereval.errors import InvalidInput, StoreError
from cereval.records import Draw
from cereval.store.base import LEASED, RECORDS, Answer, Store, open_store
from cereval.store.writer import AnswerWriter

PLAN = {"eps": 0.02, "goal": "estimate", "note": "\ud800 and \0"}


def drawn(store: Store, run_id: str, items: list[int], data: str = "sha256:d") -> None:
    store.create_run(run_id, PLAN, data, f"model of {run_id}")
    store.add_draws(run_id, [Draw(index, item, 0.1) for index, item in enumerate(items)])


def test_a_run_is_remembered(store: Store) -> None:
    run = store.create_run("abc123", PLAN, "sha256:d", "openai/x")
    assert (run.status, run.plan, store.draws(run.run_id)) == ("created", PLAN, ())
    assert store.create_run("abc123", PLAN, "sha256:d", "openai/x") == run
    assert store.run("abc") == run
    assert store.runs() == (run,)
    with pytest.raises(StoreError, match="another plan"):
        store.create_run("abc123", {"eps": 0.05}, "sha256:d", "openai/x")


def test_status_is_the_newest_event(store: Store) -> None:
    drawn(store, "r", [1])
    store.mark("r", "running")
    store.mark("r", "interrupted", {"eps": 0.05})
    assert store.run("r").status == "interrupted"
    assert [event["status"] for event in store.events("r")] == ["created", "running", "interrupted"]
    assert store.events("r")[-1]["detail"] == {"eps": 0.05}
    store.finish("r", {"estimate": 0.5})
    store.finish("r", {"estimate": 0.6})
    assert store.run("r").status == "finished"
    assert [certificate["estimate"] for certificate in store.certificates("r")] == [0.5, 0.6]


def test_records_among_the_events_are_no_status(store: Store) -> None:
    drawn(store, "r", [1])
    store.mark("r", "running")
    with store.hold("r"):
        store.mark("r", "stopping")
        for record in RECORDS:
            store.mark("r", record, {"drawn": 1})
        assert store.run("r").status == "stopping"
    store.mark("r", "budget", {"answer": "so far"})
    store.mark("r", LEASED, {})
    assert (store.run("r").status, store.run("r").summary) == ("budget", {"answer": "so far"})


def test_unknown_and_ambiguous_runs(store: Store) -> None:
    drawn(store, "abcd1", [])
    drawn(store, "abcd2", [])
    for name in ("abcd", "zzz", ""):
        with pytest.raises(StoreError, match="no single run"):
            store.run(name)
    with pytest.raises(StoreError, match="did you mean 'abcd2' or 'abcd1'"):
        store.run("abcd3")
    with pytest.raises(StoreError, match="no such run"):
        store.mark("nowhere", "running")


def test_answers_come_back_in_draw_order_with_their_counts(store: Store) -> None:
    drawn(store, "r", [7, 8, 9])
    answers = [
        Answer(
            2, "late", score=0.25, cost_usd=0.1, input_tokens=3, output_tokens=4, latency_s=0.5, attempts=2
        ),
        Answer(0, failure="timeout", cost_usd=None),
        Answer(1, "<b>\x1b[31m", score=1 / 3, detail="d", finish_reason="length", cost_usd=0.2),
    ]
    for answer in answers:
        store.add_answers("r", [answer])
    assert store.answers("r") == tuple(sorted(answers, key=lambda answer: answer.draw))
    assert {answer.text for answer in store.answers("r", texts=False)} == {""}
    run = store.run("r")
    assert (len(store.draws("r")), run.answers, run.failures) == (3, 3, 1)
    assert run.cost_usd is None, "the price of one answer is not known"


def test_known_costs_are_added_up(store: Store) -> None:
    drawn(store, "r", [7, 8])
    assert store.run("r").cost_usd == 0
    store.add_answers("r", [Answer(0, score=1.0, cost_usd=0.1), Answer(1, score=1.0, cost_usd=0.2)])
    assert store.run("r").cost_usd == pytest.approx(0.3)


def test_no_answer_without_a_draw_and_none_twice_and_all_or_nothing(store: Store) -> None:
    drawn(store, "r", [7, 8])
    store.add_answers("r", [Answer(0, score=1.0)])
    with pytest.raises(StoreError, match="already"):
        store.add_answers("r", [Answer(1, score=1.0), Answer(0, score=0.0)])
    with pytest.raises(StoreError, match="draws are stored before"):
        store.add_answers("r", [Answer(5, score=1.0)])
    with pytest.raises(StoreError, match="already"):
        store.add_draws("r", [Draw(2, 9, 0.5), Draw(0, 7, 0.5)])
    assert [answer.draw for answer in store.answers("r")] == [0]
    assert len(store.draws("r")) == 2


def test_items_are_kept_once(store: Store) -> None:
    items = [{"id": "a", "input": "\ud800 q"}, {"id": "b", "input": "r"}]
    store.add_items("sha256:d", iter(items))
    store.add_items("sha256:d", iter(items))
    assert store.items("sha256:d") == tuple(items)
    assert store.items("sha256:other") == ()


@given(
    probability=st.floats(0, 1),
    score=st.floats(0, 1),
    cost=st.one_of(st.none(), st.floats(0, 1e6)),
    text=st.text(st.characters()),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_numbers_come_back_bit_for_bit(
    store: Store, probability: float, score: float, cost: float | None, text: str
) -> None:
    store.create_run("r", PLAN, "sha256:d", "m")
    index = len(store.draws("r"))
    store.add_draws("r", [Draw(index, 3, probability)])
    answer = Answer(index, text, score=score, cost_usd=cost)
    store.add_answers("r", [answer])
    assert store.draws("r")[-1] == Draw(index, 3, probability)
    back = store.answers("r")[-1]
    assert (back.score, back.cost_usd) == (score, cost)
    assert len(back.text) == len(text)


def test_hostile_texts(store: Store) -> None:
    drawn(store, "r", [0, 1])
    store.add_answers("r", [Answer(0, "\ud800\0" + "x" * 10**7, score=1.0), Answer(1, failure="\udfff\0")])
    big, failed = store.answers("r")
    assert big.text == "\ufffd\ufffd" + "x" * 10**7
    assert failed.failure == "\ufffd\ufffd"


def test_past_scores_and_their_freezing(store: Store) -> None:
    drawn(store, "old", [5, 3, 4])
    drawn(store, "new", [1])
    drawn(store, "elsewhere", [0], data="sha256:other")
    drawn(store, "idle", [])
    for draw, score in ((0, 0.5), (2, 0.75)):
        store.add_answers("old", [Answer(draw, score=score)])
    store.add_answers("elsewhere", [Answer(0, score=1.0)])
    cutoffs = store.cutoffs("sha256:d")
    assert cutoffs == {"old": 1}
    past = store.past_scores("sha256:d", cutoffs)
    assert (past.items.tolist(), past.columns.tolist(), past.values.tolist()) == ([5], [0], [0.5])
    store.add_answers("old", [Answer(1, failure="x")])
    assert store.past_scores("sha256:d", store.cutoffs("sha256:d")).values.tolist() == [0.5, 0.75]
    frozen = store.past_scores("sha256:d", cutoffs)
    assert (frozen.items.tolist(), frozen.values.tolist()) == ([5], [0.5])
    for lost in ("vanished", "elsewhere"):
        with pytest.raises(StoreError, match=lost):
            store.past_scores("sha256:d", {lost: 3})
    assert len(store.past_scores("sha256:none", {}).values) == 0


def test_group_commits_from_many_tasks(store: Store) -> None:
    drawn(store, "r", list(range(300)))
    commits = 0
    add_answers = store.add_answers

    class Counting:
        def add_answers(self, run_id: str, answers: list[Answer]) -> None:
            nonlocal commits
            commits += 1
            add_answers(run_id, answers)

    async def write() -> None:
        async with AnswerWriter(Counting()) as writer:  # type: ignore[arg-type]
            await asyncio.gather(*(writer.add("r", Answer(i, score=0.5)) for i in range(300)))
            assert len(store.answers("r")) == 300

    asyncio.run(write())
    assert commits < 30


def test_a_failed_commit_reaches_its_callers_only(store: Store) -> None:
    drawn(store, "r", [0, 1])

    async def write() -> None:
        async with AnswerWriter(store) as writer:
            with pytest.raises(StoreError):
                await writer.add("r", Answer(9, score=0.5))
            await writer.add("r", Answer(0, score=0.5))
            cancelled = asyncio.create_task(writer.add("r", Answer(1, score=0.5)))
            await asyncio.sleep(0)
            cancelled.cancel()

    asyncio.run(write())
    assert [answer.draw for answer in store.answers("r")] == [0, 1]


def test_reopening_finds_everything(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    first = open_store(url)
    drawn(first, "r", [4])
    first.close()
    second = open_store(url)
    assert second.draws("r") == (Draw(0, 4, 0.1),)
    second.close()


@pytest.mark.parametrize(
    "values", [{}, {"score": 0.5, "failure": "x"}, {"score": float("nan")}, {"score": 2.0}]
)
def test_answers_that_cannot_be(values: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        Answer(0, **values)  # type: ignore[arg-type]
