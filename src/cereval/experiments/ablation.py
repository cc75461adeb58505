"""The embedding ablation: the same methods with different vectors for the same texts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cereval.experiments.base import Rows, Task
from cereval.experiments.benchmarks import replicate
from cereval.experiments.plots import STYLES, panels
from cereval.experiments.recorded import Benchmark, folders, identity, load, saved_embeddings
from cereval.experiments.summaries import grouped, markdown, means, methods_of

WANTED = ("gpt-4o", "llama-3-8b", "llama3-8b", "mistral-7b", "qwen2-7b")
"""The paper's four models, by parts of their names; a folder without any gives its first four."""


def ablate(embedder: str, **settings: Any) -> list[dict[str, Any]]:
    """`benchmarks.replicate` with the embedder's name in each row."""
    return [{"embedder": embedder, **row} for row in replicate(**settings)]


@dataclass(frozen=True, slots=True)
class Ablation:
    """Appendix D: saved shares of four models on each benchmark with at least three embedders.

    `endpoint` adds vectors that were fetched from an embeddings endpoint: (name, {folder: .npy file}).
    """

    data: Path
    out: Path
    replications: int = 5
    repartition_every: int = 1
    multiples: tuple[float, ...] = (1.0, 1.5, 2.0, 3.0)
    methods: tuple[str, ...] = ("cer-eval", "cer-eval clamped", "active")
    embedders: tuple[str, ...] = ("tfidf", "characters", "wordllama", "noise")
    endpoint: tuple[tuple[str, str, Path], ...] = ()
    dimensions: int = 256
    name: str = "embeddings"

    def tasks(self) -> list[Task]:
        return [task for folder in folders(self.data) for task in self._folder_tasks(folder)]

    def _folder_tasks(self, folder: Path) -> list[Task]:
        benchmark = load(folder)
        vectors = {
            name: saved_embeddings(benchmark, name, self.dimensions, self.out) for name in self.embedders
        }
        vectors |= {name: path for name, where, path in self.endpoint if where == benchmark.name}
        return [
            self._task(folder, model, method, replication, embedder, path)
            for model in four_models(benchmark)
            for method in self.methods
            for embedder, path in vectors.items()
            for replication in range(self.replications)
        ]

    def _task(
        self, folder: Path, model: str, method: str, replication: int, embedder: str, vectors: Path
    ) -> Task:
        settings: dict[str, Any] = {
            "embedder": embedder,
            "folder": folder,
            "model": model,
            "method": method,
            "replication": replication,
            "multiples": self.multiples,
            "embeddings": vectors,
        }
        if method.startswith("cer-eval"):
            settings["repartition_every"] = self.repartition_every
        values = ",".join(f"{value:g}" for value in self.multiples)
        every = settings.get("repartition_every", "")
        return Task(
            f"{identity(folder)}/{model}/{method}/{replication}/{vectors.stem}/{every}/{values}",
            ablate,
            settings,
        )

    def plot(self, rows: Rows, figure: Any) -> None:
        for axes, benchmark, inside in panels(figure, rows, 3.7):
            _bars(axes, [row for row in inside if abs(row["multiple"] - 2) < 1e-4])
            axes.set(title=f"{benchmark}, 2 ε*", ylabel="share of items saved")
        figure.axes[0].legend(fontsize=7)

    def note(self, rows: Rows) -> str:
        parts = [_HEAD.format(replications=self.replications, every=self.repartition_every)]
        for (benchmark,), inside in grouped(rows, "benchmark").items():
            parts.append(f"## {benchmark}: saved share at eps/eps*\n\n{_table(inside)}")
        return "\n\n".join([*parts, _WHY]) + "\n"


def four_models(benchmark: Benchmark) -> tuple[str, ...]:
    """The paper's models where the folder has them, else its first four."""
    found = [name for name in benchmark.models if any(part in name.lower() for part in WANTED)]
    return tuple((found or list(benchmark.models))[:4])


def _table(rows: Rows) -> str:
    found = means(rows, "saved", "method", "embedder", "multiple")
    heads = sorted({key[2] for key in found})
    body = [
        [*pair, *(f"{found[(*pair, head)]:.3f}" for head in heads)]
        for pair in dict.fromkeys(k[:2] for k in found)
    ]
    return markdown(["method", "embedder", *(f"{head:g}" for head in heads)], body)


def _bars(axes: Any, rows: Rows) -> None:
    found = means(rows, "saved", "method", "embedder")
    embedders = list(dict.fromkeys(key[1] for key in found))
    methods = methods_of(rows)
    for number, method in enumerate(methods):
        label, colour = STYLES[method]
        places = [i + 0.8 * number / len(methods) for i in range(len(embedders))]
        heights = [found[(method, embedder)] for embedder in embedders]
        axes.bar(places, heights, 0.8 / len(methods), label=label, color=colour)
    axes.set_xticks(range(len(embedders)), embedders, rotation=20)


_HEAD = """# Embedding ablation (paper, appendix D)

`cereval reproduce embeddings --data DIR`: {replications} replications, delta = .05, up to four models of
each folder (the paper's where they are), a new partition every {every} evaluations. `tfidf`: words and
pairs of words, SVD to 256; `characters`: runs of four characters, SVD to 256; `wordllama`: a neural
embedder of 256 dimensions; `noise`: random vectors, the control."""

_WHY = """## What the paper says, and why it differs

- *"Using different embedding models leads to highly similar results."* Holds, and for a plain reason:
  noise does as well. With the printed constants the partition chosen is the coarsest there is, whatever
  the vectors.
- *"We anticipate a higher saving ratio if more informative embeddings are available."* The certified
  active method gains little from any of these vectors either; results of other models on the same items
  help more (`cereval reproduce benchmarks`).
"""
