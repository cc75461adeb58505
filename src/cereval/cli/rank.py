"""Rank many models on shared items, in a certified order: `cereval rank`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    from cereval.questions.rank.goal import RankGoal


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
    help="Models whose means differ by no more than this need no order.  [default: 0.05]",
)
@click.option(
    "--doubt",
    type=float,
    metavar="P",
    help="Call a pair a tie, and ask no more about it, when the chance that it is further apart than --tie is below "
    "P; saves calls, "
    "certifies nothing.  [default: 0.05]",
)
@click.option("--prove-ties", is_flag=True, help="Go on until every tie is certified too.")
@click.option("--top", type=int, metavar="K", help="Instead: find the K best models.")
@click.option(
    "--within",
    type=float,
    metavar="EPS",
    help="With --top: each is less than this below the K-th best.  [default: 0.02]",
)
@click.option("--baseline", metavar="COLUMN", help="Instead: which models beat this one?")
@click.option(
    "--history",
    multiple=True,
    metavar="others|COLUMNS|FILE|store|none",
    help="Scores of past models, as for `replay`: questions on which they disagreed are asked sooner. The ranked ones "
    "are never among them. May be repeated. Where models are asked: `store` or `none`.  [default: none]",
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
    help="Make at most N calls, to all models together.",
)
@apply(SEED, CERTIFICATE, REPORT, JSON, LIVE, SEAL)
@click.pass_context
def rank(context: click.Context, /, scores: str, models: tuple[str, ...], **flags: Any) -> int:
    """Rank many models on the same items, from as few calls as a certified order takes.

    SCORES is a table of recorded scores (`item` and one column per model). Or DATA is a question file, as for
    `run`, and the models are asked: the options from --base-url on are those of `run`, and a repeated command, also
    one with more models or another goal, asks nothing twice.

    Calls go to the models and items that still matter: a model whose order is settled is asked no more. Every
    [better, worse] pair in `order` is certified, all of them and every model's interval at once, whenever you stop.
    Each certificate holds by itself, for a goal and models fixed before looking: several rankings of the same
    answers do not share one confidence.

    Exit codes: 0 goal reached, 1 could not run, 3 undecided.
    """
    if flags["doubt"] is not None and flags["prove_ties"]:
        click.echo("note: --doubt has no effect with --prove-ties, which gives no pair up", err=True)
    if models and are_asked(scores, models):
        return _live(scores, models, flags)
    refuse_asking(context, flags)
    return _recorded(scores, models, flags)


def goal_of(flags: Mapping[str, Any], names: Sequence[str]) -> RankGoal:
    """Return the goal that the flags ask for."""
    from cereval.errors import InvalidInput
    from cereval.questions.rank.goal import Beats, Order, Top

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


def _live(data: str, models: Sequence[str], flags: dict[str, Any]) -> int:
    from cereval.cli.running import run_live
    from cereval.errors import InvalidInput
    from cereval.runner.prepare import ranked
    from cereval.runner.request import request_from

    refuse_recorded(flags, usual="none")
    baseline = flags["baseline"]
    names = tuple(dict.fromkeys([*models, *([baseline] if baseline is not None else [])]))
    if len(names) < 2:
        raise InvalidInput("--model", "given twice or more", ", ".join(names))
    request = request_from(data, None, {**asking_flags(flags), "model": names[0]})
    work = ranked(request, names, goal_of(flags, names))
    return run_live(work, request, flags, history="store" in flags["history"])


def _recorded(scores: str, models: tuple[str, ...], flags: dict[str, Any]) -> int:
    from cereval.cli.recorded import read_models, truth_in_words
    from cereval.cli.running import finish_recorded
    from cereval.plan import Known
    from cereval.questions.rank.session import RankSession
    from cereval.questions.replay import drive

    table = read_models(scores, models, flags["baseline"], flags["history"], flags["store"])
    session = RankSession(
        len(table.scores),
        table.names,
        goal=goal_of(flags, table.names),
        confidence=0.95 if flags["confidence"] is None else flags["confidence"],
        history=table.history,
        budget=flags["max_calls"],
        seed=flags["seed"],
    )
    result = drive(session, table.scores, batch=64)
    truth = table.truth(result)
    return finish_recorded(
        "rank",
        session,
        Known(None, table.history),
        flags,
        about={"data": Path(scores).name},
        extra=truth,
        rows=[("truth", truth_in_words(result, truth))],
        notes=table.notes,
    )
