"""Print what a run came to: its answer, what it took, where it is kept, and how to go on."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.options import can_be_written
from cereval.cli.output import show, write_certificate
from cereval.errors import BadFile
from cereval.plan import full_name
from cereval.records import Result, Rows
from cereval.runner.candidates import is_asked_outside
from cereval.runner.listing import candidate_words
from cereval.runner.run import kept_line
from cereval.runner.samples import Samples
from cereval.store.base import Store, sqlite_file, store_flag
from cereval.text import money, rounded

if TYPE_CHECKING:
    from cereval.runner.run import Outcome

UNFINISHED = ("running", "budget")
"""How a result stopped that may go on."""

NOTICED = 0.005
"""A difference between two shares that readers would wonder about."""


def print_outcome(outcome: Outcome, path: Path, store: Store, *, changed: bool, as_json: bool) -> int:
    """Write the certificate and print the answer; return the exit code.

    changed: the run was gone on with by `resume`, which has no --fresh.
    """
    write_certificate(path, outcome.certificate, store_flag(store))
    if outcome.kept and not as_json and outcome.plan.method != "all" and not is_asked_outside(outcome.plan):
        click.echo(kept_line(outcome, fresh="" if changed else " (--fresh asks anew)"))
    code = show(
        outcome.result,
        outcome_as_json(outcome, path),
        outcome_rows(outcome, path),
        as_json=as_json,
        notes=[
            *outcome.notes,
            *_shared_notes(outcome, store),
            *_sampling_notes(outcome),
            *_mean_notes(outcome),
        ],
    )
    if not as_json:
        _suggest_resuming(outcome, store)
    return code


def print_page(path: str | None, store: Store, run_id: str) -> None:
    """Write the page of a run, where one is wanted."""
    if path is not None:
        from cereval.report import page_of, write_page

        write_page(Path(path), page_of(store, run_id).html)


def outcome_as_json(outcome: Outcome, path: Path) -> dict[str, Any]:
    """Return what scripts want besides the result's fields."""
    names = outcome.result.models
    named = {"first": names[0], "second": names[1]} if len(names) == 2 else {}
    spec = {} if "goal" in outcome.result.as_dict() else dict(outcome.result.goal)
    baseline = [one["run"] for one in outcome.plan.candidates if "run" in one]
    return {
        "run_id": outcome.run_id,
        "model": outcome.plan.name,
        **named,
        "data": outcome.plan.data_name,
        **spec,
        **({"baseline": baseline[0]} if baseline else {}),
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
        "scorer": outcome.result.scorer or None,
        "instead": outcome.instead,
        "served": {name: dict(names) for name, names in outcome.served.items()},
    }


def outcome_rows(outcome: Outcome, path: Path) -> Rows:
    """Return how a run ended, what it took, and where it is kept."""
    result = outcome.result
    cost = money(outcome.cost_usd) if outcome.cost_usd != 0 else "$0.0000"
    cost += f" ({outcome.priced_by})" if outcome.priced_by and outcome.cost_usd else ""
    ahead = outcome.calls_to_go
    waits = _waits_outside(outcome)
    stopped = "waiting for scores" if waits else "interrupted" if outcome.interrupted else result.stopped
    spare = f"{outcome.surplus} {'waiting for an earlier one' if waits else 'not needed'}"
    named = [spec for spec in outcome.plan.candidates if full_name(spec) != spec["name"]]
    return [
        *((spec["name"], candidate_words(spec)) for spec in named),
        ("stopped", stopped),
        ("calls", f"{outcome.calls:,} ({result.failures} failed, {spare}), cost {cost}"),
        *instead_rows(outcome.instead),
        *([] if ahead is None else [("still needed", _still_needed(ahead, outcome.calls_afresh))]),
        *_served_rows(outcome),
        ("certificate", str(path)),
        ("run", outcome.run_id),
    ]


def _served_rows(outcome: Outcome) -> Rows:
    """Name the releases that answered, where a server gives them other names than were asked for."""
    asked = {spec["model"].rpartition("/")[2] for spec in outcome.plan.candidates}
    names = sorted({name for counts in outcome.served.values() for name in counts} - asked)
    return [("answered by", ", ".join(names))] if names else []


def instead_rows(instead: Mapping[str, int]) -> Rows:
    """Say what others would have asked for an answer like this."""
    if "normal" not in instead:
        return [("instead of", f"{instead['all']:,} for all")] if instead else []
    everything = f"{instead['all']:,} for all, or " if "all" in instead else ""
    fixed = f"{instead['normal']:,} (normal approximation) or {instead['hoeffding']:,} (Hoeffding)"
    return [("instead of", f"{everything}a plan of fixed size for this width: {fixed}")]


def _still_needed(calls: int, afresh: int | None) -> str:
    new_run = "" if afresh is None else f"; a new run takes about {afresh:,}, less what is answered"
    return f"about {calls:,} calls, if the scores go on like this{new_run}"


def _shared_notes(outcome: Outcome, store: Store) -> list[str]:
    """Warn where a run uses answers older than itself: several questions do not share one confidence."""
    began = store.run(outcome.run_id).created_at
    if not any(store.run(part).created_at < began for part in outcome.parts.values()):
        return []
    return [
        "answers of earlier runs in the store were used and not asked again; the confidence holds for this run alone, "
        "if its goal and candidates were not chosen by looking at those answers"
    ]


def _sampling_notes(outcome: Outcome) -> list[str]:
    """Say what is estimated where every question is asked several times, or where clusters are drawn."""
    if "cluster" in outcome.plan.scorer:
        by = outcome.plan.scorer["cluster"]
        return [
            f"by {by}: what is counted are the {outcome.plan.n_items:,} clusters, each of which counts once"
        ]
    samples = Samples.of(outcome.plan.scorer)
    return [samples.words(outcome.plan.target)] if samples.count > 1 else []


def _mean_notes(outcome: Outcome) -> list[str]:
    """Say so where the estimate is not the plain mean of the answers, which people compare it with."""
    result = outcome.result
    scores = [entry["score"] for entry in outcome.certificate["log"] if entry.get("score") is not None]
    if type(result) is not Result or not scores:
        return []
    mean = fsum(scores) / len(scores)
    if abs(mean - result.estimate) < NOTICED:
        return []
    return [
        f"the plain mean of the {len(scores):,} answers is {rounded(mean)}; the estimate is weighted: questions were "
        "not drawn with equal probability"
    ]


def _suggest_resuming(outcome: Outcome, store: Store) -> None:
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
    if outcome.calls_afresh is not None:
        again = f"cereval resume {outcome.run_id}{where} --new"
        click.echo(f"`{again}` takes fewer calls: a new run that uses the answers that are there", err=True)


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
