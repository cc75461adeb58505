"""Read lighteval: `details/MODEL/DATE/details_TASK_DATE.parquet`, in the three layouts that it has had.

Now a row holds `doc`, `model_response` and `metric` (seen in 0.13). Before, it held `example`, `choices`, `gold_index`
and `metrics`: as lists and records (0.8 to 0.10), and in the beginning as what Python prints of them (0.6).
"""

from __future__ import annotations

import re
from ast import literal_eval
from pathlib import Path
from typing import Any

from cereval.datasets.formats import column_values, read_table
from cereval.errors import BadContent
from cereval.integrations.logs.base import Content, Log, Sample, Tool, as_score, chosen, digest, whole_text

DATED = re.compile(r"\d{4}-\d\d-\d\dT.*")
NEW, OLD = ("doc", "metric"), ("example", "choices", "metrics")
LONGEST = 100_000
"""Characters of a printed value that are parsed: a dozen metrics, or the choices of one question."""

WRAPPED = re.compile(r"\b(?:np\.\w+|tensor|array)\(([^()]*)\)")
"""A number as numpy and torch print it, such as np.float64(1.0)."""

NOTHING = re.compile(r"\b(?:nan|-?inf)\b")


def _claims(content: Content) -> bool:
    return content.is_file(".parquet") and _layout(content.path) is not None


def _layout(path: Path) -> tuple[str, ...] | None:
    columns = _columns(path)
    return next((layout for layout in (NEW, OLD) if columns.issuperset(layout)), None)


def _columns(path: Path) -> set[str]:
    from pyarrow import ArrowException, parquet

    from cereval.files import open_regular

    with open_regular(path) as file:
        try:
            return set(parquet.read_schema(file).names)
        except (ArrowException, OSError, ValueError) as error:
            said = " ".join(str(error).split())[:100]
            raise BadContent(f"{path} is not readable as parquet: {said}") from None


def _read(content: Content, wanted: str | None) -> Log:
    path, place = content.path, str(content.path)
    docs, answers, values = _new(path) if _layout(path) == NEW else _old(path)
    if not docs:
        raise BadContent(f"{place} holds no samples")
    metric = chosen((name for one in values for name in one), wanted, place)
    model = _model(path)
    samples = [
        _sample(doc, model, None if answer == [] else as_score(one.get(metric), place, metric))
        for doc, answer, one in zip(docs, answers, values, strict=True)
    ]
    empty = sum(answer is not None and bool(answer) and not any(answer) for answer in answers)
    note = f"{empty:,} empty answers were read as scored: lighteval writes calls that failed in the same way"
    return Log("lighteval", metric, samples, (note,) if empty else ())


Rows = tuple[list[dict[str, Any]], list[list[Any] | None], list[dict[str, Any]]]
"""The documents, the texts of the answers (None: it answers with probabilities) and the metrics of every sample."""


def _new(path: Path) -> Rows:
    table = read_table(path)
    docs = [_record(value) for value in column_values(path, "doc", table["doc"])]
    given = (
        column_values(path, "model_response", table["model_response"])
        if "model_response" in table.column_names
        else [None] * len(docs)
    )
    values = [_record(value) for value in column_values(path, "metric", table["metric"])]
    return docs, [_texts(_record(value)) for value in given], values


def _texts(response: dict[str, Any]) -> list[Any] | None:
    """Find the texts of an answer; an empty list says that nothing came back."""
    texts = response.get("text")
    return None if response.get("logprobs") or not isinstance(texts, list) else texts


def _old(path: Path) -> Rows:
    table = read_table(path)
    task = whole_text(re.sub(r"^details_|_\d{4}-\d\d-\d\dT.*$", "", path.stem))
    columns = {name: column_values(path, name, table[name]) for name in OLD}
    gold = (
        column_values(path, "gold_index", table["gold_index"])
        if "gold_index" in table.column_names
        else [None] * len(columns["example"])
    )
    docs = [
        {"query": query, "choices": _listed(choices), "gold_index": right, "task_name": task}
        for query, choices, right in zip(columns["example"], columns["choices"], gold, strict=True)
    ]
    return docs, [None] * len(docs), [_record(_parsed(value)) for value in columns["metrics"]]


def _record(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _listed(value: Any) -> list[Any]:
    found = _parsed(value)
    return found if isinstance(found, list) else []


def _parsed(value: Any) -> Any:
    """Parse what Python printed of a list or a record; None where it is neither, or much too long."""
    if not isinstance(value, str):
        return value
    if len(value) > LONGEST:
        return None
    try:
        return literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        pass
    try:
        return literal_eval(NOTHING.sub("None", WRAPPED.sub(r"\1", value)))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


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
