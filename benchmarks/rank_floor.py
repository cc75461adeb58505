"""Claims by a z-test that looks after every item for free: not valid, and so a limit for what is.

The test has the level and the finite-population error of the certified games. A method that is valid at every moment
pays for its looks, and one that fixes its sample size beforehand does not know which to fix.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from cereval.stats.pairs import PRIOR_SQUARE, PairGames

Floats = NDArray[np.float64]

LEAST_ITEMS = 20


class PeekingGames(PairGames):
    """`PairGames` whose evidence is complete once the z-score has passed the quantile of the level."""

    def play(
        self,
        which: NDArray[np.int64],
        low: Floats,
        high: Floats,
        reach: Floats | float = 1.0,  # noqa: ARG002
    ) -> None:
        gain = np.stack((low, -high))
        self.time[which] += 1
        self.total[:, which] += gain
        self.squares[which] += ((low + high) / 2) ** 2
        count = self.time[which]
        mean = self.total[:, which] / count
        variance = (self.squares[which] + PRIOR_SQUARE) / (count + 1) - mean**2 * count / (count + 1)
        error = np.sqrt(np.maximum(variance, 1e-9) * (1 - count / self.n_items) / count)
        passed = (mean >= self._quantile * error) & (count >= LEAST_ITEMS)
        self.evidence[0][:, which] = np.where(passed, np.inf, self.evidence[0][:, which])


@contextmanager
def peeking() -> Iterator[None]:
    """Within it, ranking sessions claim by peeking."""
    session = import_module("cereval.questions.rank.session")
    honest = session.PairGames
    session.PairGames = PeekingGames  # type: ignore[attr-defined]
    try:
        yield
    finally:
        session.PairGames = honest  # type: ignore[attr-defined]
