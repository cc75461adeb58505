"""Take recorded scores, in tables or in logs of other tools, for questions whose answers are there: all are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from cereval.cli.options import are_asked, names_a_run, refuse_asking
from cereval.cli.recorded import joined_tables
from cereval.datasets.base import DataSet, Item
from cereval.datasets.tables import ScoresTable, read_column, read_items, read_scores
from cereval.errors import BadFile, CerevalError, InvalidInput
from cereval.files import is_file, is_folder
from cereval.models.given import RECORDED
from cereval.runner.candidates import RUN

if TYPE_CHECKING:
    from cereval.integrations.logs import Imported

TABLES = (".csv", ".parquet")


@dataclass(frozen=True, slots=True)
class Recorded:
    """Hold the questions, with the score of each model under its name; and what was read and left out."""

    data: DataSet
    models: tuple[str, ...]
    notes: tuple[str, ...]


def use_recorded(
    kind: str,
    sources: Sequence[str],
    context: click.Context,
    flags: Mapping[str, Any],
    candidates: int | None,
) -> int:
    """Answer a question from all the scores that are recorded; return the exit code.

    candidates: how many there are to be; None: two or more.
    """
    from cereval.cli.asking import ask_candidates

    refuse_asking(context, flags, "history", "max_calls", "method")
    wanted = [*flags["models"], *([flags["beats"]] if flags.get("beats") else [])]
    found = read_recorded(sources, wanted, flags)
    for note in found.notes:
        click.echo(note, err=True)
    given = {**flags, "models": tuple(f"{RECORDED}{name}" for name in found.models), "name": found.models}
    return ask_candidates(kind, sources, given, candidates=candidates, given=found.data)


def are_runs(data: str, names: Sequence[str]) -> bool:
    """Tell whether the arguments of a command are the ids of runs."""
    return bool(names) and all(map(names_a_run, (data, *names)))


def use_runs(kind: str, ids: Sequence[str], flags: Mapping[str, Any], candidates: int | None) -> int:
    """Answer a question from what earlier runs answered; return the exit code."""
    from cereval.cli.asking import ask_candidates

    runs = [f"{RUN}{one}" for one in ids]
    return ask_candidates(
        kind, runs[:1], {**flags, "models": (*runs, *flags["models"])}, candidates=candidates
    )


def recorded_tasks(files: Sequence[str], flags: Mapping[str, Any]) -> bool:
    """Tell whether the files of `cereval tasks` are recorded scores: tables with a column of the name, or logs."""
    if flags["config"] or flags["candidates_file"] or not all(is_file(Path(one)) for one in files):
        return False
    if len(files) == 1:
        return bool(recorded_sources(files[0], (), flags))
    return len(flags["models"]) == 1 and all(
        Path(one).suffix in TABLES and not are_asked(one, flags["models"]) for one in files
    )


def recorded_sources(data: str | None, names: Sequence[str], flags: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the files and folders of recorded scores that a command names; none where models are to be asked."""
    models = [*flags["models"], *([flags["beats"]] if flags.get("beats") else [])]
    if data is None or flags["config"] or flags["candidates_file"]:
        return ()
    sources = (data, *names)
    if not all(is_file(Path(one)) or is_folder(Path(one)) for one in sources):
        return ()
    if flags["models"] and are_asked(data, flags["models"]):
        return ()
    if len(sources) == 1 and Path(data).suffix in TABLES:
        return sources if _has_columns(data, models) else ()
    if models and len(sources) == 1 and not _is_a_log(data):
        return ()
    return sources if all(_is_a_log(one) for one in sources) else ()


def _has_columns(path: str, models: Sequence[str]) -> bool:
    """Tell whether a table is one of scores: with columns of the names, or with none but scores."""
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


def read_recorded(sources: Sequence[str], wanted: Sequence[str], flags: Mapping[str, Any]) -> Recorded:
    """Return the questions that all of the models were asked; wanted: their columns, empty: all there are."""
    found, notes, labels = None, list[str](), None
    if len(sources) > 1 and all(Path(one).suffix in TABLES and not _is_a_log(one) for one in sources):
        table, labels = joined_tables(sources, wanted[0])
    elif len(sources) == 1 and Path(sources[0]).suffix in TABLES and not _is_a_log(sources[0]):
        table = read_scores(sources[0])
    else:
        from cereval.integrations.logs import import_logs

        found = import_logs(sources, apart=True)
        table = found.scores
        notes += [*found.notes, *(f"skipped: {line}" for line in found.skipped)]
    models = tuple(dict.fromkeys(wanted)) or _usual_models(table, found is not None, notes)
    columns = {name: table.model(name) for name in models}
    failed = {} if found is None else found.failed
    rows = [
        row
        for row, item in enumerate(table.items)
        if all(not np.isnan(column[row]) or item in failed.get(name, ()) for name, column in columns.items())
    ]
    if not rows:
        raise InvalidInput("--model", "models with scores on the same items", ", ".join(models))
    if missing := len(table.items) - len(rows):
        notes.append(
            f"{missing:,} of {len(table.items):,} items that one of them has no score on are left out"
        )
    items = _items(table, found, rows, columns, flags)
    if labels is not None:
        items = [replace(item, category=str(labels[row])) for row, item in zip(rows, items, strict=True)]
    return Recorded(DataSet.of(", ".join(sources), items), models, tuple(notes))


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
) -> list[Item]:
    """Return the items in these rows, with what a file of items, or the log, says of them."""
    ids = [table.items[row] for row in rows]
    texts, categories = ids, list[str | None]([None] * len(rows))
    if found is not None:
        texts, categories = [found.texts[row] for row in rows], [found.tasks[row] for row in rows]
    if flags.get("items") is not None:
        about = read_items(flags["items"]).aligned_to(ids)
        texts, categories = list(about.texts or texts), list(about.categories or categories)
    if flags.get("by") is not None and flags.get("items") is not None:
        named = read_column(flags["items"], flags["by"], ids)
        categories = [None if name in (None, "") else str(name) for name in named]
    known = [dict[str, Any]() for _ in rows] if found is None else [found.fields[row] for row in rows]
    more = _clusters(ids, known, flags)
    return [
        Item(
            item,
            texts[number],
            category=categories[number],
            metadata=_known({name: float(column[row]) for name, column in columns.items()}) | more[number],
        )
        for number, (row, item) in enumerate(zip(rows, ids, strict=True))
    ]


def _known(scores: Mapping[str, float]) -> dict[str, Any]:
    """Return the scores that there are: the answer of a model that failed stays unknown."""
    return {name: score for name, score in scores.items() if score == score}


def _clusters(
    ids: Sequence[str], known: Sequence[Mapping[str, Any]], flags: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the field of --cluster for each item, from the file of items, or from the logs."""
    field = flags.get("cluster")
    if field is None or field == "category":
        return [{} for _ in ids]
    if flags.get("items") is not None:
        return [{field: value} for value in read_column(flags["items"], field, ids)]
    return [{field: one[field]} if field in one else {} for one in known]
