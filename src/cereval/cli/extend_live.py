"""`cereval extend` with a model that is asked: each version of the data is a run in the store."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cereval.cli.compared_live import TASK_FLAGS
from cereval.cli.extend import exit_code, new_seed, print_for_people
from cereval.cli.output import print_json
from cereval.errors import InvalidInput
from cereval.sessions.growing import GrowingResult

if TYPE_CHECKING:
    import click

    from cereval.cli.preparing import Prepared
    from cereval.plan import Plan
    from cereval.runner.run import Outcome
    from cereval.store.base import Store

RECORDED = ("versions", "items", "by", "state")
"""Flags that only recorded scores have."""

NOW = ("base_url", "connections", "max_usd", "max_minutes", "price_in", "price_out", "timeout")
"""Flags that may differ from version to version."""

READING = ("input", "answer", "choices", "category", "id")
ELSEWHERE = ("store", "certificate", "report", "as_json", "display")


def extend_live(run_id: str | None, data: str, context: click.Context, flags: Mapping[str, Any]) -> int:
    """Asks what the newest version still lacks, through the store: a repeated command goes on where it ended."""
    from cereval.cli.running import Showing, carry_out

    for name in RECORDED:
        if flags[name] is not None:
            raise InvalidInput(f"--{name}", "left out where the model is asked", flags[name])
    if run_id is not None:
        _refuse_settings(context, flags)
    if Path(data).suffix in (".yaml", ".yml"):
        raise InvalidInput("DATA", "questions (jsonl, csv, parquet, hf:org/name), not a task file", data)
    store = _store(run_id, flags)
    showing = Showing(flags["display"], flags["certificate"], flags["as_json"])
    try:
        with _alone(run_id, store):
            work, plan = _first(data, store, flags) if run_id is None else _next(run_id, data, store, flags)
            code = carry_out(work, plan, store, showing)
        if flags["report"] is not None:
            _write_page(flags["report"], store, plan.run_id)
        return code
    finally:
        store.close()


def _alone(run_id: str | None, store: Store) -> AbstractContextManager[None]:
    """Two versions at once that follow the same one would draw alike: what one shows foretells the other."""
    return nullcontext() if run_id is None else store.hold(store.run(run_id).run_id)


def _store(run_id: str | None, flags: Mapping[str, Any]) -> Store:
    from cereval.cli.running import opened_store
    from cereval.cli.stores import existing_store
    from cereval.store.base import DEFAULT_URL

    return opened_store(flags["store"] or DEFAULT_URL) if run_id is None else existing_store(flags["store"])


def _refuse_settings(context: click.Context, flags: Mapping[str, Any]) -> None:
    """What decides answers and bets is the same in all versions."""
    for parameter in context.command.params:
        name = str(parameter.name)
        if name in flags and name not in (*NOW, *READING, *ELSEWHERE) and flags[name] is not None:
            raise InvalidInput(
                parameter.opts[-1], "left out for a new version of RUN, which has it", flags[name]
            )


def _first(data: str, store: Store, flags: Mapping[str, Any]) -> tuple[Prepared, Plan]:
    from cereval.cli.preparing import growing
    from cereval.cli.task import task_from
    from cereval.runner.growth import begun_before

    given = {name: flags[name] for name in (*TASK_FLAGS, "model", "eps", "target")}
    work = growing(task_from(data, None, given))
    if flags["seed"] is not None:
        return work, work.plan
    return work, begun_before(replace(work.plan, seed=new_seed()), store)


def _next(run_id: str, data: str, store: Store, flags: Mapping[str, Any]) -> tuple[Prepared, Plan]:
    from cereval.cli.preparing import extended
    from cereval.datasets.fields import Fields
    from cereval.datasets.read import read_dataset
    from cereval.runner.growth import check_extension

    added = read_dataset(data, Fields(**{name: flags[name] for name in READING}), combined=True)
    work = extended(run_id, store, added, {name: flags[name] for name in NOW})
    check_extension(work.plan, store)
    return work, work.plan


def _write_page(path: str, store: Store, run_id: str) -> None:
    from cereval.cli.report import write_page
    from cereval.report.growing import render_growing

    write_page(Path(path), render_growing(store.certificates(run_id)[-1]))


def show_version(outcome: Outcome, path: Path, plan: Plan, store: Store, *, as_json: bool) -> int:
    """The answer of a run of growing data; returns the exit code."""
    from cereval.cli.running import run_facts, run_rows, suggest_resuming

    result = outcome.result
    assert isinstance(result, GrowingResult)
    if as_json:
        print_json({**result.as_dict(), "model": plan.model_name, **plan.goal, **run_facts(outcome, path)})
    else:
        print_for_people(result, plan.model_name, run_rows(outcome, path))
        suggest_resuming(outcome, store)
    return exit_code(result)
