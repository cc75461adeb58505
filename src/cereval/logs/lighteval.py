"""Read lighteval: `details/MODEL/DATE/details_TASK_DATE.parquet`, with the columns doc, model_response and metric."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cereval.datasets.files import column_values, read_table
from cereval.errors import BadContent
from cereval.logs.base import Content, Log, Sample, Tool, as_score, chosen, digest, whole_text

DATED = re.compile(r"\d{4}-\d\d-\d\dT.*")


def _claims(content: Content) -> bool:
    return content.is_file(".parquet") and {"doc", "metric"} <= _columns(content.path)


def _columns(path: Path) -> set[str]:
    from pyarrow import ArrowException, parquet

    from cereval.datasets.reading import open_regular

    with open_regular(path) as file:
        try:
            return set(parquet.read_schema(file).names)
        except (ArrowException, OSError, ValueError) as error:
            said = " ".join(str(error).split())[:100]
            raise BadContent(f"{path} is not readable as parquet: {said}") from None


def _read(content: Content, wanted: str | None) -> Log:
    path, place = content.path, str(content.path)
    table = read_table(path)
    docs = [value if isinstance(value, dict) else {} for value in column_values(path, "doc", table["doc"])]
    values = [one if isinstance(one, dict) else {} for one in column_values(path, "metric", table["metric"])]
    if not docs:
        raise BadContent(f"{place} holds no samples")
    metric = chosen((name for one in values for name in one), wanted, place)
    model = _model(path)
    samples = [
        _sample(doc, model, as_score(one.get(metric), place, metric))
        for doc, one in zip(docs, values, strict=True)
    ]
    return Log("lighteval", metric, samples)


def _sample(doc: dict[str, Any], model: str, score: float | None) -> Sample:
    options = [whole_text(one) for one in doc.get("choices") or ()]
    # One choice is the right answer of a question without any.
    return Sample(
        model=whole_text(model),
        task=whole_text(doc.get("task_name") or "lighteval"),
        text=whole_text(doc.get("query") or ""),
        score=score,
        choices=tuple(options) if len(options) > 1 else (),
        mark=digest([options, doc.get("gold_index")]),
    )


def _model(path: Path) -> str:
    """Join the folders between `details` and the date."""
    parts = list(path.resolve().parts[:-1])
    if parts and DATED.fullmatch(parts[-1]):
        parts.pop()
    if "details" in parts:
        parts = parts[len(parts) - parts[::-1].index("details") :]
    return "/".join(parts[-2:]) if "details" in path.resolve().parts else parts[-1]


TOOL = Tool("lighteval", _claims, _read)
