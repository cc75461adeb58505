"""`render`: the story of a run as one self-contained HTML page, without scripts and outside resources."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from cereval.records import Interval
from cereval.report import svg, wording
from cereval.report.categories import CategoryEstimate
from cereval.report.favours import category_favours
from cereval.report.rendering import attachment, drawing, rendered
from cereval.report.story import Asked, Story

WIDE, NARROW = 720, 340
COMPARED, SAME = ("estimate", "lower", "upper", "n_evaluated"), 1e-9
SAMPLES = {"right": 4, "wrong": 6, "failed": 3}


@dataclass(frozen=True, slots=True)
class Totals:
    """What the calls took; times are those of the answers, which overlap where many were in flight."""

    calls: int
    failures: int
    input_tokens: int
    output_tokens: int
    retries: int
    median_s: float
    cost_usd: float | None


def render(story: Story) -> str:
    """The page. Everything that a model or a data file wrote is made printable, cut and escaped."""
    return rendered("page.html", **_variables(story))


def _variables(story: Story) -> dict[str, Any]:
    result, goal = story.result, current_goal(story)
    low, high = wording.outwards(result.lower, result.upper)
    return {
        "story": story,
        "result": result,
        "plan": story.plan,
        "answer": wording.answer_of(result, goal),
        "is_threshold": goal.get("goal") == "threshold",
        "confidence": wording.confidence_of(result),
        "asked": wording.asked_of(result),
        "low": low,
        "high": high,
        "overall": drawing(svg.interval_bar(result.estimate, Interval(result.lower, result.upper))),
        "charts": [
            (name, drawing(svg.narrowing(story.steps, width)))
            for name, width in (("wide", WIDE), ("narrow", NARROW))
            if len(story.steps) > 1
        ],
        "categories": [_category_row(one) for one in by_estimate(story.categories)],
        "favours": category_favours(story.asked),
        "samples": {kind: samples(story.asked, kind, most) for kind, most in SAMPLES.items()},
        "totals": totals(story.asked),
        "settings": settings(story),
        "differing": differing(story),
        "attachment": attachment(story.certificate),
    }


def current_goal(story: Story) -> dict[str, Any]:
    """The goal now: a resumed run may have been given another than the plan's."""
    changes = (story.certificate or {}).get("changes") or []
    return dict(changes[-1]["goal"] if changes else story.plan.goal)


def differing(story: Story) -> str:
    """What the certificate says, where that is not what the page says."""
    stated = (story.certificate or {}).get("result")
    if stated is None or all(abs(stated[key] - getattr(story.result, key)) < SAME for key in COMPARED):
        return ""
    low, high = wording.outwards(stated["lower"], stated["upper"], 2)
    return f"{low} to {high} after {stated['n_evaluated']:,} calls"


def _category_row(one: CategoryEstimate) -> dict[str, Any]:
    return {
        "category": one,
        "ends": None if one.interval is None else wording.outwards(one.interval.lower, one.interval.upper, 0),
        "bar": drawing(svg.interval_bar(one.estimate, one.interval)),
    }


def by_estimate(categories: Iterable[CategoryEstimate]) -> list[CategoryEstimate]:
    """The best first; those of which nothing is known last."""
    return sorted(categories, key=lambda one: -1.0 if one.estimate is None else one.estimate, reverse=True)


def samples(asked: Sequence[Asked], kind: str, most: int) -> list[Asked]:
    """The first drawn of a kind, one for each category before any has two."""
    fitting = [one for one in asked if kind_of(one) == kind]
    seen: dict[str | None, int] = {}
    rounds = []
    for one in fitting:
        rounds.append((seen.get(one.item.category, 0), one.draw.index, one))
        seen[one.item.category] = seen.get(one.item.category, 0) + 1
    return [one for _, _, one in sorted(rounds, key=lambda entry: entry[:2])[:most]]


def kind_of(one: Asked) -> str:
    if one.answer is None:
        return "open"
    if one.answer.score is None:
        return "failed"
    return "right" if one.answer.score >= 0.5 else "wrong"


def totals(asked: Sequence[Asked]) -> Totals:
    answers = [one.answer for one in asked if one.answer is not None]
    costs = [answer.cost_usd for answer in answers]
    return Totals(
        calls=len(answers),
        failures=sum(answer.failure is not None for answer in answers),
        input_tokens=sum(answer.input_tokens for answer in answers),
        output_tokens=sum(answer.output_tokens for answer in answers),
        retries=sum(answer.attempts - 1 for answer in answers),
        median_s=median(answer.latency_s for answer in answers) if answers else 0.0,
        cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
    )


def settings(story: Story) -> list[tuple[str, str]]:
    """What the result depends on, one line each."""
    plan, result = story.plan, story.result
    side = ", ".join(plan.side_information) or "none"
    rows = [
        ("Run", f"{story.run.run_id} ({story.run.status}), started {_minute(story.run.created_at)}"),
        ("Model", _flat(plan.model)),
        ("Data", f"{plan.data_name or 'unnamed'}, {plan.n_items:,} items, {plan.data_hash}"),
        ("Scorer", _flat(plan.scorer)),
        ("Prompt", _flat(plan.prompt) or "the question as it is"),
        ("Goal", _flat(current_goal(story))),
        ("Method", f"{result.method} (guarantee: {result.guarantee}), seed {plan.seed}"),
        ("Side information", side),
        ("Failed calls", "count as unknown: 0 from below, 1 from above"),
    ]
    if plan.weights:
        rows.append(("Weights", str(plan.weights["source"])))
    return [*rows, *(("Note", note) for note in result.notes)]


def _minute(moment: str) -> str:
    return f"{moment[:16].replace('T', ' ')} UTC"


def _flat(values: Any) -> str:
    """A mapping as `name: value` pairs, empty ones left out."""
    pairs = [(key, value) for key, value in values.items() if value not in (None, "", (), [], {})]
    return ", ".join(
        _flat(value) if isinstance(value, dict) else f"{key}: {_plain(value)}" for key, value in pairs
    )


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
