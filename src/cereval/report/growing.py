"""`render_growing`: a certificate of a growing data set as one self-contained HTML page, without scripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cereval.records import Interval
from cereval.report import svg, wording
from cereval.report.rendering import attachment, drawing, rendered
from cereval.text import percent


def render_growing(certificate: Mapping[str, Any]) -> str:
    """The page. Names come from data files: they are made printable, cut and escaped."""
    return rendered("growing.html", **_variables(certificate))


def _variables(certificate: Mapping[str, Any]) -> dict[str, Any]:
    result, settings = certificate["result"], certificate["settings"]
    low, high = wording.outwards(result["lower"], result["upper"])
    return {
        "result": result,
        "settings": settings,
        "about": settings["about"],
        "answer": f"{low} – {high}",
        "confidence": f"{percent(result['confidence'])} confidence",
        "overall": drawing(svg.interval_bar(result["estimate"], Interval(result["lower"], result["upper"]))),
        "rows": [_row(version) for version in result["versions"]],
        "rests_on": _rests_on(result, settings),
        "digest": certificate["digest"],
        "attachment": attachment(dict(certificate)),
    }


def _rests_on(result: Mapping[str, Any], settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    about = settings["about"]
    return [
        ("Data", f"{about['data']}, {about['items']}"),
        ("Goal", f"every version within {settings['goal']['eps']}"),
        (
            "Method",
            f"{result['method']} (guarantee: {result['guarantee']}, target: {result['target']}), seed {result['seed']}",
        ),
        ("Failed calls", f"{result['failures']}; each counts as unknown: 0 from below, 1 from above"),
    ]


def _row(version: Mapping[str, Any]) -> dict[str, Any]:
    interval = Interval(version["lower"], version["upper"])
    return {
        "version": version,
        "ends": wording.outwards(version["lower"], version["upper"], 2),
        "bar": drawing(svg.interval_bar(version["estimate"], interval)),
    }
