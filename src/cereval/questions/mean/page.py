"""Render the page of one mean: which questions were favoured, and the mean of every category.

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
from statistics import fmean

from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session
from cereval.records import Interval, Result, Table
from cereval.report import Additions, Section, said
from cereval.report.story import NO_CATEGORY, SAME, Asked, Story
from cereval.report.svg import interval_bar
from cereval.text import outwards, percent, rounded

FIRST_EPS = 0.3
"""The first width aimed at: few questions fall on a category, and bets for a far goal would waste them."""
EVEN = 0.05
"""How much likelier than by chance a draw may be before favours are told."""
LISTED = 6
"""Of the most and of the least favoured categories."""


def mean_page(story: Story) -> Additions:
    result = story.result
    assert isinstance(result, Result)
    whole = f"Had all {result.n_items:,} questions been asked, the score would lie"
    fresh = f"The mean of fresh answers to these {result.n_items:,} questions lies"
    what = {"benchmark": whole, "expected": fresh}.get(
        result.target, f"The mean over the target {result.target} lies"
    )
    between = said(f"{what} between <b>{{}}</b> and <b>{{}}</b>.", *outwards(result.lower, result.upper))
    return Additions(
        says=() if result.guarantee == "heuristic" else (between,),
        sections=(*categories_section(categories_of(story), result.confidence), *favours_section(story)),
    )


# -- categories -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CategoryEstimate:
    """Hold what is known of one category; `interval` None: descriptive only."""

    name: str
    size: int
    asked: int
    failures: int
    estimate: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class CategoryScores:
    """Hold the scores of one category's items in draw order; None: the call failed."""

    name: str
    size: int
    scores: tuple[float | None, ...]
    even: bool


def categories_of(story: Story) -> tuple[CategoryEstimate, ...]:
    """Return the categories of a run, the best first; none where there is only one. Only consumed results count."""
    names = story.categories
    scores: dict[str, list[float | None]] = {name: [] for name in sorted(set(names))}
    if len(scores) < 2 or story.plan is None:
        return ()
    for one in consumed(story):
        if one.answer is not None:
            scores[names[one.draw.item]].append(one.answer.score)
    parts = [
        CategoryScores(name, names.count(name), tuple(seen), name not in story.uneven)
        for name, seen in scores.items()
    ]
    found = category_estimates(parts, 1 - story.plan.confidence, story.plan.target)
    return tuple(sorted(found, key=lambda one: -1.0 if one.estimate is None else one.estimate, reverse=True))


def consumed(story: Story) -> tuple[Asked, ...]:
    return story.asked[: story.result.n_evaluated]


def category_estimates(
    categories: Sequence[CategoryScores], delta: float, target: str = "benchmark"
) -> tuple[CategoryEstimate, ...]:
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
    """Return a uniform session of `size` items that was told these scores.

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


def categories_section(categories: Sequence[CategoryEstimate], confidence: float) -> list[Section]:
    if not categories:
        return []
    certified = sum(one.interval is not None for one in categories)
    says = []
    if certified:
        says.append(
            said(
                "The {} intervals <b>hold simultaneously</b>: with {} confidence all of them are right at once, so "
                "they may be compared with one another. They are wide where few questions were asked; the run was "
                "planned for the overall score.",
                certified,
                percent(confidence),
            )
        )
    if certified < len(categories):
        which = "Rows without an interval are" if certified else "These shares are"
        says.append(
            said(
                "{} <b>descriptive only, no guarantee</b>: within the category some questions were likelier to be "
                "asked than others.",
                which,
            )
        )
    header = ("category", "asked", "estimate", "interval")
    rows = [_category_row(one) for one in categories]
    columns = len(header) if certified else len(header) - 1
    table = Table(header[:columns], [row[:columns] for row in rows], numbers=(1, 2, 3), names=(0,))
    bars = [interval_bar(one.estimate, one.interval) for one in categories]
    return [Section("By category", says=says, table=table, bars=bars, optional=(1,))]


def _category_row(one: CategoryEstimate) -> list[str]:
    ends = (
        "none"
        if one.interval is None
        else "{} – {}".format(*outwards(one.interval.lower, one.interval.upper, 0))
    )
    mean = "–" if one.estimate is None else rounded(one.estimate, 0)
    return [one.name, f"{one.asked:,} of {one.size:,}", mean, ends]


# -- favours ----------------------------------------------------------------------------------------------------------


def favours_section(story: Story) -> list[Section]:
    """Say how chances compared with those of a uniform draw, from the most to the least favoured category."""
    plan, by_name = story.plan, dict[str, list[float]]()
    if plan is None:
        return []
    for one in consumed(story):
        unseen = plan.n_items - (0 if plan.target == "expected" else one.draw.index)
        by_name.setdefault(one.item.category or NO_CATEGORY, []).append(one.draw.probability * unseen)
    favours = [favour for values in by_name.values() for favour in values] or [1.0]
    least, most = min(favours), max(favours)
    times = f"between {least:.2f} and {most:.2f} times that of a uniform draw"
    title = "Which questions were asked"
    if least >= 1 - EVEN and most <= 1 + EVEN:
        same = "the same" if most - least < SAME else "nearly the same"
        more = "" if f"{least:.2f}" == f"{most:.2f}" else f" ({times}; the estimate corrects for it)"
        return [Section(title, says=[said("Every question had {} chance to be next{}.", same, more)])]
    text = said(
        "Questions whose outcome was hard to foresee were favoured: their chance was {}. Each draw's chance is in the "
        "certificate, and the estimate corrects for it, so that favouring some questions moves the number of calls and "
        "not the answer.",
        times,
    )
    ranked = sorted(by_name.items(), key=lambda pair: (-fmean(pair[1]), pair[0]))
    rows = [[name, f"{len(values):,}", f"× {fmean(values):.2f}"] for name, values in ranked]
    if len(rows) > 2 * LISTED:
        between = [f"… {len(rows) - 2 * LISTED} categories between", "", ""]
        rows = [*rows[:LISTED], between, *rows[-LISTED:]]
    table = Table(("category", "asked", "chance against uniform"), rows, numbers=(1, 2), names=(0,))
    return [Section(title, says=[text], table=table)]
