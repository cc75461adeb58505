"""`render_growing`: a certificate of a growing data set as one self-contained HTML page, without scripts."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from cereval.printable import printable
from cereval.records import Interval
from cereval.report import svg, wording
from cereval.report.page import attachment


def render_growing(certificate: Mapping[str, Any]) -> str:
    """The page. Names come from data files: they are made printable, cut and escaped."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["text"] = lambda value, limit=200: printable(str(value), limit, lines=True)
    environment.filters["percent"] = wording.percent
    folder = files(__package__)
    template = environment.from_string((folder / "growing.html").read_text(encoding="utf-8"))
    style = Markup((folder / "page.css").read_text(encoding="utf-8"))
    page: str = template.render(style=style, **_variables(certificate, Markup))
    return page


def _variables(certificate: Mapping[str, Any], markup: Any) -> dict[str, Any]:
    result, settings = certificate["result"], certificate["settings"]
    low, high = wording.outwards(result["lower"], result["upper"])
    return {
        "result": result,
        "settings": settings,
        "about": settings["about"],
        "answer": f"{low} – {high}",
        "confidence": f"{round(result['confidence'] * 100, 6):g}% confidence",
        "overall": markup(svg.interval_bar(result["estimate"], Interval(result["lower"], result["upper"]))),
        "rows": [_row(version, markup) for version in result["versions"]],
        "digest": certificate["digest"],
        "attachment": markup(attachment(dict(certificate))),
    }


def _row(version: Mapping[str, Any], markup: Any) -> dict[str, Any]:
    interval = Interval(version["lower"], version["upper"])
    return {
        "version": version,
        "ends": wording.outwards(version["lower"], version["upper"], 2),
        "bar": markup(svg.interval_bar(version["estimate"], interval)),
    }
