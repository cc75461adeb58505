"""Carry out what a command asks: from its flags to settings, through the runner, to what is printed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.display import observer_for
from cereval.cli.options import can_be_written, given_candidates, given_options, names_a_run
from cereval.cli.output import show, write_certificate
from cereval.cli.recorded import read_recorded, recorded_sources, refuse_asking
from cereval.cli.seal import NewSeal, write_seal
from cereval.datasets.weights import mix_notes
from cereval.errors import BadFile, InvalidInput
from cereval.files import is_file
from cereval.plan import full_name
from cereval.records import Result, Rows
from cereval.runner.candidates import RUN, is_asked_outside
from cereval.runner.finding import left_behind
from cereval.runner.listing import candidate_words
from cereval.runner.prepare import prepare
from cereval.runner.run import carry_out, choose_plan, kept_line, reuse_in
from cereval.runner.samples import Samples
from cereval.runner.task_file import CANDIDATES_FILE, Written, merge_settings, read_candidates, read_task
from cereval.settings import ACCEPTED
from cereval.store.base import ENDED, Store, opened_store, sqlite_file, store_flag
from cereval.text import money, rounded

if TYPE_CHECKING:
    from cereval.datasets.base import DataSet
    from cereval.plan import Plan
    from cereval.questions.log import Change
    from cereval.runner.book import Reuse
    from cereval.runner.prepare import Prepared
    from cereval.runner.run import Outcome
    from cereval.settings import Settings
    from cereval.store.base import Store

YAML = (".yaml", ".yml")


def answer_question(
    kind: str,
    data: Sequence[str],
    flags: Mapping[str, Any],
    context: click.Context,
    *,
    names: Sequence[str] = (),
    candidates: int | None = 1,
    fresh: bool | None = None,
) -> int:
    """Answer a question from earlier runs, from recorded scores, or by asking candidates; return the exit code.

    names: candidates that were chosen by name, or further runs or logs. candidates: how many there are to be; None: two
    or more. fresh: whether who is asked is asked anew, where no flag says so.
    """
    if candidates != 1 and names and all(map(names_a_run, (*data, *names))):
        runs = [f"{RUN}{one}" for one in (*data, *names)]
        return ask_candidates(
            kind, runs[:1], {**flags, "models": (*runs, *flags["models"])}, candidates=candidates
        )
    if sources := recorded_sources(kind, (*data, *names), flags):
        refuse_asking(context, flags)
        found = read_recorded(sources, flags["models"], flags)
        for note in found.notes:
            click.echo(note, err=True)
        recorded = {**flags, "models": found.candidates, "name": found.models}
        return ask_candidates(kind, sources, recorded, candidates=candidates, given=found.data)
    if flags["items"] is not None:
        raise InvalidInput("--items", "left out where models are asked", flags["items"])
    models, beats = flags["models"], flags.get("beats")
    if beats and beats not in models and not names and not flags["candidates_file"]:
        models = (*models, beats)
    usual = fresh if flags["fresh"] is None else flags["fresh"]
    asked = {**flags, "models": models, "fresh": usual}
    return ask_candidates(kind, data, asked, names=names, candidates=candidates)


def ask_candidates(
    kind: str,
    data: Sequence[str],
    flags: Mapping[str, Any],
    *,
    names: Sequence[str] = (),
    candidates: int | None = 1,
    given: DataSet | None = None,
) -> int:
    """Ask what a command's flags say; return its exit code.

    names: candidates that were chosen by name. candidates: how many there are to be; None: two or more. given: the
    questions, where they were read already.
    """
    settings = read_settings(kind, data, flags, names=names, candidates=candidates)
    for note in mix_notes(settings["mix"]):
        click.echo(note, err=True)
    work, seal = prepare(settings, data=given), flags.get("seal")
    if flags.get("dry_run"):
        from cereval.cli.dry_run import show_plan

        if seal is not None:
            raise InvalidInput("--seal", "left out with --dry-run", seal)
        return show_plan(settings, work, flags["as_json"])
    if isinstance(seal, NewSeal):
        return write_seal(work, settings, seal, as_json=flags["as_json"])
    if settings["fresh"] and settings["max_age"] is not None:
        click.echo("note: --max-age has no effect with --fresh, which reuses no answer", err=True)
    fixed = None if seal is None else Path(seal)
    with (
        opened_store(settings["store"], create=fixed is None) as store,
        store.hold_request(work.plan.request),
    ):
        plan = asyncio.run(choose_plan(work, settings, store, observer_for(flags["display"]), seal=fixed))
        if settings["fresh"]:
            say_what_is_left(plan, store)
        labels = [*(flags["name"] if given is None else ()), *(settings["tags"] or ())]
        return finish(work, plan, store, flags, reuse=reuse_in(work.circumstances), labels=labels)


def read_settings(
    kind: str, data: Sequence[str], flags: Mapping[str, Any], *, names: Sequence[str], candidates: int | None
) -> Settings:
    config = flags.get("config")
    if config is None and len(data) == 1 and Path(data[0]).suffix in YAML:
        config, data = data[0], ()
    written = Written() if config is None else read_task(Path(config), kind)
    options = given_options(flags, ACCEPTED[kind])
    if kind == "compare" and (options.get("baseline") or written.options.get("baseline")):
        candidates = 1
    models, chosen = list(flags["models"]), list(names)
    file = flags.get("candidates_file")
    if file is not None or chosen or _may_be_named(models):
        place = Path(file or CANDIDATES_FILE)
        if file is not None or is_file(place):
            named = read_candidates(place)
            written = replace(
                written,
                candidates={**written.candidates, **named.candidates},
                names=(*written.names, *named.names),
                source=written.source or named.source,
            )
    chosen += [model for model in models if model in written.candidates]
    models = [model for model in models if model not in written.candidates]
    count = None if candidates is None else max(candidates - len(chosen), 1)
    typed, shared = given_candidates(flags, models, count)
    settings = merge_settings(kind, data, typed, options, written, chosen=chosen, shared=shared)
    _check_count(settings, candidates)
    return settings


def _may_be_named(models: Sequence[str]) -> bool:
    return any("/" not in model and ":" not in model for model in models)


def _check_count(settings: Settings, wanted: int | None) -> None:
    found = [one.name or one.model_name for one in settings.candidates]
    if wanted == 1 and len(found) > 1:
        raise InvalidInput(
            "--model", "given once (`compare` and `rank` take several candidates)", ", ".join(found)
        )
    if wanted == 2 and len(found) != 2:
        needed = "given twice, or once with another option that is given twice (such as --system)"
        raise InvalidInput("--model", needed, ", ".join(found))
    if wanted is None and len(found) < 2:
        raise InvalidInput("--model", "given twice or more", ", ".join(found))


def say_what_is_left(plan: Plan, store: Store) -> None:
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


def finish(
    work: Prepared,
    plan: Plan,
    store: Store,
    flags: Mapping[str, Any],
    change: Change | None = None,
    reuse: Reuse | None = None,
    labels: Sequence[str] = (),
    note: Callable[[Outcome], Sequence[str]] = lambda _: (),
) -> int:
    """Run or resume a plan, write its certificate and page, print its answer; return the exit code.

    note: what else is to be said of the outcome.
    """
    from cereval.runner.book import Reuse

    path = certificate_path(flags["certificate"], store, plan.run_id)
    observer = observer_for(flags["display"])
    outcome = asyncio.run(carry_out(work, plan, store, observer, change, reuse or Reuse()))
    outcome = replace(outcome, notes=(*outcome.notes, *note(outcome)))
    if outcome.run_id != plan.run_id:  # the server refused the temperature
        path = certificate_path(flags["certificate"], store, outcome.run_id)
    store.label(outcome.run_id, labels)
    print_page(flags.get("report"), store, outcome.run_id)
    return print_outcome(outcome, path, store, changed=change is not None, as_json=flags["as_json"])


# -- what came of it ---------------------------------------------------------------------------------------------------


UNFINISHED = ("running", "budget")
"""How a result stopped that may go on."""

NOTICED = 0.005
"""A difference between two shares that readers would wonder about."""


def print_outcome(outcome: Outcome, path: Path, store: Store, *, changed: bool, as_json: bool) -> int:
    """Write the certificate and print the answer; return the exit code.

    changed: the run was gone on with by `resume`, which has no --fresh.
    """
    write_certificate(path, outcome.certificate, store_flag(store))
    recorded = outcome.plan.method == "all" and not outcome.asked
    if outcome.kept and not as_json and not recorded and not is_asked_outside(outcome.plan):
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
    if path is not None:
        from cereval.report import page_of, write_page

        write_page(Path(path), page_of(store, run_id).html)


def outcome_as_json(outcome: Outcome, path: Path) -> dict[str, Any]:
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
    asked = {spec["model"].rpartition("/")[2] for spec in outcome.plan.candidates}
    counts = sum(map(Counter, outcome.served.values()), Counter[str]())
    if counts.keys() <= asked:
        return []
    several = len(counts) > 1
    return [
        ("answered by", ", ".join(f"{one} ({counts[one]:,})" if several else one for one in sorted(counts)))
    ]


def instead_rows(instead: Mapping[str, int]) -> Rows:
    if "normal" not in instead:
        return [("instead of", f"{instead['all']:,} for all")] if instead else []
    everything = f"{instead['all']:,} for all, or " if "all" in instead else ""
    fixed = f"{instead['normal']:,} (normal approximation) or {instead['hoeffding']:,} (Hoeffding)"
    return [("instead of", f"{everything}a sample of fixed size for this width: {fixed}")]


def _still_needed(calls: int, afresh: int | None) -> str:
    new_run = "" if afresh is None else f"; a new run takes about {afresh:,}, stored answers included"
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
    if "cluster" in outcome.plan.scorer:
        by = outcome.plan.scorer["cluster"]
        return [f"by {by}: the {outcome.plan.n_items:,} clusters are counted, each once"]
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
    unfinished = outcome.result.stopped in UNFINISHED and outcome.spent != "calls"
    return unfinished and is_asked_outside(outcome.plan)


def certificate_path(output: str | None, store: Store, run_id: str) -> Path:
    """Return where the certificate goes: beside the database unless told otherwise. Checked before any call."""
    path = Path(output) if output else beside_store(store, f"{run_id}.certificate.json")
    if not can_be_written(path):
        raise BadFile(f"the certificate cannot be written to {path}; name a file in a writable folder")
    return path


def beside_store(store: Store, name: str) -> Path:
    file = sqlite_file(store.url)
    return (file.parent if file is not None else Path()) / name
