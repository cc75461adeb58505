"""State the contract of an audit: a second computation of a result, which shares nothing with the first but
constants.

`verify` tells a session its log once more through the audit, which notes what it needs on the way (forecasts, draw
weights); `check` then recomputes the numbers and says what it recomputed, or that it recomputed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from cereval.arrays import Bools, Floats
from cereval.methods.certified import CertifiedMethod, Tuning
from cereval.questions.base import Kind
from cereval.questions.goals import goal_from_spec
from cereval.questions.log import Change
from cereval.questions.session import AskTell, tell
from cereval.records import Draw, Interval, Scored
from cereval.stats.increments import STALE, Outlook
from cereval.stats.information import (
    LARGEST_SQUARE,
    LEVEL_WEIGHT,
    MISLED,
    MISLED_AFTER,
    PRIOR_WEIGHT,
    SURPRISE,
)
from cereval.stats.rounding import mean_of, range_slack, sum_slack

Equal = Callable[[str, Any, Any], None]
"""Objects where what is stated (second) is not what was recomputed (third)."""


class Audit:
    """Recompute nothing: for kinds that have no audit."""

    def __init__(self, kind: Kind, session: AskTell) -> None:
        self.kind = kind
        self.begin(session)

    def begin(self, session: Any) -> None:
        """Look at the session before its first result."""

    def tell(self, session: AskTell, draw: Draw, scores: Scored) -> None:
        before = session.n_evaluated
        tell(session, draw, scores)
        if session.n_evaluated > before:
            self.note(session, draw, scores)

    def note(self, session: Any, draw: Draw, scores: Scored) -> None:
        """Note what the audit needs of a result that was consumed just now."""

    def check(self, certificate: Mapping[str, Any], session: Any, equal: Equal) -> str:  # noqa: ARG002
        return "nothing recomputed by an audit"


class Watched:
    """Tell a game its results again, and note each forecast that it turns to, and the results."""

    def __init__(self, method: CertifiedMethod) -> None:
        self.method = method
        self.seen: list[Seen] = []
        self.forecasts: list[ForecastSince] = []
        self._last: object = None
        self._turn(0)

    def note(self, item: int, low: float, high: float) -> None:
        """Call after the result was told: the outlook is the one that it was booked under."""
        self._turn(len(self.seen))
        self.seen.append(Seen(item, low, high))

    def _turn(self, number: int) -> None:
        outlook = self.method.tally.outlook
        if outlook is not self._last:
            self._last = outlook
            self.forecasts = [one for one in self.forecasts if one.since < number]
            self.forecasts.append(ForecastSince.of(outlook, number))

    def case(self, aims: list[AimSince], **differing: Any) -> Case:
        setting = self.method.setting
        usual = {"equal": setting.pool.weights is None, "replacement": False, "given_up": False}
        usual["bets"] = self.method.bets
        return Case(
            shares=self.method.tally.shares,
            delta=setting.delta,
            aims=aims,
            seen=self.seen,
            forecasts=self.forecasts,
            tuning=self.method.tuning,
            **{**usual, **differing},
        )


def check_chances(log: Sequence[Mapping[str, Any]], chances: Sequence[float], equal: Equal) -> None:
    for number, (entry, chance) in enumerate(zip(log, chances, strict=True)):
        equal(f"probability of draw {number}", entry["probability"], chance)


def check_ends(name: str, stated: Mapping[str, Any], lower: float, upper: float, equal: Equal) -> None:
    equal(f"{name}.lower (audit)", stated["lower"], lower)
    equal(f"{name}.upper (audit)", stated["upper"], upper)


def bounds(score: float | None) -> tuple[float, float]:
    return (0.0, 1.0) if score is None else (score, score)


@dataclass(frozen=True, slots=True)
class AimSince:
    """Say what the bets on draw number `since` and later work towards."""

    since: int
    eps: float | None
    threshold: float | None
    budget: int | None
    marks: tuple[float, ...] = ()
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """Record one result in draw order: the score lies in [low, high] (a failed call: in [0, 1])."""

    item: int
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class ForecastSince:
    """Hold g, the spread of z - g, and the draw weights w, for the results from number `since` on.

    level: the variance expected of an increment, in units of the one stated; 0: none is. uneven: whether the forecasts
    differ so much that the mean of 0/1 scores no longer states their variance.
    """

    since: int
    mean: Floats
    spread: Floats
    weights: Floats
    level: float = 0.0
    uneven: bool = False

    @classmethod
    def of(cls, outlook: Outlook, since: int) -> ForecastSince:
        return cls(since, outlook.mean, outlook.spread, outlook.weights, outlook.level, outlook.uneven)


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    shares: Floats
    equal: bool
    replacement: bool
    delta: float
    aims: Sequence[AimSince]
    seen: Sequence[Seen]
    forecasts: Sequence[ForecastSince]
    given_up: bool
    tuning: Tuning
    bets: bool = True
    """Whether the interval rests on bets; else it is what the scores prove by themselves."""


class SlowClock:
    """Keep plain sums, where `stats.information` updates a mean (Welford).

    `squares` sums products of the deviations before and after each value, as in Welford's recursion: they
    are what the bets look at, so that the audit has to look at them too.

    """

    def __init__(
        self, count: int = 0, total: float = 0, weighted: float = 0, squares: float = 0, fourths: float = 0
    ) -> None:
        self.count, self.total, self.weighted = count, float(total), float(weighted)
        self.squares, self.fourths = float(squares), float(fourths)
        self.largest_square, self.level, self.counts = LARGEST_SQUARE, 0.0, False

    def add(self, value: float, stated: float, largest_square: float, level: float) -> None:
        """Take in an increment of a stated variance."""
        weight, before = 1.0 / stated, value - self.mean if self.count else 0.0
        self.count, self.total, self.weighted = (
            self.count + 1,
            self.total + weight,
            self.weighted + weight * value,
        )
        square = weight * before * (value - self.mean)
        self.squares, self.fourths = self.squares + square, self.fourths + square**2
        self.largest_square, self.level = largest_square, level

    @property
    def mean(self) -> float:
        return self.weighted / self.total if self.count else 0.5

    @property
    def variance(self) -> float:
        """Return sigma^2, shrunk towards the level expected and the largest variance the range allows."""
        priors = ((PRIOR_WEIGHT, self.largest_square / 4), (LEVEL_WEIGHT if self.level else 0.0, self.level))
        weight = self.count + sum(weight for weight, _ in priors)
        shrunk = (self.squares + sum(weight * value for weight, value in priors)) / weight
        own = MISLED * self.squares / (self.count + MISLED_AFTER)
        return max(shrunk, own) if self.level else shrunk

    def cautious_variance(self, caution: float) -> float:
        """Return sigma^2 plus `caution` standard errors, plus an allowance for rare values not yet seen."""
        mean, fourth = self.squares / max(self.count, 1), self.fourths / max(self.count, 1)
        error = sqrt(max(fourth - mean**2, 0.0) / (self.count + 1))
        if self.level:
            error *= self.count / (self.count + LEVEL_WEIGHT)
        return (
            self.variance + caution * error + SURPRISE * caution**2 / (self.count + 1) * self.largest_square
        )


@dataclass(frozen=True, slots=True)
class Step:
    """Hold what is known just before a result (the sums over S and U, the range of X, its stated variance), the chance
    of the draw, and X with failed calls at 0 and at 1."""

    number: int
    chance: float
    low: float
    high: float
    seen_low: float
    seen_high: float
    unseen: float
    expected: float
    race: float
    floor: float
    ceiling: float
    variance: float
    level: float
    uneven: bool

    @property
    def largest_square(self) -> float:
        return (self.ceiling - self.floor) ** 2 / self.variance


class Book:
    """Keep which items are in, and the sums over the others.

    Which items come is in the log. So under one forecast the sums before every result are counted once, backwards from
    those over the items that stay unseen: only terms above 0 are added, and no digits are lost.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.slack, self.widening = sum_slack(len(case.shares)), 1 + range_slack(len(case.shares), STALE)
        self.left = case.shares > 0
        self.drawable = int(np.count_nonzero(self.left))
        self.entered: list[Seen] = []
        self.sums = (0.0, 0.0)
        self.coming = sorted(case.forecasts, key=lambda one: one.since)
        self._turn(0)

    # -- sums over the unseen items -----------------------------------------------------------------------------

    def _turn(self, number: int) -> None:
        """Take the latest forecast, and count every sum under it, before each result until the next one."""
        while self.coming and self.coming[0].since <= number:
            self.forecast = self.coming.pop(0)
        forecast, share = self.forecast, self.case.shares
        weight = np.where(forecast.weights > 0, forecast.weights, np.inf)
        terms = share, share * forecast.mean, forecast.weights, share * share / weight * forecast.spread**2
        until = self.coming[0].since if self.coming else len(self.case.seen)
        items = [] if self.case.replacement else [one.item for one in self.case.seen[number:until]]
        rest = self._open()
        rest[items] = False
        self.unseen = [np.cumsum([term[rest].sum(), *term[items][::-1]])[::-1].tolist() for term in terms]
        self.began, self.tables = number, (forecast.weights, share, forecast.mean)
        self.reach = share / weight * forecast.mean, share / weight * (1 - forecast.mean)
        self._state_reach(self.unseen[2][0])

    def _state_reach(self, race: float) -> None:
        """State the largest terms at this moment: the unseen only get fewer, so they bound the later ones."""
        self.stated = race
        self.down, self.up = (float(np.max(reach[self._open()], initial=0.0)) for reach in self.reach)

    def _open(self) -> Bools:
        return np.asarray(self.left & (self.forecast.weights > 0))

    def position(self, number: int) -> Step:
        if self.coming and self.coming[0].since <= number:
            self._turn(number)
        place = 0 if self.case.replacement else number - self.began
        unseen, expected, race, energy = (one[place] for one in self.unseen)
        if race < STALE * self.stated:
            self._state_reach(race)
        seen_low, seen_high = self.sums
        result = self.case.seen[number]
        weight, share, mean = (float(table[result.item]) for table in self.tables)
        chance = weight / race
        return Step(
            number=number,
            chance=chance,
            low=seen_low + expected + (result.low - mean) * share / chance,
            high=seen_high + expected + (result.high - mean) * share / chance,
            seen_low=seen_low,
            seen_high=seen_high,
            unseen=max(unseen, 1e-300),
            expected=expected,
            race=race,
            floor=seen_low + expected - race * self.down * self.widening - self.slack,
            ceiling=seen_high + expected + race * self.up * self.widening + self.slack,
            variance=max(race * energy, 1e-300),
            level=self.forecast.level,
            uneven=self.forecast.uneven,
        )

    # -- results ------------------------------------------------------------------------------------------------

    def steps(self, clock: SlowClock) -> Iterator[Step]:
        for number, result in enumerate(self.case.seen):
            step = self.position(number)
            yield step
            clock.add((step.low + step.high) / 2, step.variance, step.largest_square, step.level)
            self.enter(result)

    def enter(self, result: Seen) -> None:
        self.entered.append(result)
        if not self.case.replacement:
            self.left[result.item] = False
            share = float(self.case.shares[result.item])
            self.sums = (self.sums[0] + share * result.low, self.sums[1] + share * result.high)

    @property
    def complete(self) -> bool:
        return not self.case.replacement and len(self.entered) == self.drawable

    def logical(self) -> Interval:
        """Return what the seen scores prove by themselves: the unseen are somewhere between all 0 and all 1."""
        if self.case.replacement:
            return Interval(0.0, 1.0)
        if self.complete and self.case.equal:
            return Interval(
                mean_of([one.low for one in self.entered]), mean_of([one.high for one in self.entered])
            )
        unseen = float(np.sum(self.case.shares[self.left]))
        slack = 0.0 if self.complete else self.slack
        return Interval(max(self.sums[0] - slack, 0.0), min(self.sums[1] + unseen + slack, 1.0))


def aiming(changes: Sequence[Change]) -> list[Change]:
    """Return the changes that concern bets; that draws went out together concerns none."""
    return [change for change in changes if change.round is None]


def budgets_of(budget: int | None, changes: Sequence[Change]) -> list[tuple[int, int | None]]:
    """Return each budget with the number of draws that were decided before it.

    What money and time were expected to buy counts where it ends sooner; a horizon of 0 is none.
    """
    later = [(one.drawn, [end for end in (one.max_calls, one.horizon) if end]) for one in aiming(changes)]
    return [(0, budget), *((drawn, min(ends, default=None)) for drawn, ends in later)]


def aims_of(goal: Mapping[str, Any], budget: int | None, changes: Sequence[Change]) -> list[AimSince]:
    specs = [goal, *(change.goal for change in aiming(changes))]
    aims = []
    for spec, (since, soonest) in zip(specs, budgets_of(budget, changes), strict=True):
        aim = goal_from_spec(spec).aim(soonest)
        aims.append(AimSince(since, aim.eps, aim.threshold, aim.budget, aim.marks, aim.strict))
    return aims
