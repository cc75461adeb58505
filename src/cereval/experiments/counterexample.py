"""The hubness counterexample: data on which Cer-Eval's interval misses and the certified method's covers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cereval.experiments.base import Rows, Task
from cereval.experiments.plots import STYLES
from cereval.experiments.populations import hubness
from cereval.experiments.summaries import grouped, markdown, means, methods_of
from cereval.experiments.traces import certified_reaches, printed_reaches


@dataclass(frozen=True, slots=True)
class Case:
    """One size and half-width; `share` of the items is the core whose loss is 1."""

    size: int
    eps: float
    share: float = 0.1
    training_fraction: float = 0.8

    def __str__(self) -> str:
        shares = f"core {self.share:.0%}, training {self.training_fraction:.0%}"
        return f"N = {self.size:,}, eps = {self.eps:g}, {shares}"


ALL_CASES = (Case(5000, 0.10), Case(20_000, 0.07), Case(20_000, 0.05, share=0.5, training_fraction=1.0))
"""Two on which the method misses as printed, and one on which it misses with labels clamped too."""


def replicate(case: Case, method: str, replication: int) -> list[dict[str, Any]]:
    """One population and one method on it: items, and by how much the interval misses."""
    population = hubness(np.random.default_rng([replication, 0]), case.size, share=case.share)
    side: dict[str, Any] = {} if method == "uniform" else {"embeddings": population.embeddings}
    if method not in ("uniform", "active"):
        side["training_fraction"] = case.training_fraction
    if method.startswith("cer-eval"):
        side["clamp"] = method.endswith("clamped")
    reaches = printed_reaches if method.startswith("cer-eval") else certified_reaches
    name = "cer-eval" if method.startswith("cer-eval") else method
    reached = reaches(name, population.scores, (case.eps,), seed=replication, **side)[0]
    return [
        {
            "case": str(case),
            "method": method,
            "replication": replication,
            "truth": population.mean,
            "items": reached.items,
            "missed": reached.missed,
            "error": reached.error,
        }
    ]


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Cer-Eval as printed misses in most runs; the certified method on the same embeddings covers."""

    replications: int = 20
    cases: tuple[Case, ...] = ALL_CASES
    methods: tuple[str, ...] = ("cer-eval", "cer-eval clamped", "uniform", "active", "partition")
    name: str = "hubness"

    def tasks(self) -> list[Task]:
        return [
            Task(
                f"{case}/{method}/{replication}",
                replicate,
                {"case": case, "method": method, "replication": replication},
            )
            for case in self.cases
            for method in self.methods
            for replication in range(self.replications)
        ]

    def plot(self, rows: Rows, figure: Any) -> None:
        panels = grouped(rows, "case")
        figure.set_size_inches(4.6 * len(panels), 3.6)
        for axes, ((case,), inside) in zip(
            figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
        ):
            for method in methods_of(inside):
                mine = [row for row in inside if row["method"] == method]
                label, colour = STYLES[method]
                axes.scatter(
                    [r["items"] for r in mine], [r["error"] for r in mine], s=12, label=label, color=colour
                )
            axes.axhline(float(case.split("eps = ")[1].split(",")[0]), color="black", linewidth=0.8)
            axes.set(title=case, xlabel="items evaluated", ylabel="|estimate − truth|; line: ε")
        figure.axes[0].legend(fontsize=7)

    def note(self, rows: Rows) -> str:
        parts = [_HEAD.format(replications=self.replications)]
        for (case,), inside in grouped(rows, "case").items():
            parts.append(f"## {case}\n\n{_table(inside)}")
        return "\n\n".join([*parts, _WHY]) + "\n"


def _table(rows: Rows) -> str:
    items, errors = means(rows, "items", "method"), means(rows, "error", "method")
    body = []
    for method in methods_of(rows):
        mine = [row for row in rows if row["method"] == method]
        missed = f"{sum(bool(row['missed']) for row in mine)} of {len(mine)}"
        body.append([method, missed, f"{items[(method,)]:.0f}", f"{errors[(method,)]:.3f}"])
    return markdown(["method", "intervals that miss", "mean items", "mean error of the estimate"], body)


_HEAD = """# Hubness: an interval that misses

`cereval reproduce hubness`: {replications} replications, delta = .05, d = 50. A tight core, N(0, .1 I),
has loss 1; the rest, N(0, I), has loss 0. In 50 dimensions the nearest training item of an outer point is
usually a core point, so 1-NN puts nearly all unseen items into the core's group, while training items
keep their own label."""

_WHY = """## What the paper says, and why it differs

- *"All online evaluating algorithms guarantee the desired confidence level."* Not Algorithm 2 with
  Algorithm 3: the group of the core holds thousands of outer items, but its evaluated members are mostly
  core items, because outer training items label themselves. Its mean is biased and its variance is not
  the group's.
- The misprint matters. As printed, floor(k Z) gives a loss of 1 a group of its own even at k = 1, so 0/1
  losses are always split. With labels clamped (`cer-eval clamped`) one group is possible, has the
  smallest radius when the core is small, and uniform draws from one group are unbiased. A core of half
  the items, with all of S as training items, makes two groups win again: the last case.
- The certified methods see the same scores and embeddings; the partition can only cost them items.
"""
