"""`render_ranking`: a certificate of a ranking as one self-contained HTML page, without scripts."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from cereval.printable import printable
from cereval.records import Interval
from cereval.report import hasse, svg, wording
from cereval.report.page import attachment


def render_ranking(certificate: Mapping[str, Any]) -> str:
    """The page. Names come from data files: they are made printable, cut and escaped."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["text"] = lambda value, limit=200: printable(str(value), limit, lines=True)
    environment.filters["percent"] = wording.percent
    folder = files(__package__)
    template = environment.from_string((folder / "ranking.html").read_text(encoding="utf-8"))
    style = Markup((folder / "page.css").read_text(encoding="utf-8"))
    page: str = template.render(style=style, **_variables(certificate, Markup))
    return page


def _variables(certificate: Mapping[str, Any], markup: Any) -> dict[str, Any]:
    result, settings = certificate["result"], certificate["settings"]
    diagram = hasse.Diagram.of(result)
    return {
        "result": result,
        "settings": settings,
        "answer": wording.answer_of_ranking(result),
        "confidence": f"{round(result['confidence'] * 100, 6):g}% confidence",
        "picture": markup(hasse.drawn(diagram)) if result["order"] else None,
        "rows": [_row(name, diagram, result, markup) for name in diagram.rows],
        "digest": certificate["digest"],
        "attachment": markup(attachment(dict(certificate))),
    }


def _row(name: str, diagram: hasse.Diagram, result: Mapping[str, Any], markup: Any) -> dict[str, Any]:
    limits = result["intervals"][name]
    return {
        "name": name,
        "ranks": diagram.ranks(name),
        "ends": wording.outwards(limits["lower"], limits["upper"]),
        "estimate": wording.percent(limits["estimate"]),
        "items": limits["n"],
        "standing": "top" if name in result["winners"] else "out" if name in result["eliminated"] else "",
        "bar": markup(svg.interval_bar(limits["estimate"], Interval(limits["lower"], limits["upper"]))),
    }
