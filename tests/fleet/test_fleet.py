"""Fleets end to end: budgets, gates, what is asked anew, what is paid for.

Runs are carried out in this process; workers that are processes of their own are in test_processes.py.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.fleets import FIELDS, fleet_of, here, paid_for

import cereval
from cereval.cli.main import main
from cereval.errors import InvalidInput
from cereval.fleet import workers
from cereval.fleet.file import read_fleet
from cereval.fleet.result import planned_words
from cereval.fleet.run import plan_fleet
from cereval.fleet.work import Job, carried_out
from cereval.runner.limits import Allowance
from cereval.runner.resume import last_circumstances
from cereval.store.base import opened_store


@pytest.fixture(autouse=True)
def workers_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "processes", here)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set the clock forward by so many seconds."""
    clock = time.time
    return lambda seconds: monkeypatch.setattr(time, "time", lambda: clock() + seconds)


def test_gates_and_budgets_from_the_command_line(
    data: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def called(name: str, **fleet: Any) -> tuple[int, dict[str, Any]]:
        file = tmp_path / f"{name}.yaml"
        file.write_text(json.dumps(fleet), encoding="utf-8")  # JSON is YAML
        code = main(["fleet", str(file), "--store", f"sqlite:///{tmp_path}/{name}.db", "--json"])
        out = capsys.readouterr()
        return code, json.loads(out.out)

    gate = {"goal": "gate", "min": 0.65}
    models = ["scripted/0.9", "scripted/0.2"]
    code, facts = called("gates", **fleet_of(data[:1], goals=gate, models=models))
    assert (code, [run["decision"] for run in facts["runs"]]) == (2, ["above", "below"])
    code, facts = called("budget", **fleet_of(data, max_calls=120))
    assert (code, facts["calls"]) == (3, 120)
    assert {run["stopped"] for run in facts["runs"]} <= {"budget", "not started"}
    code, facts = called("budget", **fleet_of(data))
    assert (code, {run["stopped"] for run in facts["runs"]}) == (0, {"goal"})


def test_a_gate_asks_what_is_served_now_and_other_goals_do_not(data: list[str], tmp_path: Path) -> None:
    fleet = fleet_of(data[:1], goals=["run", {"goal": "gate", "min": 0.5}], models=["scripted/0.9"])
    url = f"sqlite:///{tmp_path}/runs.db"
    first, again = (cereval.run_fleet(fleet, store=url) for _ in range(2))
    assert [run["decision"] for run in again.runs] == [None, "above"]
    assert first.runs[0]["run_id"] == again.runs[0]["run_id"]
    assert [run["asked"] > 0 for run in again.runs] == [False, True]
    kept = cereval.run_fleet({**fleet, "fresh": False}, store=url)
    assert [run["asked"] for run in kept.runs] == [0, 0]


def test_what_is_to_be_fresh_is_asked_anew_whatever_age_is_allowed(data: list[str], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    fleet = fleet_of(data[:1], models=["scripted/0.6"], fresh=True, max_age="7d")
    first, again = (cereval.run_fleet(fleet, store=url) for _ in range(2))
    assert first.runs[0]["run_id"] != again.runs[0]["run_id"]
    assert again.asked == again.calls > 0


def test_a_budget_that_is_spent_stays_spent(data: list[str], tmp_path: Path) -> None:
    """Comparisons ask two models an item; repeating the fleet asks nothing, and shows what was there."""
    fleet = fleet_of(data[:1], goals=["run", {"goal": "compare", "tie": 0.01}], max_calls=120)
    url = f"sqlite:///{tmp_path}/runs.db"
    first, again = (cereval.run_fleet(fleet, store=url) for _ in range(2))
    assert (first.calls, again.calls, again.asked) == (120, 120, 0)
    assert first.asked == paid_for(url), "in all turns of a run"
    assert [run["answer"] for run in again.runs] == [run["answer"] for run in first.runs]


def test_a_gate_has_every_night_what_it_had_the_night_before(data: list[str], tmp_path: Path) -> None:
    """What it gives back by being asked anew is not for the runs beside it, which had their part."""
    goals = ["run", {"goal": "gate", "min": 0.7}]
    fleet = fleet_of(data[:1], models=["scripted/0.6"], goals=goals, eps=0.03, max_calls=330)
    nights = [cereval.run_fleet(fleet, store=f"sqlite:///{tmp_path}/runs.db") for _ in range(3)]
    assert [night.exit_code for night in nights] == [2] * 3
    assert {night.runs[0]["run_id"] for night in nights} == {nights[0].runs[0]["run_id"]}
    assert [night.calls <= 330 for night in nights] == [True] * 3


def test_what_a_fleet_finished_does_not_change_its_order(data: list[str], tmp_path: Path) -> None:
    """Runs are learnt from by their place, which must be the same when the fleet is repeated."""
    url = f"sqlite:///{tmp_path}/runs.db"
    fleet = fleet_of(data[:1], models=["scripted/0.95", "scripted/0.5"])

    def order(store: str) -> list[str]:
        return [step.entry.model for step in plan_fleet(fleet, store=store)]

    before = order(url)
    cereval.run_fleet(fleet, store=url)
    assert order(url) == before
    other = f"sqlite:///{tmp_path}/other.db"
    for model in fleet["models"]:
        cereval.evaluate(data[0], model=model, eps=0.1, store=other, **FIELDS)
    assert order(other) != before, "what others found does"


def test_gates_of_earlier_nights_leave_the_budget_alone(data: list[str], tmp_path: Path) -> None:
    fleet = fleet_of(data[:1], goals=[{"goal": "gate", "min": 0.2}], max_calls=60)
    nights = [cereval.run_fleet(fleet, store=f"sqlite:///{tmp_path}/runs.db") for _ in range(4)]
    assert [night.exit_code for night in nights] == [0] * 4
    assert sum(night.asked for night in nights) > 60


def test_goals_of_every_kind_share_their_answers(data: list[str], tmp_path: Path) -> None:
    goals = ["run", {"goal": "compare", "tie": 0.2}, {"goal": "rank", "tie": 0.2, "proven": True}]
    url = f"sqlite:///{tmp_path}/runs.db"
    done = cereval.run_fleet(fleet_of(data[:1], goals=goals), store=url)
    assert done.exit_code == 0, done.as_dict()
    assert [run["goal"] for run in done.runs][2:] == [
        "which is better, or within 20%",
        "every pair further apart than 20% in order",
    ]
    assert done.asked < done.calls, "what one run asked, another does not ask again"
    assert done.report(tmp_path / "fleet.html").read_text(encoding="utf-8").count("<tr>") == 5
    assert len(done.to_frame()) == 4


def test_what_cannot_run_is_told_and_stops_no_other(data: list[str], tmp_path: Path) -> None:
    models = ["scripted/0.6", {"model": "openai/m", "base_url": "http://127.0.0.1:9/v1"}]
    done = cereval.run_fleet(fleet_of(data[:1], models=models), store=f"sqlite:///{tmp_path}/runs.db")
    assert done.exit_code == 1
    assert [run["exit_code"] for run in done.runs] == [0, 1]
    assert "127.0.0.1:9" in done.runs[1]["error"]
    with pytest.raises(InvalidInput, match="a database that several processes share"):
        cereval.run_fleet(fleet_of(data), store="sqlite://")
    with pytest.raises(InvalidInput, match="on must be local or ray"):
        cereval.run_fleet(fleet_of(data), on="the moon")


def test_what_a_run_took_before_it_failed_is_paid(data: list[str], tmp_path: Path) -> None:
    breaks = tmp_path / "breaks.py"
    breaks.write_text(
        "import itertools\nturns = itertools.count()\n\n\n"
        "def answer(question):\n    return '7' if next(turns) < 30 else None\n"
    )
    models = [{"model": f"python:{breaks}:answer", "priority": 1}, "scripted/0.6"]
    url = f"sqlite:///{tmp_path}/runs.db"
    done = cereval.run_fleet(
        fleet_of(data[:1], models=models, max_calls=100, connections=1, eps=0.02), store=url
    )
    assert "must return a text" in done.runs[0]["error"]
    assert [run["calls"] for run in done.runs] == [30, 70]
    assert (done.calls, done.asked) == (100, paid_for(url))
    with opened_store(url) as store:
        assert store.run(done.runs[0]["run_id"]).answers == 30


@pytest.fixture
def paid(tmp_path: Path) -> str:
    """A model that takes a cent for each answer, and is right half the time."""
    (tmp_path / "paid.py").write_text(
        "from cereval.models.base import Reply\n\n\n"
        "def answer(question):\n    return Reply(str(len(question) % 2), cost_usd=0.01)\n"
    )
    return f"python:{tmp_path}/paid.py:answer"


def costs(url: str) -> float:
    with opened_store(url) as store:
        return sum(run.cost_usd or 0.0 for run in store.runs())


def test_money_is_counted_whatever_became_of_the_settings(data: list[str], tmp_path: Path, paid: str) -> None:
    """Another prompt is another run: what the first one cost is spent, and gives the second no more."""
    url = f"sqlite:///{tmp_path}/runs.db"
    fleet = fleet_of(data[:1], models=[paid], eps=0.02, history=False, connections=1)
    cereval.run_fleet({**fleet, "max_usd": 1.0}, store=url)
    assert costs(url) == pytest.approx(1.0, abs=0.011)
    cereval.run_fleet({**fleet, "max_usd": 1.5, "template": "Q: {input}"}, store=url)
    assert costs(url) == pytest.approx(1.5, abs=0.011)


def test_a_run_keeps_to_its_own_limit_of_money(data: list[str], tmp_path: Path, paid: str) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    own = {"data": data[0], "max_usd": 0.2}
    fleet = fleet_of([], models=[paid], eps=0.02, max_usd=1.0, connections=1) | {"data": [own]}
    cereval.run_fleet(fleet, store=url)
    assert costs(url) == pytest.approx(0.2, abs=0.011)


def test_several_answers_to_a_question_are_several_calls(data: list[str], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    fleet = fleet_of(data[:1], models=["scripted/0.6"], eps=0.02, samples=4, temperature=1.0, max_calls=100)
    done = cereval.run_fleet(fleet, store=url)
    assert (done.calls, done.asked, paid_for(url)) == (100, 100, 25)
    assert "2,000 calls" in planned_words(plan_fleet({**fleet, "eps": 0.001}, store=f"{url}.none"))


def test_what_is_only_read_is_not_written_to(data: list[str], tmp_path: Path, paid: str) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    fleet = fleet_of(data[:1], models=[paid], eps=0.02, max_usd=0.6, connections=1)

    def books() -> list[Any]:
        with opened_store(url) as store:
            return [(store.events(run.run_id), store.certificates(run.run_id)) for run in store.runs()]

    first = cereval.run_fleet(fleet, store=url)
    before = books()
    again = cereval.run_fleet(fleet, store=url)
    assert books() == before
    names = ("run_id", "answer", "calls", "cost_usd", "stopped", "exit_code")
    assert [again.runs[0][name] for name in names] == [first.runs[0][name] for name in names]
    assert again.runs[0]["stopped"] == "budget"


@pytest.mark.fresh
def test_a_gate_that_was_killed_last_night_is_paid_by_last_night(data: list[str], tmp_path: Path) -> None:
    """Without a seed in its file, a fleet has another one every night. At this confidence 60 answers decide nothing."""
    url, gate = f"sqlite:///{tmp_path}/runs.db", {"goal": "gate", "min": 0.5}
    fleet = fleet_of(data[:1], models=["scripted/0.6"], goals=[gate], max_calls=60, confidence=1 - 1e-9)
    del fleet["seed"]
    first = cereval.run_fleet(fleet, store=url)
    with opened_store(url) as store:
        run = store.runs()[0].run_id
        store.mark(run, "running", last_circumstances(run, store))  # as it was begun, and nobody works on it
    second = cereval.run_fleet(fleet, store=url)
    assert [(night.calls, night.asked, night.exit_code) for night in (first, second)] == [(60, 60, 3)] * 2
    assert first.runs[0]["run_id"] != second.runs[0]["run_id"]


def test_however_long_a_start_takes_a_gate_goes_on_with_its_own_run(
    data: list[str], tmp_path: Path, later: Callable[[float], None]
) -> None:
    entry = read_fleet(fleet_of(data[:1], goals=[{"goal": "gate", "min": 0.59}])).entries[0]
    at, url = time.time(), f"sqlite:///{tmp_path}/runs.db"
    job = Job(entry, url, "fleet:x", at, {}, at=at, allowance=Allowance(20))
    first = carried_out(job)
    again = replace(job, at=time.time(), allowance=Allowance(20, before={first["run_id"]: (20, 0.0)}))
    later(3600)
    second = carried_out(again)
    assert (second["run_id"], second["calls"], second["asked"]) == (first["run_id"], 40, 20)


def test_a_worker_that_takes_over_has_what_is_left_of_the_share(data: list[str], tmp_path: Path) -> None:
    """The first one was killed before it could say what it took: the store says it."""
    entry = read_fleet(fleet_of(data[:1], eps=0.02)).entries[0]
    job = Job(
        entry, f"sqlite:///{tmp_path}/runs.db", "fleet:x", 0.0, {}, at=time.time(), allowance=Allowance(30)
    )
    killed = carried_out(replace(job, allowance=Allowance(12)))
    taken_over = carried_out(job)
    assert (killed["calls"], taken_over["calls"], taken_over["asked"]) == (12, 30, 30)


def test_a_comparison_in_the_store_is_no_mean(data: list[str], tmp_path: Path) -> None:
    """Its difference was taken for the mean score of models on the data, and may be negative."""
    url = f"sqlite:///{tmp_path}/runs.db"
    cereval.compare(data[0], "scripted/0.1", "scripted/0.9", store=url, seed=1, **FIELDS)
    assert cereval.run_fleet(fleet_of(data[:1]), store=url).exit_code == 0


def test_gates_count_no_more_whatever_became_of_the_data(
    data: list[str], tmp_path: Path, later: Callable[[float], None]
) -> None:
    url, grown = f"sqlite:///{tmp_path}/runs.db", tmp_path / "grown.jsonl"
    lines = Path(data[0]).read_text().splitlines(keepends=True)
    goals = [{"goal": "gate", "min": 0.59}]
    for night in range(3):
        grown.write_text("".join(lines[: 300 + 5 * night]))
        done = cereval.run_fleet(fleet_of([str(grown)], goals=goals, max_calls=80), store=url)
        assert done.asked == 80
    goals = [{"goal": "gate", "min": 0.59, "data": [data[1]]}]
    fleet = fleet_of(data[1:], models=["scripted/0.6"], goals=goals, max_calls=40, max_age="1s")
    assert cereval.run_fleet(fleet, store=url).asked == 40
    for night in (1, 2):
        later(1.1 * night)  # when its answers are too old
        assert cereval.run_fleet(fleet, store=url).asked == 40


def test_settings_tell_runs_of_one_question_apart(data: list[str], tmp_path: Path) -> None:
    """One that is fresh and one that is not: the first has its part every night, and the second is never forgotten."""
    url = f"sqlite:///{tmp_path}/runs.db"
    models = [
        {"model": "scripted/0.6", "system": "a"},
        {"model": "scripted/0.6", "system": "b", "fresh": True},
    ]
    fleet = fleet_of(data[:1], models=models, eps=0.02, max_calls=100, history=False)
    nights = [cereval.run_fleet(fleet, store=url) for _ in range(3)]
    assert [night.calls for night in nights] == [100] * 3
    assert [night.runs[0]["asked"] > 0 for night in nights] == [True, False, False]
    assert all(night.runs[1]["asked"] > 0 for night in nights)
