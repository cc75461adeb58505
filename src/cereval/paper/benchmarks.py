"""Figures on recorded results: real benchmarks, the embedding ablation, and the test scaling law."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    where,
    write_note,
)
from cereval.paper.replays import reaches

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


Floats = NDArray[np.float64]


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
    kept: NDArray[np.int64]
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
