"""Several answers to every question drawn: their mean, or the chance that the best of k is right (pass@k), or all of k
are (pass^k).

Let a question be answered n times, independently, with scores z_1..z_n in [0, 1]. What the session is told is

    u = mean over all subsets of k of the n answers of the largest (pass^k: the smallest) score among them,

for k = 1 the mean. u lies in [0, 1], and its expectation is that of the largest (smallest) of k fresh scores: for right
and wrong answers 1 - C(wrong, k)/C(n, k), the unbiased estimate of pass@k (Chen et al., 2021), or C(right, k)/C(n, k),
that of pass^k (Yao et al., 2024). So the theorem holds as for one answer. With the target `expected` (draws with
replacement, fresh answers each time) what is certified is the mean over the questions of that expectation; with
`benchmark` it is the mean of the very u that asking every question would give.
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
    """Say how often every question is asked, and how many of the answers may try (`best_of`), or have to do
    (`worst_of`).

    >>> Samples(4, 2).score([1.0, 0.0, 0.0, 0.0]), Samples(4).score([1.0, 0.0, 0.0, 0.0])
    (0.5, 0.25)
    >>> Samples(4, worst_of=2).score([1.0, 1.0, 1.0, 0.0])
    0.5
    """

    count: int = 1
    best_of: int = 1
    worst_of: int = 1

    def __post_init__(self) -> None:
        _check("--samples", self.count, MOST)
        _check("--pass-at", self.best_of, self.count, " (at most --samples)")
        _check("--pass-all", self.worst_of, self.count, " (at most --samples)")
        if self.best_of > 1 and self.worst_of > 1:
            raise InvalidInput("--pass-all", "left out where --pass-at is given", self.worst_of)

    @classmethod
    def wanted(cls, options: Mapping[str, Any]) -> Samples:
        """Return what options ask for; pass@k and pass^k alone take k answers."""
        count, best_of, worst_of = (options.get(name) for name in ("samples", "pass_at", "pass_all"))
        usual = best_of or worst_of or 1
        return cls(usual if count is None else count, best_of or 1, worst_of or 1)

    @classmethod
    def of(cls, scorer: Mapping[str, Any]) -> Samples:
        return cls(**scorer.get("samples", {}))

    def spec(self) -> dict[str, Any]:
        """As a part of a plan's scorer; nothing where every question is asked once."""
        found = {"count": self.count, "best_of": self.best_of}
        found |= {"worst_of": self.worst_of} if self.worst_of > 1 else {}
        return {} if self.count == 1 else {"samples": found}

    def score(self, scores: Sequence[float]) -> float:
        """Return the mean over all subsets of `best_of` (`worst_of`) answers of the largest (smallest) score among
        them.
        """
        tries = max(self.best_of, self.worst_of)
        if tries == 1:
            return min(fsum(scores) / len(scores), 1.0)
        subsets, ordered = comb(len(scores), tries), sorted(scores, reverse=self.worst_of > 1)
        weights = [comb(place, tries - 1) / subsets for place in range(len(scores))]
        return min(fsum(weight * one for weight, one in zip(weights, ordered, strict=True)), 1.0)

    def draws(self, max_calls: int | None) -> int | None:
        """Return the questions that so many calls pay for."""
        if max_calls is not None and max_calls < self.count:
            raise InvalidInput("--max-calls", f"at least the {self.count} calls of one question", max_calls)
        return None if max_calls is None else max_calls // self.count

    def words(self, target: str) -> str:
        what = "the mean score" if self.best_of == 1 else f"pass@{self.best_of} (the best of {self.best_of})"
        if self.worst_of > 1:
            what = f"pass^{self.worst_of} (the worst of {self.worst_of})"
        over = "over all answers the model could give" if target == "expected" else "of the answers given now"
        return f"every question is asked {self.count} times; the result is {what} {over}"


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
    try:
        return [replace(answer, **one) for one in json.loads(answer.text)]
    except (ValueError, TypeError, RecursionError):
        raise StoreError(
            f"the answers to draw {answer.draw} are damaged, or were changed by hand: {shown(answer.text)}"
        ) from None
