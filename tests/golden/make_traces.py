"""Note how intervals narrow with graded scores, engine by engine: what later code must do again to the last digits.

Graded scores end far from where the horizon of the bets was first seen, which the certificates beside this do not show.
Run with the code of the revision that is noted, for the first two that was commit b952a67:

    python -m tests.golden.make_traces 3
"""

from __future__ import annotations

import json
import sys

import numpy as np
from numpy.typing import NDArray
from tests.golden.lines import HOME

from cereval.goals import Estimate
from cereval.methods.active import FIRST_WITH_PRECEDENTS
from cereval.sessions.mean import Session

Floats = NDArray[np.float64]

TRACES = HOME / "traces.json"
SIZE = 600
EVERY = 40


def scores(name: str) -> list[float]:
    """Return scores of one shape."""
    rng = np.random.default_rng(5)
    shapes = {
        "both ends": rng.beta(0.5, 0.5, SIZE),
        "low": rng.beta(0.1, 2, SIZE),
        "steps": rng.choice([0.25, 1], SIZE),
    }
    return [float(score) for score in shapes[name]]


def many_past_models() -> Floats:
    """Return 0/1 scores of forty models that find the same items hard, each in its measure."""
    rng = np.random.default_rng(6)
    hard, sharp = rng.random((SIZE, 1)), rng.uniform(0.5, 2.0, size=40)
    return (rng.random((SIZE, 40)) > hard**sharp).astype(np.float64)


def traced(engine: int) -> dict[str, list[list[float]]]:
    """Return the intervals on the way and at the end, for each shape and way to draw."""
    groups = np.arange(SIZE) % 5
    past = np.clip(np.column_stack([np.array(scores("both ends")) + 0.2 * shift for shift in (-1, 1)]), 0, 1)
    ways = {"uniform": {"method": "uniform"}, "groups": {"groups": groups}, "history": {"history": past}}
    if engine >= FIRST_WITH_PRECEDENTS:
        ways["many past models"] = {"history": many_past_models()}
    return {
        f"{shape}, {way}, confidence {confidence}": _followed(
            Session(SIZE, goal=Estimate(0.04), seed=3, engine=engine, confidence=confidence, **side),
            scores(shape),
        )
        for shape in ("both ends", "low", "steps")
        for way, side in ways.items()
        for confidence in (0.8, 0.95)
    }


def _followed(session: Session, scored: list[float]) -> list[list[float]]:
    found = []
    while not session.done:
        for draw in session.ask(1):
            session.tell(draw, scored[draw.item])
        if session.done or session.n_evaluated % EVERY == 0:
            found.append([session.n_evaluated, session.interval.lower, session.interval.upper])
    return found


if __name__ == "__main__":
    noted = json.loads(TRACES.read_text(encoding="utf-8")) if TRACES.exists() else {}
    noted |= {name: traced(int(name)) for name in sys.argv[1:]}
    TRACES.write_text(json.dumps(noted) + "\n", encoding="utf-8")
