"""`render_comparison`: a certificate of a comparison as one self-contained HTML page, without scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cereval.records import Interval
from cereval.report import svg, wording
from cereval.report.page import NARROW, WIDE, current_goal
from cereval.report.rendering import attachment, drawing, rendered
from cereval.report.retrace import Step
from cereval.report.story import Story
from cereval.sessions.pair import Comparison
from cereval.text import percent


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
    attached = attachment(None if certificate is None else dict(certificate))
    return rendered("comparison.html", attachment=attached, **_variables(content, steps))


def _variables(content: Mapping[str, Any], steps: Sequence[Step]) -> dict[str, Any]:
    result, settings = content["result"], content["settings"]
    # The bar runs from -1 to 1, as y = (1 + difference)/2 does from 0 to 1.
    middle, low, high = ((1 + result[name]) / 2 for name in ("difference", "lower", "upper"))
    return {
        "result": result,
        "about": settings["about"],
        "goal": settings["goal"],
        "answer": wording.answer_of_comparison(result, {**settings["about"], **settings["goal"]}),
        "confidence": f"{percent(result['confidence'])} confidence",
        "difference": f"{result['difference'] * 100:+.2f}%",
        "interval": wording.signed_interval(result["lower"], result["upper"]),
        "overall": drawing(svg.interval_bar(middle, Interval(low, high))),
        "charts": [
            (name, drawing(svg.narrowing(steps, width, least=-1.0)))
            for name, width in (("wide", WIDE), ("narrow", NARROW))
            if len(steps) > 1
        ],
        "digest": content["digest"],
    }
