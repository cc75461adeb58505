"""Read recorded scores for every kind of question: which columns of a table, on which items, and what is known of
them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

from cereval.cli.outcome import instead_rows
from cereval.cli.output import show, write_certificate
from cereval.datasets.read import names_of
from cereval.datasets.tables import ItemsTable, ScoresTable, read_column, read_items, read_scores
from cereval.errors import BadFile, InvalidInput, Misuse, shown
from cereval.files import read_json, write_whole
from cereval.integrations.logs import is_log, scores_of
from cereval.questions import kind_named
from cereval.questions.growing.session import Growing, GrowingResult
from cereval.questions.rank.session import Ranking
from cereval.questions.replay import checked_scores, checked_sizes, drive
from cereval.questions.tasks import UNNAMED
from cereval.questions.tasks.session import TasksResult
from cereval.runner.items import items_of
from cereval.runner.past import teachers
from cereval.runner.run import calls_instead
from cereval.store.base import opened_store

if TYPE_CHECKING:
    from cereval.plan import Known, Plan
    from cereval.questions.session import AskTell
    from cereval.records import Certified, Rows, Step, Table
    from cereval.store.base import PastScores, Store

Floats = NDArray[np.float64]
EXACT = 1e-9

LEARNING_METHODS = ("auto", "active", "memory", "partition", "cer-eval")
"""The methods that look at embeddings; for the others no time is spent on making them."""


def digest_of_items(items: Sequence[str]) -> str:
    """Return a hash of item ids."""
    return "sha256:" + hashlib.sha256("\n".join(items).encode(errors="replace")).hexdigest()


# -- what is known of the items ----------------------------------------------------------------------------------------


def known_items(path: str | None, items: Sequence[str]) -> ItemsTable:
    """Return the items table in the order of the scores; empty without a file."""
    return ItemsTable(tuple(items), None, None) if path is None else read_items(path).aligned_to(items)


def embedded(known: ItemsTable, embedder: str | None, method: str) -> NDArray[Any] | None:
    """Return vectors of the texts. Asking for them by name without texts is an error, `none` switches them off."""
    if known.texts is None and embedder not in (None, "none"):
        raise InvalidInput("--embeddings", "given with --items that have a column `text`", embedder)
    if known.texts is None or embedder == "none" or method not in LEARNING_METHODS:
        return None
    from cereval.forecasts.embeddings import text_features

    if len(known.texts) > 2000:
        click.echo(f"embedding {len(known.texts):,} texts ({embedder or 'tfidf'}) ...", err=True)
    return text_features(known.texts, embedder or "tfidf")


def grouped(known: ItemsTable, groups: str | None) -> NDArray[Any] | None:
    """Return the categories as groups. Asking for them by name without categories is an error."""
    if known.categories is None and groups == "category":
        raise InvalidInput("--groups", "given with --items that have a column `category`", groups)
    return None if known.categories is None or groups == "none" else np.array(known.categories)


def past_scores(
    table: ScoresTable,
    model: str,
    wanted: Sequence[str],
    store: str | None = None,
    rivals: Sequence[str] = (),
    items: str | None = None,
) -> tuple[NDArray[np.float64] | None, list[str]]:
    """Return items x past models from `others`, columns, other tables or the store, or `none`; notes on what is unused.

    rivals: other models that are evaluated, and whose scores are not known beforehand either. items: a table with the
    items' texts, by which the store's are found.
    """
    if store is not None and "store" not in wanted:
        raise InvalidInput("--store", "given with --history store", store)
    evaluated = (model, *rivals)
    parts: list[NDArray[np.float64]] = []
    notes: list[str] = []
    for name in _split(table, wanted):
        if name == "none" and name not in table.models:
            continue
        if name == "others" and name not in table.models:
            others = [one for one in table.others(model) if one not in rivals]
            parts.append(table.history(others))
            notes += [] if others else ["history: no column is left to be past, `others` has no effect"]
        elif name == "store" and name not in table.models:
            found = stored_scores(store, item_names(table.items, items), evaluated)
            parts.append(found.scores)
            notes.extend(found.notes)
        elif name not in table.models and _is_file(name):
            parts.append(_from_file(name, table.items, evaluated, notes))
        elif name in evaluated:
            raise InvalidInput("--history", "columns other than the model's own", name)
        else:
            parts.append(table.history([name]))
    history = np.hstack(parts) if parts else None
    return (None if history is None or not history.shape[1] else history), notes


def _is_file(name: str) -> bool:
    return Path(name).suffix in (".csv", ".parquet") or is_log(Path(name))


def _split(table: ScoresTable, wanted: Sequence[str]) -> list[str]:
    """Split the values of a repeatable flag, each a column, or several separated by commas."""
    names: list[str] = []
    for value in wanted:
        names += (
            [value] if value in table.models else [part.strip() for part in value.split(",") if part.strip()]
        )
    return names


def _from_file(
    path: str, items: Sequence[str], evaluated: Sequence[str], notes: list[str]
) -> NDArray[np.float64]:
    """Return the models of another table on our items, NaN where it lacks one; never those evaluated."""
    past, read = scores_of(path)
    notes.extend(f"history: {note}" for note in read)
    for model in evaluated:
        if model in past.models:
            notes.append(
                f"history: the column {model!r} of {path} was left out, it bears the model's own name"
            )
    rows = {item: row for row, item in enumerate(past.items)}
    order = np.array([rows.get(item, -1) for item in items])
    if (order < 0).all():
        ids = f"its first item is {shown(past.items[0])}, that of the scores {shown(items[0])}"
        raise InvalidInput("--history", f"a table that shares items with the scores ({ids})", path)
    others = [name for name in past.models if name not in evaluated]
    if (order < 0).any():
        matched = int((order >= 0).sum())
        notes.append(f"history: {path} has {matched:,} of the {len(items):,} items")
    return np.where(order[:, None] < 0, np.nan, past.history(others)[order])


@dataclass(frozen=True, slots=True, eq=False)
class StoredScores:
    """Hold items x earlier runs, NaN where one was not asked; notes on the runs used and left out."""

    scores: Floats
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ItemNames:
    """Say what the store's items are looked up by: their texts where those are known, else ids that name
    something."""

    by_text: bool
    rows: Mapping[str, int]
    size: int

    def row(self, item: Mapping[str, Any]) -> int:
        """Return the row of an item of the store; -1 where the table does not have it."""
        if not self.by_text:
            return self.rows.get(str(item["id"]), -1)
        question = item.get("input", "")
        text = question if isinstance(question, str) else question[-1]["content"]
        return self.rows.get(text.strip(), -1)


def item_names(items: Sequence[str], path: str | None) -> ItemNames:
    """Return how a table's items are told. Numbers are no names: every file has an item 7."""
    try:
        texts = known_items(path, items).texts
    except BadFile:  # a table for another purpose, such as tasks under another name
        texts = None
    if texts is not None:
        return ItemNames(True, {text.strip(): row for row, text in enumerate(texts)}, len(items))
    named = {item: row for row, item in enumerate(items) if not item.isdecimal()}
    return ItemNames(False, named, len(items))


def stored_scores(url: str | None, names: ItemNames, evaluated: Sequence[str]) -> StoredScores:
    """Return the runs on data that share items with the table, under the rule of live runs.

    Scores of one model each, and never of the models evaluated (`runner.past.teachers`).
    """
    with opened_store(url) as store:
        data = dict.fromkeys(str(plan.get("data_hash")) for _, plan in store.plans())
        parts = [_on_data(store, data_hash, names, evaluated) for data_hash in data]
    scores = np.hstack([np.empty((names.size, 0)), *(scores for scores, _ in parts)])
    if not scores.shape[1]:
        wanted = "runs of other models on the items of SCORES"
        if not names.by_text and len(names.rows) < names.size:
            wanted += " (ids that are numbers tell nothing: give the texts with --items)"
        raise InvalidInput("--history", wanted, "store")
    left_out, own = sum(own for _, own in parts), " or ".join(map(repr, evaluated))
    notes = [f"history: {scores.shape[1]} earlier runs from the store, {np.isfinite(scores).sum():,} answers"]
    notes += [f"history: {left_out} runs of {own} itself were left out"] if left_out else []
    return StoredScores(scores, tuple(notes))


def _on_data(store: Store, data_hash: str, names: ItemNames, evaluated: Sequence[str]) -> tuple[Floats, int]:
    """Return the other models' scores on one data set, in the table's rows; how many runs were those evaluated."""
    others = teachers(store, data_hash, evaluated)
    past = store.past_scores(data_hash, runs=others)
    places = _places(store, data_hash, past, names)
    shared = places >= 0
    if not shared.any():
        return np.empty((names.size, 0)), 0
    scores = np.full((names.size, len(past.runs)), np.nan)
    scores[places[shared]] = past.table(len(places))[shared]
    return scores[:, np.isfinite(scores).any(axis=0)], len(teachers(store, data_hash, ())) - len(others)


def _places(store: Store, data_hash: str, past: PastScores, names: ItemNames) -> NDArray[np.int64]:
    """Return the table's row of each item; of a large file, of the items that were asked."""
    if store.source(data_hash) is None:
        return np.array([names.row(item) for item in store.items(data_hash)], dtype=np.int64)
    items = items_of(data_hash, store, "the history")
    places = np.full(len(items), -1, dtype=np.int64)
    for item in np.unique(past.items).tolist():
        places[item] = names.row(items[item].as_dict())
    return places


# -- the scores that are replayed --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """Hold the scores of the models of a question, items x models, on the items that all of them have one on; and what
    is known of these items beforehand, under the names that sessions have for it."""

    names: tuple[str, ...]
    items: tuple[str, ...]
    scores: Floats
    known: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Return a hash over the items' ids."""
        return digest_of_items(self.items)

    @property
    def means(self) -> dict[str, float]:
        """Return the mean of each model, which a replay knows."""
        return {
            name: fsum(column) / len(column)
            for name, column in zip(self.names, self.scores.T.tolist(), strict=True)
        }


Know = Callable[[Sequence[str]], Mapping[str, Any]]
"""Finds what is known of items, by their ids."""


def replayed(
    table: ScoresTable,
    names: Sequence[str],
    flags: Mapping[str, Any],
    know: Know = lambda _: {},
    notes: Sequence[str] = (),
) -> Replayed:
    """Return the columns of these names with the past that the flags name, and what else is known of the items."""
    columns = np.column_stack([checked_scores(table.model(name)) for name in names])
    kept = np.flatnonzero(~np.isnan(columns).any(axis=1))
    if not len(kept):
        none = f"a column with scores (it has none for any of the {len(table.items):,} items)"
        several = "models with scores on the same items"
        raise InvalidInput("--model", none if len(names) == 1 else several, ", ".join(names))
    history, more = past_scores(
        table, names[0], flags.get("history") or (), flags.get("store"), names[1:], flags.get("items")
    )
    items = tuple(table.items[row] for row in kept)
    known = dict(know(items)) | {"history": None if history is None else history[kept]}
    lacking = f"{len(columns) - len(kept):,} items without a score are not part of the pool"
    told = (*notes, *([lacking] if len(kept) < len(columns) else []), *more)
    return Replayed(tuple(names), items, columns[kept], known, told)


def features(items: Sequence[str], flags: Mapping[str, Any], method: str = "auto") -> dict[str, Any]:
    """Return what the file of --items says of items: vectors of their texts, and their categories."""
    known = known_items(flags.get("items"), items)
    vectors = embedded(known, flags.get("embeddings"), method)
    return {"embeddings": vectors, "groups": grouped(known, flags.get("groups"))}


def usual_models(table: ScoresTable, wanted: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the models to rank: those named, else all that have a score on every item; with a note on the others."""
    complete = [name for name, column in table.models.items() if not np.isnan(column).any()]
    names = list(dict.fromkeys(wanted or complete))
    if len(names) < 2:
        few = "given twice or more where fewer than two columns have a score on every item"
        raise InvalidInput("--model", "two models or more" if wanted else few, ", ".join(wanted) or None)
    left_out = [] if wanted else [name for name in table.models if name not in names]
    lacking = f"left out for missing scores: {', '.join(left_out)}; name it with --model to rank it"
    return names, [lacking] if left_out else []


# -- what is true ------------------------------------------------------------------------------------------------------


def truth_of_ranking(table: Replayed, result: Ranking) -> dict[str, Any]:
    """Return every model's mean over all items, certified pairs that contradict them, and intervals that miss."""
    means = table.means
    missed = [
        name
        for name, interval in result.intervals.items()
        if not interval.lower - EXACT <= means[name] <= interval.upper + EXACT
    ]
    wrong = [[one, other] for one, other in result.order if means[one] < means[other]]
    return {"truth": means, "wrong_orders": wrong, "intervals_missed": missed, **_wrong_top(result, means)}


def _wrong_top(result: Ranking, means: Mapping[str, float]) -> dict[str, Any]:
    """Find what is wrong in a top k: models named that are not within reach of the k-th best, and models ruled out
    although fewer than k others are at least as good.
    """
    if result.goal["goal"] != "top":
        return {}
    k, within = result.goal["k"], result.goal["within"]
    needed = sorted(means.values(), reverse=True)[k - 1] - within
    wrong = [name for name in result.winners if means[name] < needed - EXACT]
    as_good = {
        name: sum(mean >= means[name] - EXACT for other, mean in means.items() if other != name)
        for name in result.eliminated
    }
    return {
        "wrong_winners": wrong,
        "wrongly_eliminated": [name for name, count in as_good.items() if count < k],
    }


def truth_in_words(result: Ranking, truth: Mapping[str, Any]) -> str:
    """Return how many of the claims of a ranking the recorded scores bear out."""
    made = {"certified pairs": len(result.order)}
    wrong = {"certified pairs": len(truth["wrong_orders"])}
    if result.goal["goal"] == "top":
        made = {"models named": len(result.winners), "models ruled out": len(result.eliminated)} | made
        wrong |= {
            "models named": len(truth["wrong_winners"]),
            "models ruled out": len(truth["wrongly_eliminated"]),
        }
    said = [
        f"{count - wrong[what]:,} of {count:,} {what} right"
        + (f", {wrong[what]:,} WRONG" if wrong[what] else "")
        for what, count in made.items()
        if count
    ]
    return ", ".join(said) or "nothing was certified"


def truth_of_tasks(table: Replayed, result: TasksResult) -> dict[str, Any]:
    """Return the macro mean, which a replay knows, and whether every interval holds its mean."""
    groups, scores = table.known["groups"], table.scores[:, 0]
    means = {
        name: fsum(scores[groups == name].tolist()) / int((groups == name).sum()) for name in result.tasks
    }
    macro = fsum(means.values()) / len(means)
    every = [(task, means[name]) for name, task in result.tasks.items()] + [(result.macro, macro)]
    inside = all(one.lower - 1e-12 <= mean <= one.upper + 1e-12 for one, mean in every)
    return {"truth": macro, "truth_inside": inside}


# -- several tables ----------------------------------------------------------------------------------------------------


def read_tasks(
    files: Sequence[str], model: str, items: str | None, by: str | None
) -> tuple[ScoresTable, Callable[[Sequence[str]], NDArray[np.str_]]]:
    """Return the scores of many tasks, and what names the task of each item."""
    if len(files) > 1:
        if items is not None or by is not None:
            raise InvalidInput("--items", "left out when each of several SCORES files is a task", items or by)
        table, groups = joined_tables(files, model)
        of = dict(zip(table.items, groups.tolist(), strict=True))
        return table, lambda names: np.array([of[name] for name in names])
    if items is None:
        raise InvalidInput("--items", "given for one SCORES file (the tasks are its categories)", None)

    def labels(names: Sequence[str]) -> NDArray[np.str_]:
        found = read_column(items, by or "category", names)
        return np.array([UNNAMED if label in (None, "") else str(label) for label in found])

    return read_scores(files[0]), labels


def joined_tables(files: Sequence[str], model: str) -> tuple[ScoresTable, NDArray[np.str_]]:
    """Return several tables below one another; a model that one of them lacks was not asked there."""
    names = names_of(files)
    tables = [read_scores(file) for file in files]
    for file, table in zip(files, tables, strict=True):
        if np.isnan(table.model(model)).all():
            raise InvalidInput("--model", f"a column with scores in every file ({file} has none)", model)
    columns = dict.fromkeys(name for table in tables for name in table.models)
    models = {
        name: np.concatenate([table.models.get(name, np.full(len(table.items), np.nan)) for table in tables])
        for name in columns
    }
    items = tuple(f"{name}/{item}" for name, table in zip(names, tables, strict=True) for item in table.items)
    groups = np.repeat(np.array(names), [len(table.items) for table in tables])
    return ScoresTable(items, models), groups


# -- data that grow ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class GrowingTable:
    """Hold item ids and scores, oldest version first; `steps`: how many items each version still to come adds."""

    items: tuple[str, ...]
    scores: Floats
    steps: list[int]

    def truths(self, result: GrowingResult) -> list[float | None]:
        """Return each version's mean, which a replay knows; None for the population, and where a score is missing."""
        if result.target == "population":
            return [None for _ in result.versions]
        parts = [self.scores[: version.n_items] for version in result.versions]
        return [None if np.isnan(part).any() else fsum(part) / len(part) for part in parts]

    def digest(self, count: int) -> str:
        """Return a hash of the first `count` item ids."""
        return digest_of_items(self.items[:count])


def read_growing_table(
    path: str, model: str, versions: str | None, items: str | None, by: str | None, kept: Kept | None
) -> GrowingTable:
    """Return the scores that are there (empty ones are not part of any version), with the versions as asked for."""
    if versions is not None and items is not None:
        raise InvalidInput("--versions", "left out when --items says the versions", versions)
    if (items is None) != (by is None):
        raise InvalidInput("--by", "given together with --items", by)
    table = read_scores(path)
    column = table.model(model)
    if kept is not None:
        return _grown(path, dict(zip(table.items, map(float, column), strict=True)), versions, items, kept)
    there = np.flatnonzero(~np.isnan(column))
    if not len(there):
        raise BadFile(f"{path}: column {shown(model)} has no score")
    names = [table.items[row] for row in there]
    if items is None or by is None:
        return GrowingTable(tuple(names), column[there], _steps(versions, len(there)))
    labels = read_column(items, by, names)
    if any(label is None for label in labels):
        raise BadFile(f"{items}: column {shown(by)} is empty for some item; every item has a version")
    order, steps = by_label(labels)
    return GrowingTable(tuple(names[row] for row in order), column[there][order], steps)


def _grown(
    path: str, scores: dict[str, float], versions: str | None, items: str | None, kept: Kept
) -> GrowingTable:
    if versions is not None or items is not None:
        raise InvalidInput("--versions and --items", "left out when --state has a session", versions or items)
    missing = [item for item in kept.items if item not in scores]
    if missing:
        raise BadFile(f"{path} lacks {len(missing)} items of the session, the first is {shown(missing[0])}")
    empty = [item for item in kept.items if scores[item] != scores[item]]
    if empty:
        raise BadFile(
            f"{path} has no score any more for {len(empty)} items of the session, the first is {shown(empty[0])}"
        )
    known = set(kept.items)
    fresh = [item for item, score in scores.items() if item not in known and score == score]
    order = (*kept.items, *fresh)
    return GrowingTable(order, np.array([scores[item] for item in order]), [len(fresh)] if fresh else [])


def _steps(versions: str | None, count: int) -> list[int]:
    """Return how many items each version adds.

    >>> _steps("0.5,0.75,1", 100), _steps("60,100", 100), _steps(None, 7)
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


def by_label(labels: Sequence[Any]) -> tuple[list[int], list[int]]:
    """Return rows in the order of their versions, and the size of each; numbers are sorted as numbers.

    >>> by_label([10, 9, 10, 2])
    ([3, 1, 0, 2], [1, 1, 2])
    """
    numeric = all(isinstance(label, int | float) and not isinstance(label, bool) for label in labels)
    keys = list(labels) if numeric else [str(label) for label in labels]
    names = sorted(set(keys))
    rows = [[row for row, key in enumerate(keys) if key == name] for name in names]
    return [row for version in rows for row in version], [len(version) for version in rows]


@dataclass(frozen=True, slots=True)
class Kept:
    """Hold a session as it was saved, and the ids of its items in their order."""

    session: Growing
    items: tuple[str, ...]


def load(file: str | None, flags: Mapping[str, Any]) -> Kept | None:
    """Return the session in a file, if there is one; settings given again must be those it was started with."""
    if file is None or not _is_there(Path(file)):
        return None
    try:
        content = read_json(Path(file))
        _check_sizes(file, content)
        session, items = Growing.restore(content["session"]), tuple(map(str, content["items"]))
        model = content["model"]
    except (ValueError, KeyError, TypeError, AttributeError, Misuse) as error:
        raise BadFile(f"{file} is no saved session of `cereval extend`: {error}") from None
    started = {
        "model": model,
        "eps": session.goal.eps,
        **{name: getattr(session, name) for name in ("confidence", "target", "seed")},
    }
    for name, value in started.items():
        if flags[name] is not None and flags[name] != value:
            raise InvalidInput(
                f"--{name}", f"{value}, as the session in {file} was started with", flags[name]
            )
    return Kept(session, items)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise BadFile(f"{shown(str(path))} cannot be the file of a session ({error.strerror})") from None


def _check_sizes(file: str, content: Any) -> None:
    """Refuse a session that claims other items than it names, before room is made for them."""
    claimed = sum(int(version["n_new"]) for version in content["session"]["versions"])
    if claimed != len(content["items"]):
        raise BadFile(f"{file} names {len(content['items'])} items for a session of {claimed}")


def save(file: str | None, session: Growing, model: str, table: GrowingTable) -> None:
    """Write a session whole or not at all: an interrupted write leaves the old one."""
    if file is None:
        return
    path = Path(file)
    content = {"model": model, "items": list(table.items[: session.n_items]), "session": session.state()}
    try:
        write_whole(path, json.dumps(content, allow_nan=False) + "\n")
    except OSError as error:
        raise BadFile(f"the session cannot be saved to {path} ({error.strerror})") from None


# -- printing ---------------------------------------------------------------------------------------------------------


class Watch:
    """Note what is certified after every result, for the page."""

    def __init__(self, session: AskTell) -> None:
        self.steps: list[Step] = []
        self(session)

    def __call__(self, session: AskTell) -> None:
        step = session.step()
        if step is not None:
            self.steps.append(step)


def judge(
    kind: str,
    session: AskTell,
    table: Replayed,
    flags: Mapping[str, Any],
    truth: Callable[[Any], tuple[Mapping[str, Any], str]],
    *,
    about: Mapping[str, Any],
    extra: Mapping[str, Any],
    known: Known,
    batch: int = 1,
    plan: Callable[[], Plan] | None = None,
) -> int:
    """Replay a session to its end, and print what it would have proven beside what is true; return the exit code.

    truth: says what is true, as JSON and in words, of a result. plan: makes the plan of a certificate.
    """
    watch = Watch(session)
    facts, words = truth(drive(session, table.scores, batch, watch))
    return finish_recorded(
        kind,
        session,
        known,
        flags,
        about=about,
        extra={**extra, **facts},
        rows=[("truth", words)],
        notes=table.notes,
        steps=watch.steps,
        plan=plan() if plan is not None and (flags["certificate"] or flags["report"]) else None,
    )


def finish_recorded(
    kind: str,
    session: AskTell,
    known: Known,
    flags: Mapping[str, Any],
    *,
    about: Mapping[str, Any],
    extra: Mapping[str, Any],
    rows: Rows,
    notes: tuple[str, ...] = (),
    steps: list[Step] | None = None,
    table: Table | None = None,
    instead: Mapping[str, Any] | None = None,
    plan: Plan | None = None,
) -> int:
    """Write the certificate and the page of recorded scores where they are wanted, and print the answer."""
    result = session.result()
    if flags["certificate"] or flags["report"]:
        _write(kind, session, result, known, flags, about, steps or [], plan)
    others = calls_instead(result, kind_named(kind))
    told = [*rows, ("stopped", result.stopped), *instead_rows(others)]
    extra = {**extra, "instead": others}
    return show(result, extra, told, as_json=flags["as_json"], notes=notes, table=table, instead=instead)


def _write(
    kind: str,
    session: AskTell,
    result: Certified,
    known: Known,
    flags: Mapping[str, Any],
    about: Mapping[str, Any],
    steps: list[Step],
    plan: Plan | None,
) -> None:
    from cereval.certificate.format import issue
    from cereval.questions import kind_named

    certificate = issue(kind_named(kind), session, result, known, about=about, plan=plan)
    if flags["certificate"]:
        write_certificate(Path(flags["certificate"]), certificate)
    if flags["report"]:
        from cereval.report import recorded_page, write_page

        page = recorded_page(kind_named(kind), result, certificate, steps, about)
        write_page(Path(flags["report"]), page)
