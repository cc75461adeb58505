"""Replay a recorded evaluation: what it would have cost, and whether its answer had been right: `cereval replay`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import fsum
from pathlib import Path
from typing import Any

import click
from numpy.typing import NDArray

from cereval.certificate.format import issue
from cereval.cli.carry_out import instead_rows
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
from cereval.cli.output import show, write_certificate
from cereval.cli.recorded import Recorded, past_scores, read_recorded
from cereval.datasets.weights import mix_notes
from cereval.errors import InvalidInput
from cereval.forecasts.embeddings import text_features
from cereval.plan import Known, Plan
from cereval.questions import kind_named, kind_of
from cereval.questions.replay import checked_sizes, drive
from cereval.questions.session import AskTell
from cereval.records import Certified, Rows, Step
from cereval.report import recorded_page, write_page
from cereval.runner.prepare import make_plan
from cereval.runner.run import calls_instead
from cereval.settings import ACCEPTED, GOAL_OPTIONS, Candidate, CompareOptions, settings_of

REPLAYED = ("confidence", "history", "max_calls", "seed")
"""The options of every kind that a replay takes besides its goal."""

EXACT, ROUNDED = 1e-12, 1e-9
"""Sums are rounded, differences of them more so: a truth on the edge of its interval is inside."""


def _taken(kind: str, *more: str) -> tuple[Any, ...]:
    accepted = CompareOptions if kind == "growing" else ACCEPTED[kind]  # which has the history
    found = [one_option(name, ACCEPTED[kind]) for name in (*GOAL_OPTIONS[kind], *more)]
    return (*found, *(one_option(name, accepted) for name in REPLAYED))


COLUMN = click.option(
    "--model", cls=Once, required=True, metavar="COLUMN", help="The column of SCORES to evaluate."
)


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
@apply(COLUMN)
@apply(_taken("estimate", "method", "target", "weights", "mix"), ITEMS)
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
    return replay_question("estimate", [scores], [model], flags)


COLUMNS = click.option("--model", "models", multiple=True, metavar="COLUMN", help="A column of SCORES.")


@replay.command("compare")
@click.argument("scores")
@apply(COLUMNS, _taken("compare"), ITEMS, CERTIFICATE, REPORT, JSON)
def replay_comparison(scores: str, models: tuple[str, ...], **flags: Any) -> int:
    """Replay a comparison of two columns of SCORES; goals are those of `cereval compare`."""
    if len(models) != 2 or models[0] == models[1]:
        raise InvalidInput("--model", "given twice, for two different columns", ", ".join(models))
    return replay_question("compare", [scores], models, flags)


@replay.command("rank")
@click.argument("scores")
@apply(COLUMNS, _taken("rank"), CERTIFICATE, REPORT, JSON)
def replay_ranking(scores: str, models: tuple[str, ...], **flags: Any) -> int:
    """Replay a ranking of the columns of SCORES; goals are those of `cereval rank`."""
    return replay_question("rank", [scores], models, flags)


@replay.command("tasks")
@click.argument("scores", nargs=-1, required=True)
@apply(COLUMN, _taken("tasks", "by"), ITEMS, CERTIFICATE, REPORT, JSON)
def replay_tasks(scores: tuple[str, ...], model: str, **flags: Any) -> int:
    """Replay many tasks: the categories of --items, or each of several SCORES; goals are those of `cereval tasks`."""
    if len(scores) == 1 and flags["items"] is None:
        raise InvalidInput("--items", "given for one SCORES file (the tasks are its categories)", None)
    return replay_question("tasks", scores, [model], flags)


@replay.command("extend")
@click.argument("scores")
@click.option(
    "--versions",
    required=True,
    metavar="LIST",
    help="Size of each version, as shares (0.6,0.8,1) or numbers of the rows of SCORES, in their order.",
)
@apply(COLUMN, one_option("target", ACCEPTED["growing"]), _taken("growing"), CERTIFICATE, REPORT, JSON)
def replay_versions(scores: str, model: str, **flags: Any) -> int:
    """Replay SCORES as data that grew, version after version; --max-calls is for each of them."""
    return replay_question("growing", [scores], [model], flags)


# -- one question -----------------------------------------------------------------------------------------------------


def replay_question(
    kind_name: str, sources: Sequence[str], models: Sequence[str], flags: Mapping[str, Any]
) -> int:
    kind, found = kind_named(kind_name), read_recorded(sources, models, flags)
    if kind.asks == "all" and len(found.models) < 2:
        wanted = "two models or more with a score on every item"
        raise InvalidInput("--model", wanted, ", ".join(found.models))
    plan, known, notes = _plan_replay(kind_name, sources, found, flags)
    sizes = _version_sizes(flags.get("versions"), plan.n_items)
    if kind.grows:
        plan = replace(plan, n_items=sizes[0], growth={"sizes": sizes[:1], "after": None})
    session, steps = _replay_scores(kind.session(plan, known), found, sizes[1:], plan.max_calls)
    result = session.result()
    facts, words = _TRUTHS[kind_name](session, result, found)
    _write_files(session, plan, known, result, steps, flags)
    names, others = result.models, calls_instead(result, kind)
    spec = {} if "goal" in result.as_dict() else dict(result.goal)
    about = {"first": names[0], "second": names[1]} if kind.asks == "two" else {"model": plan.name}
    about = {} if kind.asks == "all" else {**about, "data": plan.data_name, "items": plan.data_hash}
    rows: Rows = [("truth", words), ("stopped", result.stopped), *instead_rows(others)]
    told = (*found.notes, *mix_notes(flags.get("mix")), *notes)
    if result.target == "expected":
        told = (*told, "recorded scores are taken for rates of right answers: every answer is a new toss")
    return show(
        result, {**about, **spec, **facts, "instead": others}, rows, as_json=flags["as_json"], notes=told
    )


def _plan_replay(
    kind_name: str, sources: Sequence[str], found: Recorded, flags: Mapping[str, Any]
) -> tuple[Plan, Known, list[str]]:
    asked = {name: value for name, value in flags.items() if name != "history"}
    options = given_options(asked, ACCEPTED[kind_name])
    candidates = [
        Candidate(model, name=name) for model, name in zip(found.candidates, found.models, strict=True)
    ]
    kind = kind_named(kind_name)
    plan = make_plan(settings_of(kind_name, sources, candidates, options), found.data)
    categories = tuple(item.category for item in found.data.items)
    groups = kind.groups(plan, categories) if flags.get("groups") != "none" else None
    if flags.get("groups") == "category" and not any(categories):
        raise InvalidInput("--groups", "given with --items that have a column `category`", "category")
    history, notes = past_scores(found, flags.get("history") or ())
    embeddings = embed(found.texts, flags.get("embeddings"), plan.method) if kind_name in EMBEDDED else None
    known = Known(groups, history, embeddings)
    past = {} if history is None else {"recorded": history.shape[1]}
    return replace(plan, side_information=known.names, history=past), known, notes


EMBEDDED = ("estimate", "compare")
"""The kinds of question whose sessions look at the texts."""

LEARNING = ("auto", "active", "memory", "partition", "cer-eval")
"""The methods that look at embeddings; for the others no time is spent on making them."""


def embed(texts: Sequence[str] | None, embedder: str | None, method: str) -> NDArray[Any] | None:
    """Return vectors of the texts. Asking for them by name without texts is an error, `none` switches them off."""
    if texts is None and embedder not in (None, "none"):
        raise InvalidInput("--embeddings", "given with --items that have a column `text`", embedder)
    if texts is None or embedder == "none" or method not in LEARNING:
        return None

    if len(texts) > 2000:
        click.echo(f"embedding {len(texts):,} texts ({embedder or 'tfidf'}) ...", err=True)
    return text_features(texts, embedder or "tfidf")


def _version_sizes(versions: str | None, count: int) -> list[int]:
    """Return how many items each version adds.

    >>> _version_sizes("0.5,0.75,1", 100), _version_sizes("60,100", 100), _version_sizes(None, 7)
    ([50, 25, 25], [60, 40], [7])
    """
    if versions is None:
        return [count]
    try:
        numbers = [float(part) for part in versions.split(",")]
    except ValueError:
        raise InvalidInput("--versions", "numbers with commas between them", versions) from None
    wanted = f"growing shares up to 1, or numbers of items up to {count}, of one item or more each"
    if not all(0 < number <= count for number in numbers):
        raise InvalidInput("--versions", wanted, versions)
    shares = max(numbers) <= 1
    try:
        return checked_sizes([round(number * count) if shares else int(number) for number in numbers], count)
    except InvalidInput:
        raise InvalidInput("--versions", wanted, versions) from None


def _replay_scores(
    session: Any, found: Recorded, more: Sequence[int], budget: int | None
) -> tuple[AskTell, list[Step]]:
    scores, steps, batch = found.scores, [session.step()], 64 if len(found.models) > 2 else 1
    drive(session, scores, batch, lambda one: steps.append(one.step()))
    for new in more:
        if session.stopped != "contradiction":
            session.whole.extend(new)
            session = session.whole.last
            if budget is not None:
                session.change(session.goal.spec(), budget)
            drive(session, scores, batch, lambda one: steps.append(one.step()))
    return session, [step for step in steps if step is not None]


def _write_files(
    session: AskTell, plan: Plan, known: Known, result: Certified, steps: list[Step], flags: Mapping[str, Any]
) -> None:
    if not (flags["certificate"] or flags["report"]):
        return

    kind, about = kind_of(plan), kind_of(plan).about(plan)
    # Where settings say everything, a plan would name a run that no store has.
    certificate = issue(kind, session, result, known, about=about, plan=None if kind.settings_form else plan)
    if flags["certificate"]:
        write_certificate(Path(flags["certificate"]), certificate)
    if flags["report"]:
        write_page(Path(flags["report"]), recorded_page(kind, result, certificate, steps, about))


# -- what is true -----------------------------------------------------------------------------------------------------

Truth = tuple[dict[str, Any], str]
"""What a replay knows to be true, as JSON and in words."""


def _is_inside(part: Any, truth: float, slack: float) -> bool:
    return bool(part.lower - slack <= truth <= part.upper + slack)


def _truth_of_mean(session: Any, result: Any, found: Recorded) -> Truth:
    """Return the mean over all items; of a population they are still only a sample."""
    if result.target == "population":
        return {
            "truth": None,
            "truth_inside": None,
        }, "unknown: the table is itself a sample of the population"
    weights, scores = session.pool.weights, found.scores[:, 0].tolist()
    shares = [1.0] * len(scores) if weights is None else weights.tolist()
    known = [(share, score) for share, score in zip(shares, scores, strict=True) if score == score]
    truth = fsum(share * score for share, score in known) / fsum(share for share, _ in known)
    return _told(result, truth, f"{truth:.2%}", 0.0 if weights is None else EXACT)


def _truth_of_comparison(session: Any, result: Any, found: Recorded) -> Truth:  # noqa: ARG001
    gap = fsum((found.scores[:, 0] - found.scores[:, 1]).tolist()) / len(found.scores)
    return _told(result, gap, f"{gap:+.2%}", ROUNDED)


def _told(result: Any, truth: float, words: str, slack: float) -> Truth:
    inside = _is_inside(result, truth, slack)
    return {
        "truth": truth,
        "truth_inside": inside,
    }, f"{words} ({'inside' if inside else 'OUTSIDE'} the interval)"


def _truth_of_tasks(session: Any, result: Any, found: Recorded) -> Truth:  # noqa: ARG001
    scores = dict[str, list[float]]()
    for item, score in zip(found.data.items, found.scores[:, 0].tolist(), strict=True):
        scores.setdefault(item.category or "(none)", []).append(score)
    means = {name: fsum(own) / len(own) for name, own in scores.items()}
    macro = fsum(means.values()) / len(means)
    inside = all(_is_inside(task, means[name], EXACT) for name, task in result.tasks.items())
    inside &= _is_inside(result.macro, macro, EXACT)
    words = (
        f"macro {macro:.2%}; it and all tasks are {'inside' if inside else 'NOT all inside'} their intervals"
    )
    return {"truth": macro, "truth_inside": inside}, words


def _truth_of_versions(session: Any, result: Any, found: Recorded) -> Truth:  # noqa: ARG001
    truths: list[float | None] = [None] * len(result.versions)
    if result.target == "benchmark":
        parts = [found.scores[: one.n_items, 0].tolist() for one in result.versions]
        truths = [fsum(part) / len(part) for part in parts]
    pairs = list(zip(result.versions, truths, strict=True))
    inside = all(truth is None or _is_inside(version, truth, 0.0) for version, truth in pairs)
    shown = ", ".join("unknown" if truth is None else f"{truth:.2%}" for truth in truths)
    words = f"{shown}; {'all' if inside else 'NOT all'} inside their intervals"
    return {"truth": truths, "truth_inside": inside}, words


def truth_of_ranking(result: Any, means: Mapping[str, float]) -> dict[str, Any]:
    missed = [
        name for name, interval in result.intervals.items() if not _is_inside(interval, means[name], ROUNDED)
    ]
    wrong = [[one, other] for one, other in result.order if means[one] < means[other]]
    return {"truth": means, "wrong_orders": wrong, "intervals_missed": missed, **_wrong_top(result, means)}


def _wrong_top(result: Any, means: Mapping[str, float]) -> dict[str, Any]:
    """Find what is wrong in a top k: models named that are not within reach of the k-th best, and models ruled out
    although fewer than k others are at least as good.
    """
    if result.goal["goal"] != "top":
        return {}
    k, within = result.goal["k"], result.goal["within"]
    needed = sorted(means.values(), reverse=True)[k - 1] - within - ROUNDED
    as_good = {
        name: sum(mean >= means[name] - ROUNDED for other, mean in means.items() if other != name)
        for name in result.eliminated
    }
    return {
        "wrong_winners": [name for name in result.winners if means[name] < needed],
        "wrongly_eliminated": [name for name, count in as_good.items() if count < k],
    }


def _truth_of_ranking(session: Any, result: Any, found: Recorded) -> Truth:  # noqa: ARG001
    means = {
        name: fsum(column) / len(column)
        for name, column in zip(found.models, found.scores.T.tolist(), strict=True)
    }
    facts = truth_of_ranking(result, means)
    return facts, truth_in_words(result, facts)


def truth_in_words(result: Any, truth: Mapping[str, Any]) -> str:
    made = {"certified pairs": (len(result.order), len(truth["wrong_orders"]))}
    if result.goal["goal"] == "top":
        made = {
            "models named": (len(result.winners), len(truth["wrong_winners"])),
            "models ruled out": (len(result.eliminated), len(truth["wrongly_eliminated"])),
        } | made
    said = [
        f"{count - wrong:,} of {count:,} {what} right" + (f", {wrong:,} WRONG" if wrong else "")
        for what, (count, wrong) in made.items()
        if count
    ]
    return ", ".join(said) or "nothing was certified"


_TRUTHS: Mapping[str, Callable[[Any, Any, Recorded], Truth]] = {
    "estimate": _truth_of_mean,
    "compare": _truth_of_comparison,
    "rank": _truth_of_ranking,
    "tasks": _truth_of_tasks,
    "growing": _truth_of_versions,
}
