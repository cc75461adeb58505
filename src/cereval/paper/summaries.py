"""Average over replications, as tables in markdown and as plots; matplotlib is imported when a plot is saved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from cereval.imports import optional
from cereval.paper.base import Figure, Row, Rows

Key = tuple[Any, ...]

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
"""Label and colour of each method, in the order of every figure and table."""


def where(rows: Rows, **values: Any) -> list[Row]:
    """Keep the rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def grouped(rows: Rows, *columns: str) -> dict[Key, list[Row]]:
    """Group rows by the values of some columns, in order of first appearance.

    >>> {key: len(found) for key, found in grouped([{"a": 1}, {"a": 2}, {"a": 1}], "a").items()}
    {(1,): 2, (2,): 1}
    """
    found: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(row[column] for column in columns)].append(row)
    return dict(found)


def means(rows: Rows, value: str, *columns: str) -> dict[Key, float]:
    """Average one column for each group of rows."""
    return {key: fmean(float(row[value]) for row in found) for key, found in grouped(rows, *columns).items()}


def methods_of(rows: Rows) -> list[str]:
    """List the methods in the rows, in the order of `STYLES`."""
    present = {str(row["method"]) for row in rows}
    return [name for name in STYLES if name in present] + sorted(present - set(STYLES))


def note(*parts: str) -> str:
    return "\n\n".join(parts) + "\n"


def markdown(header: Sequence[str], body: Iterable[Sequence[object]]) -> str:
    """Write a markdown table.

    >>> print(markdown(["method", "items"], [["seq", 3799]]))
    | method | items |
    |---|---|
    | seq | 3799 |
    """
    lines = ["| " + " | ".join(map(str, cells)) + " |" for cells in (header, *body)]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])


def pivot(
    rows: Rows,
    value: str,
    column: str,
    shown: Callable[[float], str] = "{:.0f}".format,
    *,
    lines: Sequence[str] = ("method",),
    corner: Sequence[str] = (),
) -> str:
    """Write a table of means: a line for each group by `lines`, a column for each value of `column`.

    Methods stand in their usual order; `corner`: other headings over the names of the lines.
    """
    found = means(rows, value, *lines, column)
    order = methods_of(rows)
    names = list(dict.fromkeys(key[:-1] for key in found))
    if "method" in lines:
        names.sort(key=lambda name: order.index(name[lines.index("method")]))
    heads = order if column == "method" else sorted({key[-1] for key in found})
    body = [
        [*name, *(shown(found[*name, h]) if (*name, h) in found else "" for h in heads)] for name in names
    ]
    return markdown([*(corner or lines), *(h if isinstance(h, str) else f"{h:g}" for h in heads)], body)


def save(figure: Figure, rows: Rows, out: Path) -> tuple[Path, Path]:
    """Save NAME.png and NAME.svg, without a display and without a date inside, so that reruns are identical."""
    matplotlib = optional("matplotlib", "plots")
    matplotlib.use("agg")
    canvas = optional("matplotlib.figure", "plots").Figure(layout="constrained")
    with matplotlib.rc_context({"svg.hashsalt": figure.name, "font.size": 9}):
        figure.plot(rows, canvas)
        png, svg = out / f"{figure.name}.png", out / f"{figure.name}.svg"
        canvas.savefig(png, dpi=150)
        canvas.savefig(svg, metadata={"Date": None})
    return png, svg


def panels(
    figure: Any, rows: Rows, width: float, by: str = "benchmark", *, sharey: bool = True, legend: int = 7
) -> Iterator[tuple[Any, str, Rows]]:
    """Make axes side by side, one for each value of a column, with its name and rows; then add the legend."""
    found = grouped(rows, by)
    figure.set_size_inches(width * len(found), 3.6)
    beside = figure.subplots(1, len(found), sharey=sharey, squeeze=False)[0]
    for axes, ((name,), inside) in zip(beside, found.items(), strict=True):
        yield axes, str(name), inside
    figure.axes[0].legend(fontsize=legend)


def saved_curves(axes: Any, rows: Rows, x: str, title: str, xlabel: str = "half-width ε") -> None:
    """Plot the paper's axes: share of items saved over the half-width, a curve for each method."""
    for method in methods_of(rows):
        found = means(where(rows, method=method), "saved", x)
        places = sorted(float(key[0]) for key in found)
        label, colour = STYLES.get(method, (method, None))
        shares = [found[(place,)] for place in places]
        axes.plot(places, shares, marker="o", markersize=3, label=label, color=colour)
    axes.set(title=title, xlabel=xlabel, ylabel="share of items saved", ylim=(-0.03, 1.0))
    axes.grid(alpha=0.3)
