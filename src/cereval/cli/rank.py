"""Rank many candidates on shared items, in a certified order: `cereval rank`."""

from __future__ import annotations

from typing import Any

import click

from cereval.cli.options import ASKING, CONFIG, DRY_RUN, ITEMS, OUTPUT, SEAL, apply, take
from cereval.settings import RankOptions


@click.command()
@click.argument("data", required=False, metavar="DATA|SCORES")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@apply(ASKING)
@take(RankOptions, several=True)
@apply(ITEMS, CONFIG, DRY_RUN, SEAL, OUTPUT)
@click.pass_context
def rank(context: click.Context, /, data: str | None, names: tuple[str, ...], **flags: Any) -> int:
    """Rank many candidates on the same items, from as few calls as a certified order takes.

    DATA is a question file or a task file, as for `run`, and the candidates are asked: options of candidates are given
    once for all of them, or once for each. A repeated command, also one with more candidates or another goal, asks
    nothing twice. Or SCORES is a table of recorded scores (`item` and one column per model), or
    logs of other tools, or RUNs are ranked on the questions that all of them answered: there nobody is asked and all
    scores are used.

    Calls go to the candidates and items that still matter: one whose place is settled is asked no more. Every
    [better, worse] pair in `order` is certified, all of them and every interval at once, whenever you stop.
    Each certificate holds by itself, for a goal and candidates fixed before looking: several rankings of the same
    answers do not share one confidence.

    Exit codes: 0 goal reached, 1 could not run, 3 undecided.
    """
    from cereval.cli.asking import ask_candidates
    from cereval.cli.recorded import are_runs, recorded_sources, use_recorded, use_runs
    from cereval.errors import InvalidInput

    if data is not None and are_runs(data, names):
        return use_runs("rank", (data, *names), flags, None)
    if sources := recorded_sources(data, names, flags):
        return use_recorded("rank", sources, context, flags, None)
    if flags["items"] is not None:
        raise InvalidInput("--items", "left out where models are asked", flags["items"])
    beaten = [flags["beats"]] if flags["beats"] and flags["beats"] not in flags["models"] else []
    models = [*flags["models"], *beaten]
    more = {**flags, "models": models if not names and not flags["candidates_file"] else flags["models"]}
    return ask_candidates("rank", () if data is None else (data,), more, names=names, candidates=None)
