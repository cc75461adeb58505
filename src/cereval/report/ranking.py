"""`render_ranking`: a certificate of a ranking as one self-contained HTML page, without scripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cereval.records import Interval
from cereval.report import hasse, svg, wording
from cereval.report.rendering import attachment, drawing, rendered
from cereval.text import percent


def render_ranking(certificate: Mapping[str, Any]) -> str:
    """The page. Names come from data files: they are made printable, cut and escaped."""
    return rendered("ranking.html", **_variables(certificate))


def _variables(certificate: Mapping[str, Any]) -> dict[str, Any]:
    result, settings = certificate["result"], certificate["settings"]
    diagram = hasse.Diagram.of(result)
    return {
        "result": result,
        "settings": settings,
        "answer": wording.answer_of_ranking(result),
        "confidence": f"{percent(result['confidence'])} confidence",
        "picture": drawing(hasse.drawn(diagram)) if result["order"] else None,
        "rows": [_row(name, diagram, result) for name in diagram.rows],
        "digest": certificate["digest"],
        "attachment": attachment(dict(certificate)),
    }


def _row(name: str, diagram: hasse.Diagram, result: Mapping[str, Any]) -> dict[str, Any]:
    limits = result["intervals"][name]
    return {
        "name": name,
        "ranks": diagram.ranks(name),
        "ends": wording.outwards(limits["lower"], limits["upper"]),
        "estimate": wording.percent(limits["estimate"]),
        "items": limits["n"],
        "standing": "top" if name in result["winners"] else "out" if name in result["eliminated"] else "",
        "bar": drawing(svg.interval_bar(limits["estimate"], Interval(limits["lower"], limits["upper"]))),
    }
