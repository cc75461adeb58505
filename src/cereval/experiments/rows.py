"""A CSV that is both the result of an experiment and its memory of finished replications."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cereval.errors import BadFile

KEY, OF = "key", "of"


class RowFile:
    """Rows of finished tasks. A task's rows are written in one go and carry their number in `of`, so a
    replication that was cut off in the middle of a write is recognised and run again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._columns: list[str] | None = None

    def finished(self) -> frozenset[str]:
        """Keys of the complete tasks; what is left of incomplete ones is removed from the file."""
        if self._empty:
            return frozenset()
        rows = self._read()
        counts = Counter(row[KEY] for row in rows)
        complete = [row for row in rows if str(counts[row[KEY]]) == row[OF]]
        if len(complete) < len(rows) or not self.path.read_bytes().endswith(b"\n"):
            self._rewrite(complete)
        return frozenset(row[KEY] for row in complete)

    @property
    def _empty(self) -> bool:
        return not self.path.exists() or self.path.stat().st_size == 0

    def append(self, key: str, rows: Sequence[dict[str, Any]]) -> None:
        """Adds the rows of one finished task."""
        full = [{KEY: key, OF: len(rows), **row} for row in rows]
        new = self._empty
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", newline="", encoding="utf-8") as file:
            file.write(self._text(full, header=new))

    def rows(self, keys: Sequence[str]) -> list[dict[str, Any]]:
        """The rows of these tasks in the order of the tasks, whoever finished first; numbers as numbers."""
        place = {key: position for position, key in enumerate(keys)}
        kept = [] if self._empty else [row for row in self._read() if row[KEY] in place]
        kept.sort(key=lambda row: place[row[KEY]])
        return [{name: _value(text) for name, text in row.items() if name not in (KEY, OF)} for row in kept]

    def _read(self) -> list[dict[str, str]]:
        with self.path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            self._columns = list(reader.fieldnames or [])
            if self._columns and not {KEY, OF} <= set(self._columns):
                raise BadFile(
                    f"{self.path} is not a table of an experiment: move it away or choose another file"
                )
            return [row for row in reader if None not in row.values() and None not in row]

    def _rewrite(self, rows: Sequence[dict[str, Any]]) -> None:
        self.path.write_text(self._text(rows, header=True), encoding="utf-8", newline="")

    def _text(self, rows: Sequence[dict[str, Any]], *, header: bool) -> str:
        if self._columns is None:
            self._columns = list(rows[0]) if header else self._header()
        text = io.StringIO()
        writer = csv.DictWriter(text, self._columns, lineterminator="\n")
        if header:
            writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    def _header(self) -> list[str]:
        with self.path.open(newline="", encoding="utf-8") as file:
            return next(csv.reader(file))


def _value(text: str) -> Any:
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return {"True": True, "False": False}.get(text, text)
