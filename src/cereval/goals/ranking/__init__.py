"""Goals of a ranking: the full order, the top k, who beats a baseline."""

from __future__ import annotations

from typing import Any

from cereval.errors import InvalidInput
from cereval.goals.ranking.base import Claims, RankGoal
from cereval.goals.ranking.beats import Beats
from cereval.goals.ranking.order import Order
from cereval.goals.ranking.top import Top

__all__ = ["Beats", "Claims", "Order", "RankGoal", "Top", "rank_goal_from_spec"]


def rank_goal_from_spec(spec: dict[str, Any]) -> RankGoal:
    """Rebuilds a goal from its spec.

    >>> rank_goal_from_spec({"goal": "top", "k": 2, "within": 0.01})
    Top(k=2, within=0.01)
    """
    kinds: dict[str, Any] = {"order": Order, "top": Top, "beats": Beats}
    name = spec.get("goal")
    if name not in kinds:
        raise InvalidInput("goal", "order, top or beats", name)
    found: RankGoal = kinds[name](**{key: value for key, value in spec.items() if key != "goal"})
    return found
