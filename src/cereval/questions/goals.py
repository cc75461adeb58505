"""List what a user may want to know. A new goal is one class and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from cereval.errors import InvalidInput
from cereval.questions.compare.goal import Difference, NotWorse, Sign
from cereval.questions.goal_base import Goal
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.threshold import Threshold
from cereval.questions.rank.goal import Beats, Order, Top
from cereval.questions.tasks.goal import AllAtLeast, EachWithin, Macro, WhichFail
from cereval.text import did_you_mean

MEAN = (Estimate, Threshold)
COMPARE = (Sign, Difference, NotWorse)
TASKS = (Macro, EachWithin, AllAtLeast, WhichFail)
RANK = (Order, Top, Beats)

GOALS: Mapping[str, Any] = {goal.name: goal for goal in (*MEAN, *COMPARE, *TASKS, *RANK)}
"""Every goal by the name in its spec."""

KINDS: Mapping[str, str] = {
    goal.name: kind
    for kind, goals in (("estimate", MEAN), ("compare", COMPARE), ("tasks", TASKS), ("rank", RANK))
    for goal in goals
}
"""The kind of question that each goal asks, by the goal's name."""

__all__ = [
    "GOALS",
    "KINDS",
    "AllAtLeast",
    "Beats",
    "Difference",
    "EachWithin",
    "Estimate",
    "Goal",
    "Macro",
    "NotWorse",
    "Order",
    "Sign",
    "Threshold",
    "Top",
    "WhichFail",
    "goal_from_spec",
    "in_words",
    "of_one_model",
]


def goal_from_spec(spec: Mapping[str, Any]) -> Any:
    """Rebuild a goal from its spec.

    >>> goal_from_spec({"goal": "estimate", "eps": 0.1}), goal_from_spec({"goal": "which-fail", "value": 0.5})
    (Estimate(eps=0.1), WhichFail(value=0.5))
    """
    kind = GOALS.get(str(spec.get("goal")))
    if kind is None:
        raise InvalidInput("goal", "one of " + ", ".join(GOALS), spec.get("goal"))
    given = {key: value for key, value in spec.items() if key != "goal"}
    _check_names(kind, given)
    try:
        return kind(**given)
    except TypeError:
        raise InvalidInput("goal", f"the parameters of {kind.name}", dict(spec)) from None


def _check_names(kind: Any, given: Mapping[str, Any]) -> None:
    """Refuse parameters that a goal does not have, and ask for those that it needs."""
    needed = {one.name: one.default is MISSING for one in fields(kind)}
    for name in given:
        if name not in needed:
            hint = did_you_mean(str(name), needed)
            raise InvalidInput("goal", f"{kind.name} with parameters of its own ({hint})", name)
    for name in needed:
        if needed[name] and name not in given:
            raise InvalidInput(name, f"given for the goal {kind.name}", None)


def of_one_model(goal: Goal | None) -> Goal | None:
    """Give a goal back that asks about one model; a comparison would take its score for a difference of two."""
    if isinstance(goal, COMPARE):
        raise InvalidInput(
            "goal", "about one model, as Estimate and Threshold are (see `cereval.compare`)", goal
        )
    return goal


def in_words(spec: Mapping[str, Any]) -> str:
    """Say what a goal asks, from its spec.

    >>> in_words({"goal": "estimate", "eps": 0.02}), in_words({"goal": "threshold", "value": 0.8})
    ('within 2%', 'at least 80%?')
    >>> in_words({"goal": "sign", "tie": 0.02}), in_words({"goal": "macro", "eps": 0.01, "each": 0.05})
    ('which is better, or within 2%', 'macro mean within 1%, every task within 5%')
    """
    return (
        str(goal_from_spec(spec).words)
        if spec.get("goal") in GOALS
        else str(spec.get("words", "part of a run"))
    )
