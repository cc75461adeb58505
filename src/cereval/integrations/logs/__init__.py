"""Read logs of other evaluation tools as one table: a row for every item, a column for every model.

One file a tool, found by what a file holds and not by its name alone. A cell is empty where a model was not asked.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from cereval.datasets.base import Item
from cereval.datasets.read import names_of
from cereval.datasets.tables import ScoresTable, read_scores
from cereval.errors import BadContent, BadFile, InvalidInput, shown
from cereval.files import is_file, is_folder, whole_file
from cereval.integrations.logs import (
    alpaca_eval,
    every_eval_ever,
    helm,
    inspect_ai,
    lighteval,
    lm_eval,
    promptfoo,
)
from cereval.integrations.logs.base import Content, Log, Sample, Tool, identity
from cereval.text import harmless_cell

TOOLS: tuple[Tool, ...] = (
    inspect_ai.TOOL,
    lm_eval.TOOL,
    helm.TOOL,
    promptfoo.TOOL,
    lighteval.TOOL,
    alpaca_eval.TOOL,
    every_eval_ever.TOOL,
)
ENDINGS = (".eval", ".json", ".jsonl", ".parquet")
FORMATS = (".parquet", ".csv")
MOST_FOLDERS = 2000
MOST_FILES = 100_000
"""Files in one folder that is searched."""

MOST_NAMED = 5


def read_log(path: Path, metric: str | None = None) -> Log:
    """Read the log of whichever tool wrote it. metric: the tool's own name of a score; None takes its first."""
    content = Content(path)
    if not os.path.lexists(path):
        raise BadFile(f"{path} does not exist; check the path")
    for tool in TOOLS:
        if tool.claims(content):
            try:
                return tool.read(content, metric)
            except (TypeError, AttributeError, LookupError, ValueError, RecursionError) as error:
                # Written by strangers: a list where a text should be, and whatever else one can think of.
                said = f"{type(error).__name__}: {shown(str(error))}"
                raise BadContent(f"{path} is not laid out as a log of {tool.name} ({said})") from None
    known = ", ".join(tool.name for tool in TOOLS)
    raise BadContent(f"{path} is no log of samples that is known here ({known})")


def find_logs(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if is_folder(path) and not helm.is_run(path):
            yield from _inside(path)
        else:
            yield path


def _inside(folder: Path) -> Iterator[Path]:
    seen = 0
    for number, (where, folders, files) in enumerate(os.walk(folder)):
        if number > MOST_FOLDERS:
            raise BadFile(f"{folder} has more than {MOST_FOLDERS:,} folders; name those with logs")
        folders.sort()
        if helm.is_run(Path(where)):
            yield Path(where)
            folders.clear()
            continue
        names = [name for name in sorted(files) if name.endswith(ENDINGS)]
        seen += len(names)
        if seen > MOST_FILES:
            raise BadFile(f"{folder} has more than {MOST_FILES:,} files; name those that are logs")
        yield from (Path(where, name) for name in names)


# -- one table -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    scores: ScoresTable
    texts: tuple[str, ...]
    tasks: tuple[str, ...]
    notes: tuple[str, ...]
    skipped: tuple[str, ...]
    """One line for every file that could not be used."""
    fields: tuple[Mapping[str, Any], ...] = ()
    """What else the logs say of each item."""
    failed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The items that a model was asked in vain, or without a score, by its name."""


def import_logs(
    paths: Sequence[str | PathLike[str]],
    *,
    metric: str | None = None,
    tasks: Sequence[str] = (),
    items: Sequence[Item] | None = None,
    apart: bool = False,
) -> Imported:
    """Read logs of any tools into one table. items: only these, under their own ids, matched by their content. apart:
    a model that stands in several of the paths has a column for each: it was asked in several ways."""
    logs: list[tuple[Path, Log]] = []
    skipped: list[str] = []
    given: list[list[Sample]] = [[] for _ in paths]
    for number, path in enumerate_logs(paths):
        try:
            log = read_log(path, metric)
            given[number] += log.samples
            if all(sample.score is None for sample in log.samples):
                raise BadContent(
                    f"{path}: none of its {len(log.samples):,} samples has a number as {log.metric}"
                )
            logs.append((path, log))
        except BadFile as error:
            skipped.append(str(error))
    if not logs:
        raise BadFile("; ".join(skipped[:3]) or "no log was found")
    if apart:
        _name_apart(paths, given)
    _check_metrics(logs)
    marked = _find_marked(log for _, log in logs)
    samples = [sample for _, log in logs for sample in log.samples if not tasks or sample.task in tasks]
    if not samples:
        found = sorted({sample.task for _, log in logs for sample in log.samples})
        raise InvalidInput("--task", "a task of the logs: " + ", ".join(found[:20]), list(tasks))
    notes = [f"{path.name}: {_describe(log, metric)}" for path, log in logs]
    return _table(samples, marked, notes, skipped, None if items is None else _by_content(items))


def enumerate_logs(paths: Sequence[str | PathLike[str]]) -> Iterator[tuple[int, Path]]:
    for number, path in enumerate(paths):
        yield from ((number, found) for found in find_logs([Path(path)]))


def _name_apart(paths: Sequence[str | PathLike[str]], given: Sequence[Sequence[Sample]]) -> None:
    """Add the name of the file, or the folder, to models that stand in several of them."""
    models = [{sample.model for sample in samples} for samples in given]
    names = names_of([str(path) for path in paths]) if len(paths) > 1 else [""]
    for samples, own, name in zip(given, models, names, strict=True):
        shared = {model for model in own if sum(model in one for one in models) > 1}
        for sample in samples:
            if sample.model in shared:
                sample.model = f"{sample.model} ({name})"


def _check_metrics(logs: Iterable[tuple[Path, Log]]) -> None:
    """Refuse to put different scores of the same tool's task into one column: strict of one log, loose of the next."""
    first: dict[tuple[str, str], tuple[Path, str]] = {}
    for path, log in logs:
        for task in {sample.task for sample in log.samples}:
            place, metric = first.setdefault((log.tool, task), (path, log.metric))
            if metric != log.metric:
                raise BadContent(
                    f"{place.name} has the score {metric} of {shown(task)}, {path.name} has {log.metric}: name one "
                    "that both have with --metric, or import them one by one"
                )


def _describe(log: Log, wanted: str | None) -> str:
    missing = sum(sample.score is None for sample in log.samples)
    others = [name for name in log.metrics if name != log.metric] if wanted is None else []
    more = ", ..." if len(others) > MOST_NAMED else ""
    also = f" (also there: {', '.join(others[:MOST_NAMED])}{more})" if others else ""
    parts = [f"{len(log.samples):,} samples of {log.tool}, metric {log.metric}{also}"]
    parts += [f"{missing:,} without a score (failed calls and the like) are missing"] if missing else []
    return "; ".join([*parts, *log.notes])


def _by_content(items: Iterable[Item]) -> dict[str, str]:
    known: dict[str, str] = {}
    for item in items:
        known.setdefault(identity(item.text, item.choices), item.id)
    return known


def _find_marked(logs: Iterable[Log]) -> set[str]:
    """Find the contents that one log has under several marks: a thousand sandboxes may share one instruction."""
    found: set[str] = set()
    for log in logs:
        marks: defaultdict[str, set[str]] = defaultdict(set)
        for sample in log.samples:
            marks[identity(sample.text, sample.choices)].add(sample.mark)
        found |= {key for key, of in marks.items() if len(of) > 1}
    return found


def _table(
    samples: Sequence[Sample],
    apart: set[str],
    notes: list[str],
    skipped: Sequence[str],
    known: Mapping[str, str] | None,
) -> Imported:
    first: dict[str, Sample] = {}
    values: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    left_out = 0
    for sample in samples:
        name = _item_id(sample, apart, known)
        if name is None:
            left_out += 1
            continue
        first.setdefault(name, sample)
        # `item` is the name of another column.
        model = f"model {sample.model}" if sample.model in ("item", "") else sample.model
        values[model][name] += [] if sample.score is None else [sample.score]
    if not first:
        raise BadFile("no sample of the logs is an item of the data: their texts and choices differ")
    if left_out:
        notes.append(f"{left_out:,} samples are no item of the data and were left out")
    for model, of in values.items():
        if several := sum(len(one) > 1 for one in of.values()):
            notes.append(f"{model}: {several:,} items with several scores (epochs, trials, logs), averaged")
    columns = {
        model: np.array([np.mean(of[item]) if of.get(item) else np.nan for item in first], dtype=np.float64)
        for model, of in values.items()
    }
    return Imported(
        ScoresTable(tuple(first), columns),
        tuple(sample.text for sample in first.values()),
        tuple(sample.task for sample in first.values()),
        tuple(notes),
        tuple(skipped),
        tuple(sample.fields for sample in first.values()),
        {model: frozenset(item for item, found in of.items() if not found) for model, of in values.items()},
    )


def _item_id(sample: Sample, apart: set[str], known: Mapping[str, str] | None) -> str | None:
    """Give an item its id: by its content, and by its mark where one log has several samples of the same content."""
    key = identity(sample.text, sample.choices)
    if known is not None:
        return known.get(key)
    return identity(sample.text, sample.choices, sample.mark) if key in apart else key


# -- files ---------------------------------------------------------------------------------------------------------


def scores_of(path: str | PathLike[str]) -> tuple[ScoresTable, tuple[str, ...]]:
    """Read a table of scores, or the logs of any tool as one; with notes on what was read of them."""
    if not is_log(Path(path)):
        return read_scores(path), ()
    found = import_logs([path])
    return found.scores, (*found.notes, *(f"skipped: {line}" for line in found.skipped))


def is_log(path: Path) -> bool:
    """Tell whether a path that stands for scores is a log or a folder of logs: any but a table with a column `item`."""
    if path.suffix.lower() in (".eval", ".json", ".jsonl") or is_folder(path):
        return True
    try:
        return is_file(path) and lighteval.TOOL.claims(Content(path))
    except BadFile:
        return False  # whoever reads it as a table says what is wrong with it


def write_scores(path: Path, found: Imported) -> None:
    _write(path, {"item": list(found.scores.items), **found.scores.models})


def write_items(path: Path, found: Imported) -> None:
    """Write `item`, `text` and `category` (the task), as `replay --items` reads them."""
    _write(path, {"item": list(found.scores.items), "text": list(found.texts), "category": list(found.tasks)})


def _write(path: Path, columns: Mapping[str, Any]) -> None:
    import pyarrow as pa
    from pyarrow import csv, parquet

    if path.suffix.lower() not in FORMATS:
        raise InvalidInput("-o", "a file that ends in " + " or ".join(FORMATS), str(path))
    is_csv = path.suffix.lower() == ".csv"
    if is_csv:
        columns = {harmless_cell(name): list(map(harmless_cell, values)) for name, values in columns.items()}
    table = pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()})
    try:
        with whole_file(path) as file:
            (csv.write_csv if is_csv else parquet.write_table)(table, file)
    except (OSError, UnicodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise BadFile(f"{shown(str(path))} cannot be written ({said})") from None
