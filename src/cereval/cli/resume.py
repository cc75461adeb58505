"""Go on with a run after a crash, a Ctrl-C or a spent budget: `cereval resume`."""

from __future__ import annotations

from typing import Any

import click

from cereval.cli.options import LIMITS, OUTPUT, PRICES, STORE, TRUST, apply


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option(
    "--eps",
    type=float,
    help="A new half-width, only for runs of `run` and `gate`; the change becomes part of the record.",
)
@click.option("--base-url", metavar="URL", help="The server's address, if it has moved.")
@apply(LIMITS, PRICES, STORE, TRUST, OUTPUT)
def resume(run_id: str, store: str | None, eps: float | None, max_calls: int | None, **flags: Any) -> int:
    """Go on with RUN (its id, or the beginning of it): stored answers are replayed, none is asked again.

    Data, prompt, model and scorer come from the store. Python code and addresses that it names are used only if
    they were typed on this machine, or are confirmed with --trust: the store may be somebody else's.

    Exit codes as for the command that began the run.
    """
    from cereval.api import resumed, reuse_in
    from cereval.cli.running import finish
    from cereval.questions.mean.goal import Estimate
    from cereval.questions.session import whole
    from cereval.store.base import opened_store

    showing = {name: flags.pop(name) for name in ("certificate", "report", "display", "as_json")}
    trust = bool(flags.pop("trust"))
    if max_calls is not None:
        whole("budget", max_calls, 1)
    with opened_store(store) as opened:
        goal = {} if eps is None else Estimate(eps).spec()
        work, change = resumed(run_id, opened, flags, goal, max_calls, trust=trust)
        return finish(work, work.plan, opened, showing, change, reuse_in(work.circumstances))
