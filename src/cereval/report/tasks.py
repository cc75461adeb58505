"""`render_tasks`: a certificate of many tasks as one self-contained HTML page, without scripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cereval.records import Interval
from cereval.report import svg, wording
from cereval.report.rendering import attachment, drawing, rendered
from cereval.text import percent

ANSWERS = {"all-pass": "certified pass", "some-fail": "certified fail", None: "undecided"}


def render_tasks(certificate: Mapping[str, Any]) -> str:
    """The page. Names come from data files: they are made printable, cut and escaped."""
    return rendered("tasks.html", **_variables(certificate))


def _variables(certificate: Mapping[str, Any]) -> dict[str, Any]:
    result, settings = certificate["result"], certificate["settings"]
    macro = result["macro"]
    return {
        "result": result,
        "about": settings["about"],
        "goal": settings["goal"],
        "answer": _answer(result, settings["goal"]),
        "confidence": f"{percent(result['confidence'])} confidence",
        "overall": drawing(svg.interval_bar(macro["estimate"], Interval(macro["lower"], macro["upper"]))),
        "macro_ends": wording.outwards(macro["lower"], macro["upper"], 2),
        "rows": [_row(name, task) for name, task in _by_estimate(result["tasks"])],
        "rests_on": _rests_on(result, settings),
        "digest": certificate["digest"],
        "attachment": attachment(dict(certificate)),
    }


def _answer(result: Mapping[str, Any], goal: Mapping[str, Any]) -> str:
    if "value" in goal:
        return f"All at least {goal['value'] * 100:g}%: {ANSWERS[result['decision']]}"
    low, high = wording.outwards(result["macro"]["lower"], result["macro"]["upper"])
    return f"{low} – {high}"


def _by_estimate(tasks: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(tasks.items(), key=lambda pair: (-pair[1]["estimate"], pair[0]))


def _rests_on(result: Mapping[str, Any], settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    about = settings["about"]
    return [
        ("Data", f"{', '.join(about['data'])}, {about['items']}"),
        (
            "Goal",
            ", ".join(f"{key}: {value}" for key, value in settings["goal"].items() if value is not None),
        ),
        ("Method", f"{result['method']} (guarantee: {result['guarantee']}), seed {result['seed']}"),
        ("Failed calls", f"{result['failures']}; each counts as unknown: 0 from below, 1 from above"),
    ]


def _row(name: str, task: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "task": task,
        "ends": wording.outwards(task["lower"], task["upper"], 1),
        "bar": drawing(svg.interval_bar(task["estimate"], Interval(task["lower"], task["upper"]))),
    }
