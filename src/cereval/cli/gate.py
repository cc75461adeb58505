"""`cereval gate`: does a model reach a score? Three answers, three exit codes."""

from __future__ import annotations

from typing import Any

import click

from cereval.cli.run_options import TASK, apply


@click.command()
@click.argument("data", required=False)
@click.option("--min", "at_least", type=float, required=True, metavar="C", help="The mean score to reach.")
@apply(TASK)
def gate(data: str | None, config: str | None, **flags: Any) -> int:
    """Let a model pass only if its mean score on DATA is certainly at least C; takes the flags of `run`.

    Exit codes: 0 certified pass, 1 could not run, 2 certified fail, 3 undecided (the budget is spent).
    """
    from cereval.cli.run import started

    return started(data, config, {**flags, "eps": None})
