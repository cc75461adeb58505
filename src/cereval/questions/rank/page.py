"""Render the page of a ranking: the ranks that its order leaves, every model, and the order in words."""

from __future__ import annotations

from dataclasses import replace
from html import escape

from cereval.questions.rank.order import Diagram
from cereval.questions.rank.session import Ranking
from cereval.records import Table
from cereval.report import NARROW, WIDE, Additions, Section, counted, said
from cereval.report.story import Story
from cereval.report.svg import fitted, interval_bar, ticks
from cereval.text import percent, printable, rounded, shortened

LONGEST_NAME, SHORTEST_NAME = 30, 18
MOST_LINES = 12
"""Of the order in words; more cannot be followed, and the picture has them all."""
RANK_TOP, RANK_ROW, NAME_WIDE, NAME_NARROW = 26, 22, 230, 140


def rank_page(story: Story) -> Additions:
    result = story.result
    assert isinstance(result, Ranking)
    diagram = Diagram.of(result.as_dict())
    places = Section(
        "The ranks that are left",
        pictures={"wide": ranks_drawn(diagram, WIDE), "narrow": ranks_drawn(diagram, NARROW)},
        caption="From the best rank that the certified order leaves a model to the worst. A dot: its rank is certain.",
    )
    lines = diagram.text()
    in_words = Section(
        "The certified order",
        says=[said("{}", line, limit=400) for line in lines],
        caption="Models before a > are certified to be at least as good as those after it, by comparing them or by "
        "their intervals. Pairs that no line puts in order, directly or through others, are not ordered.",
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
    order = [places] if lines else []
    words = [in_words] if 0 < len(lines) <= MOST_LINES else []
    return Additions(says=(says + _ties(result),), sections=(*order, models, *words))


def ranks_drawn(diagram: Diagram, width: int) -> str:
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
    if result.goal["goal"] != "top":
        return ""
    k = result.goal["k"]
    others = "another model is" if k == 1 else f"{k} other models are"
    return f"{k} as good: {others} certified to be at least as good. "


def _table(result: Ranking, diagram: Diagram) -> Table:
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
