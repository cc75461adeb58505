"""Go on with a run in the store: `cereval resume`; score its answers again: `cereval rescore`."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from cereval.cli.carry_out import finish
from cereval.cli.options import OUTPUT, SCORING, STORE, TRUST, Once, apply, take
from cereval.questions.mean.goal import Estimate
from cereval.runner.resume import begin_again, recall_with_change, rescore_run
from cereval.runner.run import Outcome, reuse_in
from cereval.settings import AgainOptions, check_options
from cereval.store.base import opened_store


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


# -- with another scorer -----------------------------------------------------------------------------------------------


FEW_LEFT = 0.9
"""A rescored run that uses a larger share of the answers says nothing of the others: some were not needed before."""


@click.command()
@click.argument("run_id", metavar="RUN")
@apply(SCORING, STORE, TRUST, OUTPUT)
def rescore(run_id: str, store: str | None, **flags: Any) -> int:
    """Score the answers of RUN again, with --scorer or with its own scorer as the code is now; no model is asked.

    A new run is made, which draws as RUN did. Scores decide later draws: where it would ask what RUN never asked, it
    ends with what is certified so far. The result is valid if the scorer was not chosen by looking at these answers.

    Exit codes as for the command that began the run.
    """
    showing = {name: flags.pop(name) for name in ("certificate", "report", "display", "as_json")}
    trust = bool(flags.pop("trust"))
    with opened_store(store) as opened:
        work = rescore_run(run_id, opened, flags, trust=trust)
        scored = opened.run(run_id)
        return finish(
            work,
            work.plan,
            opened,
            showing,
            labels=[f"rescored:{scored.run_id}"],
            note=partial(_unused, scored.answers),
        )


def _unused(there: int, outcome: Outcome) -> list[str]:
    """Say so where answers are left, and how they are put to use."""
    used = outcome.result.n_evaluated
    if used >= FEW_LEFT * there:
        return []
    if outcome.result.stopped == "goal":
        return [
            f"{used:,} of the {there:,} answers were enough for the goal; "
            f"`cereval resume {outcome.run_id} --eps SMALLER` uses more of them"
        ]
    return [
        f"{used:,} of the {there:,} answers were used: with these scores another question would have come next; "
        "`cereval run` with this --scorer takes the answers that are there and asks what is missing"
    ]
