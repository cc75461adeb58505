"""`cereval replay`: what a recorded evaluation would have cost, and whether its answer had been right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cereval.cli import weighting
from cereval.cli.output import exit_code, headline, print_json, print_table
from cereval.cli.run_options import apply
from cereval.cli.written import writable
from cereval.text import interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cereval.cli.side_information import SideInformation
    from cereval.datasets.tables import ScoresTable
    from cereval.goals import Goal
    from cereval.records import Result

    Floats = NDArray[np.float64]


@click.command()
@click.argument("scores")
@click.option("--model", metavar="COLUMN", help="The column of SCORES to evaluate.")
@click.option(
    "--all-models",
    is_flag=True,
    help="Evaluate every column, each with all the others as history, and draw up what is saved.",
)
@click.option("--items", metavar="ITEMS", help="Parquet, csv or jsonl with `item`, `text`, `category`.")
@click.option(
    "--history",
    multiple=True,
    metavar="others|COLUMNS|FILE|store",
    help="Scores of past models, complete or not: `others` = all other columns of SCORES, some of them "
    "(comma-separated), another scores file, or `store` = the runs in the store on the same items. "
    "May be repeated.  [default: none; others with --all-models]",
)
@click.option(
    "--store",
    metavar="URL",
    help="The results database of --history store.  [default: sqlite:///cereval.db]",
)
@click.option("--eps", type=float, help="Stop when the mean is known within this.  [default: 0.02]")
@click.option(
    "--threshold",
    "--at-least",
    type=float,
    metavar="C",
    help="Stop when it is certain whether the mean is >= C.",
)
@click.option("--confidence", type=float, default=0.95, show_default=True)
@click.option(
    "--method", default="auto", show_default=True, help="auto, uniform, active, or one of the paper's."
)
@click.option(
    "--target",
    default="benchmark",
    show_default=True,
    help="benchmark, population or expected: the mean over what.",
)
@click.option(
    "--batch", type=int, default=1, show_default=True, help="Questions in flight; changes no result."
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--budget", type=int, metavar="N", help="Ask at most N questions.")
@click.option(
    "--embeddings",
    type=click.Choice(["tfidf", "wordllama", "none"]),
    help="Features from the texts of ITEMS.  [default: tfidf where there are texts]",
)
@click.option(
    "--groups",
    type=click.Choice(["category", "none"]),
    help="A known partition of the items.  [default: category where ITEMS has it]",
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="With --all-models: runs of each model.",
)
@apply(weighting.OPTIONS)
@click.option("--price", type=float, metavar="USD", help="With --all-models: price of one call.")
@click.option(
    "-o",
    "--output",
    callback=writable,
    metavar="CSV",
    help="With --all-models: every run goes here; an interrupted command goes on where it stopped.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="With --all-models: processes.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def replay(
    context: click.Context, /, scores: str, model: str | None, all_models: bool, as_json: bool, **flags: Any
) -> int:
    """Replay recorded SCORES: which questions would have been asked, and what they would have proven.

    SCORES is a parquet or csv file with a column `item` and one column per model, scores in [0, 1]; an empty
    score is not part of the pool.

    What is known beforehand saves calls and can never make the answer wrong: past models' scores (--history)
    most, then the items' categories and texts (--items). The notes of the result say what helped.

    Exit codes: 0 goal reached or certified pass, 1 could not run, 2 certified fail, 3 undecided.
    """
    from cereval.cli.all_models import check_flags, replay_all
    from cereval.errors import InvalidInput

    if (model is None) != all_models:
        raise InvalidInput("--model", "given, or --all-models, and not both", model)
    check_flags(context, all_models=all_models)
    return replay_all(scores, flags, as_json) if model is None else _replay_one(scores, model, flags, as_json)


def _replay_one(scores: str, model: str, flags: dict[str, Any], as_json: bool) -> int:
    from cereval.datasets.tables import read_scores
    from cereval.sessions.replay import replay as run_replay

    goal = _goal(flags["eps"], flags["threshold"])
    table = read_scores(scores)
    column = table.model(model)
    # Quick and strict first: texts may take a while to embed.
    weights = _weights(table, model, flags)
    side = _side_information(table, model, flags)
    result = run_replay(
        column,
        goal=goal,
        weights=weights,
        embeddings=side.embeddings,
        groups=side.groups,
        history=side.history,
        **{key: flags[key] for key in ("confidence", "method", "target", "batch", "budget", "seed")},
    )
    extra = {
        "model": model,
        **goal.spec(),
        **_truth(column, weights, result),
        "notes": [*weighting.mix_notes(flags["mix"]), *side.notes, *result.notes],
    }
    if as_json:
        print_json({**result.as_dict(), **extra})
    else:
        _print_for_people(result, extra)
    return exit_code(result)


def _goal(eps: float | None, threshold: float | None) -> Goal:
    from cereval.errors import InvalidInput
    from cereval.goals import Estimate, Threshold

    if eps is not None and threshold is not None:
        raise InvalidInput("--eps", "left out when --threshold is given", eps)
    if threshold is not None:
        return Threshold(threshold)
    return Estimate() if eps is None else Estimate(eps)


def _side_information(table: ScoresTable, model: str, flags: dict[str, Any]) -> SideInformation:
    from cereval.cli.side_information import SideInformation, embedded, grouped, known_items, past_scores

    history, notes = past_scores(table, model, flags["history"], flags["store"])
    known = known_items(flags["items"], table.items)
    return SideInformation(
        embedded(known, flags["embeddings"], flags["method"]),
        grouped(known, flags["groups"]),
        history,
        tuple(notes),
    )


def _weights(table: ScoresTable, model: str, flags: dict[str, Any]) -> Floats | None:
    """The weights that --weights or --mix describe; a mix is one of the items that have a score."""
    from cereval.cli.side_information import known_items
    from cereval.datasets.tables import read_column
    from cereval.errors import InvalidInput

    weights, mix, items = flags["weights"], flags["mix"], flags["items"]
    weighting.check_one(weights, mix)
    if weights is None and mix is None:
        return None
    if items is None and (mix is not None or not weighting.is_table(weights)):
        raise InvalidInput("--items", "given for a --mix, or a --weights COLUMN", None)
    if weights is not None:
        return weighting.weights_of_items(
            weights, table.items, lambda name: read_column(items, name, table.items)
        )
    categories = known_items(items, table.items).categories
    column = table.model(model)
    scored = [row for row, score in enumerate(column) if score == score]
    found = column * 0.0
    found[scored] = weighting.mixed(mix, None if categories is None else [categories[row] for row in scored])
    return found


def _truth(column: Floats, weights: Floats | None, result: Result) -> dict[str, Any]:
    """A replay knows all scores; of a population it still has only a sample."""
    from math import fsum

    if result.target == "population":
        return {"truth": None, "truth_inside": None}
    shares = [1.0] * len(column) if weights is None else [float(weight) for weight in weights]
    known = [(share, float(score)) for share, score in zip(shares, column, strict=True) if score == score]
    truth = fsum(share * score for share, score in known) / fsum(share for share, _ in known)
    # Sums of weights are rounded: a truth on the edge of its interval is inside.
    slack = 0.0 if weights is None else 1e-12
    return {"truth": truth, "truth_inside": result.lower - slack <= truth <= result.upper + slack}


def _print_for_people(result: Result, extra: dict[str, Any]) -> None:
    click.echo(headline(result, extra.get("value")))
    rows = [
        ("model", extra["model"]),
        ("method", result.method),
        ("guarantee", result.guarantee),
        ("target", result.target),
        ("interval", interval(result.lower, result.upper)),
        ("truth", _told(extra)),
        ("stopped", result.stopped),
    ]
    print_table([*rows, *(("note", note) for note in extra["notes"])])


def _told(extra: dict[str, Any]) -> str:
    if extra["truth"] is None:
        return "unknown: the table is itself a sample of the population"
    return f"{extra['truth']:.2%} ({'inside' if extra['truth_inside'] else 'OUTSIDE'} the interval)"
