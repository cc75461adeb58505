"""Read data sets of the Hugging Face hub (extra `datasets`): `hf:org/name[:config][@split]`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cereval.datasets.files import Row, row_of
from cereval.errors import BadFile, InvalidInput, shown
from cereval.imports import optional

_SPEC = re.compile(
    r"hf:(?P<name>[\w.-]+(?:/[\w.-]+)?)(?::(?P<config>[\w.-]+))?(?:@(?P<split>[\w.\[\]:%+-]+))?"
)


@dataclass(frozen=True, slots=True)
class HubSource:
    """Name a data set of the hub, its configuration and the split to read.

    >>> HubSource.parse("hf:cais/mmlu:all@validation")
    HubSource(name='cais/mmlu', config='all', split='validation')
    """

    name: str
    config: str | None = None
    split: str = "test"

    @classmethod
    def parse(cls, text: str) -> HubSource:
        match = _SPEC.fullmatch(text)
        if match is None:
            raise InvalidInput("DATA", "hf:org/name[:config][@split]", text)
        return cls(match["name"], match["config"], match["split"] or "test")


def read_hub(source: HubSource) -> list[Row]:
    """Return every record of the split."""
    library = optional("datasets", "datasets")
    try:
        records: list[Any] = list(library.load_dataset(source.name, source.config, split=source.split))
    except Exception as error:
        raise BadFile(
            f"hf:{source.name}: {type(error).__name__}: {shown(str(error), limit=200)}; "
            "check the name, the :config and the @split"
        ) from error
    if not records:
        raise BadFile(f"hf:{source.name}@{source.split} holds no records; name another @split")
    return [
        row_of(f"hf:{source.name}", f"row {number}", record) for number, record in enumerate(records, start=1)
    ]
