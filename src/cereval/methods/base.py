"""The contract of a method: it decides draws, consumes results in draw order, and states an interval.

Obligations of every method
1. `decide_draws` depends only on the plan, the seed and the results of draws it has consumed, and on those
   only up to an index that is fixed in advance for each draw. It never depends on what else has arrived.
2. Results come in draw order. A failed call arrives as `low = 0, high = 1`: it may only widen the interval.
3. `interval` lies inside [0, 1], is never NaN, and may be read at any time.
4. `guarantee` is no stronger than the theorem in the method's docstring.
5. Where there is a log (`follow`), it decides: draws and probabilities are taken from it (`methods.drawing`).
6. No IO, no clock, no global random state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from cereval.arrays import Floats, Ints
from cereval.errors import InvalidInput
from cereval.forecasts.pool import Pool
from cereval.records import Draw, Guarantee, Interval

Target = Literal["benchmark", "population", "expected"]
Draws = tuple[Ints, Floats]
"""Items, and the probabilities that they were drawn with."""
NO_DRAWS: Draws = np.empty(0, dtype=np.int64), np.empty(0)


@dataclass(frozen=True, slots=True)
class Aim:
    """What bets and draws should work towards: a half-width, or a threshold; and the calls to spend.

    marks: values of which the side matters on which the target lies, unless it is within eps of them; unlike a
    threshold's, their answers are read off the interval, so that all of them hold together with it. strict: whether a
    target equal to a mark lies on neither side of it.
    """

    eps: float | None = None
    threshold: float | None = None
    budget: int | None = None
    marks: tuple[float, ...] = ()
    strict: bool = False

    def __post_init__(self) -> None:
        if len(self.marks) > 1:
            raise InvalidInput("marks", "one value at most", self.marks)


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """All that a method may know before the first answer."""

    pool: Pool
    target: Target
    delta: float
    seed: int
    aim: Aim


class Method(ABC):
    name: ClassVar[str]
    guarantee: ClassVar[Guarantee]
    asks_all: ClassVar[bool] = False
    """Whether every item is asked, also once the goal is reached."""
    log: tuple[Draw, ...] = ()
    """The draws that were made before: they are taken in place of deciding them."""
    check: bool = False
    """Whether the draws of the log have to be those that the seed leads to."""

    def __init__(self) -> None:
        self._items, self._chances = array("q"), array("d")
        """The draws that have been decided, the first `_drawn` of which have been asked for."""
        self._drawn = self.consumed = 0

    def follow(self, log: Sequence[Draw], *, check: bool = False) -> None:
        self.log, self.check = tuple(log), check

    def next_draw(self) -> Draw | None:
        """The next draw; None when results are awaited or no item is left."""
        if self._drawn == len(self._items):
            items, chances = self.decide_draws()
            self._items.frombytes(items.tobytes())
            self._chances.frombytes(chances.tobytes())
            if not len(items):
                return None
        index, self._drawn = self._drawn, self._drawn + 1
        return Draw(index, self._items[index], self._chances[index])

    def decide_draws(self) -> Draws:
        """Decide further draws, one or many; none when results are awaited or no item is left."""
        return NO_DRAWS

    @abstractmethod
    def observe(self, draw: Draw, low: float, high: float) -> None:
        """Take the result of the oldest unconsumed draw: its score lies in [low, high]."""

    @property
    @abstractmethod
    def interval(self) -> Interval:
        """The interval certified by the results consumed so far."""

    @property
    @abstractmethod
    def estimate(self) -> float:
        """The point estimate, inside the interval."""

    @property
    def radius(self) -> float:
        return self.interval.half_width

    @property
    def contradiction(self) -> bool:
        """Whether the evidence has rejected every value: an event of probability at most delta."""
        return False

    @property
    def complete(self) -> bool:
        """Whether every item of a finite pool is in, so that nothing is left to estimate."""
        return False

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines for the result: what helped, what was left out."""
        return ()

    def open_round(self, draws: int) -> None:  # noqa: B027
        """Take notice that so many draws will go out together: they are to be decided without results in between."""

    def aim_at(self, aim: Aim, drawn: int) -> None:  # noqa: B027
        """Take a goal that changed when `drawn` draws had been decided; it may change efficiency, not validity.

        Whoever changes the goal may know the results of those draws, consumed or not: what the new goal
        moves in bets or draws must begin with draw number `drawn`.
        """
