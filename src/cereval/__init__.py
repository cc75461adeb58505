"""cereval: certified evaluation of language models.

>>> import cereval
>>> result = cereval.replay([1, 0, 1, 1] * 500, goal=cereval.Estimate(eps=0.05))
>>> result.guarantee
'anytime'
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cereval.compare import CompareSession as CompareSession
    from cereval.compare import Comparison as Comparison
    from cereval.compare import compare as compare
    from cereval.errors import CerevalError as CerevalError
    from cereval.evaluate import evaluate as evaluate
    from cereval.evaluate import evaluate_async as evaluate_async
    from cereval.goals import Estimate as Estimate
    from cereval.goals import Threshold as Threshold
    from cereval.goals.compare import Difference as Difference
    from cereval.goals.compare import NotWorse as NotWorse
    from cereval.goals.compare import Sign as Sign
    from cereval.goals.ranking import Beats as Beats
    from cereval.goals.ranking import Order as Order
    from cereval.goals.ranking import Top as Top
    from cereval.goals.tasks import AllAtLeast as AllAtLeast
    from cereval.goals.tasks import EachWithin as EachWithin
    from cereval.goals.tasks import Macro as Macro
    from cereval.goals.tasks import WhichFail as WhichFail
    from cereval.growing import Growing as Growing
    from cereval.growing import growing as growing
    from cereval.growing_result import GrowingResult as GrowingResult
    from cereval.rank import Ranking as Ranking
    from cereval.rank import RankSession as RankSession
    from cereval.rank import rank as rank
    from cereval.records import Draw as Draw
    from cereval.records import Interval as Interval
    from cereval.records import Result as Result
    from cereval.replay import replay as replay
    from cereval.session import Session as Session
    from cereval.tasks import TaskSession as TaskSession
    from cereval.tasks import TasksResult as TasksResult
    from cereval.tasks import tasks as tasks

__version__ = "0.1.0"

_HOMES = {
    "AllAtLeast": "cereval.goals.tasks",
    "Beats": "cereval.goals.ranking",
    "CerevalError": "cereval.errors",
    "CompareSession": "cereval.compare",
    "Comparison": "cereval.compare",
    "Difference": "cereval.goals.compare",
    "Draw": "cereval.records",
    "EachWithin": "cereval.goals.tasks",
    "Estimate": "cereval.goals",
    "Growing": "cereval.growing",
    "GrowingResult": "cereval.growing_result",
    "Interval": "cereval.records",
    "Macro": "cereval.goals.tasks",
    "NotWorse": "cereval.goals.compare",
    "Order": "cereval.goals.ranking",
    "RankSession": "cereval.rank",
    "Ranking": "cereval.rank",
    "Result": "cereval.records",
    "Session": "cereval.session",
    "Sign": "cereval.goals.compare",
    "TaskSession": "cereval.tasks",
    "TasksResult": "cereval.tasks",
    "Threshold": "cereval.goals",
    "Top": "cereval.goals.ranking",
    "WhichFail": "cereval.goals.tasks",
    "compare": "cereval.compare",
    "evaluate": "cereval.evaluate",
    "evaluate_async": "cereval.evaluate",
    "growing": "cereval.growing",
    "rank": "cereval.rank",
    "replay": "cereval.replay",
    "tasks": "cereval.tasks",
}
__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    """Names are imported when first used, so that `import cereval` and `cereval --help` stay fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'cereval' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """Keeps `cereval.replay` the function, although the module it comes from has the same name."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
