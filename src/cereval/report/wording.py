"""The sentences of reports; the numbers in them are worded in `cereval.wording`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cereval.records import Result
from cereval.text import (
    SIDES,
    confidence_of,
    duration,
    money,
    outwards,
    plus_minus,
    signed_interval,
    signed_plus_minus,
)
from cereval.text import percent as exact_percent
from cereval.text import rounded as percent

__all__ = [
    "answer_of",
    "answer_of_comparison",
    "answer_of_ranking",
    "asked_of",
    "confidence_of",
    "duration",
    "money",
    "outwards",
    "percent",
    "plus_minus",
    "signed_interval",
]


def asked_of(result: Result) -> str:
    """How many questions were asked, and what share that saved."""
    return f"{result.n_evaluated:,} of {result.n_items:,} questions asked, {result.saved:.1%} saved"


def answer_of(result: Result, goal: dict[str, object]) -> str:
    """The headline: an estimate, or the verdict on a threshold."""
    if goal.get("goal") == "threshold":
        return f"At least {exact_percent(float(str(goal['value'])))}: {SIDES[result.decision]}"
    return plus_minus(result, digits=1)


def answer_of_comparison(result: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """The headline of a comparison, from its fields; `about` has the goal's spec and the two models' names.

    >>> answer_of_comparison({"decision": "first"}, {"goal": "sign", "first": "a", "second": "b"})
    'a is better than b'
    """
    first, second, goal, decision = about["first"], about["second"], about["goal"], result["decision"]
    if goal == "difference":
        size = signed_plus_minus(*(result[name] for name in ("difference", "lower", "upper")))
        sign = {"first": f", {first} is better", "second": f", {second} is better"}.get(decision, "")
        return f"{first} minus {second}: {size}{sign}"
    if goal == "not-worse":
        answer = {"not-worse": "certified", "worse": "refuted"}.get(decision, "undecided")
        return f"{first} is not worse than {second} by more than {about['eps'] * 100:g} points: {answer}"
    if decision in ("first", "second"):
        better, other = (first, second) if decision == "first" else (second, first)
        return f"{better} is better than {other}"
    if decision == "no-difference":
        return f"{first} and {second} differ by no more than {about['tie'] * 100:g} points"
    return f"{first} against {second}: undecided"


def answer_of_ranking(result: Mapping[str, Any]) -> str:
    """The headline of a ranking, from its fields.

    >>> fields = {"models": ["a", "b"], "winners": ["a"], "eliminated": ["b"], "ties": [], "order": []}
    >>> answer_of_ranking({**fields, "goal": {"goal": "top", "k": 1, "within": 0.02}})
    'the best model within 2 points: a'
    >>> answer_of_ranking({**fields, "ties_proven": False, "goal": {"goal": "order"}})
    '0 of 1 pairs in certified order, 0 left as ties (not certified)'
    """
    goal, winners, ties = result["goal"], result["winners"], len(result["ties"])
    if goal["goal"] == "top":
        what = "the best model" if goal["k"] == 1 else f"the {goal['k']} best models"
        return f"{what} within {goal['within'] * 100:g} points: {', '.join(winners) or 'undecided'}"
    left = f"{ties:,} certified ties" if result["ties_proven"] else f"{ties:,} left as ties (not certified)"
    if goal["goal"] == "beats":
        worse = len(result["eliminated"])
        baseline = result["models"][goal["baseline"]]
        return f"better than {baseline}: {len(winners)} models, worse: {worse}, {left}"
    pairs = len(result["models"]) * (len(result["models"]) - 1) // 2
    return f"{len(result['order']):,} of {pairs:,} pairs in certified order, {left}"
