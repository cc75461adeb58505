"""Go on with a run after a crash, a Ctrl-C or a spent budget: `cereval resume`."""

from __future__ import annotations

from typing import Any

import click

from cereval.cli.options import OUTPUT, STORE, TRUST, Once, apply, take
from cereval.settings import AgainOptions


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option(
    "--eps",
    cls=Once,
    type=float,
    help="A new half-width, only for runs of `run` and `gate`; the change becomes part of the record.",
)
@click.option(
    "--new",
    is_flag=True,
    help="Begin a new run of the same question instead: it uses the answers that are there, and takes fewer calls than "
    "going on where a budget had been set.",
)
@take(AgainOptions)
@apply(STORE, TRUST, OUTPUT)
def resume(run_id: str, store: str | None, eps: float | None, new: bool, **flags: Any) -> int:
    """Go on with RUN (its id, its beginning, or its name): stored answers are loaded, none is asked again.

    Data, prompt, model and scorer come from the store. Python code and addresses that it names are used only if
    they were typed on this machine, or are confirmed with --trust: the store may be somebody else's.

    Exit codes as for the command that began the run.
    """
    from cereval.cli.asking import finish
    from cereval.questions.mean.goal import Estimate
    from cereval.runner.recall import begin_again, recall_with_change
    from cereval.runner.run import reuse_in
    from cereval.settings import check_options
    from cereval.store.base import opened_store

    names = AgainOptions.__annotations__
    given = check_options({name: flags[name] for name in names if flags[name] is not None}, AgainOptions)
    with opened_store(store) as opened:
        goal = {} if eps is None else Estimate(eps).spec()
        if new:
            work, plan = begin_again(run_id, opened, given, goal, trust=bool(flags["trust"]))
            return finish(work, plan, opened, flags, reuse=reuse_in(work.circumstances))
        max_calls = given.pop("max_calls", None)
        work, change = recall_with_change(run_id, opened, given, goal, max_calls, trust=bool(flags["trust"]))
        return finish(work, work.plan, opened, flags, change, reuse_in(work.circumstances))
