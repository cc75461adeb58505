"""Read every answer at hand: the rows that `show`, `export` and `Run.answers` give, a few at a time in memory."""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from cereval.errors import BadFile, InvalidInput, StoreError
from cereval.files import whole_file
from cereval.plan import Plan
from cereval.questions import kind_of
from cereval.runner.candidates import prompt_of
from cereval.runner.finding import items_of
from cereval.runner.samples import Samples, unpacked
from cereval.store.base import Answer, Store
from cereval.text import harmless_cell

COLUMNS = {
    "run_id": str,
    "model": str,
    "item": str,
    "category": str,
    "prompt": str,
    "answer": str,
    "reference": str,
    "score": float,
    "failure": str,
    "detail": str,
    "cost_usd": float,
    "kept": str,
    "asked_at": str,
    "sample": int,
}
"""The names of a row, and the kind of value under each."""

FORMATS = (".jsonl", ".csv", ".parquet")
AT_A_TIME = 1000
MOST_DATA = 4
"""Data sets whose questions are kept in memory."""


def answer_rows(store: Store, *run_ids: str) -> Iterator[dict[str, Any]]:
    questions = lru_cache(MOST_DATA)(partial(_questions, store))
    for run_id in run_ids:
        run = store.run(run_id)
        plan = Plan.from_dict(run.plan)
        several = Samples.of(plan.scorer).count > 1
        for part in kind_of(plan).parts(plan):
            asked = questions(plan.data_hash, json.dumps(part.candidates[0], sort_keys=True))
            for draw, answer, at in store.rows(part.run_id):
                for number, one in enumerate(unpacked(answer) if several else [answer], start=1):
                    row = {"run_id": run.run_id, "model": part.name, **asked(draw.item)}
                    yield {**row, **_told(one, at), "sample": number}


def _questions(store: Store, data_hash: str, candidate: str) -> Callable[[int], dict[str, Any]]:
    items = items_of(data_hash, store, "the answers")
    asked = prompt_of(json.loads(candidate))

    @cache
    def question(number: int) -> dict[str, Any]:
        if not 0 <= number < len(items):
            raise StoreError(f"an answer is to item {number}, which the store does not have")
        item = items[number]
        return {
            "item": item.id,
            "category": item.category,
            "prompt": as_text(asked.messages(item)),
            "reference": " | ".join(item.answers) or None,
        }

    return question


def _told(answer: Answer, at: float) -> dict[str, Any]:
    names = ("score", "failure", "detail", "cost_usd", "kept")
    try:
        moment = datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        moment = ""
    return {"answer": answer.text, **{name: getattr(answer, name) for name in names}, "asked_at": moment}


def as_text(messages: Iterable[Mapping[str, str]]) -> str:
    """Return a chat as one text; a single question stands for itself."""
    turns = list(messages)
    if len(turns) == 1:
        return turns[0]["content"]
    return "\n\n".join(f"{turn['role']}: {turn['content']}" for turn in turns)


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows as JSON lines, CSV or Parquet, by the file's ending; return how many."""
    writers = dict(zip(FORMATS, (_write_jsonl, _write_csv, _write_parquet), strict=True))
    if path.suffix not in writers:
        raise InvalidInput("-o", "a file that ends in " + ", ".join(FORMATS), str(path))
    try:
        with whole_file(path) as file:
            return writers[path.suffix](file, iter(rows))
    except OSError as error:
        raise BadFile(f"the answers cannot be written to {path} ({error.strerror})") from None


def write_batch(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write questions to be answered or labelled elsewhere: as CSV for a spreadsheet, else as JSON lines.

    Where there are none the file is empty.
    """
    try:
        with whole_file(path) as file:
            if rows and path.suffix == ".csv":
                _write_csv(file, iter(rows), tuple(rows[0]))
            else:
                _write_jsonl(file, iter(rows))
    except OSError as error:
        raise BadFile(f"the questions cannot be written to {path} ({error.strerror})") from None


def _write_jsonl(file: BinaryIO, rows: Iterator[Mapping[str, Any]]) -> int:
    count = 0
    for row in rows:
        file.write((json.dumps(row, ensure_ascii=False) + "\n").encode("utf-8", "replace"))
        count += 1
    return count


def _write_csv(
    file: BinaryIO, rows: Iterator[Mapping[str, Any]], columns: Sequence[str] = tuple(COLUMNS)
) -> int:
    count = 0
    writer = csv.DictWriter(codecs.getwriter("utf-8")(file, "replace"), list(columns))
    writer.writeheader()
    for row in rows:
        writer.writerow({name: harmless_cell(value) for name, value in row.items()})
        count += 1
    return count


def _write_parquet(file: BinaryIO, rows: Iterator[Mapping[str, Any]]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {str: pa.string(), float: pa.float64(), int: pa.int64()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
    count = 0
    with pq.ParquetWriter(file, schema) as writer:
        while batch := list(islice(rows, AT_A_TIME)):
            writer.write_table(pa.Table.from_pylist([dict(row) for row in batch], schema=schema))
            count += len(batch)
    return count
