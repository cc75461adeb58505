"""`render_tasks`: a certificate of many tasks as one self-contained HTML page, without scripts."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from cereval.printable import printable
from cereval.records import Interval
from cereval.report import svg, wording
from cereval.report.page import attachment

ANSWERS = {"all-pass": "certified pass", "some-fail": "certified fail", None: "undecided"}


def render_tasks(certificate: Mapping[str, Any]) -> str:
    """The page. Names come from data files: they are made printable, cut and escaped."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["text"] = lambda value, limit=200: printable(str(value), limit, lines=True)
    environment.filters["percent"] = wording.percent
    folder = files(__package__)
    template = environment.from_string((folder / "tasks.html").read_text(encoding="utf-8"))
    style = Markup((folder / "page.css").read_text(encoding="utf-8"))
    page: str = template.render(style=style, **_variables(certificate, Markup))
    return page


def _variables(certificate: Mapping[str, Any], markup: Any) -> dict[str, Any]:
    result, settings = certificate["result"], certificate["settings"]
    macro = result["macro"]
    return {
        "result": result,
        "about": settings["about"],
        "goal": settings["goal"],
        "answer": _answer(result, settings["goal"]),
        "confidence": f"{round(result['confidence'] * 100, 6):g}% confidence",
        "overall": markup(svg.interval_bar(macro["estimate"], Interval(macro["lower"], macro["upper"]))),
        "macro_ends": wording.outwards(macro["lower"], macro["upper"], 2),
        "rows": [_row(name, task, markup) for name, task in _by_estimate(result["tasks"])],
        "digest": certificate["digest"],
        "attachment": markup(attachment(dict(certificate))),
    }


def _answer(result: Mapping[str, Any], goal: Mapping[str, Any]) -> str:
    if "value" in goal:
        return f"All at least {goal['value'] * 100:g}%: {ANSWERS[result['decision']]}"
    low, high = wording.outwards(result["macro"]["lower"], result["macro"]["upper"])
    return f"{low} – {high}"


def _by_estimate(tasks: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(tasks.items(), key=lambda pair: (-pair[1]["estimate"], pair[0]))


def _row(name: str, task: Mapping[str, Any], markup: Any) -> dict[str, Any]:
    return {
        "name": name,
        "task": task,
        "ends": wording.outwards(task["lower"], task["upper"], 1),
        "bar": markup(svg.interval_bar(task["estimate"], Interval(task["lower"], task["upper"]))),
    }
