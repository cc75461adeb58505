"""Say how far a judge can be trusted, from the labels of people: `cereval judge`."""

from __future__ import annotations

import click

from cereval.cli.options import JSON, STORE


@click.command()
@click.argument("run", metavar="RUN")
@STORE
@click.option(
    "--mark",
    type=float,
    default=0.5,
    show_default=True,
    metavar="C",
    help="The judge calls an answer right from this score on (grade 1 is 0, grade 10 is 1). Choose it before you "
    "look at the labels.",
)
@JSON
def judge(run: str, store: str | None, mark: float, as_json: bool) -> int:
    """Compare a judge with people, on the answers of RUN (an id, or its beginning).

    RUN was made with `cereval run DATA --scorer people --judge MODEL`: the judge has graded every answer, and people
    have labelled some. Or RUN has the scorer `prefer:both_orders`: then it is shown how far the order decides.

    All intervals hold at once, at every moment, also while people are still labelling. Nobody is asked anything.
    """
    from cereval.cli.output import print_json, print_table
    from cereval.report.judge import try_judge
    from cereval.store.base import opened_store
    from cereval.text import printable

    with opened_store(store) as opened:
        trial = try_judge(opened, run, mark)
    if as_json:
        print_json(trial.as_dict())
        return 0
    table = trial.table()
    click.echo(printable(trial.headline()))
    print_table(table.rows, table.header, numbers=table.numbers)
    for note in trial.notes:
        click.echo(note)
    return 0
