"""What the audit is given: the results, and the forecasts and goals in force at each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cereval.methods.certified import Tuning
from cereval.stats.increments import Outlook

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Aim:
    """What the bets on draw number `since` and later work towards."""

    since: int
    eps: float | None
    threshold: float | None
    budget: int | None
    marks: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """One result in draw order: the score lies in [low, high] (a failed call: in [0, 1])."""

    item: int
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """g, the spread of z - g, and the draw weights w, for the results from number `since` on.

    level: the variance expected of an increment, in units of the one stated; 0: none is.
    """

    since: int
    mean: Floats
    spread: Floats
    weights: Floats
    level: float = 0.0

    @classmethod
    def of(cls, outlook: Outlook, since: int) -> Forecast:
        return cls(since, outlook.mean, outlook.spread, outlook.weights, outlook.level)


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """All that the interval depends on."""

    shares: Floats
    equal: bool
    replacement: bool
    delta: float
    aims: Sequence[Aim]
    seen: Sequence[Seen]
    forecasts: Sequence[Forecast]
    given_up: bool
    tuning: Tuning
