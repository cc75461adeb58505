"""`cereval rank`: many models on shared items, put in a certified order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.output import PASSED, UNDECIDED, interval, percent, print_json, print_table

if TYPE_CHECKING:
    from cereval.cli.ranked import ScoredModels
    from cereval.goals.ranking import RankGoal
    from cereval.rank import ModelInterval, Ranking


@click.command()
@click.argument("scores")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="COLUMN",
    help="A column of SCORES; may be repeated.  [default: all that have a score on every item]",
)
@click.option(
    "--tie",
    type=float,
    metavar="EPS",
    help="Models no further apart than this need no order.  [default: 0.05]",
)
@click.option(
    "--doubt",
    type=float,
    metavar="P",
    help="Give a pair up as a tie when the chance that it is further apart than --tie is below P; steers calls, "
    "certifies nothing.  [default: 0.05]",
)
@click.option("--prove-ties", is_flag=True, help="Go on until every tie is certified too.")
@click.option("--top", type=int, metavar="K", help="Instead: the K best models.")
@click.option(
    "--within",
    type=float,
    metavar="EPS",
    help="With --top: each within this of the K-th best.  [default: 0.02]",
)
@click.option("--baseline", metavar="COLUMN", help="Instead: which models beat this one?")
@click.option("--confidence", type=float, default=0.95, show_default=True)
@click.option("--budget", type=int, metavar="N", help="At most N calls, of all models together.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--certificate", metavar="FILE", help="Write a certificate that `cereval verify` recomputes.")
@click.option("--report", metavar="FILE", help="Write a page: the order as a graph, and every interval.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def rank(scores: str, models: tuple[str, ...], as_json: bool, **flags: Any) -> int:
    """Rank the models of recorded SCORES, from as few calls as a certified order takes.

    Calls go to the models and items that still matter: a model whose order is settled is asked no more. Every
    [better, worse] pair in `order` is certified, all of them and every model's interval at once, whenever one stops.

    Exit codes: 0 goal reached, 1 could not run, 3 undecided.
    """
    from cereval.cli.ranked import read_models
    from cereval.rank import RankSession, drive

    table = read_models(scores, models, flags["baseline"])
    goal = goal_of(flags, table.names)
    session = RankSession(
        len(table.scores),
        table.names,
        goal=goal,
        **{name: flags[name] for name in ("confidence", "budget", "seed")},
    )
    result = drive(session, table.scores)
    if flags["certificate"] or flags["report"]:
        _write(flags, session, Path(scores).name)
    notes = [*table.notes, *result.notes]
    if as_json:
        print_json({**result.as_dict(), **table.truth(result), "notes": notes})
    else:
        print_for_people(result, table, notes)
    return PASSED if result.stopped == "goal" else UNDECIDED


def goal_of(flags: dict[str, Any], names: Sequence[str]) -> RankGoal:
    """The goal that the flags ask for."""
    from cereval.errors import InvalidInput
    from cereval.goals.ranking import Beats, Order, Top

    top, baseline = flags["top"], flags["baseline"]
    given = {name: flags[name] for name in ("tie", "doubt") if flags[name] is not None}
    if top is not None and (baseline is not None or given or flags["prove_ties"]):
        raise InvalidInput("--top", "given without --baseline, --tie, --doubt and --prove-ties", top)
    if top is not None:
        return Top(top) if flags["within"] is None else Top(top, flags["within"])
    if flags["within"] is not None:
        raise InvalidInput("--within", "given with --top only", flags["within"])
    if baseline is not None:
        return Beats(**given, proven=flags["prove_ties"], baseline=names.index(baseline))
    return Order(**given, proven=flags["prove_ties"])


def _write(flags: dict[str, Any], session: Any, data: str) -> None:
    from cereval.certificate.ranking import issue_ranking
    from cereval.cli.report import write_page
    from cereval.cli.running import write_certificate
    from cereval.report.ranking import render_ranking

    content = issue_ranking(session, data)
    if flags["certificate"]:
        write_certificate(Path(flags["certificate"]), content)
    if flags["report"]:
        write_page(Path(flags["report"]), render_ranking(content))


def print_for_people(result: Ranking, table: ScoredModels, notes: list[str]) -> None:
    """A headline, a row for each model, and the order in words: who is just above whom."""
    from cereval.printable import printable
    from cereval.report.hasse import Diagram
    from cereval.report.wording import answer_of_ranking

    asked = f"{result.calls:,} of {result.calls_full:,} calls ({result.saved:.1%} saved)"
    headline = f"{answer_of_ranking(result.as_dict())}, {percent(result.confidence)} confidence, {asked}"
    click.echo(printable(headline, 1000))
    diagram = Diagram.of(result.as_dict())
    rows = [
        [
            diagram.ranks(name),
            printable(name, 60),
            f"{result.intervals[name].estimate:.1%}",
            interval(result.intervals[name].lower, result.intervals[name].upper),
            f"{result.intervals[name].n:,}",
            bar(result.intervals[name]),
        ]
        for name in diagram.rows
    ]
    header = ("ranks", "model", "estimate", "interval", "items", "0% to 100%")
    print_table(rows, header, numbers=(0, 2, 3, 4))
    for line in diagram.text():
        click.echo(printable(line, 1000))
    wrong = table.truth(result)["wrong_orders"]
    about = [
        ("stopped", result.stopped),
        (
            "truth",
            f"{len(wrong)} of {len(result.order):,} certified pairs are WRONG" if wrong else _right(result),
        ),
    ]
    print_table([*about, *(("note", note) for note in notes)])


def bar(limits: ModelInterval, width: int = 20) -> str:
    """An interval as text, on a line from 0 to 1.

    >>> from cereval.rank import ModelInterval
    >>> bar(ModelInterval(0.5, 0.3, 0.8, 10), width=10)
    '···──●──··'
    """
    low, high = int(limits.lower * width), min(int(limits.upper * width - 1e-9), width - 1)
    middle = min(int(limits.estimate * width), width - 1)
    marks = ["─" if low <= place <= high else "·" for place in range(width)]
    marks[middle] = "●"
    return "".join(marks)


def _right(result: Ranking) -> str:
    return f"all {len(result.order):,} certified pairs are right" if result.order else "no pair is in order"
