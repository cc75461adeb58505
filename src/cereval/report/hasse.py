"""A certified order as a picture: who is above whom, without the lines that follow from others (a Hasse diagram)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from cereval.sessions.order import Diagram
from cereval.text import printable, shortened

TOP, LEFT, LABEL = 18, 20, 190
LOWEST_ROW, HIGHEST_ROW, USUAL_HEIGHT = 24, 44, 480
"""Of a row; a picture of a few models has more air."""
LONGEST_NAME = 30


def drawn(diagram: Diagram, width: int = 720) -> str:
    """One row for each model, its place across by what it hangs from; lines from the better down to the worse."""
    step = min(max(USUAL_HEIGHT // len(diagram.rows), LOWEST_ROW), HIGHEST_ROW)
    places = {
        name: (x, TOP + step * row)
        for row, (name, x) in enumerate(zip(diagram.rows, across(diagram, width), strict=True))
    }
    lines = [
        _line(places[better], places[worse]) for better, below in diagram.lines.items() for worse in below
    ]
    marks = [_mark(name, *places[name]) for name in diagram.rows]
    height = 2 * TOP + step * (len(diagram.rows) - 1)
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="The certified order: a line leads from the better model down to the worse">'
        f"{''.join(lines)}{''.join(marks)}</svg>"
    )


def across(diagram: Diagram, width: int) -> list[float]:
    """Where each row's model lies from left to right: levels of the order are spread over the width."""
    levels = _levels(diagram)
    room = width - LEFT - LABEL
    found: dict[str, float] = {}
    for level in range(max(levels.values()) + 1):
        names = [name for name in diagram.rows if levels[name] == level]
        wanted = sorted(names, key=lambda name: (_middle(diagram, name, found), diagram.rows.index(name)))
        for number, name in enumerate(wanted):
            # A level alone in its row is centred; odd levels are shifted, so that lines pass beside the names.
            shift = 0.25 if level % 2 else 0.0
            share = (number + 0.5 + shift) / (len(wanted) + 0.5)
            found[name] = LEFT + room * min(share, 1.0)
    return [found[name] for name in diagram.rows]


def _levels(diagram: Diagram) -> dict[str, int]:
    """How long the longest chain of better models above each is."""
    levels = dict.fromkeys(diagram.rows, 0)
    for better in diagram.rows:
        for worse in diagram.lines[better]:
            levels[worse] = max(levels[worse], levels[better] + 1)
    return levels


def _middle(diagram: Diagram, name: str, found: Mapping[str, float]) -> float:
    parents = [found[better] for better, below in diagram.lines.items() if name in below and better in found]
    return sum(parents) / len(parents) if parents else 0.0


def _line(start: Sequence[float], end: Sequence[float]) -> str:
    (x1, y1), (x2, y2) = start, end
    bend = (y1 + y2) / 2
    return f'<path class="cover" d="M{x1:.1f} {y1}C{x1:.1f} {bend} {x2:.1f} {bend} {x2:.1f} {y2}"/>'


def _mark(name: str, x: float, y: float) -> str:
    label = escape(printable(shortened(name, LONGEST_NAME), LONGEST_NAME))
    return (
        f'<circle class="dot" cx="{x:.1f}" cy="{y}" r="4"/>'
        f'<text class="model" x="{x + 9:.1f}" y="{y + 4}">{label}</text>'
    )
