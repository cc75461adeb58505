"""`render_comparison`: a certificate of a comparison as one self-contained HTML page, without scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from cereval.compare import Comparison
from cereval.printable import printable
from cereval.records import Interval
from cereval.report import svg, wording
from cereval.report.page import NARROW, WIDE, attachment, current_goal
from cereval.report.retrace import Step
from cereval.report.story import Story


def render_pair_run(story: Story) -> str:
    """The page of a run that asked two models: its scores are y = (1 + first - second)/2."""
    plan, goal = story.plan, current_goal(story)
    names = {which: plan.model[which]["name"] for which in ("first", "second")}
    content = {
        "result": Comparison.of(story.result).as_dict(),
        "settings": {"about": {**names, "data": plan.data_name or "unnamed data"}, "goal": goal},
        "digest": (story.certificate or {}).get("digest", "not yet issued"),
    }
    steps = [
        Step(step.calls, *(2 * value - 1 for value in (step.estimate, step.lower, step.upper)))
        for step in story.steps
    ]
    return render_comparison(content, steps, story.certificate)


def render_comparison(
    content: Mapping[str, Any], steps: Sequence[Step], certificate: Mapping[str, Any] | None
) -> str:
    """The page. Names come from data files: they are made printable, cut and escaped.

    content: a comparison's certificate, or as much of it as the page tells. steps: the difference and its
    interval after every item. certificate: what is attached.
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
    attached = Markup(attachment(None if certificate is None else dict(certificate)))
    page: str = template.render(style=style, attachment=attached, **_variables(content, steps, Markup))
    return page


def _variables(content: Mapping[str, Any], steps: Sequence[Step], markup: Any) -> dict[str, Any]:
    result, settings = content["result"], content["settings"]
    # The bar runs from -1 to 1, as y = (1 + difference)/2 does from 0 to 1.
    middle, low, high = ((1 + result[name]) / 2 for name in ("difference", "lower", "upper"))
    return {
        "result": result,
        "about": settings["about"],
        "goal": settings["goal"],
        "answer": wording.answer_of_comparison(result, {**settings["about"], **settings["goal"]}),
        "confidence": f"{round(result['confidence'] * 100, 6):g}% confidence",
        "difference": f"{result['difference'] * 100:+.2f}%",
        "interval": wording.signed_interval(result["lower"], result["upper"]),
        "overall": markup(svg.interval_bar(middle, Interval(low, high))),
        "charts": [
            (name, markup(svg.narrowing(steps, width, least=-1.0)))
            for name, width in (("wide", WIDE), ("narrow", NARROW))
            if len(steps) > 1
        ],
        "digest": content["digest"],
    }
