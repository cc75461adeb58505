"""What a run says that it will still take, and what it says where a new run would take less."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runner.runs import data, finish, model_for, stored

from cereval.cli.carry_out import _suggest_resuming, outcome_rows
from cereval.cli.main import main
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session
from cereval.runner import loop
from cereval.runner.pace import calls_afresh, calls_to_goal, cheaper_afresh
from cereval.runner.run import Outcome, kept_line
from cereval.store.base import Store

SIZE = 2000
EPS = 0.04
SEEDS = 4


def played(mean: float, seed: int, budget: int | None = None) -> tuple[Session, np.ndarray[Any, Any]]:
    ones = (np.arange(SIZE) < round(mean * SIZE)).astype(np.float64)
    scores = np.random.default_rng(seed).permutation(ones)
    session = Session(SIZE, goal=Estimate(EPS), budget=budget, seed=seed)
    go_on(session, scores, 100)
    return session, scores


def go_on(session: Session, scores: np.ndarray[Any, Any], calls: int = SIZE) -> None:
    while not session.done and session.n_evaluated < calls:
        for draw in session.ask(1):
            session.tell(draw, float(scores[draw.item]))


@pytest.mark.parametrize("mean", [0.5, 0.8, 0.1])
@pytest.mark.parametrize("budget", [None, 100])
def test_the_forecast_after_100_results_is_within_a_quarter_of_what_it_takes(
    mean: float, budget: int | None
) -> None:
    forecast, taken = [], []
    for seed in range(SEEDS):
        session, scores = played(mean, seed, budget)
        forecast.append(calls_to_goal(session) or 0)
        session.change(Estimate(EPS).spec(), None)
        go_on(session, scores)
        taken.append(session.n_evaluated)
    assert np.mean(forecast) == pytest.approx(np.mean(taken), rel=0.25)


def test_a_new_run_is_cheaper_after_a_budget_and_not_without() -> None:
    for seed in range(SEEDS):
        undisturbed, _ = played(0.5, seed)
        assert cheaper_afresh(undisturbed) is None
        spent, scores = played(0.5, seed, budget=100)
        afresh = cheaper_afresh(spent)
        assert afresh == calls_afresh(spent)
        spent.change(Estimate(EPS).spec(), None)
        go_on(spent, scores)
        go_on(undisturbed, scores)
        assert afresh is not None
        assert abs(afresh - undisturbed.n_evaluated) < abs(afresh - spent.n_evaluated)


def ended(store: Store, **limits: Any) -> Outcome:
    pool = data(400)
    return finish(
        pool, store, model_for(pool), goal={"goal": "estimate", "eps": 0.04}, connections=2, **limits
    )


def test_a_spent_budget_is_named_and_what_a_new_run_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = stored(tmp_path)
    spent, again = ended(store, max_calls=40), ended(store, max_calls=40)
    assert (spent.spent, again.spent, again.asked) == ("calls", "calls", 0)
    assert kept_line(again).startswith("nothing was asked: --max-calls is used up; 40 answers were stored")
    rows = dict(outcome_rows(spent, tmp_path))
    assert f"a new run takes about {spent.calls_afresh}" in str(rows["still needed"])
    _suggest_resuming(spent, store)
    assert f"resume {spent.run_id}" in (said := capsys.readouterr().err)
    assert "--max-calls MORE` goes on from here" in said


def test_spent_minutes_are_there_again_for_the_next_sitting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "TICK_S", 0.001)
    store = stored(tmp_path)
    outcome = ended(store, limits={"max_minutes": 1e-9})
    assert outcome.spent == "minutes"
    _suggest_resuming(outcome, store)
    assert "MORE" not in capsys.readouterr().err


def test_a_pool_too_large_for_forecasts_is_drawn_uniformly_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for place in ("runner.finding", "runner.start", "methods.registry"):
        monkeypatch.setattr(f"cereval.{place}.MOST_FORECAST", 100)
    rows = [
        {"question": f"{row} + 1 =", "answer": str(row + 1), "category": str(row % 3)} for row in range(400)
    ]
    Path("q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    run = ["run", "q.jsonl", "--model", "scripted/0.7", "--eps", "0.1", "--display", "plain"]
    assert main([*run, "--seed", "3", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["method"] == "uniform"
    assert "more than 100 items: categories and earlier runs are not used" in said.err
    tasks = ["tasks", "q.jsonl", "--model", "scripted/0.7", "--eps", "0.2", "--seed", "5", "--json"]
    assert main(tasks) == 0
    assert json.loads(capsys.readouterr().out)["stopped"] == "goal"
