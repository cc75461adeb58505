"""Numbers as a report prints them: never narrower than what is proven."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cereval.records import Result

SIDES = {"above": "certified pass", "below": "certified fail", None: "undecided"}


def percent(share: float, digits: int = 1) -> str:
    """
    >>> percent(0.95, 0), percent(0.82449)
    ('95%', '82.4%')
    """
    return f"{share * 100:.{digits}f}%"


def outwards(lower: float, upper: float, digits: int = 1) -> tuple[str, str]:
    """Both ends of an interval, rounded away from its middle.

    >>> outwards(0.80123, 0.83871)
    ('80.1%', '83.9%')
    """
    step = 10.0 ** -(digits + 2)
    low, high = math.floor(lower / step + 1e-6) * step, math.ceil(upper / step - 1e-6) * step
    return percent(max(low, 0.0), digits), percent(min(high, 1.0), digits)


def plus_minus(result: Result, digits: int = 1) -> str:
    """The estimate with a radius that still holds the whole interval after rounding.

    >>> numbers = 0.82, 0.802, 0.8381, 0.0181, 0.95, 9, 99, 0.9
    >>> plus_minus(Result(*numbers, "goal", "uniform", "anytime", "benchmark", seed=0))
    '82.0% ± 1.9%'
    """
    scale = 10.0**digits
    middle = round(result.estimate * 100 * scale) / scale
    reach = max(middle - result.lower * 100, result.upper * 100 - middle)
    return f"{middle:.{digits}f}% ± {math.ceil(reach * scale - 1e-6) / scale:.{digits}f}%"


def confidence_of(result: Result) -> str:
    """
    >>> confidence_of(Result(0.5, 0, 1, 0.5, 0.999, 0, 9, 1, "goal", "m", "anytime", "benchmark", 0))
    '99.9% confidence'
    """
    return f"{round(result.confidence * 100, 6):g}% confidence"


def asked_of(result: Result) -> str:
    """How many questions were asked, and what share that saved."""
    return f"{result.n_evaluated:,} of {result.n_items:,} questions asked, {result.saved:.1%} saved"


def answer_of(result: Result, goal: dict[str, object]) -> str:
    """The headline: an estimate, or the verdict on a threshold."""
    if goal.get("goal") == "threshold":
        return f"At least {float(str(goal['value'])) * 100:g}%: {SIDES[result.decision]}"
    return plus_minus(result)


def signed_interval(lower: float, upper: float) -> str:
    """The ends of a difference, rounded away from its middle.

    >>> signed_interval(-0.00123, 0.02)
    '[-0.13%, +2.00%]'
    """
    low, high = math.floor(lower * 1e4 + 1e-6) / 100, math.ceil(upper * 1e4 - 1e-6) / 100
    return f"[{low:+.2f}%, {high:+.2f}%]"


def answer_of_comparison(decision: str, about: Mapping[str, Any]) -> str:
    """The headline of a comparison; `about` has the goal's spec and the two models' names.

    >>> answer_of_comparison("first", {"goal": "sign", "first": "a", "second": "b"})
    'a is better than b'
    """
    first, second, goal = about["first"], about["second"], about["goal"]
    if goal == "not-worse":
        answer = {"not-worse": "certified", "worse": "refuted"}.get(decision, "undecided")
        return f"{first} is not worse than {second} by more than {about['eps'] * 100:g} points: {answer}"
    if decision in ("first", "second"):
        better, other = (first, second) if decision == "first" else (second, first)
        return f"{better} is better than {other}"
    if decision == "no-difference":
        size = about["tie"] if goal == "sign" else about["eps"]
        return f"{first} and {second} differ by no more than {size * 100:g} points"
    if goal == "difference":
        return f"the difference of {first} and {second}"
    return f"{first} against {second}: undecided"


def answer_of_ranking(result: Mapping[str, Any]) -> str:
    """The headline of a ranking, from its fields.

    >>> fields = {"models": ["a", "b"], "winners": ["a"], "eliminated": ["b"], "ties": [], "order": []}
    >>> answer_of_ranking({**fields, "goal": {"goal": "top", "k": 1, "within": 0.02}})
    'the best model within 2 points: a'
    """
    goal, winners, ties = result["goal"], result["winners"], len(result["ties"])
    if goal["goal"] == "top":
        what = "the best model" if goal["k"] == 1 else f"the {goal['k']} best models"
        return f"{what} within {goal['within'] * 100:g} points: {', '.join(winners) or 'undecided'}"
    if goal["goal"] == "beats":
        worse = len(result["eliminated"])
        baseline = result["models"][goal["baseline"]]
        return f"{len(winners)} models beat {baseline}, {worse} are worse, {ties} tie"
    pairs = len(result["models"]) * (len(result["models"]) - 1) // 2
    return f"{len(result['order']):,} of {pairs:,} pairs in certified order, {ties:,} ties"


def money(cost_usd: float | None) -> str:
    """
    >>> money(None), money(0.0), money(0.0412), money(12.3)
    ('unknown', 'nothing', '$0.0412', '$12.30')
    """
    if cost_usd is None:
        return "unknown"
    if cost_usd == 0:
        return "nothing"
    return f"${cost_usd:.2f}" if cost_usd >= 1 else f"${cost_usd:.4f}"


def duration(seconds: float) -> str:
    """
    >>> duration(0.4), duration(75), duration(7260)
    ('0.4 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
