"""Carry out what a command asks: from its flags to settings, through the runner, to what is printed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.display import observer_for
from cereval.cli.options import given_candidates, given_options
from cereval.cli.outcome import certificate_path, print_outcome, print_page
from cereval.cli.seal import NewSeal, write_seal
from cereval.datasets.weights import mix_notes
from cereval.errors import InvalidInput
from cereval.files import is_file
from cereval.runner.candidates import is_asked_outside
from cereval.runner.finding import left_behind
from cereval.runner.prepare import prepare
from cereval.runner.run import carry_out, choose_plan, reuse_in
from cereval.runner.task_file import CANDIDATES_FILE, Written, merge_settings, read_candidates, read_task
from cereval.settings import ACCEPTED
from cereval.store.base import ENDED, opened_store, store_flag

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
    """Return the settings that a command line describes, with the files that it names."""
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
    store.label(plan.run_id, labels)
    print_page(flags.get("report"), store, outcome.run_id)
    return print_outcome(outcome, path, store, changed=change is not None, as_json=flags["as_json"])
