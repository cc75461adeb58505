"""Rank many candidates on shared items, in a certified order: `cereval rank`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cereval.cli.options import ASKING, CONFIG, DRY_RUN, OUTPUT, SEAL, apply, are_asked, refuse_asking, take
from cereval.settings import RankOptions


@click.command()
@click.argument("data", required=False, metavar="DATA|SCORES")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@apply(ASKING)
@take(RankOptions, several=True)
@apply(CONFIG, DRY_RUN, SEAL, OUTPUT)
@click.pass_context
def rank(context: click.Context, /, data: str | None, names: tuple[str, ...], **flags: Any) -> int:
    """Rank many candidates on the same items, from as few calls as a certified order takes.

    DATA is a question file or a task file, as for `run`, and the candidates are asked: options of candidates are given
    once for all of them, or once for each. A repeated command, also one with more candidates or another goal, asks
    nothing twice. Or SCORES is a table of recorded scores (`item` and one column per model).

    Calls go to the candidates and items that still matter: one whose place is settled is asked no more. Every
    [better, worse] pair in `order` is certified, all of them and every interval at once, whenever you stop.
    Each certificate holds by itself, for a goal and candidates fixed before looking: several rankings of the same
    answers do not share one confidence.

    Exit codes: 0 goal reached, 1 could not run, 3 undecided.
    """
    from cereval.cli.asking import ask_candidates

    beaten = [flags["beats"]] if flags["beats"] and flags["beats"] not in flags["models"] else []
    models = [*flags["models"], *beaten]
    if data is None or names or flags["candidates_file"] or (models and are_asked(data, models)):
        more = {**flags, "models": models if not names and not flags["candidates_file"] else flags["models"]}
        return ask_candidates("rank", () if data is None else (data,), more, names=names, candidates=None)
    refuse_asking(context, flags)
    return _rank_recorded(data, flags)


def _rank_recorded(scores: str, flags: dict[str, Any]) -> int:
    from cereval.cli.options import given_options
    from cereval.cli.recorded import finish_recorded, read_models, truth_in_words
    from cereval.plan import Known
    from cereval.questions.rank.session import RankSession
    from cereval.questions.replay import drive
    from cereval.settings import Candidate, goal_of

    options = given_options(flags, RankOptions)
    history = options.get("history", ())
    table = read_models(scores, flags["models"], flags["beats"], history, flags["store"])
    session = RankSession(
        len(table.scores),
        table.names,
        goal=goal_of("rank", options, [Candidate(name) for name in table.names]),
        confidence=options.get("confidence", 0.95),
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
