"""Compare two candidates on the same items: `cereval compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cereval.cli.options import (
    ASKING,
    CONFIG,
    DRY_RUN,
    ITEMS,
    OUTPUT,
    SEAL,
    apply,
    are_asked,
    refuse_asking,
    take,
)
from cereval.settings import CompareOptions


@click.command()
@click.argument("data", required=False, metavar="DATA|SCORES")
@click.argument("names", nargs=-1, metavar="[NAME NAME]")
@apply(ASKING)
@take(CompareOptions, several=True)
@apply(ITEMS, CONFIG, DRY_RUN, SEAL, OUTPUT)
@click.pass_context
def compare(context: click.Context, /, data: str | None, names: tuple[str, ...], **flags: Any) -> int:
    """Compare two candidates on the same items, from as few of them as a certified answer takes.

    DATA is a question file or a task file, as for `run`, and the two are asked. A candidate is a model with its prompt
    and settings: an option that is given once is for both, given twice the first is the first candidate's and the
    second the second's (`--model m --system @a.txt --system @b.txt`). Or both are NAMEs of --candidates. Or SCORES is a
    table of recorded scores (`item` and one column per model). A repeated command, or `cereval resume RUN`, goes on
    where it ended.

    The answer is `first`, `second`, or `no-difference` larger than --tie: whichever is certain first. It holds,
    together with the interval of the difference, with the stated confidence whenever you stop.

    Exit codes: 0 decided or goal reached, 1 could not run, 2 certified worse (--not-worse), 3 undecided.
    """
    from cereval.cli.asking import ask_candidates

    if data is None or names or are_asked(data, flags["models"]) or flags["candidates_file"]:
        from cereval.errors import InvalidInput

        if flags["items"] is not None:
            raise InvalidInput("--items", "left out where models are asked", flags["items"])
        return ask_candidates("compare", () if data is None else (data,), flags, names=names, candidates=2)
    refuse_asking(context, flags)
    return _compare_recorded(data, flags)


def _compare_recorded(scores: str, flags: dict[str, Any]) -> int:
    import numpy as np

    from cereval.cli.options import given_options
    from cereval.cli.recorded import Watch, finish_recorded, read_pair
    from cereval.errors import InvalidInput
    from cereval.plan import Known
    from cereval.questions.compare.session import CompareSession
    from cereval.questions.replay import drive
    from cereval.settings import goal_of

    models = flags["models"]
    if len(models) != 2 or models[0] == models[1]:
        raise InvalidInput("--model", "given twice, for two different columns", ", ".join(models))
    options = given_options(flags, CompareOptions)
    if options.get("target") == "expected":
        raise InvalidInput("--target", "benchmark where scores are recorded", "expected")
    goal = goal_of("compare", options)
    pair = read_pair(scores, models, {**flags, "history": options.get("history", ())})
    session = CompareSession(
        len(pair.first),
        goal=goal,
        confidence=options.get("confidence", 0.95),
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
