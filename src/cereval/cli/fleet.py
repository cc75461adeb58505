"""`cereval fleet`: many models, data sets and goals in one file, under one budget."""

from __future__ import annotations

import click

from cereval.cli.options import JSON, REPORT, STORE, TRUST, apply
from cereval.cli.output import print_json, print_table
from cereval.fleet.result import planned_json, planned_table, planned_words
from cereval.fleet.run import plan_fleet, run_fleet
from cereval.text import money, printable


@click.command()
@click.argument("file")
@click.option(
    "--on",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Processes on this machine, or a Ray cluster (extra `ray`).",
)
@click.option(
    "--plan", "only_plan", is_flag=True, help="Show the order of work and the calls to expect; ask nothing."
)
@click.option("--display", type=click.Choice(["plain", "none"]), default="plain", help="Progress on stderr.")
@apply(STORE, TRUST, REPORT, JSON)
def fleet(
    file: str,
    on: str,
    only_plan: bool,
    display: str,
    store: str | None,
    trust: bool | None,
    report: str | None,
    as_json: bool,
) -> int:
    """Evaluate every model of FILE on every data set of it: one certified answer each, under one budget.

    FILE (YAML) has `models`, `data` and the settings of `run` (scorer, eps, base_url, ...), as one value, as a list or
    in the entry of a model or a data set; `goals` for other questions than `run`; `max_calls`, `max_usd` and
    `max_minutes` for all runs together; `limits` of servers. Runs on the same data learn from those before them.
    Repeating a command goes on where it ended: no answer is paid for twice.

    Exit codes: 0 every goal is reached, 1 a run could not run, 2 one certainly failed, 3 one is undecided.
    """
    if only_plan:
        return _planned(file, store, bool(trust), as_json)

    tell = (
        (lambda line: click.echo(printable(line, 400), err=True)) if display == "plain" else (lambda _: None)
    )
    done = run_fleet(file, on=on, store=store, trust=bool(trust), tell=tell)
    if report is not None:
        done.report(report)
    if as_json:
        print_json(done.as_dict())
        return done.exit_code
    table = done.table()
    cost = "" if done.cost_usd == 0 else f", cost {money(done.cost_usd)}"
    click.echo(f"{done.headline()} ({done.asked:,} asked now{cost})")
    print_table(table.rows, table.header, numbers=table.numbers, names=table.names, extra=table.extra)
    return done.exit_code


def _planned(file: str, store: str | None, trust: bool, as_json: bool) -> int:
    steps = plan_fleet(file, store=store, trust=trust)
    facts = planned_json(steps)
    if as_json:
        print_json(facts)
        return 0
    table = planned_table(steps)
    cost = f", ${facts['cost_usd']:,.2f}" if facts["cost_usd"] else ""
    alone = f"{facts['calls_alone']:,} if none knew of another"
    click.echo(f"nothing is asked; {planned_words(steps)}{cost}, {alone}")
    print_table(table.rows, table.header, numbers=table.numbers, names=table.names)
    return 0
