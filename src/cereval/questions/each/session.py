"""Ask items again and again until each is known to pass often enough, or not to."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from cereval.forms import Count, Share
from cereval.questions.each.goal import EachAtLeast
from cereval.questions.session import AskTell
from cereval.records import Certified, Draw, Rows, Stopped, Table
from cereval.stats.rates import RateTests
from cereval.text import percent

AT_LEAST = 8
"""Answers in a round: where fewer items are open, each is asked several times, so that calls can be made at once."""
SHOWN = 20
"""Items that are named in a list."""


@dataclass(frozen=True, slots=True)
class ItemRate:
    item: Annotated[int, Meta(ge=0)]
    asked: Count
    rate: Share
    verdict: Literal["pass", "fail", "undecided"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EachResult(Certified):
    """Hold the verdicts: with the stated confidence none of those that pass has a lower rate, and none that fails a
    rate that is high enough, at all times at once.

    decision: all-pass | some-fail | None, where none is known to fail and not all to pass.
    """

    items: tuple[ItemRate, ...]
    passing: Count
    failing: Count
    decision: Literal["all-pass", "some-fail"] | None = None

    def answer(self) -> str:
        open_items = self.n_items - self.passing - self.failing
        rest = f", {open_items:,} undecided" if open_items else ""
        failing = f"{self.failing:,} certainly less often"
        what = f"answered right at least {percent(self.goal.get('value', 0.5))} of the time"
        return f"{self.passing:,} of {self.n_items:,} questions are certainly {what}, {failing}{rest}"

    def asked(self) -> str:
        return f"{self.n_evaluated:,} answers"

    def rows(self) -> Rows:
        named = [("model", self.models[0])] if self.models else []
        return [*named, ("guarantee", f"{self.guarantee}, all verdicts at once")]

    def table(self) -> Table:
        """Return the items that do not pass, those that fail first."""
        worst = sorted(self.items, key=lambda one: (one.verdict == "pass", one.verdict != "fail", one.rate))
        rows = [
            [str(one.item), f"{one.asked:,}", f"{one.rate:.0%}", one.verdict]
            for one in worst[:SHOWN]
            if one.verdict != "pass"
        ]
        return Table(("question", "answers", "right", "verdict"), rows, numbers=(1, 2))


class EachSession(AskTell):
    """Ask/tell for the rate of every item by itself: fresh answers go to the items that are still undecided.

    Theorem: see `stats.rates`. Which items are asked, and how often, depends on the answers alone; an item's next
    answer has the mean of its rate whatever was answered before. So all verdicts ever given hold at once with
    probability at least the confidence (guarantee `anytime`), whenever one stops. Assumption: how an item is answered
    does not depend on how often it was asked.

    Items are asked in rounds; a round holds every item that was undecided when all results before it were in.

    >>> session = EachSession(3, goal=EachAtLeast(0.8), seed=1)
    >>> while not session.done:
    ...     for draw in session.ask(4):
    ...         session.tell(draw, float(draw.item < 2))
    >>> session.result().answer()
    '2 of 3 questions are certainly answered right at least 80% of the time, 1 certainly less often'
    """

    goals = (EachAtLeast,)
    target = "expected"

    def __init__(
        self,
        n_items: int,
        *,
        goal: EachAtLeast,
        confidence: float = 0.95,
        budget: int | None = None,
        seed: int | None = None,
        models: tuple[str, ...] = (),
    ) -> None:
        super().__init__(n_items, goal, confidence=confidence, budget=budget, seed=seed, models=models)
        self.tests = RateTests(self.n_items, goal.value, 1 - self.confidence)
        self._answers = np.zeros(self.n_items, dtype=np.int64)
        self._right = np.zeros(self.n_items)
        self._known = np.zeros(self.n_items, dtype=np.int64)
        self._round: deque[int] = deque()
        self._decided = 0
        """Draws decided, of which the last round's may not have been asked for yet."""
        self._check_stop()

    def _open_items(self) -> list[int]:
        settled = self.tests.passes | self.tests.fails | (self._answers >= self._goal.most)
        return [int(item) for item in np.flatnonzero(~settled)]

    def _next_draw(self) -> Draw | None:
        if not self._round:
            if self.n_evaluated < self._decided:
                return None
            items = self._open_items()
            times = -(-AT_LEAST // max(len(items), 1))
            self._round.extend(items * times)
        if not self._round:
            return None
        self._decided += 1
        return Draw(self._decided - 1, self._round.popleft(), 1.0)

    def _observe(self, index: int) -> None:
        item, (score,) = self._draws[index].item, self._scores(index)
        self._answers[item] += 1
        if score is not None:
            self._known[item] += 1
            self._right[item] += score
        self.tests.add(item, *((0.0, 1.0) if score is None else (score, score)))

    @property
    def some_fail(self) -> bool:
        return bool(self.tests.fails.any())

    def _state(self) -> Stopped:
        if (self.tests.passes | self.tests.fails).all():
            return "goal"
        if not self._open_items():
            return "exhausted"
        if self.budget is not None and self.n_evaluated >= self.budget:
            return "budget"
        return "running"

    def settings(self) -> dict[str, object]:
        return super().settings() | {"target": self.target}

    def standing(self) -> str:
        passing, failing = int(self.tests.passes.sum()), int(self.tests.fails.sum())
        return f"{passing:,} pass, {failing:,} fail, {self.n_items - passing - failing:,} undecided"

    def result(self) -> EachResult:
        passes, fails = self.tests.passes, self.tests.fails
        rates = self._right / np.maximum(self._known, 1)
        decision: Literal["all-pass", "some-fail"] | None = "all-pass" if passes.all() else None
        return EachResult(
            **self._frame(),
            method="each",
            guarantee="anytime",
            notes=self.remarks,
            decision="some-fail" if self.some_fail else decision,
            passing=int(passes.sum()),
            failing=int(fails.sum()),
            items=tuple(
                ItemRate(
                    item,
                    int(self._answers[item]),
                    float(rates[item]),
                    "pass" if passes[item] else "fail" if fails[item] else "undecided",
                )
                for item in range(self.n_items)
            ),
        )
