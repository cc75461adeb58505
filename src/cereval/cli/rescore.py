"""Make a new certificate from the answers that a run has, with another scorer: `cereval rescore`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.options import OUTPUT, SCORING, STORE, TRUST, apply

if TYPE_CHECKING:
    from cereval.runner.run import Outcome

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
    from cereval.cli.asking import finish
    from cereval.runner.recall import rescore_run
    from cereval.store.base import opened_store

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
