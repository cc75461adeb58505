"""`cereval extend`: a data set that grows, version after version, with all certificates valid at once."""

from __future__ import annotations

from pathlib import Path
from secrets import randbits
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.compare import ASKING, asked, refuse_asking
from cereval.cli.output import PASSED, UNDECIDED, interval, percent, plus_minus, print_json, print_table
from cereval.cli.run_options import OUTPUT, STORE, apply
from cereval.cli.written import CERTIFICATE, report_option

if TYPE_CHECKING:
    from cereval.cli.growing_tables import GrowingTable
    from cereval.sessions.growing import Growing, GrowingResult


@click.command()
@click.argument("source", required=False, metavar="[SCORES|DATA|RUN]")
@click.option(
    "--data",
    metavar="DATA",
    help="A question file for the model to be asked: the first version, or with RUN the items that are new.",
)
@click.option(
    "--model",
    metavar="COLUMN|NAME",
    help="The column of SCORES to evaluate, or the model to ask, such as openai/NAME. With RUN: the run's.",
)
@click.option(
    "--versions",
    metavar="LIST",
    help="Size of each version, in shares (0.6,0.8,1) or numbers of the rows of SCORES, in their order.",
)
@click.option("--items", metavar="ITEMS", help="Parquet, csv or jsonl with `item` and the column of --by.")
@click.option("--by", metavar="COLUMN", help="The column of ITEMS that says with which version an item came.")
@click.option(
    "--state",
    metavar="FILE",
    help="Keep the session here: made by the first call, extended by later ones with the items new in SCORES.",
)
@click.option("--eps", type=float, help="Every version's mean within this.  [default: 0.02]")
@click.option("--confidence", type=float, help="For all versions at once.  [default: 0.95]")
@click.option(
    "--target",
    type=click.Choice(["benchmark", "population"]),
    help="benchmark: each version's own mean, whatever the new items are. population: that of the source "
    "which all versions are a sample of.  [default: benchmark]",
)
@click.option(
    "--seed",
    type=int,
    help="Unknown to whoever chooses new items; certificates, --state and the store reveal it.  "
    "[default: drawn at random]",
)
@CERTIFICATE
@report_option("Write a page about the result.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@apply(ASKING, STORE, OUTPUT[1])
@click.pass_context
def extend(context: click.Context, /, source: str | None, data: str | None, **flags: Any) -> int:
    """Evaluate a model on data that grow: what each version takes, and what is proven of it.

    Earlier certificates stay valid, and all versions hold at once with the stated confidence. Only new items are
    asked; what was learnt before is kept.

    SCORES is a table of recorded scores, replayed as data that grew. Without --versions or --items the file is one
    version: with --state FILE run it now, and again when the file has grown.

    Or DATA is a question file, as for `run`, and the model is asked: each version is a run in the store. `cereval
    extend RUN --data DATA` adds the items of DATA that RUN does not have, as a new run, with the model, the prompt
    and the goal of RUN. The options from --base-url on are those of `run`. A repeated command, or `cereval resume RUN`,
    goes on where it ended.

    New items may be chosen by somebody who knows every result, as long as the seed is unknown to him: show him
    no certificate, no page, neither the file of --state nor the store, and no seed that was printed.

    Exit codes: 0 goal reached, 1 could not run, 3 the last version is not certified within eps.
    """
    from cereval.errors import InvalidInput

    if source is None and data is None:
        raise InvalidInput("SCORES or DATA", "given", None)
    if data is not None or asked(str(source), (flags["model"] or "",)):
        from cereval.cli.extend_live import extend_live

        return extend_live(source if data is not None else None, data or str(source), context, flags)
    refuse_asking(context, flags)
    if flags["model"] is None:
        raise InvalidInput("--model", "given: a column of SCORES, or a model to ask", None)
    return _recorded(str(source), flags)


def _recorded(scores: str, flags: dict[str, Any]) -> int:
    from cereval.cli.growing_state import load, save
    from cereval.cli.growing_tables import read_growing_table
    from cereval.sessions.growing import drive_version

    kept = load(flags["state"], flags)
    table = read_growing_table(scores, flags["model"], flags["versions"], flags["items"], flags["by"], kept)
    session = kept.session if kept is not None else _opened(table.steps.pop(0), flags)
    drive_version(session, table.scores)
    for new in table.steps:
        if session.result().stopped == "contradiction":
            break
        session.extend(new)
        drive_version(session, table.scores)
    save(flags["state"], session, flags["model"], table)
    _write(session, table, scores, flags)
    _print(session.result(), flags["model"], session.goal.eps, table, flags["as_json"])
    return exit_code(session.result())


def exit_code(result: GrowingResult) -> int:
    """0 goal reached, 3 not."""
    return PASSED if result.stopped == "goal" else UNDECIDED


DEFAULTS: dict[str, Any] = {"confidence": 0.95, "target": "benchmark"}
SEED_BITS = 53
"""Too many seeds to be tried one by one against the draws seen so far, and whole in every reader of JSON."""


def new_seed() -> int:
    """A seed that nobody knows."""
    return randbits(SEED_BITS)


def _opened(first: int, flags: dict[str, Any]) -> Growing:
    from cereval.goals import Estimate
    from cereval.sessions.growing import Growing

    goal = Estimate() if flags["eps"] is None else Estimate(flags["eps"])
    given = {name: value if flags[name] is None else flags[name] for name, value in DEFAULTS.items()}
    seed = new_seed() if flags["seed"] is None else flags["seed"]
    return Growing(first, goal=goal, seed=seed, **given)


def _write(session: Growing, table: GrowingTable, scores: str, flags: dict[str, Any]) -> None:
    if flags["certificate"] is None and flags["report"] is None:
        return
    from cereval.certificate.growing import issue_growing

    about = {"model": flags["model"], "data": Path(scores).name, "items": table.digest(session.n_items)}
    content = issue_growing(session, about)
    if flags["certificate"] is not None:
        from cereval.cli.running import write_certificate

        write_certificate(Path(flags["certificate"]), content)
    if flags["report"] is not None:
        from cereval.cli.report import write_page
        from cereval.report.growing import render_growing

        write_page(Path(flags["report"]), render_growing(content))


def _print(result: GrowingResult, model: str, eps: float, table: GrowingTable, as_json: bool) -> None:
    truths = table.truths(result)
    inside = [
        truth is None or version.lower <= truth <= version.upper
        for version, truth in zip(result.versions, truths, strict=True)
    ]
    if as_json:
        versions = [
            {**version.as_dict(), "truth": truth}
            for version, truth in zip(result.versions, truths, strict=True)
        ]
        named = {"model": model, "goal": "estimate", "eps": eps, "truth_inside": all(inside)}
        print_json({**result.as_dict(), "versions": versions, **named})
        return
    shown = [
        "unknown" if truth is None else f"{truth:.2%}{'' if right else ' OUTSIDE'}"
        for truth, right in zip(truths, inside, strict=True)
    ]
    print_for_people(result, model, [("stopped", result.stopped)], shown)


def print_for_people(
    result: GrowingResult, model: str, facts: list[tuple[str, str]], truths: list[str] | None = None
) -> None:
    """A headline, a row for every version, and a small table that ends with `facts` and the notes."""
    click.echo(_headline(result))
    rows = [
        [
            str(version.version),
            f"{version.n_items:,}",
            f"{version.calls:,}",
            plus_minus(version),
            interval(version.lower, version.upper),
        ]
        for version in result.versions
    ]
    header = ["version", "items", "asked", "estimate", "interval"]
    if truths is not None:
        header, rows = [*header, "truth"], [[*row, truth] for row, truth in zip(rows, truths, strict=True)]
    print_table(rows, header, numbers=range(len(header)))
    first = [
        ("model", model),
        ("guarantee", f"{result.guarantee}, all versions at once"),
        ("target", result.target),
        ("seed", str(result.seed)),
    ]
    print_table([*first, *facts, *(("note", note) for note in result.notes)])


def _headline(result: GrowingResult) -> str:
    count = len(result.versions)
    which = "all versions at once" if count > 1 else "one version"
    asked = f"{result.n_evaluated:,} of {result.n_items:,} questions asked"
    certain = f"{percent(result.confidence)} confidence for {which}"
    return f"{plus_minus(result)}, {certain}, {asked} ({result.saved:.1%} saved)"
