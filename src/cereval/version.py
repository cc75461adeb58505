"""State the version of the package, and the revision of its engine."""

__version__ = "0.2.0"

ENGINE = 2
"""Revision of everything that decides draws and intervals; it changes whenever one of them does.

Plans, settings and certificates name the engine that they are played with; `tests/golden` fails where the draws or
intervals of a revision change and this number does not.
"""

ENGINES = (1, 2)
"""The revisions that can be played. 2 has a ladder of earlier horizons, a nearer horizon for uniform draws, and shows
an interval beside every threshold test; what was begun under 1 goes on, and is checked, under 1."""
