"""Extend a session with new items, version after version; every certificate stays valid: `Growing`.

With probability at least the confidence, the certificates of *all* versions hold at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from cereval.errors import InvalidInput, Misuse
from cereval.forms import Count, Positive, Share
from cereval.methods.growing import Grown, Sampled, Standing, Stream, Terms
from cereval.questions.goals import checked_confidence, checked_goal
from cereval.questions.mean.goal import Estimate
from cereval.questions.session import (
    MethodSession,
    fresh_seed,
    half_width,
    locked,
    pool_size,
    rejection,
    whole,
)
from cereval.records import Certified, Draw, Interval, Part, Rows, Scored, Stopped, Table
from cereval.text import estimate_in_interval, percent
from cereval.version import ENGINE

TARGETS = ("benchmark", "population")


@dataclass(frozen=True, slots=True)
class Version:
    """Describe one version and what is certified of it: its first `n_items` items, of which it added `n_new`.

    calls: results that it took by itself. n_evaluated: those of all versions so far.
    """

    version: Positive
    n_items: Positive
    n_new: Annotated[int, Meta(ge=1, description="Items that it added.")]
    calls: Annotated[int, Meta(ge=0, description="Results that it took by itself.")]
    n_evaluated: Annotated[int, Meta(ge=0, description="Results of all versions so far.")]
    estimate: Share
    lower: Share
    upper: Share
    half_width: Share
    stopped: Stopped
    failures: Count = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GrowingResult(Certified):
    """Hold all versions; with the stated confidence everything in it holds at once. Top fields: the last version."""

    versions: Annotated[tuple[Version, ...], Meta(min_length=1)]
    estimate: Share
    lower: Share
    upper: Share
    half_width: Share
    decision: None = None

    def parts(self) -> list[Part]:
        return [Part(f"version {one.version}", one.estimate, one.lower, one.upper) for one in self.versions]

    def answer(self) -> str:
        return estimate_in_interval(self)

    def sureness(self) -> str:
        which = "all versions at once" if len(self.versions) > 1 else "one version"
        return f"{percent(self.confidence)} confidence for {which}"

    def rows(self) -> Rows:
        named = [("model", self.models[0])] if self.models else []
        held = ("guarantee", f"{self.guarantee}, all versions at once")
        return [*named, held, ("target", self.target), ("seed", str(self.seed))]

    def table(self) -> Table:
        rows = [
            [str(one.version), f"{one.n_items:,}", f"{one.calls:,}", estimate_in_interval(one)]
            for one in self.versions
        ]
        return Table(("version", "items", "asked", "estimate and interval"), rows, numbers=(0, 1, 2, 3))


class VersionSession(MethodSession):
    """Ask and tell for one version: draws and results are numbered from its beginning.

    What is certified is that of all versions so far: `result` and `settings` are those of the whole.
    """

    goals = (Estimate,)

    def __init__(self, whole: Growing, method: Grown | Sampled, new: int, before: int) -> None:
        asked: dict[str, Any] = {"confidence": whole.confidence, "seed": whole.seed, "models": whole.models}
        super().__init__(before + new, whole.goal, budget=None, **asked)
        self.whole, self.new, self.seed_drawn = whole, new, whole.seed_drawn
        self._frozen: tuple[Interval, float] | None = None
        self._begin(method, method.limit)

    @locked
    def result(self) -> GrowingResult:
        return self.whole.result()

    def settings(self) -> dict[str, Any]:
        return self.whole.settings()

    def freeze(self) -> None:
        """Keep what is certified now: a later version goes on with the same evidence."""
        self._frozen = self.method.interval, self.method.estimate

    @property
    def interval(self) -> Interval:
        return super().interval if self._frozen is None else self._frozen[0]

    @property
    def estimate(self) -> float:
        return super().estimate if self._frozen is None else self._frozen[1]

    def _rebudget(self) -> None:
        """Leave the bets as they are: they do not look at a budget, which only ends the draws."""

    def as_version(self, number: int, evaluated: int) -> Version:
        interval, estimate = self.interval, self.estimate
        return Version(
            version=number,
            n_items=self.n_items,
            n_new=self.new,
            calls=self.n_evaluated,
            n_evaluated=evaluated,
            estimate=estimate,
            lower=interval.lower,
            upper=interval.upper,
            half_width=half_width(interval, self._goal.eps),
            stopped=self.stopped,
            failures=self.failures,
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
        models: Sequence[str] = (),
    ) -> None:
        if target not in TARGETS:
            raise InvalidInput("target", "one of " + ", ".join(TARGETS), target)
        self.goal: Estimate = checked_goal(goal, (Estimate,))
        self.confidence, self.target = checked_confidence(confidence), target
        self.seed_drawn = seed is None
        self.seed = fresh_seed() if seed is None else whole("seed", seed, 0)
        self.models = tuple(models)
        self._parts: list[VersionSession] = []
        self._begin(pool_size(n_items))

    def _begin(self, new: int) -> None:
        before = self.n_items
        self._parts.append(VersionSession(self, self._new_method(new), new, before))

    def _new_method(self, new: int) -> Grown | Sampled:
        number, delta = len(self._parts), 1 - self.confidence
        last = self.last.method if number else None
        if self.target == "benchmark":
            standing = last.standing() if isinstance(last, Grown) else Standing()
            return Grown(standing, new, number, Terms(self.goal.eps, delta, self.seed))
        if isinstance(last, Sampled):
            items = np.concatenate((last.unseen, self.n_items + np.arange(new)))
            return Sampled(last.stream, items, number, self.seed)
        return Sampled(Stream(self.goal.eps, delta, self.seed), np.arange(new), 0, self.seed)

    def extend(self, n_new: int) -> None:
        """Begin a new version: the items so far and `n_new` more, numbered on. Draws in flight are given up."""
        count = whole("n_new", n_new, 1)
        pool_size(self.n_items + count)
        if not self.done:
            raise Misuse(
                f"version {len(self._parts)} has not ended: tell its results before a new one begins"
            )
        if self.last.stopped == "contradiction":
            raise Misuse("the evidence has rejected every value: nothing is certified that could be extended")
        self.last.freeze()
        self._begin(count)

    # -- ask and tell, for the last version -----------------------------------------------------------------

    def ask(self, k: int = 1) -> list[Draw]:
        """Return up to k further draws; draw numbers begin anew with each version."""
        return self.last.ask(k)

    def tell(self, draw: Draw, score: float) -> None:
        self.last.tell(draw, score)

    def fail(self, draw: Draw) -> None:
        """Note that the call for a draw failed for good: its score counts as unknown, which can only widen the
        interval.
        """
        self.last.fail(draw)

    @property
    def done(self) -> bool:
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
        return self._parts[-1]

    # -- what is certified ------------------------------------------------------------------------------------

    @property
    def versions(self) -> tuple[Version, ...]:
        evaluated = accumulate(part.n_evaluated for part in self._parts)
        return tuple(
            part.as_version(number, count)
            for number, (part, count) in enumerate(zip(self._parts, evaluated, strict=True), start=1)
        )

    def result(self) -> GrowingResult:
        versions = self.versions
        last = versions[-1]
        own = ("estimate", "lower", "upper", "half_width", "n_evaluated")
        frame = self.last._frame() | {
            "saved": 1 - last.n_evaluated / last.n_items,
            "target": self.target,
            "failures": sum(version.failures for version in versions),
            "notes": (*self.last.remarks, *self._notes()),
        }
        return GrowingResult(**frame | {name: getattr(last, name) for name in own}, versions=versions)

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
            return ("assumes that every version is a random sample of the same kind of question",)
        return ()

    @property
    def logs(self) -> list[tuple[tuple[Draw, Scored], ...]]:
        return [part.log for part in self._parts]
