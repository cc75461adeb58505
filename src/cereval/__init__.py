"""Evaluate language models with certificates: the public names of cereval.

>>> import cereval
>>> result = cereval.replay([1, 0, 1, 1] * 500, goal=cereval.Estimate(eps=0.05))
>>> result.guarantee
'anytime'
"""

from __future__ import annotations

import sys

# `python -m cereval` searches the current folder first, where a `yaml.py` that came with the data would be run.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and "cereval" in sys.orig_argv:
    del sys.path[0]

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cereval.version import ENGINE as ENGINE
from cereval.version import __version__ as __version__

if TYPE_CHECKING:
    from cereval.api import Run as Run
    from cereval.api import compare as compare
    from cereval.api import compare_async as compare_async
    from cereval.api import evaluate as evaluate
    from cereval.api import evaluate_async as evaluate_async
    from cereval.api import extend as extend
    from cereval.api import load as load
    from cereval.api import rank as rank
    from cereval.api import rank_async as rank_async
    from cereval.api import runs as runs
    from cereval.api import seal as seal
    from cereval.api import tasks as tasks
    from cereval.api import tasks_async as tasks_async
    from cereval.api import verify as verify
    from cereval.certificate.verify import Verdict as Verdict
    from cereval.errors import CerevalError as CerevalError
    from cereval.fleet.result import FleetResult as FleetResult
    from cereval.fleet.run import run_fleet as run_fleet
    from cereval.questions.compare.goal import Difference as Difference
    from cereval.questions.compare.goal import NotWorse as NotWorse
    from cereval.questions.compare.goal import Sign as Sign
    from cereval.questions.compare.session import CompareSession as CompareSession
    from cereval.questions.compare.session import Comparison as Comparison
    from cereval.questions.evaluate import evaluate_scores as evaluate_scores
    from cereval.questions.evaluate import evaluate_scores_async as evaluate_scores_async
    from cereval.questions.growing.session import Growing as Growing
    from cereval.questions.growing.session import GrowingResult as GrowingResult
    from cereval.questions.mean.goal import Estimate as Estimate
    from cereval.questions.mean.goal import Threshold as Threshold
    from cereval.questions.mean.session import Session as Session
    from cereval.questions.rank.goal import Beats as Beats
    from cereval.questions.rank.goal import Order as Order
    from cereval.questions.rank.goal import Top as Top
    from cereval.questions.rank.session import Ranking as Ranking
    from cereval.questions.rank.session import RankSession as RankSession
    from cereval.questions.replay import replay as replay
    from cereval.questions.tasks.goal import AllAtLeast as AllAtLeast
    from cereval.questions.tasks.goal import EachWithin as EachWithin
    from cereval.questions.tasks.goal import Macro as Macro
    from cereval.questions.tasks.goal import WhichFail as WhichFail
    from cereval.questions.tasks.session import TaskSession as TaskSession
    from cereval.questions.tasks.session import TasksResult as TasksResult
    from cereval.records import Draw as Draw
    from cereval.records import Interval as Interval
    from cereval.records import Result as Result
    from cereval.settings import Candidate as Candidate

_HOMES = {
    "api": (
        "Run compare compare_async evaluate evaluate_async extend load rank rank_async runs seal tasks tasks_async "
        "verify"
    ),
    "certificate.verify": "Verdict",
    "errors": "CerevalError",
    "fleet.result": "FleetResult",
    "fleet.run": "run_fleet",
    "questions.compare.goal": "Difference NotWorse Sign",
    "questions.compare.session": "CompareSession Comparison",
    "questions.evaluate": "evaluate_scores evaluate_scores_async",
    "questions.growing.session": "Growing GrowingResult",
    "questions.mean.goal": "Estimate Threshold",
    "questions.mean.session": "Session",
    "questions.rank.goal": "Beats Order Top",
    "questions.rank.session": "Ranking RankSession",
    "questions.replay": "replay",
    "questions.tasks.goal": "AllAtLeast EachWithin Macro WhichFail",
    "questions.tasks.session": "TaskSession TasksResult",
    "records": "Draw Interval Result",
    "settings": "Candidate",
}
_MODULES = {name: f"cereval.{home}" for home, names in _HOMES.items() for name in names.split()}

__all__ = ["ENGINE", "__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import cereval` and `cereval --help` stay fast."""
    if name not in _MODULES:
        raise AttributeError(f"module 'cereval' has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, also those not imported yet, and nothing else."""
    return sorted(__all__)
