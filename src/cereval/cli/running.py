"""Carrying out a run for `run`, `gate` and `resume`: one event loop, one display, one way to print."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from cereval.cli.output import exit_code, headline, print_json, print_table
from cereval.cli.preparing import Prepared
from cereval.cli.stores import sqlite_file
from cereval.cli.written import can_be_written
from cereval.errors import BadFile
from cereval.plan import Plan
from cereval.records import Result
from cereval.runner.progress import Observer, Silent
from cereval.runner.run import Outcome, run
from cereval.runner.start import Start, changed, start
from cereval.sessions.log import Change
from cereval.store.base import DEFAULT_URL, Store, open_store
from cereval.text import interval

INTERRUPTED = "interrupted: waiting for the calls in flight (Ctrl-C again to stop at once)"


@dataclass(frozen=True, slots=True)
class Showing:
    """Where progress and results go."""

    display: str | None = None
    output: str | None = None
    as_json: bool = False

    def observer(self, goal: Mapping[str, Any] | None = None) -> Observer:
        """Shows the run; `goal` is the one pursued, which may have changed since the run was planned."""
        from cereval.cli.plain_display import PlainDisplay

        kind = self.display or ("rich" if sys.stderr.isatty() else "plain")
        if kind == "rich":
            from cereval.cli.rich_display import RichDisplay

            return RichDisplay(goal=goal)
        return Silent() if kind == "none" else PlainDisplay(goal=goal)


def carry_out(
    work: Prepared, plan: Plan, store: Store, showing: Showing, change: Change | None = None
) -> int:
    """Runs or resumes a plan, writes its certificate, prints its answer; returns the exit code."""
    path = certificate_path(showing.output, store, plan.run_id)
    outcome = asyncio.run(_run(work, plan, store, showing, change))
    write_certificate(path, outcome.certificate)
    if "second" in plan.model:
        from cereval.cli.compared_live import show_comparison

        return show_comparison(outcome, path, plan, as_json=showing.as_json)
    if plan.tasks:
        from cereval.cli.tasks_live import show_tasks

        return show_tasks(outcome, path, plan, store, as_json=showing.as_json)
    if plan.growth:
        from cereval.cli.extend_live import show_version

        return show_version(outcome, path, plan, store, as_json=showing.as_json)
    result = outcome.result
    assert isinstance(result, Result)
    if showing.as_json:
        print_json({**result.as_dict(), **run_facts(outcome, path)})
    else:
        print_for_people(outcome, result, path, plan)
        suggest_resuming(outcome, store)
    return exit_code(result)


async def _run(work: Prepared, plan: Plan, store: Store, showing: Showing, change: Change | None) -> Outcome:
    try:
        with store.hold(plan.run_id):
            begun = _begun(start(plan, work.items, store), store, change)
            watcher = showing.observer(begun.session.goal.spec())
            return await run(
                begun,
                store,
                work.caller,
                work.limits,
                watcher,
                circumstances=work.circumstances,
                on_interrupt=lambda: watcher.on_note(INTERRUPTED),
            )
    finally:
        await work.close()


def _begun(begun: Start, store: Store, change: Change | None) -> Start:
    """Applies a change to what the replay reached; without one, or where nothing differs, all stays."""
    session = begun.session
    budget = session.budget if change is None or change.max_calls is None else change.max_calls
    goal = session.goal.spec() if change is None or not change.goal else dict(change.goal)
    if (goal, budget) == (session.goal.spec(), session.budget):
        return begun
    drawn = len(store.draws(begun.plan.run_id))
    return changed(begun, store, Change(session.n_evaluated, drawn, goal, budget))


def certificate_path(output: str | None, store: Store, run_id: str) -> Path:
    """Where the certificate goes: beside the database unless told otherwise. Checked before any call."""
    file = sqlite_file(store.url)
    folder = file.parent if file is not None else Path()
    path = Path(output) if output else folder / f"{run_id}.certificate.json"
    if not can_be_written(path):
        raise BadFile(f"the certificate cannot be written to {path}; name a file in a writable folder")
    return path


def write_certificate(path: Path, certificate: Mapping[str, Any]) -> None:
    """Whole or not at all: a reader never meets half a certificate."""
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(certificate, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        advice = "name another file"
        if "run_id" in certificate:
            advice = f"it is safe in the store: `cereval resume {certificate['run_id']} -o FILE` writes it elsewhere"
        raise BadFile(f"the certificate cannot be written to {path} ({error.strerror}); {advice}") from None


def run_facts(outcome: Outcome, path: Path) -> dict[str, Any]:
    """What scripts want besides the result's fields."""
    return {
        "run_id": outcome.run_id,
        "calls": outcome.calls,
        "surplus": outcome.surplus,
        "cost_usd": outcome.cost_usd,
        "interrupted": outcome.interrupted,
        "certificate": str(path),
    }


def print_for_people(outcome: Outcome, result: Result, path: Path, plan: Plan) -> None:
    goals = [plan.goal, *(change["goal"] for change in outcome.certificate["changes"])]
    click.echo(headline(result, goals[-1].get("value")))
    rows = [
        ("model", plan.model_name),
        ("interval", interval(result.lower, result.upper)),
        ("method", f"{result.method} ({result.guarantee})"),
        *run_rows(outcome, path),
    ]
    print_table([*rows, *(("note", note) for note in result.notes)])


def run_rows(outcome: Outcome, path: Path) -> list[tuple[str, str]]:
    """How a run of any kind ended, what it took, and where it is kept."""
    result, cost = outcome.result, "unknown" if outcome.cost_usd is None else f"${outcome.cost_usd:.4f}"
    return [
        ("stopped", "interrupted" if outcome.interrupted else result.stopped),
        ("calls", f"{outcome.calls:,} ({result.failures} failed, {outcome.surplus} not needed), cost {cost}"),
        ("certificate", str(path)),
        ("run", outcome.run_id),
    ]


def suggest_resuming(outcome: Outcome, store: Store) -> None:
    """Says how to go on, where that is possible."""
    if outcome.result.stopped in ("running", "budget"):
        where = "" if store.url == DEFAULT_URL else f" --store {store.url}"
        click.echo(f"`cereval resume {outcome.run_id}{where}` goes on from here", err=True)


def opened_store(url: str) -> Store:
    """The store of a new run; created where there is none."""
    file = sqlite_file(url)
    if file is not None and not file.parent.is_dir():
        raise BadFile(f"there is no folder {file.parent} for the database; create it, or use another --store")
    return open_store(url)
