"""`render_comparison`: a certificate of a comparison as one self-contained HTML page, without scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from cereval.printable import printable
from cereval.records import Interval
from cereval.report import svg, wording
from cereval.report.page import NARROW, WIDE, attachment
from cereval.report.retrace import Step


def render_comparison(certificate: Mapping[str, Any], steps: Sequence[Step]) -> str:
    """The page. Names come from data files: they are made printable, cut and escaped.

    steps: the difference and its interval after every item.
    """
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["text"] = lambda value, limit=200: printable(str(value), limit, lines=True)
    environment.filters["percent"] = wording.percent
    folder = files(__package__)
    template = environment.from_string((folder / "comparison.html").read_text(encoding="utf-8"))
    style = Markup((folder / "page.css").read_text(encoding="utf-8"))
    page: str = template.render(style=style, **_variables(certificate, steps, Markup))
    return page


def _variables(certificate: Mapping[str, Any], steps: Sequence[Step], markup: Any) -> dict[str, Any]:
    result, settings = certificate["result"], certificate["settings"]
    # The bar runs from -1 to 1, as y = (1 + difference)/2 does from 0 to 1.
    middle, low, high = ((1 + result[name]) / 2 for name in ("difference", "lower", "upper"))
    return {
        "result": result,
        "about": settings["about"],
        "goal": settings["goal"],
        "answer": wording.answer_of_comparison(result["decision"], {**settings["about"], **settings["goal"]}),
        "confidence": f"{round(result['confidence'] * 100, 6):g}% confidence",
        "difference": f"{result['difference'] * 100:+.2f}%",
        "interval": wording.signed_interval(result["lower"], result["upper"]),
        "overall": markup(svg.interval_bar(middle, Interval(low, high))),
        "charts": [
            (name, markup(svg.narrowing(steps, width, least=-1.0)))
            for name, width in (("wide", WIDE), ("narrow", NARROW))
            if len(steps) > 1
        ],
        "digest": certificate["digest"],
        "attachment": markup(attachment(dict(certificate))),
    }
