"""Read a data set from its source in one call."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path

from cereval.datasets.base import DataSet
from cereval.datasets.fields import Fields
from cereval.datasets.files import read_rows
from cereval.datasets.hub import HubSource, read_hub
from cereval.datasets.items import items_from
from cereval.datasets.large import is_large, read_large


def read_dataset(
    source: str | PathLike[str],
    fields: Fields | None = None,
    *,
    combined: bool = False,
    on_disk: bool = False,
) -> DataSet:
    """Return the items of a JSONL, CSV or Parquet file, or of `hf:org/name[:config][@split]`.

    combined: it is read beside other files, so that nothing may be guessed that another file may tell otherwise.
    on_disk: the questions of a large file may stay where they are, to be read when they are asked.
    """
    name = fspath(source)
    if on_disk and not name.startswith("hf:") and is_large(Path(name)):
        return read_large(name, fields or Fields(), combined=combined)
    rows = read_hub(HubSource.parse(name)) if name.startswith("hf:") else read_rows(Path(name))
    return DataSet.of(name, items_from(rows, fields or Fields(), name, combined=combined))
