"""`cereval compare`: which of two models is better, on the same items."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.output import FAILED, PASSED, UNDECIDED, percent, print_json, print_table
from cereval.cli.run_options import (
    FIELDS,
    LIMITS,
    MODEL,
    OUTPUT,
    PRICES,
    SCORING,
    STORE,
    Option,
    apply,
    names_of,
)
from cereval.cli.written import CERTIFICATE, report_option

if TYPE_CHECKING:
    from cereval.goals.compare import CompareGoal
    from cereval.sessions.pair import Comparison


ASKING: tuple[Option, ...] = (*MODEL[1:], *SCORING, *FIELDS, LIMITS[0], *LIMITS[2:], *PRICES)
"""The options of `run` that make sense only where models are asked; none has a default."""


def refuse_asking(context: click.Context, flags: Mapping[str, Any]) -> None:
    """Options that only make sense where models are asked are no mistake to pass over in silence."""
    from cereval.errors import InvalidInput

    asking = names_of(ASKING)
    for name in (str(parameter.name) for parameter in context.command.params):
        if name in asking and flags[name] is not None:
            raise InvalidInput(name, "given only where models are asked", flags[name])


@click.command()
@click.argument("scores", metavar="SCORES|DATA")
@click.option(
    "--model",
    "models",
    multiple=True,
    required=True,
    metavar="COLUMN|NAME",
    help="Given twice, the first and the second: columns of SCORES, or models to ask, such as openai/NAME.",
)
@click.option(
    "--eps",
    type=float,
    help="Differences up to this count as none; 0: only exact equality does.  [default: 0.02]",
)
@click.option(
    "--within", type=float, metavar="EPS", help="Instead: stop when the difference is known within EPS."
)
@click.option(
    "--not-worse",
    type=float,
    metavar="EPS",
    help="Instead: is the first, say a new version, not worse than the second by more than EPS?",
)
@click.option("--items", metavar="ITEMS", help="Parquet, csv or jsonl with `item`, `text`, `category`.")
@click.option(
    "--history",
    multiple=True,
    metavar="others|COLUMNS|FILE|store|none",
    help="Scores of past models, as for `replay`; the two compared are never among them. May be repeated. "
    "Where models are asked: `store` (the default) or `none`.",
)
@click.option("--confidence", type=float, default=0.95, show_default=True)
@click.option("--budget", "--max-calls", type=int, metavar="N", help="Put at most N items to the two models.")
@click.option("--seed", type=int, default=0, show_default=True)
@CERTIFICATE
@report_option("Write a page about the result (SCORES only).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@apply(ASKING, STORE, OUTPUT[1])
@click.pass_context
def compare(context: click.Context, /, scores: str, models: tuple[str, ...], **flags: Any) -> int:
    """Compare two models on the same items, from as few of them as a certified answer takes.

    SCORES is a table of recorded scores (`item` and one column per model). Or DATA is a question file, as for
    `run`, and the two models are asked: the options from --base-url on are those of `run`, -j counts items, each
    put to both, and a repeated command goes on where it ended. `cereval report RUN` writes its page.

    The answer is `first`, `second`, or `no-difference` larger than --eps: whichever is certain first. It holds,
    together with the interval of the difference, with the stated confidence whenever one stops.

    Exit codes: 0 decided or goal reached, 1 could not run, 2 certified worse (--not-worse), 3 undecided.
    """
    from cereval.errors import InvalidInput

    if len(models) != 2 or models[0] == models[1]:
        raise InvalidInput("--model", "given twice, for two different models", ", ".join(models))
    goal = goal_of(flags["eps"], flags["within"], flags["not_worse"])
    if asked(scores, models):
        from cereval.cli.compared_live import compare_live

        return compare_live(scores, models, goal, flags)
    refuse_asking(context, flags)
    return _recorded(scores, models, goal, flags)


def asked(data: str, models: tuple[str, ...]) -> bool:
    """Whether the models are to be asked: both are named as models are, and no table has columns of the names."""
    from cereval.datasets.tables import read_scores
    from cereval.errors import CerevalError
    from cereval.models.build import KINDS

    prefixes = tuple(
        kind.partition(":")[0] + ":" if ":" in kind else kind.partition("/")[0] + "/" for kind in KINDS
    )
    if not all(name.startswith(prefixes) for name in models):
        return False
    if Path(data).suffix not in (".csv", ".parquet"):
        return True
    try:
        return not set(models) <= set(read_scores(data).models)
    except CerevalError:
        return True


def goal_of(eps: float | None, within: float | None, not_worse: float | None) -> CompareGoal:
    """The goal that the flags ask for."""
    from cereval.errors import InvalidInput
    from cereval.goals.compare import Difference, NotWorse, Sign

    if sum(value is not None for value in (eps, within, not_worse)) > 1:
        raise InvalidInput("--eps, --within and --not-worse", "given one at a time", "several")
    if within is not None:
        return Difference(within)
    if not_worse is not None:
        return NotWorse(not_worse)
    return Sign() if eps is None else Sign(eps)


def exit_code(result: Comparison, goal: str) -> int:
    """0 decided or goal reached, 2 certified worse, 3 undecided; `goal` is the name of the goal asked for."""
    if result.decision == "worse":
        return FAILED
    passed = result.decision == "not-worse" if goal == "not-worse" else result.stopped == "goal"
    return PASSED if passed else UNDECIDED


def _recorded(scores: str, models: tuple[str, ...], goal: CompareGoal, flags: dict[str, Any]) -> int:
    from cereval.cli.compared import read_pair
    from cereval.report.retrace import Step
    from cereval.sessions.pair import CompareSession

    pair = read_pair(scores, models, flags)
    session = CompareSession(
        len(pair.first),
        goal=goal,
        embeddings=pair.embeddings,
        groups=pair.groups,
        history=pair.history,
        **{name: flags[name] for name in ("confidence", "budget", "seed")},
    )
    steps = [Step(0, 0.0, -1.0, 1.0)]
    while not session.done:
        for draw in session.ask(1):
            session.tell(draw, float(pair.first[draw.item]), float(pair.second[draw.item]))
            now = session.interval
            steps.append(
                Step(session.n_evaluated, 2 * session.estimate - 1, 2 * now.lower - 1, 2 * now.upper - 1)
            )
    result = session.result()
    about = {"first": models[0], "second": models[1], "data": Path(scores).name, "items": pair.digest}
    if flags["certificate"] or flags["report"]:
        _write(flags, session, about, steps)
    extra = {**about, **goal.spec(), "truth": pair.truth, "truth_inside": _inside(result, pair.truth)}
    notes = [*pair.notes, *result.notes]
    if flags["as_json"]:
        print_json({**result.as_dict(), **extra, "notes": notes})
    else:
        print_for_people(result, extra, notes)
    return exit_code(result, goal.name)


def _write(flags: dict[str, Any], session: Any, about: dict[str, str], steps: list[Any]) -> None:
    from cereval.certificate.comparison import issue_comparison
    from cereval.cli.report import write_page
    from cereval.cli.running import write_certificate
    from cereval.report.comparison import render_comparison

    content = issue_comparison(session, about)
    if flags["certificate"]:
        write_certificate(Path(flags["certificate"]), content)
    if flags["report"]:
        write_page(Path(flags["report"]), render_comparison(content, steps, content))


def _inside(result: Comparison, truth: float) -> bool:
    return result.lower - 1e-9 <= truth <= result.upper + 1e-9


def print_for_people(result: Comparison, extra: dict[str, Any], notes: list[str]) -> None:
    """A headline and a small table."""
    from cereval.report.wording import answer_of_comparison, signed_interval

    click.echo(
        f"{answer_of_comparison(result.as_dict(), extra)}, {percent(result.confidence)} confidence, "
        f"{result.n_evaluated:,} of {result.n_items:,} items put to both ({result.saved:.1%} saved)"
    )
    rows = [
        ("first", extra["first"]),
        ("second", extra["second"]),
        ("difference", f"{result.difference:+.2%}, in {signed_interval(result.lower, result.upper)}"),
        ("method", f"{result.method}, guarantee {result.guarantee}, seed {result.seed}"),
        ("stopped", result.stopped),
    ]
    if "truth" in extra:
        place = "inside" if extra["truth_inside"] else "OUTSIDE"
        rows.append(("truth", f"{extra['truth']:+.2%} ({place} the interval)"))
    print_table([*rows, *(("note", note) for note in notes)])
