"""Plots of experiments: matplotlib, imported when a plot is saved and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cereval.experiments.base import Figure, Rows
from cereval.experiments.summaries import grouped
from cereval.imports import optional

STYLES: dict[str, tuple[str, str]] = {
    "static": ("Base", "0.8"),
    "seq": ("Seq", "tab:gray"),
    "cer-eval": ("Cer-Eval as printed", "tab:red"),
    "cer-eval clamped": ("Cer-Eval, labels clamped", "tab:orange"),
    "oracle": ("Oracle", "tab:purple"),
    "uniform": ("certified: uniform", "tab:blue"),
    "active": ("certified: active", "tab:green"),
    "partition": ("certified: 1-NN partition", "tab:cyan"),
    "active + history": ("certified: active + history", "tab:olive"),
}
"""Label and colour of each method, the same in every figure."""


def save(figure: Figure, rows: Rows, out: Path) -> tuple[Path, Path]:
    """NAME.png and NAME.svg, without a display and without a date inside, so that reruns are identical."""
    matplotlib = optional("matplotlib", "plots")
    matplotlib.use("agg")
    canvas = optional("matplotlib.figure", "plots").Figure(layout="constrained")
    with matplotlib.rc_context({"svg.hashsalt": figure.name, "font.size": 9}):
        figure.plot(rows, canvas)
        png, svg = out / f"{figure.name}.png", out / f"{figure.name}.svg"
        canvas.savefig(png, dpi=150)
        canvas.savefig(svg, metadata={"Date": None})
    return png, svg


def panels(figure: Any, rows: Rows, width: float, *, sharey: bool = True) -> Iterator[tuple[Any, str, Rows]]:
    """Axes side by side, one for each benchmark, with its name and rows."""
    found = grouped(rows, "benchmark")
    figure.set_size_inches(width * len(found), 3.6)
    beside = figure.subplots(1, len(found), sharey=sharey, squeeze=False)[0]
    for axes, ((benchmark,), inside) in zip(beside, found.items(), strict=True):
        yield axes, str(benchmark), inside


def line(axes: Any, method: str, x: Sequence[float], y: Sequence[float], **options: Any) -> None:
    """One method's curve in its own label and colour."""
    label, colour = STYLES.get(method, (method, None))
    axes.plot(x, y, marker="o", markersize=3, label=label, color=colour, **options)


def saved_axes(axes: Any, title: str) -> None:
    """The paper's axes: share of items saved over the half-width eps."""
    axes.set(title=title, xlabel="half-width ε", ylabel="share of items saved", ylim=(-0.03, 1.0))
    axes.grid(alpha=0.3)
