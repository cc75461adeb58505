"""Every wrong input is one line that names the field, the range and the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cereval import evaluate_scores, replay
from cereval.errors import InvalidInput
from cereval.questions.compare.goal import NotWorse, Sign
from cereval.questions.goals import goal_from_spec
from cereval.questions.mean.goal import Estimate, Threshold
from cereval.questions.mean.session import Session

NAN, INF = float("nan"), float("inf")
SCORES = [1.0, 0.0, 1.0, 1.0]

CASES: dict[str, tuple[Callable[[], Any], str, str, str]] = {
    "empty pool": (lambda: Session(0), "n_items", ">= 1", "0"),
    "negative pool": (lambda: Session(-3), "n_items", ">= 1", "-3"),
    "half an item": (lambda: Session(2.5), "n_items", "whole number", "2.5"),  # type: ignore[arg-type]
    "no scores": (lambda: replay([]), "scores", "non-empty", "(0,)"),
    "only missing scores": (lambda: replay([NAN, NAN]), "scores", "at least one", "2 values"),
    "score over 1": (lambda: replay([0.5, 1.5]), "scores", "in [0, 1]", "1.5 at item 1"),
    "negative score": (lambda: replay([-0.1, 1]), "scores", "in [0, 1]", "-0.1 at item 0"),
    "infinite score": (lambda: replay([1, INF]), "scores", "in [0, 1]", "inf at item 1"),
    "scores in words": (lambda: replay(["good", "bad"]), "scores", "numbers in [0, 1]", "good"),
    "a table of scores": (lambda: replay([SCORES, SCORES]), "scores", "list of numbers", "(2, 4)"),
    "eps 0": (lambda: Estimate(0), "eps", "(0, 1)", "0"),
    "eps 1": (lambda: Estimate(1), "eps", "(0, 1)", "1"),
    "eps negative": (lambda: Estimate(-0.02), "eps", "(0, 1)", "-0.02"),
    "eps NaN": (lambda: Estimate(NAN), "eps", "(0, 1)", "nan"),
    "eps in words": (lambda: Estimate("small"), "eps", "(0, 1)", "small"),  # type: ignore[arg-type]
    "eps None": (lambda: Estimate(None), "eps", "(0, 1)", "None"),  # type: ignore[arg-type]
    "threshold 0": (lambda: Threshold(0), "threshold", "(0, 1)", "0"),
    "threshold 80": (lambda: Threshold(80), "threshold", "(0, 1)", "80"),
    "confidence 0": (lambda: Session(9, confidence=0), "confidence", "(0, 1)", "0"),
    "confidence 1": (lambda: Session(9, confidence=1.0), "confidence", "(0, 1)", "1.0"),
    "confidence 95": (lambda: Session(9, confidence=95), "confidence", "(0, 1)", "95"),
    "confidence True": (lambda: Session(9, confidence=True), "confidence", "(0, 1)", "True"),
    "NaN feature": (
        lambda: Session(2, embeddings=[[0.0, 1.0], [NAN, 1.0]]),
        "embeddings",
        "finite",
        "nan at item 1, dimension 0",
    ),
    "infinite feature": (
        lambda: Session(2, embeddings=[[0.0], [INF]]),
        "embeddings",
        "finite",
        "inf at item 1",
    ),
    "short embeddings": (
        lambda: Session(3, embeddings=np.ones((2, 2))),
        "embeddings",
        "each of the 3 items",
        "2 rows",
    ),
    "cubic embeddings": (
        lambda: Session(2, embeddings=np.ones((2, 2, 2))),
        "embeddings",
        "items x dimensions",
        "(2, 2, 2)",
    ),
    "embeddings in words": (lambda: Session(1, embeddings=[["red"]]), "embeddings", "numbers", "red"),
    "short history": (
        lambda: Session(3, history=np.ones((4, 2))),
        "history",
        "each of the 3 items",
        "4 rows",
    ),
    "history over 1": (
        lambda: Session(2, history=[[1, 2], [0, 0]]),
        "history",
        "in [0, 1]",
        "2.0 at item 0, column 1",
    ),
    "short groups": (lambda: Session(3, groups=[0, 1]), "groups", "each of the 3 items", "(2,)"),
    "NaN group": (lambda: Session(2, groups=[0.0, NAN]), "groups", "finite", "NaN"),
    "short texts": (lambda: Session(3, texts=["a", "b"]), "texts", "each of the 3 items", "2 texts"),
    "short weights": (lambda: Session(3, weights=[1, 2]), "weights", "each of the 3 items", "2 rows"),
    "negative weight": (lambda: Session(2, weights=[1, -2]), "weights", ">= 0", "-2.0 at item 1"),
    "NaN weight": (lambda: Session(2, weights=[NAN, 1]), "weights", "finite", "nan at item 0"),
    "all weights zero": (lambda: Session(2, weights=[0, 0]), "weights", "not all zero", "all zero"),
    "a weight of no digits": (
        lambda: Session(2, weights=[1, 1e-320]),
        "weights",
        "at least 1e-300 of a finite sum",
        "at item 1",
    ),
    "an endless sum of weights": (
        lambda: Session(3, weights=[1e308, 1e308, 1]),
        "weights",
        "a finite sum",
        "sum inf",
    ),
    "weighted without weights": (lambda: Session(2, target="weighted"), "weights", "given", ""),
    "population with weights": (
        lambda: Session(2, target="population", weights=[1, 2]),
        "weights",
        "population",
        "weights",
    ),
    "unknown method": (lambda: Session(9, method="unifrom"), "method", "did you mean 'uniform'", "unifrom"),
    "no method": (lambda: Session(9, method=None), "method", "one of", "None"),  # type: ignore[arg-type]
    "active for a population": (
        lambda: Session(9, method="active", target="population"),
        "method",
        "uniform",
        "active",
    ),
    "unknown option": (
        lambda: Session(9, method="uniform", options={"speed": 9}),
        "options",
        "uniform",
        "speed",
    ),
    "unknown target": (lambda: Session(9, target="world"), "target", "benchmark", "world"),
    "no goal": (lambda: Session(9, goal=0.02), "goal", "Estimate(eps)", "0.02"),  # type: ignore[arg-type]
    "goal of two models": (lambda: replay([1, 0], goal=Sign()), "scores", "two columns", "1"),
    "evaluated for two": (
        lambda: evaluate_scores([1, 2], lambda _: 1.0, goal=NotWorse(0.1)),
        "goal",
        "about one model",
        "NotWorse(",
    ),
    "unknown goal": (
        lambda: goal_from_spec({"goal": "rank"}),
        "goal",
        "one of estimate, finest, threshold",
        "rank",
    ),
    "budget 0": (lambda: Session(9, budget=0), "budget", ">= 1", "0"),
    "seed -1": (lambda: Session(9, seed=-1), "seed", ">= 0", "-1"),
    "seed 1.5": (lambda: Session(9, seed=1.5), "seed", "whole number", "1.5"),  # type: ignore[arg-type]
    "k 0": (lambda: Session(9).ask(0), "k", ">= 1", "0"),
    "batch 0": (lambda: replay(SCORES, batch=0), "batch", ">= 1", "0"),
    "replay, short embeddings": (
        lambda: replay(SCORES, embeddings=np.ones((3, 2))),
        "embeddings",
        "each of the 4 scores",
        "3 rows",
    ),
    "replay, one weight": (lambda: replay(SCORES, weights=1.0), "weights", "each of the 4", "a single value"),
    "replay, short texts": (lambda: replay(SCORES, texts=["a"]), "texts", "each of the 4 scores", "1 rows"),
    "paper method with weights": (
        lambda: Session(2, method="seq", weights=[1, 2]),
        "weights",
        "equal weights",
        "weights",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_one_line_names_field_range_and_value(case: str) -> None:
    call, field, allowed, value = CASES[case]
    with pytest.raises(InvalidInput) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 250
    assert message.startswith(f"{field} must be ")
    stated, _, received = message.partition(", got ")
    assert allowed in stated
    assert value in received


def test_a_goal_that_is_refused_leaves_the_session_as_it_was() -> None:
    session = Session(50, goal=Estimate(0.1))
    with pytest.raises(InvalidInput, match="goal must be"):
        session.goal = 0.5  # type: ignore[assignment]
    assert session.goal == Estimate(0.1)
    assert session.changes == []
