"""Replay a recorded evaluation: what it would have cost, and whether its answer had been right: `cereval replay`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.options import (
    CERTIFICATE,
    ITEMS,
    JSON,
    REPORT,
    Once,
    apply,
    given_options,
    one_option,
)
from cereval.datasets import weights as weighting
from cereval.errors import InvalidInput
from cereval.settings import (
    GOAL_OPTIONS,
    Candidate,
    CompareOptions,
    RankOptions,
    RunOptions,
    TasksOptions,
    goal_of,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cereval.plan import Plan
    from cereval.questions.mean.session import Session
    from cereval.records import Result

    Floats = NDArray[np.float64]


REPLAYED = ("confidence", "history", "store", "max_calls", "seed")
"""The options of every kind that a replay takes besides its goal."""


def _taken(accepted: type, kind: str, *more: str) -> tuple[Any, ...]:
    names = (*GOAL_OPTIONS[kind], *REPLAYED, *more)
    return tuple(one_option(name, accepted) for name in names)


class ByKind(click.Group):
    """Take the first word for the kind of question; without one, it is about one mean."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = (*self.commands, *ctx.help_option_names)
        return super().parse_args(ctx, args if not args or args[0] in known else ["run", *args])


@click.group(cls=ByKind)
def replay() -> None:
    """Replay recorded SCORES: which questions would have been asked, and what they would have proven.

    `replay SCORES` is short for `replay run SCORES`. To learn what the scores say, use all of them: `cereval run`,
    `compare` and `rank` take tables and logs too.
    """


@replay.command("run")
@click.argument("scores")
@click.option("--model", cls=Once, required=True, metavar="COLUMN", help="The column of SCORES to evaluate.")
@apply(_taken(RunOptions, "estimate", "method", "target", "weights", "mix"), ITEMS)
@click.option(
    "--embeddings",
    type=click.Choice(["tfidf", "wordllama", "none"]),
    help="How the texts of ITEMS are turned into features.  [default: tfidf where there are texts]",
)
@click.option(
    "--groups",
    type=click.Choice(["category", "none"]),
    help="Known groups of the items.  [default: category where ITEMS has it]",
)
@apply(CERTIFICATE, REPORT, JSON)
def replay_mean(scores: str, model: str, **flags: Any) -> int:
    """Replay recorded SCORES: which questions would have been asked, and what they would have proven.

    SCORES is a parquet or csv file with a column `item` and one column per model, scores in [0, 1]; an empty
    score is not part of the pool. It may also be a log of another tool, or a folder of them (`cereval import`).

    What is known beforehand saves calls and can never make the answer wrong: past models' scores (--history)
    most, then the items' categories and texts (--items). The notes of the result say what helped.

    Exit codes: 0 goal reached or certified pass, 1 could not run, 2 certified fail, 3 undecided.
    """
    from cereval.cli.recorded import features, judge, replayed
    from cereval.datasets.weights import mix_notes
    from cereval.integrations.logs import scores_of
    from cereval.plan import Known
    from cereval.questions.mean.session import Session

    options, goal = _asked(flags, RunOptions, "estimate")
    method, target = flags["method"] or "auto", flags["target"] or "benchmark"
    scored, read = scores_of(scores)
    weighting.check_one(flags["weights"], flags["mix"])
    table = replayed(
        scored,
        (model,),
        flags,
        # Quick and strict first: texts may take a while to embed.
        lambda items: {"weights": _weights(items, flags), **features(items, flags, method)},
        notes=(*read, *mix_notes(flags["mix"])),
    )
    session = Session(
        len(table.items),
        goal=goal,
        **table.known,
        **options,
        method=method,
        target=target,
        models=(model,),
    )

    def truth(result: Any) -> tuple[dict[str, Any], str]:
        facts = _truth(table.scores[:, 0], table.known["weights"], result)
        return facts, _told(facts)

    about = {"model": model, "data": Path(scores).name, "items": table.digest}
    return judge(
        "estimate",
        session,
        table,
        flags,
        truth,
        about=about,
        extra={"model": model, **goal.spec()},
        known=Known.of(session.pool),
        plan=lambda: _plan_of(session, about),
    )


COLUMNS = click.option("--model", "models", multiple=True, metavar="COLUMN", help="A column of SCORES.")


@replay.command("compare")
@click.argument("scores")
@apply(COLUMNS, _taken(CompareOptions, "compare"), ITEMS, CERTIFICATE, REPORT, JSON)
def replay_comparison(scores: str, **flags: Any) -> int:
    """Replay a comparison of two columns of SCORES; goals are those of `cereval compare`."""
    from cereval.cli.recorded import features, judge, replayed
    from cereval.datasets.tables import read_scores
    from cereval.plan import Known
    from cereval.questions.compare.session import CompareSession

    models = flags["models"]
    if len(models) != 2 or models[0] == models[1]:
        raise InvalidInput("--model", "given twice, for two different columns", ", ".join(models))
    options, goal = _asked(flags, CompareOptions, "compare")
    table = replayed(read_scores(scores), models, flags, lambda items: features(items, flags))
    session = CompareSession(len(table.items), goal=goal, **options, **table.known, models=models)

    def truth(result: Any) -> tuple[dict[str, Any], str]:
        gap = fsum((table.scores[:, 0] - table.scores[:, 1]).tolist()) / len(table.items)
        inside = result.lower - 1e-9 <= gap <= result.upper + 1e-9
        words = f"{gap:+.2%} ({'inside' if inside else 'OUTSIDE'} the interval)"
        return {"truth": gap, "truth_inside": inside}, words

    about = {"first": models[0], "second": models[1], "data": Path(scores).name, "items": table.digest}
    extra = {**about, **goal.spec()}
    return judge("compare", session, table, flags, truth, about=about, extra=extra, known=Known())


@replay.command("rank")
@click.argument("scores")
@apply(COLUMNS, _taken(RankOptions, "rank"), CERTIFICATE, REPORT, JSON)
def replay_ranking(scores: str, **flags: Any) -> int:
    """Replay a ranking of the columns of SCORES; goals are those of `cereval rank`."""
    from cereval.cli.recorded import judge, replayed, truth_in_words, truth_of_ranking, usual_models
    from cereval.datasets.tables import read_scores
    from cereval.plan import Known
    from cereval.questions.rank.session import RankSession

    scored = read_scores(scores)
    names, notes = usual_models(scored, flags["models"])
    if flags["beats"] is not None and flags["beats"] not in names:
        names.append(flags["beats"])
    table = replayed(scored, names, flags, notes=notes)
    options, goal = _asked(flags, RankOptions, "rank", names)
    session = RankSession(len(table.items), names, goal=goal, **options, **table.known)

    def truth(result: Any) -> tuple[dict[str, Any], str]:
        facts = truth_of_ranking(table, result)
        return facts, truth_in_words(result, facts)

    known = Known(None, table.known["history"])
    about = {"data": Path(scores).name}
    return judge("rank", session, table, flags, truth, about=about, extra={}, known=known, batch=64)


@replay.command("tasks")
@click.argument("scores", nargs=-1, required=True)
@click.option("--model", cls=Once, required=True, metavar="COLUMN", help="The column of SCORES to evaluate.")
@apply(_taken(TasksOptions, "tasks"), one_option("by", TasksOptions), ITEMS, CERTIFICATE, REPORT, JSON)
def replay_tasks(scores: tuple[str, ...], model: str, **flags: Any) -> int:
    """Replay many tasks: the categories of --items, or each of several SCORES; goals are those of `cereval tasks`."""
    from cereval.cli.recorded import judge, read_tasks, replayed, truth_of_tasks
    from cereval.plan import Known
    from cereval.questions.tasks.session import TaskSession

    scored, labels = read_tasks(scores, model, flags["items"], flags["by"])
    table = replayed(scored, (model,), flags, lambda items: {"groups": labels(items)})
    options, goal = _asked(flags, TasksOptions, "tasks")
    session = TaskSession(**table.known, goal=goal, **options, models=(model,))

    def truth(result: Any) -> tuple[dict[str, Any], str]:
        facts = truth_of_tasks(table, result)
        inside = "inside" if facts["truth_inside"] else "NOT all inside"
        return facts, f"macro {facts['truth']:.2%}; it and all tasks are {inside} their intervals"

    about = {"model": model, "data": [Path(name).name for name in scores], "items": table.digest}
    extra, known = {"model": model, **goal.spec()}, Known(None, table.known["history"])
    return judge("tasks", session, table, flags, truth, about=about, extra=extra, known=known)


def _asked(
    flags: Mapping[str, Any], accepted: type, kind: str, names: Sequence[str] = ()
) -> tuple[dict[str, Any], Any]:
    """Return what sessions of every kind take of the flags, and the goal."""
    taken = (*GOAL_OPTIONS[kind], *REPLAYED)
    options = given_options({name: flags[name] for name in taken}, accepted)
    shared = {"confidence": options.get("confidence", 0.95), "budget": options.get("max_calls")}
    return {**shared, "seed": options.get("seed")}, goal_of(
        kind, options, [Candidate(name) for name in names]
    )


def _plan_of(session: Session, about: Mapping[str, Any]) -> Plan:
    """Return the plan that a replay's certificate rests on."""
    from cereval.arrays import packed
    from cereval.plan import Known, Plan, candidate_spec

    settings, weights, past = session.settings(), session.pool.weights, session.pool.history
    same = ("goal", "confidence", "method", "n_items", "seed")
    return Plan(
        kind="estimate",
        data_hash=about["items"],
        data_name=about["data"],
        candidates=(candidate_spec(about["model"]),),
        scorer={"spec": {"name": "recorded"}},
        target="benchmark" if settings["target"] == "weighted" else settings["target"],
        max_calls=settings["budget"],
        side_information=Known.of(session.pool).names,
        history={} if past is None else {"recorded": past.shape[1]},
        weights={} if weights is None else {"source": "recorded", **packed(weights)},
        **{name: settings[name] for name in same},
    )


def _weights(items: Sequence[str], flags: Mapping[str, Any]) -> Floats | None:
    """Return the weights that --weights or --mix describe; a mix is one of the items that have a score."""
    from cereval.cli.recorded import known_items
    from cereval.datasets.tables import read_column

    weights, mix, path = flags["weights"], flags["mix"], flags["items"]
    if weights is None and mix is None:
        return None
    if path is None and (mix is not None or not weighting.is_table(weights)):
        raise InvalidInput("--items", "given for a --mix, or a --weights COLUMN", None)
    if weights is not None:
        return weighting.weights_of_items(weights, items, lambda name: read_column(path, name, items))
    return weighting.mixed(mix, known_items(path, items).categories)


def _scaled(weights: Floats) -> list[float]:
    """Scale weights by a power of two, which is exact, so that their sum is a number."""
    from math import frexp, ldexp

    largest = frexp(max(weights))[1]
    return [ldexp(weight, -largest) for weight in weights.tolist()]


def _truth(column: Floats, weights: Floats | None, result: Result) -> dict[str, Any]:
    """Return the mean over all items, which a replay knows; of a population it still has only a sample."""
    if result.target == "population":
        return {"truth": None, "truth_inside": None}
    shares = [1.0] * len(column) if weights is None else _scaled(weights)
    known = [(share, float(score)) for share, score in zip(shares, column, strict=True) if score == score]
    truth = fsum(share * score for share, score in known) / fsum(share for share, _ in known)
    # Sums of weights are rounded: a truth on the edge of its interval is inside.
    slack = 0.0 if weights is None else 1e-12
    return {"truth": truth, "truth_inside": result.lower - slack <= truth <= result.upper + slack}


def _told(extra: Mapping[str, Any]) -> str:
    if extra["truth"] is None:
        return "unknown: the table is itself a sample of the population"
    return f"{extra['truth']:.2%} ({'inside' if extra['truth_inside'] else 'OUTSIDE'} the interval)"
