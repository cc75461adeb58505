"""Draw certified intervals with matplotlib, and put them into data frames: what notebooks ask of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from cereval.imports import optional

INCHES_PER_PART = 0.32


class Part(NamedTuple):
    """Name one certified interval of a result: a mean, a task, a model, a version, a difference."""

    name: str
    estimate: float
    lower: float
    upper: float


def frame_of(parts: Sequence[Part]) -> Any:
    return optional("pandas", "plots").DataFrame(parts, columns=Part._fields)


def plotted(parts: Sequence[Part], title: str, axes: Any = None) -> Any:
    """Draw one interval below the other, each with its estimate; return the axes."""
    if axes is None:
        pyplot = optional("matplotlib.pyplot", "plots")
        _, axes = pyplot.subplots(figsize=(7.0, 1.2 + INCHES_PER_PART * len(parts)), layout="constrained")
    places = range(len(parts))[::-1]
    lengths = [[part.estimate - part.lower for part in parts], [part.upper - part.estimate for part in parts]]
    axes.errorbar([part.estimate for part in parts], places, xerr=lengths, fmt="o", capsize=3, markersize=4)
    axes.set_yticks(places, [part.name for part in parts])
    axes.set_ylim(-0.6, len(parts) - 0.4)
    axes.set_title(title, fontsize="medium", loc="left", wrap=True)
    axes.grid(axis="x", alpha=0.3)
    return axes
