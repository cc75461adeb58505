"""Extend a session with new items, version after version; every certificate stays valid: `Growing`.

With probability at least the confidence, the certificates of *all* versions hold at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cereval.errors import InvalidInput, Misuse
from cereval.methods.base import Method
from cereval.methods.growing import Grown, Sampled, Standing, Stream, Terms
from cereval.pictures import Part
from cereval.questions.goals import checked_confidence
from cereval.questions.mean.goal import Estimate
from cereval.questions.replay import checked_scores, drive
from cereval.questions.session import MethodSession, check_engine, fresh_seed, rejection, tell, whole
from cereval.records import Certified, Draw, Interval, Rows, Scored, Stopped, Table
from cereval.stats.rounding import within
from cereval.text import interval, percent, plus_minus
from cereval.version import ENGINE

STATE_FORMAT = "cereval-growing-state/1"
TARGETS = ("benchmark", "population")


@dataclass(frozen=True, slots=True)
class Version:
    """Describe one version and what is certified of it: its first `n_items` items, of which it added `n_new`.

    calls: results that it took by itself. n_evaluated: those of all versions so far.
    """

    version: int
    n_items: int
    n_new: int
    calls: int
    n_evaluated: int
    estimate: float
    lower: float
    upper: float
    half_width: float
    stopped: Stopped
    failures: int = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GrowingResult(Certified):
    """Hold all versions; with the stated confidence everything in it holds at once. Top fields: the last version."""

    versions: tuple[Version, ...]
    estimate: float
    lower: float
    upper: float
    half_width: float

    def parts(self) -> list[Part]:
        return [Part(f"version {one.version}", one.estimate, one.lower, one.upper) for one in self.versions]

    def answer(self) -> str:
        """Return the last version's mean."""
        return plus_minus(self)

    def headline(self) -> str:
        """Return the answer in one line, with what the confidence covers."""
        which = "all versions at once" if len(self.versions) > 1 else "one version"
        return f"{self.answer()}, {percent(self.confidence)} confidence for {which}, {self.asked()}"

    def rows(self) -> Rows:
        """Return what the answer rests on."""
        named = [("model", self.models[0])] if self.models else []
        held = ("guarantee", f"{self.guarantee}, all versions at once")
        return [*named, held, ("target", self.target), ("seed", str(self.seed))]

    def table(self) -> Table:
        """Return a row for every version."""
        rows = [
            [
                str(one.version),
                f"{one.n_items:,}",
                f"{one.calls:,}",
                plus_minus(one),
                interval(one.lower, one.upper),
            ]
            for one in self.versions
        ]
        return Table(("version", "items", "asked", "estimate", "interval"), rows, numbers=(0, 1, 2, 3, 4))


class VersionSession(MethodSession):
    """Ask and tell for one version: draws and results are numbered from its beginning.

    What is certified is that of all versions so far: `result` and `settings` are those of the whole.
    """

    def __init__(self, whole: Growing, method: Grown | Sampled, new: int, before: int) -> None:
        self.whole, self.new, self.n_items = whole, new, before + new
        self.goal, self.confidence, self.seed = whole.goal, whole.confidence, whole.seed
        self.seed_drawn = whole.seed_drawn
        self._frozen: tuple[Interval, float] | None = None
        super().__init__(method, method.limit, None)

    def _goal_reached(self) -> bool:
        return bool(self.goal.reached(self._method))

    def result(self) -> GrowingResult:
        return self.whole.result()

    def settings(self) -> dict[str, Any]:
        return self.whole.settings()

    def freeze(self) -> None:
        """Keep what is certified now: a later version goes on with the same evidence."""
        self._frozen = self._method.interval, self._method.estimate

    @property
    def interval(self) -> Interval:
        return self._method.interval if self._frozen is None else self._frozen[0]

    @property
    def estimate(self) -> float:
        return self._method.estimate if self._frozen is None else self._frozen[1]

    def as_version(self, number: int, items: int, evaluated: int) -> Version:
        interval, estimate = self.interval, self.estimate
        reach = max(estimate - interval.lower, interval.upper - estimate)
        if within(interval.half_width, self.goal.eps):
            reach = min(reach, self.goal.eps)
        return Version(
            version=number,
            n_items=items,
            n_new=self.new,
            calls=self._consumed,
            n_evaluated=evaluated,
            estimate=estimate,
            lower=interval.lower,
            upper=interval.upper,
            half_width=reach,
            stopped=self._stopped,
            failures=self._failures,
        )


class Growing:
    """Evaluate one model by ask and tell on a data set that grows. See `stats.growing` for the theorem.

    target `benchmark`: the mean over all items of each version, whatever the new items are, even if chosen by
    somebody who knows all results (but not the seed, and so the draws to come). The seed is drawn unless one is given,
    and results, states and certificates reveal it: where items may be chosen against you, show whoever chooses them
    none of these. Items chosen without regard to the seed are covered under any seed. target `population`: the mean
    over what the items are a sample of; assumes that new items come from the same source, and then asks only what the
    goal still lacks; results told but not consumed when a version ends are forgotten and their items drawn again, so
    neither `n_new` nor the moment of `extend` may depend on them. Draws are uniform; side information is not used.

    >>> session = Growing(2000, goal=Estimate(0.1), seed=1)
    >>> while not session.done:
    ...     for draw in session.ask(8):
    ...         session.tell(draw, float(draw.item % 4 > 0))
    >>> session.extend(200)
    >>> while not session.done:
    ...     for draw in session.ask(8):
    ...         session.tell(draw, 1.0)
    >>> first, second = session.versions
    >>> first.lower <= 0.75 <= first.upper, second.lower <= 1700 / 2200 <= second.upper
    (True, True)
    >>> second.n_items, second.calls < first.calls, session.result().half_width <= 0.1
    (2200, True, True)
    """

    def __init__(
        self,
        n_items: int,
        *,
        goal: Estimate | None = None,
        confidence: float = 0.95,
        target: str = "benchmark",
        seed: int | None = None,
        models: tuple[str, ...] = (),
    ) -> None:
        goal = Estimate() if goal is None else goal
        if not isinstance(goal, Estimate):
            raise InvalidInput("goal", "Estimate(eps)", goal)
        if target not in TARGETS:
            raise InvalidInput("target", "one of " + ", ".join(TARGETS), target)
        self.goal, self.target = goal, target
        self.confidence = checked_confidence(confidence)
        self.seed_drawn = seed is None
        self.seed = fresh_seed() if seed is None else whole("seed", seed, 0)
        self.models = tuple(models)
        size = whole("n_items", n_items, 1)
        self._parts: list[VersionSession] = []
        self._parts.append(VersionSession(self, self._method(size), size, 0))

    def _method(self, new: int, last: VersionSession | None = None) -> Grown | Sampled:
        number = 0 if last is None else len(self._parts)
        delta = 1 - self.confidence
        if self.target == "benchmark":
            standing = Standing() if last is None else _as_grown(last.method).standing()
            return Grown(standing, new, number, Terms(self.goal.eps, delta, self.seed))
        if last is None:
            return Sampled(Stream(self.goal.eps, delta, self.seed), np.arange(new), 0, self.seed)
        assert isinstance(last.method, Sampled)
        items = np.concatenate((last.method.unseen, self.n_items + np.arange(new)))
        return Sampled(last.method.stream, items, number, self.seed)

    def extend(self, n_new: int) -> None:
        """Begin a new version: the items so far and `n_new` more, numbered on. Draws in flight are given up."""
        count = whole("n_new", n_new, 1)
        if not self.done:
            raise Misuse(
                f"version {len(self._parts)} has not ended: tell its results before a new one begins"
            )
        if self.last.stopped == "contradiction":
            raise Misuse("the evidence has rejected every value: nothing is certified that could be extended")
        method = self._method(count, self.last)
        self.last.freeze()
        self._parts.append(VersionSession(self, method, count, self.n_items))

    # -- ask and tell, for the last version -----------------------------------------------------------------

    def ask(self, k: int = 1) -> list[Draw]:
        """Return up to k further draws; draw numbers begin anew with each version."""
        return self.last.ask(k)

    def tell(self, draw: Draw, score: float) -> None:
        """Take the score of a draw, in [0, 1]."""
        self.last.tell(draw, score)

    def fail(self, draw: Draw) -> None:
        """Note that the call for a draw failed for good: its score counts as unknown, which can only widen the
        interval.
        """
        self.last.fail(draw)

    @property
    def done(self) -> bool:
        """Tell whether the last version has its certificate, or can have none."""
        return self.last.done

    @property
    def interval(self) -> Interval:
        return self.last.interval

    @property
    def estimate(self) -> float:
        return self.last.estimate

    @property
    def outstanding(self) -> tuple[Draw, ...]:
        return self.last.outstanding

    @property
    def n_items(self) -> int:
        return sum(part.new for part in self._parts)

    @property
    def n_evaluated(self) -> int:
        return sum(part.n_evaluated for part in self._parts)

    @property
    def last(self) -> VersionSession:
        """Return the session of the last version alone: its results are counted from its beginning."""
        return self._parts[-1]

    # -- what is certified ------------------------------------------------------------------------------------

    @property
    def versions(self) -> tuple[Version, ...]:
        """Return every version; those before the last are frozen."""
        found: list[Version] = []
        items = evaluated = 0
        for number, part in enumerate(self._parts, start=1):
            items, evaluated = items + part.new, evaluated + part.n_evaluated
            found.append(part.as_version(number, items, evaluated))
        return tuple(found)

    def result(self) -> GrowingResult:
        """Return the state of all certificates now."""
        versions = self.versions
        last = versions[-1]
        return GrowingResult(
            versions=versions,
            **{name: getattr(last, name) for name in ("estimate", "lower", "upper", "half_width", "stopped")},
            confidence=self.confidence,
            n_evaluated=last.n_evaluated,
            n_items=last.n_items,
            saved=1 - last.n_evaluated / last.n_items,
            method=self.last.method.name,
            guarantee=self.last.method.guarantee,
            target=self.target,
            seed=self.seed,
            failures=sum(version.failures for version in versions),
            notes=self._notes(),
            goal=self.goal.spec(),
            models=self.models,
        )

    def settings(self) -> dict[str, Any]:
        """Return all that decides draws and bets, JSON-able; `sizes`: how many items each version added.

        `budgets`, where a version has one: they end draws and decide none.
        """
        settings = {
            "goal": self.goal.spec(),
            "confidence": self.confidence,
            "target": self.target,
            "seed": self.seed,
            "sizes": [part.new for part in self._parts],
            "engine": ENGINE,
        }
        budgets = [part.budget for part in self._parts]
        return settings if budgets == [None] * len(budgets) else {**settings, "budgets": budgets}

    def _notes(self) -> tuple[str, ...]:
        if self.last.stopped == "contradiction":
            return (rejection(self.confidence),)
        if self.target == "population":
            return ("assumes that the items of all versions are a sample of one population",)
        return ()

    @property
    def logs(self) -> list[tuple[tuple[Draw, Scored], ...]]:
        """Return for each version the draws whose results count, and those results (None: the call failed)."""
        return [part.log for part in self._parts]

    # -- save and restore -------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on elsewhere, JSON-able: the settings, and each version's results in
        order."""
        return {
            "format": STATE_FORMAT,
            "goal": self.goal.spec(),
            "confidence": self.confidence,
            "target": self.target,
            "seed": self.seed,
            "engine": ENGINE,
            "versions": [
                {
                    "n_new": part.new,
                    "items": [draw.item for draw, _ in part.log],
                    "scores": [score for _, (score,) in part.log],
                }
                for part in self._parts
            ],
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Growing:
        """Return the session a `state()` describes, by telling it its results again."""
        if not isinstance(state, Mapping) or state.get("format") != STATE_FORMAT:
            raise InvalidInput("state format", STATE_FORMAT, getattr(state, "get", lambda _: state)("format"))
        check_engine("state", state.get("engine"))
        first, *others = state["versions"]
        goal = Estimate(state["goal"]["eps"])
        session = cls(
            first["n_new"],
            goal=goal,
            **{key: state[key] for key in ("confidence", "target", "seed")},
        )
        session._retell(first)
        for version in others:
            session.extend(version["n_new"])
            session._retell(version)
        return session

    def _retell(self, version: Mapping[str, Any]) -> None:
        """Tell the last version what a state says of it."""
        items = version["items"]
        if len(items) != len(version["scores"]):
            raise InvalidInput("state", "an item for each score", f"{len(items)} items")
        self.last.follow(
            {place: Draw(place, whole("item", item, 0), 0.0) for place, item in enumerate(items)}
        )
        for score in version["scores"]:
            (draw,) = self.ask(1)
            tell(self.last, draw, (score,))


def replay_growing(
    scores: ArrayLike,
    sizes: Sequence[int],
    *,
    goal: Estimate | None = None,
    confidence: float = 0.95,
    target: str = "benchmark",
    seed: int | None = None,
    batch: int = 1,
) -> GrowingResult:
    """Replay recorded scores as a data set that grew: version j had the first `sizes[j]` items. NaN is refused.

    >>> result = replay_growing([1, 0, 1, 1] * 500, [1600, 2000], goal=Estimate(0.08), seed=3)
    >>> [version.n_items for version in result.versions], result.stopped
    ([1600, 2000], 'goal')
    """
    values = checked_scores(scores)
    if np.isnan(values).any():
        raise InvalidInput("scores", "without NaN: take items without a score out of every version", "NaN")
    steps = checked_sizes(sizes, len(values))
    count = whole("batch", batch, 1)
    session = Growing(steps[0], goal=goal, confidence=confidence, target=target, seed=seed)
    for new in (None, *steps[1:]):
        if new is not None:
            session.extend(new)
        drive(session.last, values, count)
        if session.result().stopped == "contradiction":
            break
    return session.result()


def checked_sizes(sizes: Sequence[int], total: int) -> list[int]:
    """Return how many items each version adds, from how many each has.

    >>> checked_sizes([600, 800, 1000], 1000)
    [600, 200, 200]
    """
    counts = [0, *(whole("sizes", size, 1) for size in sizes)]
    steps = [after - before for before, after in pairwise(counts)]
    if not steps or min(steps) < 1 or counts[-1] > total:
        raise InvalidInput("sizes", f"growing numbers of items, at most {total}", list(sizes))
    return steps


def _as_grown(method: Method) -> Grown:
    assert isinstance(method, Grown)
    return method
