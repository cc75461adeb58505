"""A team that evaluates models one after the other: every certified run makes the next one cheaper.

Each model sees only what the runs before it observed: a few hundred answers each, drawn unequally. Beside it
the same model, seed and goal with no history, with the complete scores of the same earlier models, and with those
of all other models: what could be gained at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cereval.paper.figures import Rows, Task, grouped, markdown, panels, where, write_note
from cereval.paper.recorded import Benchmark, folders, identity, load
from cereval.paper.replays import misses
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session

Floats = NDArray[np.float64]

WAYS = ("no history", "team", "complete", "all others")
WINDOW = 5
"""A point of the curve is the mean over the models up to this many places before and after, and over all orders."""
SHOWN = (1, 2, 3, 5, 10, 20, 50, 100)
"""Places in the table of the note."""


def evaluate_in_turn(folder: Path, order: int, eps: float, models: int | None = None) -> list[dict[str, Any]]:
    """Evaluate the models in one order: a row for each model and way."""
    benchmark = load(folder)
    turns = _order(benchmark, order)[:models]
    observed = np.full(benchmark.scores.shape, np.nan)
    rows: list[dict[str, Any]] = []
    for position, column in enumerate(turns, start=1):
        earlier = turns[: position - 1]
        others = [other for other in range(len(benchmark.models)) if other != column]
        tables = {
            "no history": None,
            "team": observed[:, earlier],
            "complete": benchmark.scores[:, earlier],
            "all others": benchmark.scores[:, others],
        }
        for way in WAYS:
            run = _evaluate(benchmark.scores[:, column], tables[way], eps, seed=1000 * order + position)
            if way == "team":
                observed[run.items, column] = benchmark.scores[run.items, column]
            rows.append(
                {
                    "benchmark": benchmark.name,
                    "order": order,
                    "position": position,
                    "model": benchmark.models[column],
                    "way": way,
                    "calls": len(run.items),
                    "missed": run.missed,
                }
            )
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """The items that one run asked for, and whether its interval misses the truth."""

    items: NDArray[np.int64]
    missed: bool


def _evaluate(scores: Floats, history: Floats | None, eps: float, seed: int) -> Observed:
    kept = np.flatnonzero(~np.isnan(scores))
    past = None if history is None or not history.shape[1] else history[kept]
    session = Session(len(kept), goal=Estimate(eps), history=past, seed=seed)
    asked: list[int] = []
    while not session.done:
        for draw in session.ask():
            session.tell(draw, float(scores[kept[draw.item]]))
            asked.append(draw.item)
    missed = misses(session.interval.lower, session.interval.upper, float(scores[kept].mean()))
    return Observed(kept[asked], missed or session.result().stopped == "contradiction")


def _order(benchmark: Benchmark, order: int) -> NDArray[np.int64]:
    """Shuffle the columns whose scores vary."""
    scored = np.flatnonzero(~np.isnan(benchmark.scores).all(axis=0))
    varying = scored[np.nanstd(benchmark.scores[:, scored], axis=0) > 0]
    return np.random.default_rng([order, 5]).permutation(varying)


@dataclass(frozen=True, slots=True)
class Team:
    """Calls per model as a curve over the models evaluated so far."""

    data: Path
    eps: float = 0.03
    orders: int = 10
    models: int | None = None
    name: str = "team"

    def tasks(self) -> list[Task]:
        return [
            Task(
                f"{identity(folder)}/{order}/{self.eps:g}/{self.models or 'all'}",
                evaluate_in_turn,
                {"folder": folder, "order": order, "eps": self.eps, "models": self.models},
            )
            for folder in folders(self.data)
            for order in range(self.orders)
        ]

    def plot(self, rows: Rows, figure: Any) -> None:
        for axes, benchmark, inside in panels(figure, rows, 4.5, sharey=False):
            places = sorted({int(row["position"]) for row in inside})
            for way in WAYS:
                axes.plot(places, [mean_calls(inside, way, place) for place in places], label=way)
            axes.set(title=f"{benchmark}, ε = {self.eps:g}", xlabel="models evaluated", ylabel="calls")
            axes.set_ylim(0, None)
            axes.grid(alpha=0.3)

    def note(self, rows: Rows) -> str:
        tables = []
        for (benchmark,), inside in grouped(rows, "benchmark").items():
            runs = where(inside, way="team")
            missed = (
                f"{sum(bool(row['missed']) for row in runs)} of the {len(runs)} team runs miss the truth."
            )
            tables.append(f"## {benchmark}\n\n{_curve_table(inside)}\n\n{missed}")
        return write_note(self.name, tables, eps=self.eps, orders=self.orders, window=WINDOW)


def mean_calls(rows: Rows, way: str, position: int, window: int = WINDOW) -> float:
    """The mean of the calls over a window around a position, and over all orders.

    >>> rows = [{"way": "team", "position": place, "calls": 10 * place} for place in (1, 2, 3)]
    >>> mean_calls(rows, "team", 1, window=1)
    10.0
    >>> mean_calls(rows, "team", 2, window=1)
    20.0
    """
    # As many places after as before: at the ends of the curve the window shrinks to the position itself.
    last = max(int(row["position"]) for row in rows)
    reach = min(window, position - 1, last - position)
    near = [row for row in where(rows, way=way) if abs(int(row["position"]) - position) <= reach]
    return float(np.mean([row["calls"] for row in near]))


def _curve_table(rows: Rows) -> str:
    last = max(int(row["position"]) for row in rows)
    others, body = [way for way in WAYS if way != "team"], []
    for place in [place for place in SHOWN if place < last] + [last]:
        calls = {way: mean_calls(rows, way, place) for way in WAYS}
        ratios = [calls["team"] / calls[way] if calls[way] else 1.0 for way in others]
        body.append([place, *map("{:.0f}".format, calls.values()), *map("{:.2f}".format, ratios)])
    return markdown(["model number", *WAYS, *(f"team / {way}" for way in others)], body)
