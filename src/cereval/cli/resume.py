"""`cereval resume`: goes on with a run after a crash, a Ctrl-C or a spent budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from cereval.cli.run_options import LIMITS, OUTPUT, PRICES, STORE, apply


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option(
    "--eps",
    type=float,
    help="A new half-width, only for runs of `run` and `gate`; the change becomes part of the record.",
)
@click.option("--base-url", metavar="URL", help="The server's address, if it has moved.")
@apply(LIMITS, PRICES, STORE, OUTPUT)
def resume(run_id: str, store: str | None, eps: float | None, max_calls: int | None, **flags: Any) -> int:
    """Go on with RUN (its id, or the beginning of it): stored answers are replayed, none is asked again.

    Data, prompt, model and scorer come from the store. Exit codes as for `run`.
    """
    from cereval.cli.preparing import recalled
    from cereval.cli.running import Showing, carry_out
    from cereval.cli.stores import existing_store
    from cereval.errors import InvalidInput
    from cereval.goals import Estimate
    from cereval.sessions.base import whole
    from cereval.sessions.log import Change

    showing = Showing(flags.pop("display"), flags.pop("output"), flags.pop("as_json"))
    if max_calls is not None:
        whole("budget", max_calls, 1)
    opened = existing_store(store)
    try:
        goal = {} if eps is None else Estimate(eps).spec()
        plan = opened.run(run_id).plan
        if goal and _keeps_its_question(plan):
            raise InvalidInput(
                "--eps",
                "left out for a comparison, many tasks or growing data, which keep their question",
                eps,
            )
        if max_calls is not None and plan.get("growth"):
            raise InvalidInput(
                "--max-calls", "left out for growing data (--max-usd, --max-minutes)", max_calls
            )
        work = recalled(run_id, opened, flags)
        return carry_out(work, work.plan, opened, showing, Change(0, 0, goal, max_calls))
    finally:
        opened.close()


def _keeps_its_question(plan: Mapping[str, Any]) -> bool:
    return "second" in plan["model"] or bool(plan.get("tasks") or plan.get("growth"))
