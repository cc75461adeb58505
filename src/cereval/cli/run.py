"""`cereval run`: from a file of questions and a model's address to a certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cereval.cli.run_options import TASK, apply

if TYPE_CHECKING:
    from cereval.cli.task import Task
    from cereval.plan import Plan


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
@apply(TASK)
def run(data: str | None, config: str | None, **flags: Any) -> int:
    """Evaluate a model on DATA with as few calls as a certified answer takes.

    DATA is a JSONL, CSV or Parquet file, hf:org/name[:config][@split], or a task file (YAML) with the same
    settings as the flags. Repeating a command goes on where it ended: no answer is paid for twice.

    Exit codes: 0 goal reached or certified pass, 1 could not run, 2 certified fail, 3 undecided.
    """
    return started(data, config, flags)


def started(data: str | None, config: str | None, flags: dict[str, Any]) -> int:
    """What `run` and `gate` have in common."""
    from cereval.cli.preparing import prepared
    from cereval.cli.running import Showing, carry_out, opened_store
    from cereval.cli.task import task_from
    from cereval.cli.weighting import mix_notes
    from cereval.runner.start import planned

    showing = Showing(flags.pop("display"), flags.pop("output"), flags.pop("as_json"))
    dry_run = flags.pop("dry_run")
    task = task_from(data, config, flags)
    work = prepared(task)
    for note in mix_notes(task.mix):
        click.echo(note, err=True)
    if dry_run:
        return _shown(task, work, showing.as_json)
    store = opened_store(task.store)
    try:
        plan = planned(work.plan, work.items, store, history=task.history)
        return carry_out(work, plan, store, showing)
    finally:
        store.close()


def _shown(task: Task, work: Any, as_json: bool) -> int:
    """The plan, the first prompt and the calls to expect, without asking anything."""
    from cereval.cli.output import percent, print_json, print_table
    from cereval.goals.words import in_words

    first = [dict(turn) for turn in work.caller.prompt.messages(work.items[0])]
    calls = _expected(task, work.plan)
    facts = {"plan": work.plan.as_dict(), "first_prompt": first, "expected_calls": calls}
    if as_json:
        print_json(facts)
        return 0
    plan = work.plan
    rows = [
        ("model", str(task.model)),
        ("items", f"{plan.n_items:,} ({plan.data_hash[:23]}...)"),
        ("scorer", str(plan.scorer["spec"]["name"])),
        ("goal", f"{in_words(plan.goal)} at {percent(plan.confidence)} confidence"),
        ("target", f"{plan.target}, method {plan.method}, seed {plan.seed}"),
    ]
    rows += [("calls", f"about {calls:,} at worst")] if calls else []
    click.echo("nothing is asked; this would be:")
    print_table([*rows, *((f"first prompt, {turn['role']}", turn["content"]) for turn in first)])
    return 0


def _expected(task: Task, plan: Plan) -> int | None:
    """Calls that scores of the largest variance would take; a threshold's depend on where the mean is."""
    from cereval.stats.planning import plan_estimate
    from cereval.stats.scenario import Scenario
    from cereval.stats.shift import shift_of

    if task.at_least is not None:
        return None
    eps, weights = task.eps or 0.02, plan.item_weights
    if weights is not None:
        return shift_of(weights, eps, 1 - task.confidence).calls
    outlook = plan_estimate(Scenario(plan.n_items, mean=0.5, confidence=task.confidence), eps)
    calls = next(row.calls for row in outlook.forecasts if row.method == "uniform")
    return plan.n_items if calls is None else calls
