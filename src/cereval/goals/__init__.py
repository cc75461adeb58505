"""What a user wants to know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cereval.errors import InvalidInput
from cereval.goals.base import Goal
from cereval.goals.compare import COMPARE_GOALS
from cereval.goals.estimate import Estimate
from cereval.goals.threshold import Threshold

__all__ = ["GOALS", "Estimate", "Goal", "Threshold", "goal_from_spec"]

GOALS: Mapping[str, Callable[..., Goal]] = {"estimate": Estimate, "threshold": Threshold, **COMPARE_GOALS}
"""The goals of a run by the name in their spec."""


def goal_from_spec(spec: Mapping[str, Any]) -> Goal:
    """Rebuilds a goal from its spec.

    >>> goal_from_spec({"goal": "estimate", "eps": 0.1})
    Estimate(eps=0.1)
    """
    parameters = {key: value for key, value in spec.items() if key != "goal"}
    kind = GOALS.get(str(spec.get("goal")))
    if kind is None:
        raise InvalidInput("goal", "one of " + ", ".join(GOALS), spec.get("goal"))
    return kind(**parameters)
