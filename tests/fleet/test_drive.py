"""The driver by itself, with workers that answer at once: order, history, budgets, what comes back."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from cereval.fleet.drive import Driver, Earlier, Row, jobs
from cereval.fleet.file import Entry, read_fleet
from cereval.fleet.plan import Outlook, Pool, Step, expected_calls, own_budget, scheduled
from cereval.fleet.result import planned_words
from cereval.fleet.work import Job, about
from cereval.runner.limits import Allowance

MODELS = [f"scripted/0.{number}" for number in range(5, 9)]


class Pretended:
    """Workers that need so many calls for each run, and take no longer than it takes to say so."""

    def __init__(self, needs: Mapping[str, int], capacity: int = 2) -> None:
        self.needs, self.capacity = needs, capacity
        self.jobs: list[Job] = []
        self.out: deque[Job] = deque()
        self.taken: dict[int, int] = {}

    def submit(self, job: Job) -> None:
        assert len(self.out) < self.capacity
        self.jobs.append(job)
        self.out.append(job)

    def next(self) -> tuple[int, Row]:
        job = self.out.popleft()
        number, entry = job.entry.number, job.entry
        need = self.needs.get(entry.model, 100) - self.taken.get(number, 0)
        calls = 0 if job.reading else need if job.allowance.calls is None else min(need, job.allowance.calls)
        self.taken[number] = self.taken.get(number, 0) + calls
        done = calls == need
        row = {
            **about(entry),
            "run_id": f"r{number}",
            "calls": self.taken[number],
            "cost_usd": 0.01 * self.taken[number],
            "stopped": "goal" if done else "budget",
            "exit_code": 0 if done else 3,
            "headline": "",
            "lessons": {f"r{number}": self.taken[number]},
        }
        return number, row

    def interrupt(self) -> None:
        raise AssertionError


def fleet_of(**more: Any) -> Any:
    return read_fleet({"models": MODELS, "data": ["a", "b"], "eps": 0.05, **more})


OUTLOOK = Outlook({"a": Pool(2000), "b": Pool(2000)})


def drive(
    fleet: Any, workers: Pretended, outlook: Outlook = OUTLOOK, earlier: Earlier | None = None
) -> list[Row]:
    steps = scheduled(fleet, outlook)
    job = jobs("sqlite:///x.db", "fleet:x")
    return Driver(fleet, steps, workers, job, lambda _: None, earlier or Earlier()).run()


def test_runs_on_the_same_data_wait_for_those_before_them() -> None:
    workers = Pretended({}, capacity=8)
    rows = drive(fleet_of(), workers, earlier=Earlier({"older": 7}))
    assert [row["model"] for row in rows] == [model for model in MODELS for _ in range(2)], "as in the file"
    for job in workers.jobs:
        before = [one for one in workers.jobs[: workers.jobs.index(job)] if one.entry.data == job.entry.data]
        assert dict(job.lessons) == {"older": 7} | {f"r{one.entry.number}": 100 for one in before}


def test_where_nothing_is_learnt_all_go_together() -> None:
    for settings in ({"history": False}, {"method": "uniform"}, {"eps": 0.001}):
        steps = scheduled(fleet_of(**settings), OUTLOOK)
        assert all(step.after == () for step in steps), settings
    waves = scheduled(fleet_of(together=2), OUTLOOK)
    assert sorted(len(step.after) for step in waves) == [0] * 4 + [2] * 4


def test_models_that_vary_most_go_first() -> None:
    means = {MODELS[0]: 0.95, MODELS[1]: 0.9, MODELS[2]: 0.5, MODELS[3]: 0.7}
    steps = scheduled(fleet_of(data="a"), Outlook(OUTLOOK.pools, means))
    assert [step.entry.model for step in steps] == [MODELS[2], MODELS[3], MODELS[1], MODELS[0]]
    assert all(step.calls <= step.alone for step in steps)


def test_what_is_urgent_goes_first() -> None:
    models: list[Any] = [*MODELS[:3], {"model": MODELS[3], "priority": 1}]
    workers = Pretended({}, capacity=1)
    drive(fleet_of(models=models), workers)
    assert [job.entry.model for job in workers.jobs[:2]] == [MODELS[3]] * 2


def test_a_budget_of_calls_is_kept_and_what_is_left_goes_round() -> None:
    needs = dict(zip(MODELS, (10, 400, 20, 30), strict=True))
    enough = Pretended(needs)
    rows = drive(fleet_of(data="a", max_calls=460), enough)
    assert [row["stopped"] for row in rows] == ["goal"] * 4
    assert sum(row["calls"] for row in rows) == 460
    assert len(enough.jobs) > 4, "one went on with what the others did not need"
    short = drive(fleet_of(data="a", max_calls=300), Pretended(needs))
    assert sum(row["calls"] for row in short) == 300
    assert sorted(row["stopped"] for row in short) == ["budget", "goal", "goal", "goal"]


def test_what_comes_back_goes_to_the_urgent_first() -> None:
    models = [
        "scripted/0.5",
        {"model": "scripted/0.9", "priority": 1},
        {"model": "scripted/0.8", "priority": 1},
    ]
    fleet = read_fleet({"models": models, "data": "a", "eps": 0.05, "max_calls": 500, "history": False})
    rows = drive(fleet, Pretended({"scripted/0.9": 400, "scripted/0.8": 10}, capacity=1))
    assert [(row["model"], row["calls"]) for row in rows] == [
        ("scripted/0.5", 90),
        ("scripted/0.9", 400),
        ("scripted/0.8", 10),
    ]


def test_beyond_the_budget_what_was_begun_is_read_and_nothing_asked() -> None:
    workers = Pretended({})
    workers.taken = {0: 60, 1: 40}
    earlier = Earlier(calls={"r0": 60, "r1": 40}, begun=frozenset({0, 1}))
    rows = drive(fleet_of(max_calls=100), workers, earlier=earlier)
    assert [job.reading for job in workers.jobs] == [True, True]
    assert [row["run_id"] for row in rows] == ["r0", "r1", *[None] * 6]


def test_what_is_lent_may_come_back_so_that_nothing_is_read_too_early() -> None:
    """One run holds all of the budget for a while; the other, begun before, is not read meanwhile but goes on after."""
    models = ["scripted/0.5", {"model": "scripted/0.9", "priority": 1}]
    fleet = read_fleet({"models": models, "data": "a", "eps": 0.05, "max_calls": 400, "history": False})
    workers = Pretended({"scripted/0.5": 100, "scripted/0.9": 50})
    workers.taken = {0: 30}
    drive(fleet, workers, earlier=Earlier(calls={"r0": 30}, usd={"r0": 0.3}, begun=frozenset({0})))
    assert [(job.entry.model, job.allowance.calls) for job in workers.jobs] == [
        ("scripted/0.9", 370),
        ("scripted/0.5", 320),
    ]


def test_money_that_was_spent_before_is_not_given_again() -> None:
    fleet = read_fleet({"models": "scripted/0.5", "data": "a", "eps": 0.05, "max_usd": 1.0})
    workers = Pretended({})
    workers.taken = {0: 30}
    drive(fleet, workers, earlier=Earlier(calls={"r0": 30}, usd={"r0": 0.3}, begun=frozenset({0})))
    assert [job.allowance.usd for job in workers.jobs] == [pytest.approx(0.7)]


def anew(*amounts: int) -> Earlier:
    return Earlier(anew={number: (amount, 0.0) for number, amount in enumerate(amounts)})


def test_what_is_set_aside_fits_into_a_smaller_budget() -> None:
    """Else each of three gates would find that the other two have all of it."""
    gates = {"models": MODELS[:3], "data": "a", "goals": [{"goal": "gate", "min": 0.2}], "history": False}
    rows = drive(read_fleet({**gates, "max_calls": 200}), Pretended({}), earlier=anew(150, 100, 150))
    assert [row["calls"] for row in rows] == [75, 50, 75]


def test_a_run_whose_teacher_cannot_be_afforded_does_without() -> None:
    goals = [{"goal": "run", "models": MODELS[:1]}, {"goal": "gate", "min": 0.2, "models": MODELS[1:2]}]
    fleet = read_fleet(
        {"models": MODELS[:2], "data": "a", "eps": 0.05, "goals": goals, "max_calls": 90, "together": 1}
    )
    rows = drive(fleet, Pretended({}), earlier=Earlier(anew={1: (90, 0.0)}))
    assert [(row["calls"], row["stopped"]) for row in rows] == [(0, "not started"), (90, "budget")]


def test_ctrl_c_while_a_worker_is_started_leaves_nobody_to_wait_for() -> None:
    class Interrupted(Pretended):
        def submit(self, job: Job) -> None:
            if not self.jobs:
                self.jobs.append(job)
                raise KeyboardInterrupt
            super().submit(job)

        def interrupt(self) -> None:
            pass

    rows = drive(fleet_of(max_calls=100), Interrupted({}))
    assert all(row["interrupted"] and row["calls"] == 0 for row in rows)


def test_a_comparison_that_has_its_own_items_wants_no_more_and_one_that_has_not_does() -> None:
    """Its own limit counts items, each put to both models."""
    models = [MODELS[0], MODELS[1]]
    fleet = read_fleet(
        {"models": models, "data": "a", "max_calls": 500, "goals": "compare", "history": False}
    )
    entry = replace(fleet.entries[0], settings={"max_calls": 150})
    step = replace(scheduled(fleet, OUTLOOK)[0], entry=entry)
    driver = Driver(fleet, [step], Pretended({}), jobs("s", "l"), lambda _: None, Earlier())
    short = {**about(entry), "stopped": "budget"}
    assert driver._wants_more(0, {**short, "calls": 250})
    assert not driver._wants_more(0, {**short, "calls": 300})
    limited = read_fleet({"models": models, "data": "a", "max_calls": [150], "goals": ["compare", "run"]})
    assert [own_budget(entry) for entry in limited.entries] == [300, 150, 150]


def test_a_budget_of_money_is_kept() -> None:
    workers = Pretended({})
    drive(fleet_of(max_usd=100.0), workers)
    assert all(job.allowance.usd is not None and 0 < job.allowance.usd <= 100 for job in workers.jobs)
    assert sum(job.allowance.usd or 0 for job in workers.jobs[:2]) <= 100


def test_what_earlier_calls_took_counts_against_the_budget() -> None:
    rows = drive(fleet_of(max_calls=100), Pretended({}), earlier=Earlier({}, {"r0": 40, "r1": 60}))
    assert [row["stopped"] for row in rows] == ["not started"] * 8
    assert all(row["exit_code"] == 3 for row in rows)


def test_a_run_that_cannot_run_stops_no_other() -> None:
    class Failing(Pretended):
        def next(self) -> tuple[int, Row]:
            number, row = super().next()
            return (
                (number, row)
                if number
                else (0, {**about(self.jobs[0].entry), "error": "no", "calls": 0, "exit_code": 1})
            )

    rows = drive(fleet_of(data="a"), Failing({}))
    assert [row["exit_code"] for row in rows] == [1, 0, 0, 0]


def test_a_job_travels_as_json() -> None:
    import json

    entry = read_fleet({"models": MODELS, "data": "a", "goals": "rank", "seed": 1}).entries[0]
    job = Job(entry, "sqlite:///x.db", "fleet:x", 7.0, {"r": 3}, 8.0, Allowance(5, 0.5, {"r": (1, 0.5)}))
    assert Job.from_dict(json.loads(json.dumps(job.as_dict()))) == job


@pytest.mark.parametrize("goal", [{"goal": "threshold", "value": 0.8}, {"goal": "order"}, {"goal": "sign"}])
def test_without_a_forecast_all_questions_are_expected(goal: dict[str, Any]) -> None:
    entry = Entry(0, ({"model": "m"}, {"model": "n"}), "a", goal)
    assert expected_calls(entry, OUTLOOK, 0) == 4000
    assert expected_calls(Entry(0, ({"model": "m"},), "a", goal, {"max_calls": 70}), OUTLOOK, 0) == 70


def test_what_is_a_bound_is_not_called_expected() -> None:
    def words(outlook: Outlook, *goals: Any, **settings: Any) -> str:
        fleet = read_fleet({"models": "openai/m", "data": "a", "eps": 0.05, "goals": list(goals), **settings})
        return planned_words(scheduled(fleet, outlook))

    gate, known = {"goal": "gate", "min": 0.8}, Outlook({"a": Pool(2000)}, {"openai/m": 0.9})
    assert words(OUTLOOK, gate) == "1 run takes at most 2,000 calls"
    assert words(OUTLOOK, gate, samples=3) == "1 run takes at most 6,000 calls"
    assert "at most" not in words(OUTLOOK, gate, target="expected")
    assert words(OUTLOOK, "run", gate).startswith("2 runs are expected to take about ")
    assert words(OUTLOOK, "run").startswith("1 run is expected to take about ")
    assert words(known, "run").startswith("1 run is expected to take about ")


def test_prices() -> None:
    pool = Outlook({"a": Pool(1000, letters=400)})

    def usd(model: str, **settings: Any) -> Any:
        fleet = read_fleet({"models": model, "data": "a", "eps": 0.05, **settings})
        step: Step = scheduled(fleet, pool)[0]
        return None if step.usd is None else step.usd / step.calls

    assert usd("scripted/0.5") == 0
    assert usd("openai/unheard-of", base_url="http://h/v1") is None
    assert usd(
        "openai/m", base_url="http://h/v1", price_in=1.0, price_out=2.0, max_tokens=10
    ) == pytest.approx((100 + 20) / 1e6)
