"""State the version of the package, and the revision of its engine."""

__version__ = "0.2.0"

ENGINE = 6
"""Revision of everything that decides draws and intervals; it changes whenever one of them does.

Plans, settings and certificates name the engine that they are played with; `tests/golden` fails where the draws or
intervals of a revision change and this number does not.
"""

ENGINES = (1, 2, 3, 4, 5, 6)
"""The revisions that can be played. 2 has a ladder of earlier horizons, a nearer horizon for uniform draws, and shows
an interval beside every threshold test. 3 has horizons that know the level which the bets play at, nearer ones for
uniform draws, and a ladder that leans to the side where scores are rare. 4 finds its bets without quantiles, on a grid
that grows finer as the interval narrows, has a rung for every doubling of the draws, and ranks with history: items on
which past models disagreed are asked sooner. 5 has, for uniform draws, the variance that 0/1 scores state themselves,
nearer horizons and a ladder for the first 200 draws; and where the side of a mark is asked for, delta where its answer
is decided. 6 learns from many past models, where they are known, what a new one is like, and then forecasts anew more
often; uniform draws have a farther horizon with graded scores; bets on sides keep one at every confidence. What was
begun under one of them goes on, and is checked, under it."""
