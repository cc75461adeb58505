"""Turn logs into one table: a row for every item, a column for every model, empty where a model was not asked."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from cereval.datasets.base import Item
from cereval.datasets.tables import ScoresTable, read_scores
from cereval.errors import BadFile, InvalidInput, shown
from cereval.files import is_file, is_folder
from cereval.integrations.logs import found_in, read_log
from cereval.integrations.logs.base import Log, Sample, identity
from cereval.text import harmless_cell

FORMATS = (".parquet", ".csv")


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """Hold the scores, what is known of the items, and what was read, averaged and left out."""

    scores: ScoresTable
    texts: tuple[str, ...]
    tasks: tuple[str, ...]
    notes: tuple[str, ...]
    skipped: tuple[str, ...]
    """One line for every file that could not be used."""


def import_logs(
    paths: Sequence[str | PathLike[str]],
    *,
    metric: str | None = None,
    tasks: Sequence[str] = (),
    items: Sequence[Item] | None = None,
) -> Imported:
    """Read logs of any tools into one table. items: only these, under their own ids, matched by their content."""
    logs: list[tuple[Path, Log]] = []
    skipped: list[str] = []
    for path in found_in([Path(path) for path in paths]):
        try:
            logs.append((path, read_log(path, metric)))
        except BadFile as error:
            skipped.append(str(error))
    if not logs:
        raise BadFile("; ".join(skipped[:3]) or "no log was found")
    apart = _told_apart(log for _, log in logs)
    samples = [sample for _, log in logs for sample in log.samples if not tasks or sample.task in tasks]
    if not samples:
        found = sorted({sample.task for _, log in logs for sample in log.samples})
        raise InvalidInput("--task", "a task of the logs: " + ", ".join(found[:20]), list(tasks))
    notes = [f"{path.name}: {_told(log)}" for path, log in logs]
    return _table(samples, apart, notes, skipped, None if items is None else _by_content(items))


def _told(log: Log) -> str:
    """Say what was read of a log, and what was not."""
    missing = sum(sample.score is None for sample in log.samples)
    parts = [f"{len(log.samples):,} samples of {log.tool}, metric {log.metric}"]
    parts += [f"{missing:,} without a score (failed calls and the like) are missing"] if missing else []
    return "; ".join([*parts, *log.notes])


def _by_content(items: Iterable[Item]) -> dict[str, str]:
    """Find the ids of items by their content; of copies the first."""
    known: dict[str, str] = {}
    for item in items:
        known.setdefault(identity(item.text, item.choices), item.id)
    return known


def _told_apart(logs: Iterable[Log]) -> set[str]:
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
    names = [_named(sample, apart, known) for sample in samples]
    kept = [(name, sample) for name, sample in zip(names, samples, strict=True) if name is not None]
    if not kept:
        raise BadFile("no sample of the logs is an item of the data: their texts and choices differ")
    first: dict[str, Sample] = {}
    values: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, sample in kept:
        first.setdefault(name, sample)
        values[_column(sample.model)][name] += [] if sample.score is None else [sample.score]
    if known is not None and len(kept) < len(samples):
        notes.append(f"{len(samples) - len(kept):,} samples are no item of the data and were left out")
    notes += _averaged(values)
    return Imported(
        ScoresTable(tuple(first), {model: _scores(first, of) for model, of in values.items()}),
        tuple(sample.text for sample in first.values()),
        tuple(sample.task for sample in first.values()),
        tuple(notes),
        tuple(skipped),
    )


def _named(sample: Sample, apart: set[str], known: Mapping[str, str] | None) -> str | None:
    """Give an item its id: by its content, and by its mark where one log has several samples of the same content."""
    key = identity(sample.text, sample.choices)
    if known is not None:
        return known.get(key)
    return identity(sample.text, sample.choices, sample.mark) if key in apart else key


def _column(model: str) -> str:
    """Name the column of a model; `item` is taken."""
    return f"model {model}" if model in ("item", "") else model


def _averaged(values: Mapping[str, Mapping[str, list[float]]]) -> list[str]:
    """Say where a model answered an item more than once: in epochs, in trials, or in several logs."""
    counts = {model: sum(len(one) > 1 for one in of.values()) for model, of in values.items()}
    return [
        f"{model}: {count:,} items with several scores (epochs, trials, logs), averaged"
        for model, count in counts.items()
        if count
    ]


def _scores(items: Iterable[str], of: Mapping[str, list[float]]) -> Any:
    return np.array([np.mean(of[item]) if of.get(item) else np.nan for item in items], dtype=np.float64)


# -- files -----------------------------------------------------------------------------------------------------------


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
    if path.suffix.lower() != ".parquet" or not is_file(path):
        return False
    from cereval.integrations.logs import lighteval
    from cereval.integrations.logs.base import Content

    try:
        return lighteval.TOOL.claims(Content(path))
    except BadFile:
        return False  # whoever reads it as a table says what is wrong with it


def write_scores(path: Path, found: Imported) -> None:
    """Write `item` and a column for each model, as Parquet or CSV."""
    _write(path, {"item": list(found.scores.items), **found.scores.models})


def write_items(path: Path, found: Imported) -> None:
    """Write `item`, `text` and `category` (the task), as `replay --items` reads them."""
    _write(path, {"item": list(found.scores.items), "text": list(found.texts), "category": list(found.tasks)})


def _write(path: Path, columns: Mapping[str, Any]) -> None:
    import pyarrow as pa
    from pyarrow import csv, parquet

    if path.suffix.lower() not in FORMATS:
        raise InvalidInput("-o", "a file that ends in " + " or ".join(FORMATS), str(path))
    if path.suffix.lower() == ".csv":
        columns = {harmless_cell(name): list(map(harmless_cell, values)) for name, values in columns.items()}
    table = pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()})
    partial = path.with_name(f"{path.name[:100]}.{secrets.token_hex(4)}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        (parquet.write_table if path.suffix.lower() == ".parquet" else csv.write_csv)(table, partial)
        partial.replace(path)
    except (OSError, UnicodeError) as error:
        raise BadFile(
            f"{shown(str(path))} cannot be written ({getattr(error, 'strerror', None) or error})"
        ) from None
