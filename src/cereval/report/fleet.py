"""`fleet_page`: all runs of a fleet as one self-contained HTML page, a table for each data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from cereval.records import Interval, Table
from cereval.report import svg
from cereval.report.page import Section, said, styled
from cereval.text import percent

SHOWN = ("model", "goal", "answer", "calls", "cost", "run")


def fleet_page(rows: Sequence[Mapping[str, Any]], headline: str, table: Table) -> str:
    """Render a page from the rows of a fleet and their cells in `table`."""
    names = list(dict.fromkeys(cells[1] for cells in table.rows))
    sections = [_section(name, rows, table) for name in names]
    return styled(
        "fleet.html",
        headline=headline,
        says=_says(rows),
        sections=sections,
    )


def _says(rows: Sequence[Mapping[str, Any]]) -> list[Markup]:
    sure = sorted({float(row["confidence"]) for row in rows if row.get("confidence")})
    if not sure:
        return []
    return [
        said(
            "Each answer holds with its own confidence of {}; among {} of them one in {} may be wrong.",
            percent(sure[0]),
            len(rows),
            round(1 / (1 - sure[0])),
        )
    ]


def _section(name: str, rows: Sequence[Mapping[str, Any]], table: Table) -> Section:
    """Return the runs on one data set; bars only where every run has a mean."""
    columns = [table.header.index(column) for column in SHOWN]
    here = [(row, cells) for row, cells in zip(rows, table.rows, strict=True) if cells[1] == name]
    cells = [tuple(cell[column] for column in columns) for _, cell in here]
    bars = [_bar(row) for row, _ in here]
    return Section(
        name,
        table=Table(SHOWN, cells, numbers=(3, 4)),
        bars=bars if all(bars) else (),
        optional=(1, 4),
    )


def _bar(row: Mapping[str, Any]) -> str:
    if row.get("lower") is None or not 0 <= row["lower"] <= row["upper"] <= 1 or row.get("estimate") is None:
        return ""
    return svg.interval_bar(row["estimate"], Interval(row["lower"], row["upper"]), 0.0)
