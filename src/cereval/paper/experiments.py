"""The experiments of the paper: its simulation, the hubness counterexample, where Cer-Eval's interval misses and the
certified method's covers, and figures on recorded results: real benchmarks, embeddings, the scaling law.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cereval.arrays import Floats, Ints
from cereval.datasets.tables import read_items, read_scores
from cereval.errors import BadFile
from cereval.forecasts.embeddings import embed
from cereval.paper.figures import (
    STYLES,
    Key,
    Rows,
    Task,
    grouped,
    markdown,
    means,
    methods_of,
    panels,
    pivot,
    plot_saved,
    reaches,
    where,
    write_note,
)

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


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    scores: Floats
    embeddings: NDArray[np.float32]
    groups: Ints
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


# -- recorded results --------------------------------------------------------------------------------------------------

MULTIPLES = (1.0, 1.25, 1.5, 2.0, 3.0)  # Half-widths as multiples of eps*
EMBEDDED = ("cer-eval", "cer-eval clamped", "active", "partition")  # Methods that use embeddings
WANTED = ("gpt-4o", "llama-3-8b", "llama3-8b", "mistral-7b", "qwen2-7b")
"""The paper's four models, by parts of their names; a folder without any gives its first four."""
THREE_DIGITS = "{:.3f}"


def tasks_of(
    folder: Path, models: Iterable[str], methods: Iterable[str], replications: int, **settings: Any
) -> list[Task]:
    tasks = []
    for method in methods:
        known = {
            name: value
            for name, value in settings.items()
            if (name != "embeddings" or method in EMBEDDED)
            and (name != "repartition_every" or method.startswith("cer-eval"))
        }
        # Base and Seq need the same number of items on every replication.
        for replication in range(1 if method in ("static", "seq") else replications):
            tasks += [
                Task(replicate, folder=folder, model=model, method=method, replication=replication, **known)
                for model in models
            ]
    return tasks


def replicate(
    folder: Path,
    model: str,
    method: str,
    replication: int,
    multiples: tuple[float, ...] = (),
    eps: tuple[float, ...] = (),
    embeddings: Path | None = None,
    repartition_every: int | None = None,
    **columns: Any,
) -> list[dict[str, Any]]:
    """Run one method on one model's recorded scores, for each multiple of eps* or each eps; `columns` are added to
    every row."""
    series = load(folder).series(model)
    side: dict[str, Any] = {}
    if embeddings is not None:
        side["embeddings"] = load_embeddings(embeddings)[series.kept]
    if method == "active + history":
        side["history"] = series.history
    if repartition_every is not None:
        side["repartition_every"] = repartition_every
    wanted = eps or tuple(multiple * series.eps_star for multiple in multiples)
    return [
        {
            **columns,
            "benchmark": folder.name,
            "model": model,
            "size": model_size(model) or "",
            "method": method,
            "replication": replication,
            "accuracy": round(float(series.scores.mean()), 4),
            "n": len(series.scores),
            "multiple": round(reached.eps / series.eps_star, 6),
            **reached._asdict(),
        }
        for reached in reaches(method, series.scores, wanted, seed=replication, **side)
    ]


@dataclass(frozen=True, slots=True)
class Benchmarks:
    """Figure 3 and the appendix figures: Base, Seq, Cer-Eval and the certified methods on real scores."""

    data: Path
    out: Path
    replications: int = 5
    repartition_every: int = 1
    multiples: tuple[float, ...] = MULTIPLES
    methods: tuple[str, ...] = (
        "static",
        "seq",
        "cer-eval",
        "cer-eval clamped",
        "uniform",
        "active",
        "active + history",
    )
    models: tuple[str, ...] = ()
    embedder: str = "tfidf"
    dimensions: int = 256
    name: str = "benchmarks"

    def tasks(self) -> list[Task]:
        tasks = []
        for folder in folders(self.data):
            benchmark = load(folder)
            models = [model for model in benchmark.models if not self.models or model in self.models]
            vectors = saved_embeddings(benchmark, self.embedder, self.dimensions, self.out)
            settings = {"multiples": self.multiples, "repartition_every": self.repartition_every}
            tasks += tasks_of(folder, models, self.methods, self.replications, embeddings=vectors, **settings)
        return tasks

    def plot(self, rows: Rows, figure: Any) -> None:
        for axes, benchmark, inside in panels(figure, rows, 3.7, legend=6):
            title = f"{benchmark}, {len(grouped(inside, 'model'))} models"
            plot_saved(axes, inside, "multiple", title, "half-width as a multiple of ε*")

    def note(self, rows: Rows) -> str:
        tables = []
        for (benchmark,), inside in grouped(rows, "benchmark").items():
            table = pivot(inside, "saved", "multiple", THREE_DIGITS, corner=["saved share at eps/eps*"])
            tables.append(f"## {benchmark}: mean over {len(grouped(inside, 'model'))} models\n\n{table}")
        near = [{**row, "asked": 1 - row["saved"]} for row in rows if abs(row["multiple"] - 1.5) < 1e-4]
        models = pivot(near, "asked", "method", THREE_DIGITS, lines=("benchmark", "model"))
        tables.append(f"## Each model: share of the items evaluated at 1.5 eps*\n\n{models}")
        missed = pivot(rows, "missed", "multiple", THREE_DIGITS)
        tables.append(f"## Share of runs whose interval misses\n\n{missed}")
        facts = {"replications": self.replications, "repartition_every": self.repartition_every}
        return write_note(self.name, tables, **facts)


@dataclass(frozen=True, slots=True)
class Ablation:
    """Appendix D: saved shares of four models on each benchmark with at least three embedders."""

    data: Path
    out: Path
    replications: int = 5
    repartition_every: int = 1
    multiples: tuple[float, ...] = (1.0, 1.5, 2.0, 3.0)
    methods: tuple[str, ...] = ("cer-eval", "cer-eval clamped", "active")
    embedders: tuple[str, ...] = ("tfidf", "characters", "wordllama", "noise")
    dimensions: int = 256
    name: str = "embeddings"

    def tasks(self) -> list[Task]:
        tasks = []
        for folder in folders(self.data):
            benchmark = load(folder)
            vectors = {
                name: saved_embeddings(benchmark, name, self.dimensions, self.out) for name in self.embedders
            }
            settings = {"multiples": self.multiples, "repartition_every": self.repartition_every}
            for name, path in vectors.items():
                known = {"embedder": name, "embeddings": path, **settings}
                tasks += tasks_of(folder, four_models(benchmark), self.methods, self.replications, **known)
        return tasks

    def plot(self, rows: Rows, figure: Any) -> None:
        for axes, benchmark, inside in panels(figure, rows, 3.7):
            found = means(
                [row for row in inside if abs(row["multiple"] - 2) < 1e-4], "saved", "method", "embedder"
            )
            embedders = list(dict.fromkeys(key[1] for key in found))
            methods = methods_of(inside)
            for number, method in enumerate(methods):
                label, colour = STYLES[method]
                places = [i + 0.8 * number / len(methods) for i in range(len(embedders))]
                heights = [found[(method, embedder)] for embedder in embedders]
                axes.bar(places, heights, 0.8 / len(methods), label=label, color=colour)
            axes.set_xticks(range(len(embedders)), embedders, rotation=20)
            axes.set(title=f"{benchmark}, 2 ε*", ylabel="share of items saved")

    def note(self, rows: Rows) -> str:
        tables = []
        for (benchmark,), inside in grouped(rows, "benchmark").items():
            table = pivot(inside, "saved", "multiple", THREE_DIGITS, lines=("method", "embedder"))
            tables.append(f"## {benchmark}: saved share at eps/eps*\n\n{table}")
        facts = {"replications": self.replications, "repartition_every": self.repartition_every}
        return write_note(self.name, tables, **facts)


def four_models(benchmark: Benchmark) -> tuple[str, ...]:
    """The paper's models where the folder has them, else its first four."""
    found = [name for name in benchmark.models if any(part in name.lower() for part in WANTED)]
    return tuple((found or list(benchmark.models))[:4])


@dataclass(frozen=True, slots=True)
class ScalingLaw:
    """Figures 4, 5 and the one of appendix D: all models, the paper's eps = .06 and .07, and one that its radius can
    reach on fewer than all items of these folders.
    """

    data: Path
    out: Path
    replications: int = 3
    eps: tuple[float, ...] = (0.06, 0.07, 0.2)
    methods: tuple[str, ...] = ("seq", "cer-eval", "cer-eval clamped", "uniform")
    name: str = "scaling"

    def tasks(self) -> list[Task]:
        tasks = []
        for folder in folders(self.data):
            benchmark = load(folder)
            # Above 5,000 items neither figure of the paper applies, and eps = .06 is no question there.
            if len(benchmark.texts) < 5000:
                vectors = saved_embeddings(benchmark, "tfidf", 256, self.out)
                tasks += tasks_of(
                    folder,
                    benchmark.models,
                    self.methods,
                    self.replications,
                    eps=self.eps,
                    embeddings=vectors,
                )
        return tasks

    def plot(self, rows: Rows, figure: Any) -> None:
        found = grouped(rows, "benchmark")
        figure.set_size_inches(4 * len(found), 9)
        grid = figure.subplots(3, len(found), squeeze=False)
        for column, ((benchmark,), inside) in zip(grid.T, found.items(), strict=True):
            for axes, eps in zip(column, self.eps[-2:], strict=False):
                _scatter(axes, where(inside, eps=eps), "accuracy")
                axes.set(title=f"{benchmark}, ε = {eps:g}", xlabel="mean score", ylabel="needed items")
            sized = [row for row in where(inside, eps=self.eps[-2]) if row["size"] != ""]
            _scatter(column[2], sized, "size")
            column[2].set(xlabel="model size, 10⁹ parameters", ylabel="needed items", xscale="log")
        figure.axes[0].legend(fontsize=7)

    def note(self, rows: Rows) -> str:
        tables = []
        for (benchmark, eps), inside in grouped(rows, "benchmark", "eps").items():
            # In tenths of the mean score: the inverted U as a table.
            table = pivot([{**row, "tenth": _tenth(row["accuracy"])} for row in inside], "items", "tenth")
            tables.append(f"## {benchmark}, eps = {eps:g}: mean items by mean score\n\n{table}")
        tables.append("## Inverted U?\n\n" + _verdicts(rows))
        return write_note(self.name, tables, replications=self.replications)


def model_size(name: str) -> float | None:
    found = re.search(r"(?<![\d.])(?:(\d+)x)?(\d+(?:\.\d+)?)b(?![a-z])", name, re.IGNORECASE)
    return None if found is None else float(found[1] or 1) * float(found[2])


def _tenth(accuracy: float) -> str:
    tenth = min(int(accuracy * 10), 9)
    return f".{tenth}-.{tenth + 1}" if tenth < 9 else ".9-1"


def _scatter(axes: Any, rows: Rows, x: str) -> None:
    for method in methods_of(rows):
        found = means(where(rows, method=method), "items", x, "model")
        label, colour = STYLES[method]
        places = [key[0] for key in found]
        axes.scatter(places, list(found.values()), s=9, label=label, color=colour, alpha=0.7)
    axes.grid(alpha=0.3)


def curvature(accuracy: list[float], items: list[float]) -> float:
    """The quadratic term of needed items over accuracy: negative for an inverted U."""
    return float(np.polyfit(accuracy, items, 2)[0])


def _verdicts(rows: Rows) -> str:
    body = []
    for (benchmark, eps, method), inside in grouped(rows, "benchmark", "eps", "method").items():
        # A model that was asked fewer items is no point of the same curve.
        size = max(row["n"] for row in inside)
        found = means(where(inside, n=size), "items", "accuracy", "model")
        body.append([benchmark, f"{eps:g}", method, *_verdict(found, size)])
    return markdown(["benchmark", "eps", "method", "needed items", "inverted U"], body)


def _verdict(found: dict[Key, float], size: int) -> tuple[str, str]:
    items = list(found.values())
    if max(items) - min(items) < 0.5:
        return ("all of them" if min(items) == size else f"always {items[0]:.0f}", "no")
    term = curvature([float(key[0]) for key in found], items)
    return f"{min(items):.0f} to {max(items):.0f}", "yes" if term < 0 else "no"


@dataclass(frozen=True, slots=True, eq=False)
class Benchmark:
    """Scores (items x models, NaN = not asked) and texts of one folder."""

    name: str
    models: tuple[str, ...]
    scores: Floats
    texts: tuple[str, ...]

    def series(self, model: str) -> Series:
        column = self.models.index(model)
        kept = np.flatnonzero(~np.isnan(self.scores[:, column]))
        others = np.delete(self.scores[kept], column, axis=1)
        return Series(self.scores[kept, column], kept, others)


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Scores of one model, the rows of the benchmark they belong to, and the other models' scores there."""

    scores: Floats
    kept: Ints
    history: Floats

    @property
    def eps_star(self) -> float:
        """The paper's eps* = sqrt(ln(1/delta)/(2n)) for delta = .05, which Base reaches after a full pass."""
        return float(np.sqrt(np.log(20) / (2 * len(self.scores))))


@lru_cache(maxsize=4)
def load(folder: Path) -> Benchmark:
    """Read one folder; cached, because every replication in a process needs it."""
    table = read_scores(_file(folder, "scores"))
    items = read_items(_file(folder, "items")).aligned_to(table.items)
    if items.texts is None:
        raise BadFile(f"{_file(folder, 'items')} has no column `text`")
    scores = np.column_stack([table.models[name] for name in table.models])
    return Benchmark(folder.name, tuple(table.models), scores, items.texts)


def folders(data: Path) -> list[Path]:
    if (data / "scores.parquet").exists():
        return [data]
    found = sorted(path.parent for path in data.glob("*/scores.parquet"))
    if not found:
        raise BadFile(f"{data} holds no folder with scores.parquet and items.parquet")
    return found


def saved_embeddings(benchmark: Benchmark, embedder: str, dimensions: int, out: Path) -> Path:
    """The file with the benchmark's embeddings, computed at most once for the same texts."""
    digest = hashlib.sha256("\0".join(benchmark.texts).encode()).hexdigest()[:12]
    path = out / "embeddings" / f"{benchmark.name}-{embedder}-{dimensions}-{digest}.npy"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Renamed when complete: an interrupted write must not be taken for finished embeddings.
        partial = path.with_suffix(".part.npy")
        np.save(partial, embed(benchmark.texts, embedder, dimensions))
        partial.rename(path)
    return path


@lru_cache(maxsize=4)
def load_embeddings(path: Path) -> NDArray[Any]:
    return np.asarray(np.load(path))


def _file(folder: Path, stem: str) -> Path:
    path = folder / f"{stem}.parquet"
    if not path.exists():
        layout = "DIR/NAME/scores.parquet and DIR/NAME/items.parquet"
        raise BadFile(f"{path} does not exist; the layout is {layout}")
    return path
