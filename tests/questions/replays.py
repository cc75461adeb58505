"""`replay` with the usual goal of each kind."""

from __future__ import annotations

from typing import Any

from cereval.questions.compare.goal import Sign
from cereval.questions.compare.session import Comparison
from cereval.questions.growing.session import GrowingResult
from cereval.questions.rank.goal import Order
from cereval.questions.rank.session import Ranking
from cereval.questions.replay import replay
from cereval.questions.tasks.goal import Macro
from cereval.questions.tasks.session import TasksResult


def replay_comparison(scores_a: Any, scores_b: Any, **asked: Any) -> Comparison:
    both = {"scores_a": scores_a, "scores_b": scores_b}
    found: Comparison = replay(both, **{"goal": Sign(), "models": (), **asked})
    return found


def replay_ranking(scores: Any, **asked: Any) -> Ranking:
    found: Ranking = replay(scores, **{"goal": Order(), "batch": 64, **asked})
    return found


def replay_tasks(scores: Any, groups: Any, **asked: Any) -> TasksResult:
    found: TasksResult = replay(scores, groups=groups, **{"goal": Macro(), **asked})
    return found


def replay_growing(scores: Any, sizes: Any, **asked: Any) -> GrowingResult:
    found: GrowingResult = replay(scores, versions=sizes, **asked)
    return found
