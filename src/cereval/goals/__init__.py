"""What a user wants to know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cereval.errors import InvalidInput
from cereval.goals.base import Goal
from cereval.goals.estimate import Estimate
from cereval.goals.threshold import Threshold

__all__ = ["Estimate", "Goal", "Threshold", "goal_from_spec"]


def goal_from_spec(spec: Mapping[str, Any]) -> Goal:
    """Rebuilds a goal from its spec.

    >>> goal_from_spec({"goal": "estimate", "eps": 0.1})
    Estimate(eps=0.1)
    """
    parameters = {key: value for key, value in spec.items() if key != "goal"}
    if spec.get("goal") == "estimate":
        return Estimate(**parameters)
    if spec.get("goal") == "threshold":
        return Threshold(**parameters)
    raise InvalidInput("goal", "estimate or threshold", spec.get("goal"))
