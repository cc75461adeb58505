"""Per-category estimates, with intervals where the theory permits.

Where at every draw the unseen items of a category had equal chances, the scores seen in it are those of a
random order of its items, however often the category as a whole was visited. So the betting interval for
uniform draws holds for its mean, at every length and thus also at the one that the run chose (guarantee
`anytime`). With delta / K for each of K categories all K hold at once (Bonferroni). Where chances differed
within a category only the share of right answers is shown: it has no guarantee and leans towards the items
that were favoured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cereval.goals import Estimate
from cereval.records import Interval
from cereval.sessions.mean import Session

FIRST_EPS = 0.3
"""The first width aimed at: few questions fall on a category, and bets for a far goal would waste them."""


@dataclass(frozen=True, slots=True)
class CategoryEstimate:
    """What is known of one category; `interval` None: descriptive only."""

    name: str
    size: int
    asked: int
    failures: int
    estimate: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class CategoryScores:
    """The scores of one category's items in draw order; None: the call failed."""

    name: str
    size: int
    scores: tuple[float | None, ...]
    even: bool


def category_estimates(
    categories: Sequence[CategoryScores], delta: float, target: str = "benchmark"
) -> tuple[CategoryEstimate, ...]:
    """Simultaneous intervals at level delta for the evenly drawn categories."""
    certified = sum(category.even for category in categories)
    return tuple(
        _certified(category, delta / certified, target) if category.even else _described(category)
        for category in categories
    )


def _certified(category: CategoryScores, delta: float, target: str) -> CategoryEstimate:
    interval = told_in_order(category.scores, category.size, delta, target).interval
    described = _described(category)
    if described.estimate is None:
        return replace(described, interval=interval)
    inside = min(max(described.estimate, interval.lower), interval.upper)
    return replace(described, estimate=inside, interval=interval)


def _described(category: CategoryScores) -> CategoryEstimate:
    seen = [score for score in category.scores if score is not None]
    mean = sum(seen) / len(seen) if seen else None
    asked = len(category.scores)
    return CategoryEstimate(category.name, category.size, asked, asked - len(seen), mean, None)


def told_in_order(scores: Sequence[float | None], size: int, delta: float, target: str) -> Session:
    """A uniform session of `size` items that was told these scores.

    Its own draws are in random order too, and with equal weights the interval depends on the scores alone.

    >>> told_in_order([1.0, 1.0, 0.0, 1.0], 4, 0.05, "benchmark").interval
    Interval(lower=0.75, upper=0.75)
    """
    session = Session(size, goal=Estimate(FIRST_EPS), confidence=1 - delta, method="uniform", target=target)
    for score in scores:
        while session.result().stopped == "goal" and session.interval.half_width > 0:
            assert isinstance(session.goal, Estimate)
            session.goal = Estimate(session.goal.eps / 2)
        if session.done:
            break
        (draw,) = session.ask(1)
        session.fail(draw) if score is None else session.tell(draw, score)
    return session
