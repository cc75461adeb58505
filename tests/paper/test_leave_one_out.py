"""Leave one model out: every model once per seed, the same numbers however it is run, and honest sums."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.paper.tables import alike, write_benchmark

from cereval.errors import BadFile
from cereval.paper.leave_one_out import (
    LeaveOneOut,
    Saving,
    both_ways,
    leave_one_out,
    save_features,
    savings,
    total,
)
from cereval.questions.mean.goal import Estimate
from cereval.questions.replay import replay_mean

EPS = 0.06


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scores = alike(700, 5)
    scores[:50, 1] = np.nan
    scores[:, 4] = np.nan
    return write_benchmark(tmp_path_factory.mktemp("loo") / "tiny", scores)


@pytest.fixture(scope="module")
def plan(folder: Path) -> LeaveOneOut:
    return LeaveOneOut(folder / "scores.parquet", EPS, seeds=(0, 1))


def test_every_scored_model_once_for_each_seed(plan: LeaveOneOut) -> None:
    names = [(task.settings["model"], task.settings["seed"]) for task in plan.tasks()]
    assert names == [(f"m{model}", seed) for model in range(4) for seed in (0, 1)]
    assert len({task.key for task in plan.tasks()}) == len(names)


def test_rows_are_those_of_replay_with_the_other_columns_as_history(plan: LeaveOneOut) -> None:
    rows = both_ways(plan, "m1", 1)
    scores = alike(700, 5)
    scores[:50, 1] = np.nan
    scores[:, 4] = np.nan
    history = scores[:, [0, 2, 3, 4]]
    auto = replay_mean(scores[:, 1], goal=Estimate(EPS), history=history, seed=1)
    uniform = replay_mean(scores[:, 1], goal=Estimate(EPS), method="uniform", seed=1)
    assert [row["calls"] for row in rows] == [uniform.n_evaluated, auto.n_evaluated]
    assert {row["items"] for row in rows} == {650}


def test_history_saves_calls_and_the_memory_is_used_again(plan: LeaveOneOut, tmp_path: Path) -> None:
    memory = tmp_path / "rows.csv"
    found = leave_one_out(plan, memory, jobs=0, quiet=True)
    before = memory.read_bytes()
    assert leave_one_out(plan, memory, jobs=0, quiet=True) == found
    assert memory.read_bytes() == before
    whole = total(found)
    assert whole.auto < 0.9 * whole.uniform < whole.items
    assert whole.runs == 16


def test_one_process_and_two_give_the_same(plan: LeaveOneOut, tmp_path: Path) -> None:
    short = LeaveOneOut(plan.scores, 0.1, seeds=(0,))
    alone = leave_one_out(short, tmp_path / "one.csv", jobs=0, quiet=True)
    assert leave_one_out(short, tmp_path / "two.csv", jobs=2, quiet=True) == alone


def test_features_reach_the_workers_and_change_the_keys(plan: LeaveOneOut, tmp_path: Path) -> None:
    groups = np.arange(700) % 3
    features = save_features(tmp_path / "features.npz", groups, None)
    known = LeaveOneOut(plan.scores, EPS, seeds=(0,), features=features)
    assert not {task.key for task in known.tasks()} & {task.key for task in plan.tasks()}
    assert both_ways(known, "m0", 0)[1]["calls"] > 0
    assert save_features(tmp_path / "none.npz", None, None) is None


def test_savings_are_means_over_seeds_and_sums_over_models() -> None:
    rows = [
        {"model": "a", "method": method, "items": 100, "calls": calls, "missed": missed}
        for method, calls, missed in (
            ("uniform", 40, False),
            ("auto", 20, False),
            ("uniform", 60, False),
            ("auto", 30, True),
        )
    ]
    (one,) = savings(rows)
    assert one == Saving("a", 100, 50, 25, 4, 1)
    assert (one.saved, one.ratio) == (75, 0.5)
    assert total([one, one]).items == 200


def table(path: Path, header: str, *lines: str) -> LeaveOneOut:
    path.write_text("\n".join((f"item,{header}", *lines)), encoding="utf-8", newline="")
    return LeaveOneOut(path, 0.3)


def test_models_whose_names_look_like_numbers_stay_apart(tmp_path: Path) -> None:
    plan = table(tmp_path / "s.csv", '1,1.0,nan,True,1_0,"a\rb"', "x,1,1,1,1,1,1", "y,0,0,0,0,0,0")
    found = leave_one_out(plan, tmp_path / "rows.csv", jobs=0, quiet=True)
    assert [one.model for one in found] == ["1", "1.0", "nan", "True", "1_0", "a\rb"]
    assert {one.runs for one in found} == {2}
    assert leave_one_out(plan, tmp_path / "rows.csv", jobs=0, quiet=True) == found


def test_a_table_without_a_score_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"s\.csv has no scores"):
        leave_one_out(
            table(tmp_path / "s.csv", "a,b", "x,,", "y,,"), tmp_path / "rows.csv", jobs=0, quiet=True
        )
