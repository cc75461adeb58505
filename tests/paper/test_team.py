"""The team simulation: each run sees only what earlier runs observed, and later models get cheaper."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.paper.tables import alike, write_benchmark

from cereval.errors import BadFile
from cereval.paper import team
from cereval.paper.figures import reproduce
from cereval.paper.team import WAYS, Team, evaluate_in_turn, mean_calls

pytest.importorskip("matplotlib", reason="the extra `plots` is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scores = alike(800, 9)
    scores[:, 8] = 0.5
    return write_benchmark(tmp_path_factory.mktemp("team") / "tiny", scores)


Turns = tuple[list[dict[str, Any]], list[tuple[int, int]]]


@pytest.fixture(scope="module")
def turns(folder: Path) -> Turns:
    """The rows of one order, and for each run how many past answers it saw and how many it asked for."""
    seen: list[tuple[int, int]] = []
    evaluate = team._evaluate

    def spy(scores: team.Floats, history: team.Floats | None, eps: float, seed: int) -> team.Observed:
        run = evaluate(scores, history, eps, seed)
        seen.append((0 if history is None else int(np.isfinite(history).sum()), len(run.items)))
        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(team, "_evaluate", spy)
        return evaluate_in_turn(folder, 0, 0.06), seen


def test_every_varying_model_once_in_an_order_of_chance(turns: Turns, folder: Path) -> None:
    rows, _ = turns
    assert [row["position"] for row in rows] == [place for place in range(1, 9) for _ in WAYS]
    assert {row["model"] for row in rows} == {f"m{model}" for model in range(8)}
    other = evaluate_in_turn(folder, 1, 0.3, models=3)
    assert [row["model"] for row in rows[: len(other)]] != [row["model"] for row in other]


def test_a_model_without_scores_has_no_turn(tmp_path: Path) -> None:
    scores = alike(60, 3)
    scores[:, 1] = np.nan
    rows = evaluate_in_turn(write_benchmark(tmp_path / "gap", scores), 0, 0.3)
    assert {row["model"] for row in rows} == {"m0", "m2"}


def test_the_first_model_has_no_history_and_history_saves_calls(turns: Turns) -> None:
    rows, _ = turns
    first = {row["way"]: row["calls"] for row in rows if row["position"] == 1}
    assert first["team"] == first["no history"] == first["complete"]
    calls = {way: np.mean([row["calls"] for row in rows if row["way"] == way]) for way in WAYS}
    assert calls["complete"] < calls["no history"]
    assert calls["team"] < calls["no history"]


def test_a_run_sees_only_what_was_observed(turns: Turns) -> None:
    _, seen = turns
    asked = [calls for _, calls in seen[1 :: len(WAYS)]]
    assert [answers for answers, _ in seen[1 :: len(WAYS)]] == [sum(asked[:turn]) for turn in range(8)]


def test_curve_plot_and_note_are_written(folder: Path, tmp_path: Path) -> None:
    done = reproduce(Team(folder, eps=0.2, orders=2, models=3), tmp_path, jobs=0, quiet=True)
    assert len(done.rows) == 2 * 3 * len(WAYS)
    text = done.note.read_text(encoding="utf-8")
    assert "team / complete" in text
    assert "of the 6 team runs miss" in text
    assert done.png.stat().st_size > 0


def test_the_window_shrinks_evenly_at_both_ends() -> None:
    rows = [{"way": "team", "position": place, "calls": place**2} for place in range(1, 8)]
    assert mean_calls(rows, "team", 1) == 1
    assert mean_calls(rows, "team", 7) == 49
    assert mean_calls(rows, "team", 2) == pytest.approx((1 + 4 + 9) / 3)


def test_a_folder_or_a_pipe_in_the_place_of_the_scores_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "one" / "scores.parquet").mkdir(parents=True)
    with pytest.raises(BadFile, match=r"scores\.parquet is a directory"):
        Team(tmp_path).tasks()
    (tmp_path / "two").mkdir()
    os.mkfifo(tmp_path / "two" / "scores.parquet")
    with pytest.raises(BadFile, match=r"scores\.parquet is a pipe"):
        Team(tmp_path / "two").tasks()


def test_a_goal_that_takes_no_calls_has_a_note(tmp_path: Path) -> None:
    folder = write_benchmark(tmp_path / "tiny", alike(20, 3))
    done = reproduce(Team(folder, 0.5, 1), tmp_path / "out", jobs=0, quiet=True)
    assert {row["calls"] for row in done.rows} == {0}
    assert "| 1 | 0 | 0 | 0 | 0 | 1.00 | 1.00 | 1.00 |" in done.note.read_text(encoding="utf-8")


def test_models_that_do_not_vary_are_one_line(tmp_path: Path) -> None:
    folder = write_benchmark(tmp_path / "flat", np.ones((20, 3)))
    with pytest.raises(BadFile, match="nothing to plot for team"):
        reproduce(Team(folder, 0.2, 1), tmp_path / "out", jobs=0, quiet=True)
