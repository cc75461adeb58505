"""`cereval compare` with models that are asked: a run of the pair, shown as a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from cereval.cli.compare import exit_code, print_for_people
from cereval.cli.output import print_json
from cereval.errors import InvalidInput
from cereval.goals.compare import CompareGoal
from cereval.plan import Plan
from cereval.records import Result
from cereval.runner.run import Outcome
from cereval.sessions.pair import Comparison

TASK_FLAGS = (
    "base_url",
    "temperature",
    "max_tokens",
    "template",
    "system",
    "few_shot",
    "scorer",
    "judge",
    "judge_base_url",
    "input",
    "answer",
    "choices",
    "category",
    "id",
    "connections",
    "max_usd",
    "max_minutes",
    "price_in",
    "price_out",
    "timeout",
    "store",
    "confidence",
    "seed",
)


def compare_live(data: str, models: tuple[str, ...], goal: CompareGoal, flags: Mapping[str, Any]) -> int:
    """Puts the items that matter to both models, through the store: a repeated command goes on where it ended."""
    from cereval.cli.preparing import against
    from cereval.cli.running import Showing, carry_out, opened_store
    from cereval.cli.task import task_from
    from cereval.runner.start import planned

    for name in ("items", "report"):
        if flags[name] is not None:
            raise InvalidInput(f"--{name}", "left out where the models are asked", flags[name])
    if set(flags["history"]) - {"store", "none"}:
        raise InvalidInput(
            "--history", "`store` (the default) or `none` where models are asked", flags["history"][0]
        )
    given = {name: flags[name] for name in TASK_FLAGS} | {"model": models[0], "max_calls": flags["budget"]}
    task = task_from(data, None, given)
    work = against(task, models[1], goal)
    store = opened_store(task.store)
    try:
        plan = planned(work.plan, work.items, store, history="none" not in flags["history"])
        showing = Showing(flags["display"], flags["certificate"], flags["as_json"])
        return carry_out(work, plan, store, showing)
    finally:
        store.close()


def show_comparison(outcome: Outcome, path: Path, plan: Plan, *, as_json: bool) -> int:
    """The answer of a run of a pair; returns the exit code."""
    goals = [plan.goal, *(change["goal"] for change in outcome.certificate["changes"])]
    assert isinstance(outcome.result, Result)
    result = Comparison.of(outcome.result)
    names = {which: str(plan.model[which]["name"]) for which in ("first", "second")}
    extra = {**names, **goals[-1], "data": plan.data_name}
    # The run counts items: each was put to both models.
    facts = {"run_id": outcome.run_id, "calls": 2 * outcome.calls, "cost_usd": outcome.cost_usd}
    facts |= {"interrupted": outcome.interrupted, "certificate": str(path)}
    if as_json:
        print_json({**result.as_dict(), **extra, **facts})
        return exit_code(result, plan.goal["goal"])
    print_for_people(result, extra, list(result.notes))
    cost = "unknown" if outcome.cost_usd is None else f"${outcome.cost_usd:.4f}"
    click.echo(f"certificate {path}, run {outcome.run_id}, cost {cost}")
    return exit_code(result, plan.goal["goal"])
