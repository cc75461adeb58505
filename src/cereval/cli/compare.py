"""Compare two models on the same items: `cereval compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.options import (
    CERTIFICATE,
    JSON,
    LIVE,
    REPORT,
    SEAL,
    SEED,
    apply,
    are_asked,
    asking_flags,
    refuse_asking,
    refuse_recorded,
)

if TYPE_CHECKING:
    from cereval.questions.compare.goal import CompareGoal


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
    help="Differences up to this count as none; with 0 only exact equality does.  [default: 0.02]",
)
@click.option(
    "--within", type=float, metavar="EPS", help="Instead: stop when the difference is known within EPS."
)
@click.option(
    "--not-worse",
    type=float,
    metavar="EPS",
    help="Instead: is the first, say a new version, not worse than the second by more than EPS? 0: at least as good? "
    "In CI with --fresh.",
)
@click.option("--items", metavar="ITEMS", help="Parquet, csv or jsonl with `item`, `text`, `category`.")
@click.option(
    "--history",
    multiple=True,
    metavar="others|COLUMNS|FILE|store|none",
    help="Scores of past models, as for `replay`; the two compared are never among them. May be repeated. "
    "Where models are asked: `store` (the default) or `none`.",
)
@click.option(
    "--confidence", type=float, help="Probability with which the answer holds, at least.  [default: 0.95]"
)
@click.option(
    "--max-calls",
    "--budget",
    "max_calls",
    type=int,
    metavar="N",
    help="Put at most N items to the two models.",
)
@apply(SEED, CERTIFICATE, REPORT, JSON, LIVE, SEAL)
@click.pass_context
def compare(context: click.Context, /, scores: str, models: tuple[str, ...], **flags: Any) -> int:
    """Compare two models on the same items, from as few of them as a certified answer takes.

    SCORES is a table of recorded scores (`item` and one column per model). Or DATA is a question file, as for
    `run`, and the two models are asked: the options from --base-url on are those of `run`. A repeated command, or
    `cereval resume RUN`, goes on where it ended.

    The answer is `first`, `second`, or `no-difference` larger than --eps: whichever is certain first. It holds,
    together with the interval of the difference, with the stated confidence whenever you stop.

    Exit codes: 0 decided or goal reached, 1 could not run, 2 certified worse (--not-worse), 3 undecided.
    """
    from cereval.errors import InvalidInput

    if len(models) != 2 or models[0] == models[1]:
        raise InvalidInput("--model", "given twice, for two different models", ", ".join(models))
    goal = goal_of(flags["eps"], flags["within"], flags["not_worse"])
    if are_asked(scores, models):
        return _live(scores, models, goal, flags)
    refuse_asking(context, flags)
    return _recorded(scores, models, goal, flags)


def goal_of(eps: float | None, within: float | None, not_worse: float | None) -> CompareGoal:
    """Return the goal that the flags ask for."""
    from cereval.errors import InvalidInput
    from cereval.questions.compare.goal import Difference, NotWorse, Sign

    flags = {"--eps": eps, "--within": within, "--not-worse": not_worse}
    given = {flag: value for flag, value in flags.items() if value is not None}
    if len(given) > 1:
        raise InvalidInput(" and ".join(given), "given one at a time", list(given.values()))
    if within is not None:
        return Difference(within)
    if not_worse is not None:
        return NotWorse(not_worse)
    return Sign() if eps is None else Sign(eps)


def _live(data: str, models: tuple[str, ...], goal: CompareGoal, flags: dict[str, Any]) -> int:
    from cereval.cli.running import run_live
    from cereval.runner.prepare import against
    from cereval.runner.request import request_from

    refuse_recorded(flags, "items")
    request = request_from(data, None, {**asking_flags(flags), "model": models[0]})
    work = against(request, models, goal)
    return run_live(work, request, flags, history="none" not in flags["history"])


def _recorded(scores: str, models: tuple[str, ...], goal: CompareGoal, flags: dict[str, Any]) -> int:
    import numpy as np

    from cereval.cli.recorded import read_pair
    from cereval.cli.running import Watch, finish_recorded
    from cereval.plan import Known
    from cereval.questions.compare.session import CompareSession
    from cereval.questions.replay import drive

    pair = read_pair(scores, models, flags)
    session = CompareSession(
        len(pair.first),
        goal=goal,
        confidence=0.95 if flags["confidence"] is None else flags["confidence"],
        embeddings=pair.embeddings,
        groups=pair.groups,
        history=pair.history,
        budget=flags["max_calls"],
        seed=flags["seed"],
        models=models,
    )
    watch = Watch(session)
    result = drive(session, np.column_stack((pair.first, pair.second)), watch=watch)
    inside = result.lower - 1e-9 <= pair.truth <= result.upper + 1e-9
    about = {"first": models[0], "second": models[1], "data": Path(scores).name, "items": pair.digest}
    truth = f"{pair.truth:+.2%} ({'inside' if inside else 'OUTSIDE'} the interval)"
    return finish_recorded(
        "compare",
        session,
        Known(),
        flags,
        about=about,
        extra={**about, **goal.spec(), "truth": pair.truth, "truth_inside": inside},
        rows=[("truth", truth)],
        notes=pair.notes,
        steps=watch.steps,
    )
