"""`cereval rank`: many models on shared items, put in a certified order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.compare import ASKING, asked, refuse_asking
from cereval.cli.output import PASSED, UNDECIDED, interval, percent, print_json, print_table
from cereval.cli.run_options import OUTPUT, STORE, apply
from cereval.cli.written import CERTIFICATE, report_option

if TYPE_CHECKING:
    from cereval.goals.rank import RankGoal
    from cereval.report.hasse import Diagram
    from cereval.sessions.rank import ModelInterval, Ranking

Table = tuple[tuple[str, ...], list[list[str]]]
"""A header and its rows."""


@click.command()
@click.argument("scores", metavar="SCORES|DATA")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="COLUMN|NAME",
    help="A column of SCORES, or a model to ask, such as openai/NAME; may be repeated.  "
    "[default: all columns that have a score on every item]",
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
@click.option(
    "--budget", "--max-calls", type=int, metavar="N", help="At most N calls, of all models together."
)
@click.option("--seed", type=int, default=0, show_default=True)
@CERTIFICATE
@report_option("Write a page: the order as a graph, and every interval.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@apply(ASKING, STORE, OUTPUT[1])
@click.pass_context
def rank(context: click.Context, /, scores: str, models: tuple[str, ...], **flags: Any) -> int:
    """Rank many models on the same items, from as few calls as a certified order takes.

    SCORES is a table of recorded scores (`item` and one column per model). Or DATA is a question file, as for
    `run`, and the models are asked: the options from --base-url on are those of `run`, and a repeated command, also
    one with more models or another goal, asks nothing twice.

    Calls go to the models and items that still matter: a model whose order is settled is asked no more. Every
    [better, worse] pair in `order` is certified, all of them and every model's interval at once, whenever one stops.
    Each certificate holds by itself, for a goal and models fixed before looking: several rankings of the same
    answers do not share one confidence.

    Exit codes: 0 goal reached, 1 could not run, 3 undecided.
    """
    if models and asked(scores, models):
        from cereval.cli.ranked_live import rank_live

        return rank_live(scores, models, flags)
    refuse_asking(context, flags)
    return _recorded(scores, models, flags)


def _recorded(scores: str, models: tuple[str, ...], flags: dict[str, Any]) -> int:
    from cereval.cli.ranked import read_models, truth_in_words
    from cereval.sessions.rank import RankSession, drive

    table = read_models(scores, models, flags["baseline"])
    session = RankSession(
        len(table.scores),
        table.names,
        goal=goal_of(flags, table.names),
        **{name: flags[name] for name in ("confidence", "budget", "seed")},
    )
    result = drive(session, table.scores)
    write_files(flags, session, Path(scores).name)
    notes, truth = [*table.notes, *result.notes], table.truth(result)
    if flags["as_json"]:
        print_json({**result.as_dict(), **truth, "notes": notes})
    else:
        print_for_people(result, [("truth", truth_in_words(result, truth))], notes)
    return exit_code(result)


def exit_code(result: Ranking) -> int:
    return PASSED if result.stopped == "goal" else UNDECIDED


def goal_of(flags: Mapping[str, Any], names: Sequence[str]) -> RankGoal:
    """The goal that the flags ask for."""
    from cereval.errors import InvalidInput
    from cereval.goals.rank import Beats, Order, Top

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


def write_files(flags: Mapping[str, Any], session: Any, data: str) -> None:
    """The certificate and the page, where they are wanted."""
    if not (flags["certificate"] or flags["report"]):
        return
    from cereval.certificate.ranking import issue_ranking
    from cereval.cli.report import write_page
    from cereval.cli.running import write_certificate
    from cereval.report.ranking import render_ranking

    content = issue_ranking(session, data)
    if flags["certificate"]:
        write_certificate(Path(flags["certificate"]), content)
    if flags["report"]:
        write_page(Path(flags["report"]), render_ranking(content))


def print_for_people(result: Ranking, facts: list[tuple[str, str]], notes: list[str]) -> None:
    """A headline, a row for each model, and the order in words: who is just above whom."""
    from cereval.report.hasse import Diagram
    from cereval.report.wording import answer_of_ranking
    from cereval.text import printable

    asked = f"{result.calls:,} of {result.calls_full:,} calls ({result.saved:.1%} saved)"
    headline = f"{answer_of_ranking(result.as_dict())}, {percent(result.confidence)} confidence, {asked}"
    click.echo(printable(headline, 1000))
    diagram = Diagram.of(result.as_dict())
    header, rows = _ranks(result, diagram) if result.goal["goal"] != "top" else _places(result, diagram)
    print_table(rows, header, numbers=(0, 2, 3, 4), names=(1,), extra=5)
    for line in diagram.text():
        click.echo(printable(line, 1000))
    print_table([("stopped", result.stopped), *facts, *(("note", note) for note in notes)])


def _ranks(result: Ranking, diagram: Diagram) -> Table:
    """The models from top to bottom, each with the ranks that the certified order leaves to it."""
    return _table("ranks", {name: diagram.ranks(name) for name in diagram.rows}, result)


def _places(result: Ranking, diagram: Diagram) -> Table:
    """The models named first; `no`: certified not to be among the k best; `open`: not needed for the answer."""
    found = dict.fromkeys(diagram.rows, "open") | dict.fromkeys(result.eliminated, "no")
    found |= dict.fromkeys(result.winners, "yes")
    order = sorted(found, key=lambda name: ("yes", "open", "no").index(found[name]))
    return _table(f"top {result.goal['k']}", {name: found[name] for name in order}, result)


def _table(title: str, places: Mapping[str, str], result: Ranking) -> Table:
    rows = [
        [
            place,
            name,
            f"{result.intervals[name].estimate:.1%}",
            interval(result.intervals[name].lower, result.intervals[name].upper),
            f"{result.intervals[name].n:,}",
            bar(result.intervals[name]),
        ]
        for name, place in places.items()
    ]
    return (title, "model", "estimate", "interval", "items", "0% to 100%"), rows


def bar(limits: ModelInterval, width: int = 16) -> str:
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
