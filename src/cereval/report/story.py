"""Everything a report tells, read from the store alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cereval.datasets.base import Item
from cereval.errors import StoreError
from cereval.known import session_for
from cereval.plan import Plan
from cereval.records import Draw, Result
from cereval.report.categories import CategoryEstimate, CategoryScores, category_estimates
from cereval.report.retrace import Retraced, Step, retraced
from cereval.runner.start import changes_of, known_items
from cereval.sessions.log import Log
from cereval.store.base import Answer, Run, Store

NO_CATEGORY = "(no category)"


@dataclass(frozen=True, slots=True)
class Asked:
    """One draw, its item and what came of it. `favour`: its chance over that of a uniform draw."""

    draw: Draw
    item: Item
    favour: float
    answer: Answer | None


@dataclass(frozen=True, slots=True)
class Story:
    """A run as a report shows it; `certificate` is the newest, None while there is none."""

    run: Run
    plan: Plan
    result: Result
    steps: tuple[Step, ...]
    asked: tuple[Asked, ...]
    categories: tuple[CategoryEstimate, ...]
    certificate: Mapping[str, Any] | None


def read_story(store: Store, run_id: str) -> Story:
    """The story of one run, by its id or the beginning of it."""
    run = store.run(run_id)
    plan = Plan.from_dict(run.plan)
    items = tuple(map(item_from, store.items(run.data_hash)))
    draws, answers = store.draws(run.run_id), store.answers(run.run_id)
    results = {answer.draw: answer.score for answer in answers}
    names = [item.category or NO_CATEGORY for item in items]
    told = retraced(
        session_for(plan, known_items(plan, items, store)),
        Log(results, len(draws), changes_of(store, run.run_id)),
        names,
    )
    if told.draws != draws:
        raise StoreError(
            f"the draws of run {run.run_id} cannot be decided again: it was made by another version of "
            "cereval, or its database was changed; use the version that its certificate names"
        )
    certificates = store.certificates(run.run_id)
    return Story(
        run=run,
        plan=plan,
        result=told.result,
        steps=told.steps,
        asked=_asked(draws, items, answers, plan.target),
        categories=_categories(plan, names, draws, results, told),
        certificate=certificates[-1] if certificates else None,
    )


def item_from(values: Mapping[str, Any]) -> Item:
    """The item that `Item.as_dict` wrote."""
    question = values["input"]
    return Item(
        id=values["id"],
        input=question if isinstance(question, str) else tuple(question),
        answers=tuple(values["answers"]),
        choices=tuple(values["choices"]),
        category=values["category"],
        metadata=values["metadata"],
    )


def _asked(
    draws: Sequence[Draw], items: Sequence[Item], answers: Sequence[Answer], target: str
) -> tuple[Asked, ...]:
    by_draw = {answer.draw: answer for answer in answers}
    return tuple(
        Asked(
            draw,
            items[draw.item],
            draw.probability * (len(items) - (0 if target == "expected" else draw.index)),
            by_draw.get(draw.index),
        )
        for draw in draws
    )


def _categories(
    plan: Plan,
    names: Sequence[str],
    draws: Sequence[Draw],
    results: Mapping[int, float | None],
    told: Retraced,
) -> tuple[CategoryEstimate, ...]:
    """In order of size; none where there is only one category. Only consumed results count."""
    scores: dict[str, list[float | None]] = {name: [] for name in sorted(set(names))}
    if len(scores) < 2:
        return ()
    for draw in draws[: told.result.n_evaluated]:
        scores[names[draw.item]].append(results[draw.index])
    sizes = {name: names.count(name) for name in scores}
    parts = [
        CategoryScores(name, sizes[name], tuple(seen), name not in told.uneven)
        for name, seen in scores.items()
    ]
    return category_estimates(parts, 1 - plan.confidence, plan.target)
