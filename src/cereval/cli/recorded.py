"""Recorded scores, in tables or in logs of other tools: which commands mean them, what they say, and what is known of
their items. A column is a candidate that answers for nothing: all of it is used, or replayed (`cli/replay.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

from cereval.arrays import Floats
from cereval.datasets.base import DataSet, Item
from cereval.datasets.read import names_of
from cereval.datasets.tables import ScoresTable, read_column, read_items, read_scores
from cereval.datasets.weights import is_table
from cereval.errors import BadFile, CerevalError, InvalidInput, shown
from cereval.files import is_file, is_folder
from cereval.models import KINDS
from cereval.models.scripted import RECORDED
from cereval.runner.candidates import OUTSIDE, RUN
from cereval.settings import GOAL_OPTIONS

if TYPE_CHECKING:
    from cereval.integrations.logs import Imported

TABLES = (".csv", ".parquet")


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """Hold the questions, with the score of each model under its name; and what was read and left out.

    columns: all models of the file on these questions, NaN where one has no score. texts: those of a file of items.
    """

    data: DataSet
    models: tuple[str, ...]
    columns: Mapping[str, Floats]
    texts: tuple[str, ...] | None
    notes: tuple[str, ...]

    @property
    def candidates(self) -> tuple[str, ...]:
        return tuple(f"{RECORDED}{name}" for name in self.models)

    @property
    def others(self) -> list[str]:
        return [name for name in self.columns if name not in self.models]

    @property
    def scores(self) -> Floats:
        """Return items x models, NaN where the call failed."""
        return np.column_stack([self.columns[name] for name in self.models])


# -- commands that mean recorded scores -------------------------------------------------------------------------------

TAKEN = frozenset(
    {name for names in GOAL_OPTIONS.values() for name in names}
    | {"models", "items", "store", "confidence", "target", "seed", "weights", "mix", "cluster", "by"}
    | {"certificate", "report", "display", "as_json", "data"}
)
"""The options that recorded scores take; all others only make sense where somebody is asked."""


def refuse_asking(context: click.Context, flags: Mapping[str, Any]) -> None:
    """Refuse options that only make sense where models are asked: passing over them in silence would mislead."""
    if flags.get("seal") is not None:
        raise InvalidInput(
            "--seal", "left out where nothing is asked: recorded scores are no run", "recorded scores"
        )
    for parameter in context.command.params:
        name = str(parameter.name)
        if (
            isinstance(parameter, click.Option)
            and name not in TAKEN
            and flags.get(name) not in (None, (), False)
        ):
            wanted = "given only where models are asked: recorded scores are there already"
            raise InvalidInput(max(parameter.opts, key=len), wanted, flags[name])


def recorded_sources(kind: str, sources: Sequence[str], flags: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the files and folders of recorded scores that a command names; none where models are to be asked."""
    if not sources or flags.get("config") or flags["candidates_file"]:
        return ()
    if not all(is_file(Path(one)) or is_folder(Path(one)) for one in sources):
        return ()
    asked, models = flags["models"], [*flags["models"], *filter(None, [flags.get("beats")])]
    if asked and any(_are_asked(one, asked) for one in sources):
        return ()
    tables = all(Path(one).suffix in TABLES for one in sources)
    if tables and (len(sources) == 1 or kind == "tasks"):
        found = _has_columns(sources[0], models) if len(sources) == 1 else len(asked) == 1
    else:
        found = all(map(_is_a_log, sources))
    return tuple(sources) if found else ()


def _are_asked(data: str, models: Sequence[str]) -> bool:
    """Tell whether the models are to be asked: they are named as models are, and no table has columns of the
    names."""

    names = set(models)
    prefixes = tuple(
        kind.partition(":")[0] + ":" if ":" in kind else kind.partition("/")[0] + "/" for kind in KINDS
    )
    if not all(name.startswith((*prefixes, OUTSIDE, RUN)) for name in names):
        return False
    if Path(data).suffix not in TABLES:
        return True
    try:
        return not names <= set(read_scores(data).models)
    except CerevalError:
        return True


def _has_columns(path: str, models: Sequence[str]) -> bool:
    try:
        return set(models) <= set(read_scores(path).models)
    except CerevalError:
        return _is_a_log(path)


def _is_a_log(path: str) -> bool:
    from cereval.integrations.logs import TOOLS, find_logs
    from cereval.integrations.logs.base import Content

    if is_folder(Path(path)):
        return any(True for _ in find_logs([Path(path)]))
    try:
        return any(tool.claims(Content(Path(path))) for tool in TOOLS)
    except BadFile:
        return Path(path).suffix == ".eval"  # whoever reads it says what is wrong with it


# -- what they say ----------------------------------------------------------------------------------------------------


def read_recorded(sources: Sequence[str], wanted: Sequence[str], flags: Mapping[str, Any]) -> Recorded:
    """Return the questions that all of the models were asked; wanted: their columns, empty: all there are."""
    from cereval.integrations.logs import import_logs, is_log

    found, notes, labels = None, list[str](), None
    if len(sources) > 1 and all(Path(one).suffix in TABLES and not _is_a_log(one) for one in sources):
        if flags.get("items") is not None or flags.get("by") is not None:
            raise InvalidInput("--items", "left out where each of several files is a task", flags["items"])
        table, labels = _join_tables(sources, wanted[0])
    elif len(sources) == 1 and not is_log(Path(sources[0])):
        table = read_scores(sources[0])
    else:
        found = import_logs(sources, apart=True)
        table = found.scores
        notes += [*found.notes, *(f"skipped: {line}" for line in found.skipped)]
    usual = wanted or _usual_models(table, found is not None, notes)
    models = tuple(dict.fromkeys([*usual, *([flags["beats"]] if flags.get("beats") else [])]))
    columns = {name: table.model(name) for name in models}
    failed = {} if found is None else found.failed
    rows = [
        row
        for row, item in enumerate(table.items)
        if all(not np.isnan(column[row]) or item in failed.get(name, ()) for name, column in columns.items())
    ]
    if not rows:
        none = f"a column with scores (it has none for any of the {len(table.items):,} items)"
        several = "models with scores on the same items"
        raise InvalidInput("--model", none if len(models) == 1 else several, ", ".join(models))
    if missing := len(table.items) - len(rows):
        who = "the model" if len(models) == 1 else "a model"
        notes.append(f"left out: {missing:,} of {len(table.items):,} items, on which {who} has no score")
    items, texts = _items(table, found, rows, columns, flags)
    if labels is not None:
        items = [replace(item, category=str(labels[row])) for row, item in zip(rows, items, strict=True)]
    left = {name: column[rows] for name, column in table.models.items()}
    return Recorded(DataSet.of(", ".join(sources), items), models, left, texts, tuple(notes))


def _join_tables(files: Sequence[str], model: str) -> tuple[ScoresTable, NDArray[np.str_]]:
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
    return ScoresTable(items, models), np.repeat(np.array(names), [len(table.items) for table in tables])


def _usual_models(table: ScoresTable, of_logs: bool, notes: list[str]) -> tuple[str, ...]:
    """Return all models of logs; of a table those that have a score on every item, if there are any."""
    complete = tuple(name for name, column in table.models.items() if not np.isnan(column).any())
    if of_logs or not complete:
        return tuple(table.models)
    if left_out := [name for name in table.models if name not in complete]:
        notes.append(
            f"left out for missing scores: {', '.join(left_out)}; name them with --model to take them in"
        )
    return complete


def _items(
    table: ScoresTable,
    found: Imported | None,
    rows: Sequence[int],
    columns: Mapping[str, Any],
    flags: Mapping[str, Any],
) -> tuple[list[Item], tuple[str, ...] | None]:
    """Return the items in these rows, with what a file of items, or the log, says of them; and the file's texts."""
    ids, file, by = [table.items[row] for row in rows], flags.get("items"), flags.get("by")
    texts, categories, own = ids, list[str | None]([None] * len(rows)), None
    known = [{name: float(column[row]) for name, column in columns.items()} for row in rows]
    # The answer of a model that failed stays unknown.
    known = [{name: score for name, score in scores.items() if score == score} for scores in known]
    fields = _fields_of_items(flags)
    if found is not None:
        texts, categories = [found.texts[row] for row in rows], [found.tasks[row] for row in rows]
        for row, facts in zip(rows, known, strict=True):
            facts |= {name: found.fields[row][name] for name in fields if name in found.fields[row]}
    if file is not None:
        columns_of_items = {name: read_column(file, name, ids) for name in (*fields, *([by] if by else []))}
        try:
            about = read_items(file).aligned_to(ids)
            own, texts, categories = (
                about.texts,
                list(about.texts or texts),
                list(about.categories or categories),
            )
        except BadFile:
            if not columns_of_items:
                raise
        if by is not None:
            categories = [None if name in (None, "") else str(name) for name in columns_of_items.pop(by)]
        for number, facts in enumerate(known):
            facts |= {name: column[number] for name, column in columns_of_items.items()}
    return [
        Item(item, texts[number], category=categories[number], metadata=known[number])
        for number, item in enumerate(ids)
    ], own


def _fields_of_items(flags: Mapping[str, Any]) -> list[str]:
    """Return the fields of the items that decide something: which belong together, and what they weigh."""
    cluster, weights = flags.get("cluster"), flags.get("weights")
    found = [] if cluster in (None, "category") else [str(cluster)]
    return found if weights is None or is_table(weights) else [*found, str(weights)]


# -- what is known of them beforehand ---------------------------------------------------------------------------------


def past_scores(found: Recorded, wanted: Sequence[str]) -> tuple[Floats | None, list[str]]:
    """Return items x past models, from `others`, columns or other tables; notes on what is unused.

    Never the scores of the models that are evaluated.
    """
    table, others = ScoresTable(tuple(item.id for item in found.data.items), found.columns), found.others
    parts, notes = list[Floats](), list[str]()
    named = [name for value in wanted for name in ([value] if value in table.models else value.split(","))]
    for name in map(str.strip, named):
        if name in found.models:
            raise InvalidInput("--history", "columns other than the model's own", name)
        if name in table.models:
            parts.append(table.history([name]))
        elif name == "others":
            parts.append(table.history(others))
            notes += [] if others else ["history: no column is left to be past, `others` has no effect"]
        elif name not in ("none", ""):
            parts.append(_scores_in_file(name, table, found.models, notes))
    history = np.hstack(parts) if parts else None
    return (None if history is None or not history.shape[1] else history), notes


def _scores_in_file(name: str, table: ScoresTable, evaluated: Sequence[str], notes: list[str]) -> Floats:
    """Return the models of another table on our items, NaN where it lacks one."""
    from cereval.integrations.logs import is_log, scores_of

    if Path(name).suffix not in TABLES and not is_log(Path(name)):
        return table.history([name])  # which says what there is
    past, read = scores_of(name)
    notes.extend(f"history: {note}" for note in read)
    notes += [
        f"history: the column {model!r} of {name} was left out, it bears the model's own name"
        for model in evaluated
        if model in past.models
    ]
    rows = {item: row for row, item in enumerate(past.items)}
    order = np.array([rows.get(item, -1) for item in table.items])
    if (order < 0).all():
        ids = f"its first item is {shown(past.items[0])}, that of the scores {shown(table.items[0])}"
        raise InvalidInput("--history", f"a table that shares items with the scores ({ids})", name)
    if (order < 0).any():
        notes.append(f"history: {name} has {(order >= 0).sum():,} of the {len(order):,} items")
    others = past.history([one for one in past.models if one not in evaluated])
    return np.where(order[:, None] < 0, np.nan, others[order])
