"""Carry out a question for every command that asks one: live runs, and recorded scores."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cereval.api import carry_out, reuse_of
from cereval.cli.display import observer_for
from cereval.cli.options import can_be_written
from cereval.cli.output import show, write_certificate
from cereval.cli.seal import NewSeal, write_seal
from cereval.errors import BadFile
from cereval.records import Certified, Result, Rows, Step, Table
from cereval.runner.book import Reuse
from cereval.runner.finding import left_behind, planned
from cereval.runner.outside import is_asked_outside
from cereval.runner.people import judged
from cereval.runner.run import Outcome
from cereval.runner.samples import Samples
from cereval.runner.sealing import read_seal, sealed_plan
from cereval.store.base import ENDED, Store, opened_store, sqlite_file, store_flag
from cereval.text import money, rounded

if TYPE_CHECKING:
    from cereval.plan import Known, Plan
    from cereval.questions.log import Change
    from cereval.questions.session import AskTell
    from cereval.runner.prepare import Prepared
    from cereval.runner.request import Request

UNFINISHED = ("running", "budget")
"""How a result stopped that may go on."""
NOTICED = 0.005
"""A difference between two shares that readers would wonder about."""

# -- live -------------------------------------------------------------------------------------------------------------


def run_live(work: Prepared, request: Request, flags: Mapping[str, Any], *, history: bool) -> int:
    """Ask what a request asks, through the store: a repeated command goes on where it ended."""
    seal = flags.get("seal")
    if isinstance(seal, NewSeal):
        return write_seal(work, request, seal, history=history, as_json=flags["as_json"])
    sealed = None if seal is None else read_seal(Path(seal))
    reuse = reuse_of(request)
    if request.fresh and request.max_age is not None:
        click.echo("note: --max-age has no effect with --fresh, which reuses no answer", err=True)
    with (
        opened_store(request.store, create=sealed is None) as store,
        store.hold_request(work.plan.request),
    ):
        if sealed is None:
            taught = asyncio.run(judged(work, store, observer_for(flags["display"])))
            plan = planned(
                work.plan,
                work.items,
                store,
                history=history,
                fresh=request.fresh,
                since=reuse.since,
                taught=taught,
            )
            if request.fresh:
                _say_what_is_left(plan, store)
        else:
            plan = sealed_plan(sealed, work.plan, work.items, store, history=history)
        return finish(work, plan, store, flags, reuse=reuse, labels=labels_of(flags))


def _say_what_is_left(plan: Plan, store: Store) -> None:
    """Name the run that was cut short where its question is asked anew: its answers are paid for."""
    left = left_behind(plan, store)
    if left is None:
        return
    waits = is_asked_outside(plan) and (plan.max_calls is None or left.answers < plan.max_calls)
    if left.status in ENDED and not waits:
        return
    how = "waits for scores" if waits else "failed" if left.status == "failed" else "was interrupted"
    verb = "ask" if waits else "resume"
    command = f"cereval {verb} {left.run_id}{store_flag(store)}{' -o batch.csv' if waits else ''}"
    click.echo(f"run {left.run_id} {how}; this one asks anew, `{command}` goes on with that", err=True)


def labels_of(flags: Mapping[str, Any]) -> list[str]:
    """Return the name and the tags that a command gives its run."""
    return [*((flags["name"],) if flags["name"] else ()), *flags["tags"]]


def finish(
    work: Prepared,
    plan: Plan,
    store: Store,
    flags: Mapping[str, Any],
    change: Change | None = None,
    reuse: Reuse = Reuse(),  # noqa: B008
    labels: Sequence[str] = (),
) -> int:
    """Run or resume a plan, write its certificate and page, print its answer; return the exit code."""
    path = certificate_path(flags["certificate"], store, plan.run_id)
    outcome = asyncio.run(carry_out(work, plan, store, observer_for(flags["display"]), change, reuse))
    write_certificate(path, outcome.certificate, store_flag(store))
    store.label(plan.run_id, labels)
    if flags.get("report") is not None:
        from cereval.report import page_of, write_page

        write_page(Path(flags["report"]), page_of(store, outcome.run_id).html)
    if outcome.kept and not flags["as_json"] and not is_asked_outside(plan):
        click.echo(kept_line(outcome, fresh="" if change is not None else " (--fresh asks anew)"))
    code = show(
        outcome.result,
        run_json(outcome, path),
        run_rows(outcome, path),
        as_json=flags["as_json"],
        notes=[*shared_notes(outcome, store), *sampling_notes(outcome), *mean_notes(outcome)],
    )
    if not flags["as_json"]:
        suggest_resuming(outcome, store)
    return code


def kept_line(outcome: Outcome, fresh: str = "") -> str:
    """Say which answers were there already, and since when; fresh: how the command asks anew, if it can."""
    since = "" if outcome.kept_since is None else f", the oldest of {_minute(outcome.kept_since)}"
    if outcome.asked == 0 and outcome.spent is not None:
        return (
            f"nothing was asked: --max-{outcome.spent} is used up; {outcome.kept:,} answers were there{since}"
        )
    if outcome.asked == 0:
        return f"nothing was asked: all {outcome.kept:,} answers were there{since}{fresh}"
    return f"{outcome.asked:,} answers asked now, {outcome.kept:,} were there{since}"


def _minute(moment: float) -> str:
    try:
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):  # a store that was changed by hand may name any moment
        return "an unknown day"


def run_json(outcome: Outcome, path: Path) -> dict[str, Any]:
    """Return what scripts want besides the result's fields."""
    names = outcome.result.models
    named = {"first": names[0], "second": names[1]} if len(names) == 2 else {}
    spec = {} if "goal" in outcome.result.as_dict() else dict(outcome.result.goal)
    return {
        "run_id": outcome.run_id,
        "model": outcome.plan.model_name,
        **named,
        "data": outcome.plan.data_name,
        **spec,
        "calls": outcome.calls,
        "asked": outcome.asked,
        "kept": outcome.kept,
        "surplus": outcome.surplus,
        "cost_usd": outcome.cost_usd,
        "priced_by": outcome.priced_by or None,
        "calls_to_go": outcome.calls_to_go,
        "interrupted": outcome.interrupted,
        "certificate": str(path),
        "runs": dict(outcome.parts),
    }


def run_rows(outcome: Outcome, path: Path) -> Rows:
    """Return how a run ended, what it took, and where it is kept."""
    result = outcome.result
    cost = money(outcome.cost_usd) if outcome.cost_usd != 0 else "$0.0000"
    cost += f" ({outcome.priced_by})" if outcome.priced_by and outcome.cost_usd else ""
    ahead = outcome.calls_to_go
    waits = _waits_outside(outcome)
    stopped = "waiting for scores" if waits else "interrupted" if outcome.interrupted else result.stopped
    spare = f"{outcome.surplus} {'waiting for an earlier one' if waits else 'not needed'}"
    return [
        ("stopped", stopped),
        ("calls", f"{outcome.calls:,} ({result.failures} failed, {spare}), cost {cost}"),
        *([] if ahead is None else [("still needed", _still_needed(ahead, outcome.calls_afresh))]),
        ("certificate", str(path)),
        ("run", outcome.run_id),
    ]


def _still_needed(calls: int, afresh: int | None) -> str:
    new_run = "" if afresh is None else f"; a new run takes about {afresh:,}, less what is answered"
    return f"about {calls:,} calls, if the scores go on like this{new_run}"


def shared_notes(outcome: Outcome, store: Store) -> list[str]:
    """Warn where a run uses answers older than itself: several questions do not share one confidence."""
    began = store.run(outcome.run_id).created_at
    if not any(store.run(part).created_at < began for part in outcome.parts.values()):
        return []
    return [
        "answers in the store from earlier runs were not asked again; the confidence is that of this run by itself, "
        "its goal and models fixed before those answers were looked at"
    ]


def sampling_notes(outcome: Outcome) -> list[str]:
    """Say what is estimated where every question is asked several times."""
    samples = Samples.of(outcome.plan.scorer)
    return [samples.words(outcome.plan.target)] if samples.count > 1 else []


def mean_notes(outcome: Outcome) -> list[str]:
    """Say so where the estimate is not the plain mean of the answers, which people compare it with."""
    result = outcome.result
    scores = [entry["score"] for entry in outcome.certificate["log"] if entry.get("score") is not None]
    if type(result) is not Result or not scores:
        return []
    mean = fsum(scores) / len(scores)
    if abs(mean - result.estimate) < NOTICED:
        return []
    weighs = "" if result.method == "uniform" else "weighs answers by their chance to be drawn, and "
    return [
        f"the plain mean of the {len(scores):,} answers is {rounded(mean)}; the estimate {weighs}lies where nothing in "
        "the interval is further away than stated"
    ]


def suggest_resuming(outcome: Outcome, store: Store) -> None:
    """Say how to go on, where that is possible."""
    if outcome.result.stopped not in UNFINISHED:
        return
    where = store_flag(store)
    if _waits_outside(outcome):
        command = f"ask {outcome.run_id}{where} -o batch.csv"
        click.echo(f"`cereval {command}` hands out the next questions", err=True)
        return
    more = f" --max-{outcome.spent} MORE" if outcome.spent in ("calls", "usd") else ""
    click.echo(f"`cereval resume {outcome.run_id}{where}{more}` goes on from here", err=True)


def _waits_outside(outcome: Outcome) -> bool:
    """Tell whether a run waits for scores that somebody else is to tell."""
    unfinished = outcome.result.stopped in UNFINISHED and outcome.spent != "calls"
    return unfinished and is_asked_outside(outcome.plan)


def certificate_path(output: str | None, store: Store, run_id: str) -> Path:
    """Return where the certificate goes: beside the database unless told otherwise. Checked before any call."""
    path = Path(output) if output else beside_store(store, f"{run_id}.certificate.json")
    if not can_be_written(path):
        raise BadFile(f"the certificate cannot be written to {path}; name a file in a writable folder")
    return path


def beside_store(store: Store, name: str) -> Path:
    """Return a file of this name beside the database, or in the working folder where the store is a server."""
    file = sqlite_file(store.url)
    return (file.parent if file is not None else Path()) / name


# -- recorded ---------------------------------------------------------------------------------------------------------


class Watch:
    """Note what is certified after every result, for the page."""

    def __init__(self, session: AskTell) -> None:
        self.steps: list[Step] = []
        self(session)

    def __call__(self, session: AskTell) -> None:
        step = session.step()
        if step is not None:
            self.steps.append(step)


def finish_recorded(
    kind: str,
    session: AskTell,
    known: Known,
    flags: Mapping[str, Any],
    *,
    about: Mapping[str, Any],
    extra: Mapping[str, Any],
    rows: Rows,
    notes: tuple[str, ...] = (),
    steps: list[Step] | None = None,
    table: Table | None = None,
    instead: Mapping[str, Any] | None = None,
    plan: Plan | None = None,
) -> int:
    """Write the certificate and the page of recorded scores where they are wanted, and print the answer."""
    result = session.result()
    if flags["certificate"] or flags["report"]:
        _write(kind, session, result, known, flags, about, steps or [], plan)
    told = [*rows, ("stopped", result.stopped)]
    return show(result, extra, told, as_json=flags["as_json"], notes=notes, table=table, instead=instead)


def _write(
    kind: str,
    session: AskTell,
    result: Certified,
    known: Known,
    flags: Mapping[str, Any],
    about: Mapping[str, Any],
    steps: list[Step],
    plan: Plan | None,
) -> None:
    from cereval.certificate.format import issue
    from cereval.questions import kind_named

    certificate = issue(kind_named(kind), session, result, known, about=about, plan=plan)
    if flags["certificate"]:
        write_certificate(Path(flags["certificate"]), certificate)
    if flags["report"]:
        from cereval.report import recorded_page, write_page

        page = recorded_page(kind_named(kind), result, certificate, steps, about)
        write_page(Path(flags["report"]), page)
