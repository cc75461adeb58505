"""Several answers to every question drawn: their mean, or the chance that the best of k is right (pass@k).

Let a question be answered n times, independently, with scores z_1..z_n in [0, 1]. What the session is told is

    u = mean over all subsets of k of the n answers of the largest score among them,

for k = 1 the mean. u lies in [0, 1], and its expectation is that of the largest of k fresh scores: for right and wrong
answers 1 - C(wrong, k)/C(n, k), the unbiased estimate of pass@k (Chen et al., 2021). So the theorem holds as for one
answer. With the target `expected` (draws with replacement, fresh answers each time) what is certified is the mean over
the questions of that expectation; with `benchmark` it is the mean of the very u that asking every question would give.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb, fsum
from typing import Any

from cereval.errors import InvalidInput, StoreError, shown
from cereval.store.base import Answer

MOST = 1000
KEPT = ("text", "score", "failure", "detail", "cost_usd", "latency_s", "finish_reason")
"""What is kept of each answer."""


def _check(flag: str, value: object, most: int, hint: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InvalidInput(flag, f"a whole number in [1, {most}]{hint}", value)


@dataclass(frozen=True, slots=True)
class Samples:
    """Say how often every question is asked, and how many of the answers may try.

    >>> Samples(4, 2).score([1.0, 0.0, 0.0, 0.0]), Samples(4).score([1.0, 0.0, 0.0, 0.0])
    (0.5, 0.25)
    """

    count: int = 1
    best_of: int = 1

    def __post_init__(self) -> None:
        _check("--samples", self.count, MOST)
        _check("--pass-at", self.best_of, self.count, " (at most --samples)")

    @classmethod
    def wanted(cls, count: int | None, best_of: int | None) -> Samples:
        """Return what two flags ask for; pass@k alone takes k answers."""
        if count is None and best_of is not None:
            _check("--pass-at", best_of, MOST)
        return cls(best_of or 1 if count is None else count, 1 if best_of is None else best_of)

    @classmethod
    def of(cls, scorer: Mapping[str, Any]) -> Samples:
        """Return what the scorer of a plan says."""
        return cls(**scorer.get("samples", {}))

    def spec(self) -> dict[str, Any]:
        """As a part of a plan's scorer; nothing where every question is asked once."""
        return {} if self.count == 1 else {"samples": {"count": self.count, "best_of": self.best_of}}

    def score(self, scores: Sequence[float]) -> float:
        """Return the mean over all subsets of `best_of` answers of the largest score among them."""
        if self.best_of == 1:
            return min(fsum(scores) / len(scores), 1.0)
        subsets = comb(len(scores), self.best_of)
        weights = [comb(place, self.best_of - 1) / subsets for place in range(len(scores))]
        return min(fsum(weight * one for weight, one in zip(weights, sorted(scores), strict=True)), 1.0)

    def draws(self, max_calls: int | None) -> int | None:
        """Return the questions that so many calls pay for."""
        if max_calls is not None and max_calls < self.count:
            raise InvalidInput("--max-calls", f"at least the {self.count} calls of one question", max_calls)
        return None if max_calls is None else max_calls // self.count

    def words(self, target: str) -> str:
        """Say what is estimated."""
        what = "the mean score" if self.best_of == 1 else f"pass@{self.best_of} (the best of {self.best_of})"
        over = "in the long run" if target == "expected" else "of these very answers"
        return f"every question is asked {self.count} times; what is certified is {what} {over}"


def packed(answers: Sequence[Answer], samples: Samples) -> Answer:
    """Return several answers to one question as one: the text is a JSON list of them."""
    scores = [answer.score for answer in answers if answer.score is not None]
    known, costs = len(scores) == len(answers), [one.cost_usd for one in answers]
    return Answer(
        answers[0].draw,
        text=json.dumps([{name: getattr(one, name) for name in KEPT} for one in answers]),
        score=samples.score(scores) if known else None,
        failure=next((one.failure for one in answers if one.failure is not None), None),
        detail=" ".join("-" if one.score is None else f"{one.score:g}" for one in answers),
        input_tokens=sum(one.input_tokens for one in answers),
        output_tokens=sum(one.output_tokens for one in answers),
        cost_usd=None if None in costs else fsum(cost for cost in costs if cost is not None),
        latency_s=max(one.latency_s for one in answers),
        attempts=sum(one.attempts - 1 for one in answers) + 1,
        finish_reason=", ".join(dict.fromkeys(one.finish_reason for one in answers)),
    )


def unpacked(answer: Answer) -> list[Answer]:
    """Return the several answers in one."""
    try:
        return [replace(answer, **one) for one in json.loads(answer.text)]
    except (ValueError, TypeError, RecursionError):
        raise StoreError(
            f"the answers to draw {answer.draw} are damaged, or were changed by hand: {shown(answer.text)}"
        ) from None
