"""cereval: certified evaluation of language models.

>>> import cereval
>>> result = cereval.replay([1, 0, 1, 1] * 500, goal=cereval.Estimate(eps=0.05))
>>> result.guarantee
'anytime'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cereval.errors import CerevalError as CerevalError
    from cereval.evaluate import evaluate as evaluate
    from cereval.goals import Estimate as Estimate
    from cereval.goals import Threshold as Threshold
    from cereval.records import Draw as Draw
    from cereval.records import Interval as Interval
    from cereval.records import Result as Result
    from cereval.replay import replay as replay
    from cereval.session import Session as Session

__version__ = "0.1.0"

_HOMES = {
    "CerevalError": "cereval.errors",
    "Draw": "cereval.records",
    "Estimate": "cereval.goals",
    "Interval": "cereval.records",
    "Result": "cereval.records",
    "Session": "cereval.session",
    "Threshold": "cereval.goals",
    "evaluate": "cereval.evaluate",
    "replay": "cereval.replay",
}
__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    """Names are imported when first used, so that `import cereval` and `cereval --help` stay fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'cereval' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
