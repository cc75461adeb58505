"""Figures on synthetic populations: the paper's simulation, and the hubness counterexample.

On the counterexample Cer-Eval's interval misses and the certified method's covers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cereval.paper.figures import (
    STYLES,
    Rows,
    Task,
    grouped,
    markdown,
    means,
    methods_of,
    panels,
    pivot,
    plot_saved,
    where,
    write_note,
)
from cereval.paper.replays import reaches

EPS_STAR = round(float(np.sqrt(np.log(20) / 10_000)), 4)
GRID = (EPS_STAR, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1)


@dataclass(frozen=True, slots=True)
class Simulation:
    """Figure 2 of the paper: d = 10, n = 5,000, delta = .05, lambda 5 and 1."""

    replications: int = 20
    eps: tuple[float, ...] = GRID
    methods: tuple[str, ...] = ("static", "seq", "cer-eval", "oracle", "uniform", "active", "partition")
    size: int = 5000
    name: str = "simulation"

    def tasks(self) -> list[Task]:
        fixed = {"eps": self.eps, "size": self.size}
        return [
            Task(simulate, scenario=scenario, method=method, replication=replication, **fixed)
            for replication in range(self.replications)
            for scenario in SCENARIOS
            for method in self.methods
        ]

    def plot(self, rows: Rows, figure: Any) -> None:
        for axes, scenario, inside in panels(figure, rows, 11 / 3, "scenario"):
            plot_saved(axes, inside, "eps", scenario)

    def note(self, rows: Rows) -> str:
        tables = [
            f"## {scenario}: mean number of items, of {self.size:,}\n\n{pivot(inside, 'items', 'eps')}"
            for (scenario,), inside in grouped(rows, "scenario").items()
        ]
        missed = pivot(rows, "missed", "eps", "{:.3f}")
        tables.append(f"## Share of runs whose interval misses, all scenarios\n\n{missed}")
        return write_note(self.name, tables, replications=self.replications)


def simulate(
    scenario: str, method: str, replication: int, eps: tuple[float, ...], size: int
) -> list[dict[str, Any]]:
    number = list(SCENARIOS).index(scenario)
    population = SCENARIOS[scenario](np.random.default_rng([replication, number]), size)
    side: dict[str, Any] = {}
    if method in ("cer-eval", "active", "partition"):
        side["embeddings"] = population.embeddings
    if method == "oracle":
        side["groups"] = population.groups
    return [
        {"scenario": scenario, "method": method, "replication": replication, **reached._asdict()}
        for reached in reaches(method, population.scores, eps, seed=replication, **side)
    ]


@dataclass(frozen=True, slots=True)
class HubnessCase:
    """One size and half-width; `share` of the items is the core whose loss is 1."""

    size: int
    eps: float
    share: float = 0.1
    training_fraction: float = 0.8

    def __str__(self) -> str:
        shares = f"core {self.share:.0%}, training {self.training_fraction:.0%}"
        return f"N = {self.size:,}, eps = {self.eps:g}, {shares}"


ALL_CASES = (
    HubnessCase(5000, 0.10),
    HubnessCase(20_000, 0.07),
    HubnessCase(20_000, 0.05, share=0.5, training_fraction=1.0),
)
"""Two on which the method misses as printed, and one on which it misses with labels clamped too."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Cer-Eval as printed misses in most runs, and the certified method on the same embeddings covers."""

    replications: int = 20
    cases: tuple[HubnessCase, ...] = ALL_CASES
    methods: tuple[str, ...] = ("cer-eval", "cer-eval clamped", "uniform", "active", "partition")
    name: str = "hubness"

    def tasks(self) -> list[Task]:
        return [
            Task(find_misses, case=case, method=method, replication=replication)
            for case in self.cases
            for method in self.methods
            for replication in range(self.replications)
        ]

    def plot(self, rows: Rows, figure: Any) -> None:
        for axes, case, inside in panels(figure, rows, 4.6, "case", sharey=False):
            for method in methods_of(inside):
                mine = where(inside, method=method)
                label, colour = STYLES[method]
                items, errors = [row["items"] for row in mine], [row["error"] for row in mine]
                axes.scatter(items, errors, s=12, label=label, color=colour)
            axes.axhline(float(case.split("eps = ")[1].split(",")[0]), color="black", linewidth=0.8)
            axes.set(title=case, xlabel="items evaluated", ylabel="|estimate − truth|; line: ε")

    def note(self, rows: Rows) -> str:
        tables = [f"## {case}\n\n{_misses(inside)}" for (case,), inside in grouped(rows, "case").items()]
        return write_note(self.name, tables, replications=self.replications)


def find_misses(case: HubnessCase, method: str, replication: int) -> list[dict[str, Any]]:
    population = hubness(np.random.default_rng([replication, 0]), case.size, share=case.share)
    side: dict[str, Any] = {} if method == "uniform" else {"embeddings": population.embeddings}
    if method not in ("uniform", "active"):
        side["training_fraction"] = case.training_fraction
    about = {"case": str(case), "method": method, "replication": replication, "truth": population.mean}
    found = reaches(method, population.scores, (case.eps,), seed=replication, **side)
    return [{**about, **reached._asdict()} for reached in found]


def _misses(rows: Rows) -> str:
    items, errors = means(rows, "items", "method"), means(rows, "error", "method")
    body = []
    for method in methods_of(rows):
        mine = where(rows, method=method)
        missed = f"{sum(bool(row['missed']) for row in mine)} of {len(mine)}"
        body.append([method, missed, f"{items[(method,)]:.0f}", f"{errors[(method,)]:.3f}"])
    return markdown(["method", "intervals that miss", "mean items", "mean error of the estimate"], body)


# -- populations: each from a generator of its own, so that the same seed gives the same population -------------------

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    scores: Floats
    embeddings: NDArray[np.float32]
    groups: NDArray[np.int64]
    name: str

    @classmethod
    def of(cls, scores: Floats, positions: Floats, groups: NDArray[np.generic], name: str) -> Population:
        return cls(scores, positions.astype(np.float32), groups.astype(np.int64), name)

    @property
    def size(self) -> int:
        return len(self.scores)

    @property
    def mean(self) -> float:
        """What the `benchmark` target asks for."""
        return float(self.scores.mean())


def truncated_gaussian(rng: np.random.Generator, means: Floats, deviations: Floats) -> Floats:
    """Gaussians with these parameters, conditioned on [0, 1], by inversion of the distribution function."""
    from scipy.special import ndtr, ndtri

    below, above = ndtr(-means / deviations), ndtr((1 - means) / deviations)
    standard = ndtri(below + rng.uniform(size=len(means)) * (above - below))
    return np.asarray(np.clip(means + deviations * standard, 0.0, 1.0), dtype=np.float64)


def paper_simulation(
    rng: np.random.Generator, groups: int, separation: float, name: str, size: int = 5000
) -> Population:
    """Section 6.1 of the paper: K Gaussian clouds around (lambda k, 0, ..., 0) in 10 dimensions, sigma = 1.

    In group k the loss is Gaussian with mean (k - 1/2)/K and variance 1/K^2 *before* it is truncated
    to [0, 1]. The paper does not say how points fall into groups: here uniformly and independently.
    """
    label = rng.integers(groups, size=size)
    position = rng.normal(size=(size, 10))
    position[:, 0] += separation * (label + 1)
    loss = truncated_gaussian(rng, (label + 0.5) / groups, np.full(size, 1.0 / groups))
    return Population.of(1.0 - loss, position, label, name)


def s1(rng: np.random.Generator, size: int = 5000) -> Population:
    return paper_simulation(rng, 1, 5.0, "S1", size)


def s2(rng: np.random.Generator, size: int = 5000) -> Population:
    return paper_simulation(rng, 3, 5.0, "S2", size)


def s3(rng: np.random.Generator, size: int = 5000) -> Population:
    return paper_simulation(rng, 3, 1.0, "S3", size)


SCENARIOS: dict[str, Callable[..., Population]] = {"S1": s1, "S2": s2, "S3": s3}
"""The three scenarios of the simulation figure: of a Generator and, if not the paper's 5,000, a size."""


def hubness(
    rng: np.random.Generator, size: int = 5000, dimensions: int = 50, share: float = 0.1
) -> Population:
    """The counterexample to Cer-Eval as printed: a tight core that is everybody's nearest neighbour.

    A `share` of the items ~ N(0, .1 I) has loss 1, the others ~ N(0, I) have loss 0. In many dimensions
    the nearest neighbour of an outer point is a core point, so 1-NN labels outer points by the core's loss
    unless they are training points themselves, which carry their own label.
    """
    core = rng.permutation(size) < round(share * size)
    scale = np.where(core, np.sqrt(0.1), 1.0)
    position = rng.normal(size=(size, dimensions)) * scale[:, None]
    return Population.of(np.where(core, 0.0, 1.0), position, core, "hubness")
