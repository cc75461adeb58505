"""People as the scorer: they label answers on the page of `cereval view`, or elsewhere by `ask` and `tell`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cereval.datasets.base import Item
from cereval.errors import InvalidInput, Misuse
from cereval.scorers.base import Score, Scorer

UNSCORED = "waits for people"
WAYS = ("right", "scale", "prefer")
POINTS = 5
"""Of the scale: 1 is worth 0, the last 1."""


@dataclass(frozen=True, slots=True)
class People:
    """Say how people judge: right or wrong, on a scale of five points, or the answer against the data's own,
    sides hidden.

    raters: labels by different people that an answer needs; its score is their mean. criteria: what they are told.

    >>> People("scale").worth("4"), People().worth("1"), People("prefer").worth("tie")
    (0.75, 1.0, 0.5)
    """

    how: str = "right"
    raters: int = 1
    criteria: str = ""
    name: ClassVar[str] = "people"

    def __post_init__(self) -> None:
        if self.how not in WAYS:
            raise InvalidInput(
                "scorer", "people, " + " or ".join(f"people:{way}" for way in WAYS[1:]), self.how
            )
        if self.raters < 1:
            raise InvalidInput("--raters", "a whole number >= 1", self.raters)

    async def score(self, question: Item, answer: str) -> Score:  # noqa: ARG002
        raise Misuse("people score answers on the page of `cereval view`, not here")

    @property
    def choices(self) -> dict[str, float]:
        if self.how == "right":
            return {"0": 0.0, "1": 1.0}
        if self.how == "prefer":
            return {"answer": 1.0, "tie": 0.5, "other": 0.0}
        return {str(point): (point - 1) / (POINTS - 1) for point in range(1, POINTS + 1)}

    def worth(self, label: str) -> float:
        if label not in self.choices:
            raise InvalidInput("label", "one of " + ", ".join(self.choices), label)
        return self.choices[label]


@dataclass(frozen=True, slots=True)
class Unscored:
    """Marks a reply as one that people have to score; it never reaches the store as a score."""

    name: ClassVar[str] = "unscored"

    async def score(self, question: Item, answer: str) -> Score:  # noqa: ARG002
        return Score(0.0, detail=UNSCORED)


def answering(scorer: Scorer) -> Scorer:
    return Unscored() if isinstance(scorer, People) else scorer
