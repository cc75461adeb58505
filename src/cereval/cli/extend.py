"""Follow a data set that grows, version after version, with all certificates valid at once: `cereval extend`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.options import (
    ASKING,
    ITEMS,
    OUTPUT,
    SEAL,
    apply,
    are_asked,
    names_a_run,
    refuse_asking,
    take,
)
from cereval.errors import InvalidInput
from cereval.settings import AgainOptions, ExtendOptions, FieldOptions

if TYPE_CHECKING:
    from cereval.questions.growing.session import Growing, GrowingResult
    from cereval.records import Table

ELSEWHERE = ("trust", "store", "certificate", "report", "as_json", "display", "name", "tags", "data")
DEFAULTS: dict[str, Any] = {"confidence": 0.95, "target": "benchmark"}


@click.command()
@click.argument("source", required=False, metavar="[DATA|RUN|SCORES]")
@click.option(
    "--data",
    metavar="DATA",
    help="A question file for the candidate to be asked: the first version, or with RUN the items that are new.",
)
@apply(ASKING)
@click.option(
    "--versions",
    metavar="LIST",
    help="Size of each version, as shares (0.6,0.8,1) or numbers of the rows of SCORES, in their order.",
)
@click.option("--by", metavar="COLUMN", help="The column of ITEMS that says with which version an item came.")
@click.option(
    "--state",
    metavar="FILE",
    help="Keep the session of SCORES here: made by the first call, extended by later ones with what is new.",
)
@take(ExtendOptions)
@apply(ITEMS, SEAL, OUTPUT)
@click.pass_context
def extend(context: click.Context, /, source: str | None, data: str | None, **flags: Any) -> int:
    """Evaluate a candidate on data that grow: what each version takes, and what is proven of it.

    Earlier certificates stay valid, and all versions hold at once with the stated confidence. Only new items are
    asked; what was learnt before is kept.

    DATA is a question file, as for `run`, and the candidate is asked: each version is a run in the store. `cereval
    extend RUN --data DATA` adds the items of DATA that RUN does not have, as a new run, with the candidate and the goal
    of RUN. A repeated command, or `cereval resume RUN`, goes on where it ended.

    SCORES is a table of recorded scores, replayed as data that grew. Without --versions or --items the file is one
    version: with --state FILE run it now, and again when the file has grown.

    New items may be chosen by somebody who knows every result but not the seed: do not show them a certificate, a
    page, the file of --state, the store, or a seed that was printed.

    Exit codes: 0 goal reached, 1 could not run, 3 the last version is not certified within eps.
    """
    if source is None and data is None:
        raise InvalidInput("DATA or SCORES", "given", None)
    if data is None and names_a_run(str(source)):
        raise InvalidInput("--data", "given with RUN: a question file with the items that are new", None)
    if data is not None or flags["candidates_file"] or are_asked(str(source), flags["models"]):
        return _extend_asked(source if data is not None else None, data or str(source), context, flags)
    refuse_asking(context, flags)
    if len(flags["models"]) != 1:
        raise InvalidInput(
            "--model", "given: a column of SCORES, or a model to ask", ", ".join(flags["models"]) or None
        )
    return _recorded(str(source), {**flags, "model": flags["models"][0]})


# -- asked ------------------------------------------------------------------------------------------------------------


def _extend_asked(run_id: str | None, data: str, context: click.Context, flags: dict[str, Any]) -> int:
    from cereval.cli.asking import ask_candidates

    for name in ("versions", "items", "by", "state"):
        if flags[name] is not None:
            raise InvalidInput(f"--{name}", "left out where models are asked", flags[name])
    if Path(data).suffix in (".yaml", ".yml"):
        raise InvalidInput("DATA", "questions (jsonl, csv, parquet, hf:org/name), not a task file", data)
    if run_id is None:
        return ask_candidates("growing", (data,), flags)
    if flags["seal"] is not None:
        wanted = "left out for a new version of RUN: only the first version is sealed"
        raise InvalidInput("--seal", wanted, data)
    _refuse_settings(context, flags)
    return _add_version(run_id, data, flags)


def _refuse_settings(context: click.Context, flags: Mapping[str, Any]) -> None:
    """Refuse flags that decide answers and bets: they are the same in all versions."""
    changeable = (*AgainOptions.__annotations__, *FieldOptions.__annotations__, *ELSEWHERE)
    for parameter in context.command.params:
        name = str(parameter.name)
        if name not in changeable and flags.get(name) not in (None, (), False):
            wanted = "left out for a new version of RUN, which has it"
            raise InvalidInput(parameter.opts[-1], wanted, flags[name])


def _add_version(run_id: str, data: str, flags: dict[str, Any]) -> int:
    from cereval.cli.asking import finish
    from cereval.runner.recall import extend_run, new_items
    from cereval.store.base import opened_store

    # Lock the version before: two extensions at once would share draws, and what one shows foretells the other.
    with opened_store(flags["store"]) as store, store.hold(store.run(run_id).run_id):
        given = {
            name: one[0] if isinstance(one, tuple) and one else one or None for name, one in flags.items()
        }
        added, overrides = new_items(data, given)
        work = extend_run(run_id, store, added, overrides, trust=bool(flags["trust"]))
        labels = [*flags["name"], *(flags["tags"] or ())]
        return finish(work, work.plan, store, flags, labels=labels)


# -- recorded ---------------------------------------------------------------------------------------------------------


def _recorded(scores: str, flags: dict[str, Any]) -> int:
    from cereval.cli.recorded import finish_recorded, load, read_growing_table, save
    from cereval.plan import Known

    kept = load(flags["state"], flags)
    table = read_growing_table(scores, flags["model"], flags["versions"], flags["items"], flags["by"], kept)
    session = kept.session if kept is not None else _opened(table.steps.pop(0), flags)
    _drive(session, table.scores, flags["max_calls"])
    for new in table.steps:
        if session.last.stopped == "contradiction":
            break
        session.extend(new)
        _drive(session, table.scores, flags["max_calls"])
    save(flags["state"], session, flags["model"], table)
    session.models = (flags["model"],)
    result, truths = session.result(), table.truths(session.result())
    about = {"model": flags["model"], "data": Path(scores).name, "items": table.digest(session.n_items)}
    shown = {"model": flags["model"], "goal": "estimate", "eps": session.goal.eps}
    return finish_recorded(
        "growing",
        session.last,
        Known(),
        flags,
        about=about,
        extra={**shown, "truth_inside": all(_inside(result, truths))},
        rows=[],
        table=_with_truths(result, truths),
        instead={
            "versions": [
                {**version.as_dict(), "truth": truth}
                for version, truth in zip(result.versions, truths, strict=True)
            ]
        },
    )


def _drive(session: Growing, scores: Any, budget: int | None) -> None:
    """Answer the questions of the last version, at most so many."""
    from cereval.questions.replay import drive

    if budget is not None and not session.last.done:
        session.last.change(session.goal.spec(), budget)
    drive(session.last, scores)


def _opened(first: int, flags: dict[str, Any]) -> Growing:
    from cereval.questions.growing.session import Growing
    from cereval.questions.mean.goal import Estimate

    goal = Estimate() if flags["eps"] is None else Estimate(flags["eps"])
    given = {name: value if flags[name] is None else flags[name] for name, value in DEFAULTS.items()}
    return Growing(first, goal=goal, seed=flags["seed"], **given)


def _inside(result: GrowingResult, truths: list[float | None]) -> list[bool]:
    return [
        truth is None or version.lower <= truth <= version.upper
        for version, truth in zip(result.versions, truths, strict=True)
    ]


def _with_truths(result: GrowingResult, truths: list[float | None]) -> Table:
    """Return the result's table with what each version's mean was."""
    table = result.table()
    said = [
        "unknown" if truth is None else f"{truth:.2%}{'' if right else ' OUTSIDE'}"
        for truth, right in zip(truths, _inside(result, truths), strict=True)
    ]
    rows = [[*row, truth] for row, truth in zip(table.rows, said, strict=True)]
    return replace(table, header=(*table.header, "truth"), rows=rows, numbers=(*table.numbers, 5))
