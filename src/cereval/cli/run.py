"""Carry a file of questions and a model's address to a certificate: `cereval run` and `cereval gate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cereval.cli.options import RUN, apply

if TYPE_CHECKING:
    from cereval.plan import Plan
    from cereval.runner.prepare import Prepared
    from cereval.runner.request import Request


@click.command()
@click.argument("data", required=False)
@click.option("--eps", type=float, help="Stop when the mean is known within this.  [default: 0.02]")
@click.option(
    "--at-least",
    "--threshold",
    "at_least",
    type=float,
    metavar="C",
    help="Stop when it is certain whether the mean is >= C.",
)
@apply(RUN)
def run(data: str | None, config: str | None, **flags: Any) -> int:
    """Evaluate a model on DATA with as few calls as a certified answer takes.

    DATA is a JSONL, CSV or Parquet file, hf:org/name[:config][@split], or a task file (YAML) with the same
    settings as the flags. Repeating a command goes on where it ended: no answer is paid for twice.

    Exit codes: 0 goal reached or certified pass, 1 could not run, 2 certified fail, 3 undecided.
    """
    return started(data, config, flags)


@click.command()
@click.argument("data", required=False)
@click.option("--min", "at_least", type=float, required=True, metavar="C", help="The mean score to reach.")
@apply(RUN)
def gate(data: str | None, config: str | None, **flags: Any) -> int:
    """Let a model pass only if its mean score on DATA is certainly at least C; takes the flags of `run`.

    A gate tests what is served now: it asks again, unless --reuse or --max-age says which answers may be kept.

    Exit codes: 0 certified pass, 1 could not run, 2 certified fail, 3 undecided (the budget is spent).
    """
    fresh = flags["max_age"] is None if flags["fresh"] is None else flags["fresh"]
    return started(data, config, {**flags, "eps": None, "fresh": fresh})


def started(data: str | None, config: str | None, flags: dict[str, Any]) -> int:
    """Carry out `run` or `gate`."""
    from cereval.cli.running import run_live
    from cereval.datasets.weights import mix_notes
    from cereval.errors import InvalidInput
    from cereval.runner.prepare import prepared
    from cereval.runner.request import request_from

    outputs = ("certificate", "report", "display", "as_json", "name", "tags", "seal")
    showing = {name: flags.pop(name) for name in outputs}
    dry_run = flags.pop("dry_run")
    request = request_from(data, config, flags)
    work = prepared(request)
    for note in mix_notes(request.mix):
        click.echo(note, err=True)
    if dry_run and showing["seal"] is not None:
        raise InvalidInput("--seal", "left out with --dry-run", showing["seal"])
    if dry_run:
        return _shown(request, work, showing["as_json"])
    return run_live(work, request, showing, history=request.history)


def _shown(request: Request, work: Prepared, as_json: bool) -> int:
    """Print the plan, the first prompt and the calls to expect, without asking anything."""
    from cereval.cli.output import print_json, print_table
    from cereval.questions.goals import in_words
    from cereval.runner.forecast import forecast
    from cereval.runner.samples import Samples
    from cereval.text import percent

    first = [dict(turn) for turn in work.prompt.messages(work.items[0])]
    plan = work.plan
    expected = _expected(request, plan)
    calls = None if expected is None else expected * Samples.of(plan.scorer).count
    spending = forecast(work, calls)
    if as_json:
        print_json(
            {"plan": plan.as_dict(), "first_prompt": first, "expected_calls": calls, **spending.as_dict()}
        )
        return 0
    rows = [
        ("model", str(request.model)),
        ("items", f"{plan.n_items:,} ({plan.data_hash[:23]}...)"),
        ("scorer", str(plan.scorer["spec"]["name"])),
        ("goal", f"{in_words(plan.goal)} at {percent(plan.confidence)} confidence"),
        ("target", f"{plan.target}, method {plan.method}, seed {plan.seed}"),
    ]
    rows += [("calls", f"about {calls:,} at worst")] if calls else []
    rows += spending.rows()
    click.echo("nothing is asked; this would be:")
    print_table([*rows, *((f"first prompt, {turn['role']}", turn["content"]) for turn in first)])
    return 0


def _expected(request: Request, plan: Plan) -> int | None:
    """Forecast the calls that scores of the largest variance would take; None for a threshold."""
    from cereval.forecasts.pool import Pool
    from cereval.stats.planning import Scenario, plan_estimate
    from cereval.stats.weights import shift_of

    if request.at_least is not None:
        return None
    eps, weights = request.eps or 0.02, plan.item_weights
    if weights is not None:
        shares = Pool.build(plan.n_items, weights=weights).shares()
        return shift_of(shares, eps, 1 - request.confidence).calls
    outlook = plan_estimate(Scenario(plan.n_items, mean=0.5, confidence=request.confidence), eps)
    calls = next(row.calls for row in outlook.forecasts if row.method == "uniform")
    return plan.n_items if calls is None else calls
