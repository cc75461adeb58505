"""Render the page of a ranking: the certified order as a picture (a Hasse diagram) and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape

from cereval.questions.rank.order import Diagram
from cereval.questions.rank.session import Ranking
from cereval.records import Table
from cereval.report import NARROW, WIDE, Additions, Section, counted, said
from cereval.report.story import Story
from cereval.report.svg import fitted, interval_bar, ticks
from cereval.text import percent, printable, rounded, shortened

TOP, LEFT, LABEL = 18, 20, 190
LOWEST_ROW, HIGHEST_ROW, USUAL_HEIGHT = 24, 44, 480
"""Of a row; a picture of a few models has more air."""
LONGEST_NAME, SHORTEST_NAME = 30, 18
MOST_IN_GRAPH = 12
"""Models whose order is drawn as a graph too; more cannot be followed."""
RANK_TOP, RANK_ROW, NAME_WIDE, NAME_NARROW = 26, 22, 230, 140


def rank_page(story: Story) -> Additions:
    """Add the picture of the order, and a bar for every model."""
    result = story.result
    assert isinstance(result, Ranking)
    diagram = Diagram.of(result.as_dict())
    places = Section(
        "The ranks that are left",
        pictures={"wide": ranks_drawn(diagram, WIDE), "narrow": ranks_drawn(diagram, NARROW)},
        caption="From the best rank that the certified order leaves a model to the worst. A dot: its rank is certain.",
    )
    picture = Section(
        "The certified order",
        pictures={"hasse": drawn(diagram)},
        caption="A line leads from a better model down to a worse one, by comparing the two or by their intervals. "
        "Lines that follow from others are left out: a model is certified to be at least as good as all that can be "
        "reached downwards. Models without such a path are not ordered, whatever their height.",
    )
    table = _table(result, diagram)
    limits = [result.intervals[row[1]] for row in table.rows]
    low, high = fitted(limits)
    bars = [interval_bar(one.estimate, one, low, high) for one in limits]
    models = Section(
        "Every model",
        table=table,
        bars=bars,
        scale=(percent(low), percent(high)),
        optional=(4, 5),
        caption=f"{_places(result)}Ranks: those that order and intervals leave the model; equal models may be ranked "
        "either way. Interval: of the model's mean score over all "
        f"{result.n_items:,} items. It is wider than the order needs, because models are compared on the same items, "
        "where most of the chance cancels out.",
    )
    says = said("The order, the ranks it leaves each model and all intervals <b>hold at once</b>.")
    if result.undecided:
        says += said(" Undecided: {}.", counted(len(result.undecided), "pair"))
    ordered = any(diagram.lines.values())
    graph = (picture,) if ordered and len(diagram.rows) <= MOST_IN_GRAPH else ()
    return Additions(says=(says + _ties(result),), sections=(*((places,) if ordered else ()), models, *graph))


def ranks_drawn(diagram: Diagram, width: int) -> str:
    """Draw the ranks that are left to each model, one row a model, however many there are."""
    count, left = len(diagram.rows), NAME_WIDE if width >= WIDE else NAME_NARROW
    height = RANK_TOP + RANK_ROW * count + 8
    step = (width - left - 24) / max(count - 1, 1)
    parts = []
    for rank in [1, *(int(one) for one in ticks(1, count, 10 if width >= WIDE else 5) if one > 1)]:
        x = left + step * (rank - 1)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{RANK_TOP - 6}" y2="{height}"/>')
        parts.append(f'<text class="tick middle" x="{x:.1f}" y="{RANK_TOP - 11}">{rank}</text>')
    for row, name in enumerate(diagram.rows):
        first, last = diagram.best[name], count - len(diagram.below[name])
        y = RANK_TOP + RANK_ROW * row + RANK_ROW / 2
        x1, x2 = left + step * (first - 1), left + step * (last - 1)
        letters = LONGEST_NAME if width >= WIDE else SHORTEST_NAME
        label = escape(printable(shortened(name, letters), letters))
        whole = escape(printable(name, 120))
        parts.append(
            f"<g><title>{whole}: {diagram.ranks(name)}</title>"
            f'<text class="model end" x="{left - 14}" y="{y + 4:.1f}">{label}</text>'
            f'<rect class="span" x="{x1 - 5:.1f}" y="{y - 5:.1f}" width="{x2 - x1 + 10:.1f}" height="10" rx="5"/>'
        )
        parts.append(
            f'<circle class="dot" cx="{x1:.1f}" cy="{y:.1f}" r="5"/></g>' if first == last else "</g>"
        )
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="The ranks that are left to each model">{"".join(parts)}</svg>'
    )


def _places(result: Ranking) -> str:
    """Return what the first column of a top k says of the models that are not named."""
    if result.goal["goal"] != "top":
        return ""
    k = result.goal["k"]
    others = "another model is" if k == 1 else f"{k} other models are"
    return f"{k} as good: {others} certified to be at least as good. "


def _table(result: Ranking, diagram: Diagram) -> Table:
    """Return the table of the result, with the ranks as its last column where it says who is in the top instead."""
    table = result.table()
    if "ranks" in table.header:
        return table
    rows = [[*row[:-1], diagram.ranks(row[1])] for row in table.rows]
    return replace(table, header=(*table.header[:-1], "ranks"), rows=rows, extra=None)


def _ties(result: Ranking) -> str:
    if not result.ties:
        return ""
    tie = rounded(result.goal["tie"])
    proven = f"their difference is certified to be below {tie}"
    unlikely = f"a difference above {tie} is unlikely, though not excluded"
    how = proven if result.ties_proven else unlikely
    return said(" Left as ties: {}; {}.", counted(len(result.ties), "pair"), how)


def drawn(diagram: Diagram, width: int = 720) -> str:
    """Return one row for each model, its place across by what it hangs from; lines from the better down to the
    worse."""
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
    """Return where each row's model lies from left to right: levels of the order are spread over the width."""
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
    """Return how long the longest chain of better models above each is."""
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
