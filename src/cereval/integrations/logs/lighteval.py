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
from cereval.files import open_regular
from cereval.integrations.logs.base import Content, Log, Sample, Tool, as_score, choose, digest

DATED = re.compile(r"\d{4}-\d\d-\d\dT.*")
NEW, OLD = ("doc", "metric"), ("example", "choices", "metrics")
LONGEST = 100_000
"""Characters of a printed value that are parsed: a dozen metrics, or the choices of one question."""

WRAPPED = re.compile(r"\b(?:np\.\w+|tensor|array)\(([^()]*)\)")
"""A number as numpy and torch print it, such as np.float64(1.0)."""

NOTHING = re.compile(r"\b(?:nan|-?inf)\b")


def _claims(content: Content) -> bool:
    if not content.is_file(".parquet"):
        return False
    columns = _columns(content.path)
    return columns.issuperset(NEW) or columns.issuperset(OLD)


def _columns(path: Path) -> set[str]:
    from pyarrow import ArrowException, parquet

    with open_regular(path) as file:
        try:
            return set(parquet.read_schema(file).names)
        except (ArrowException, OSError, ValueError) as error:
            said = " ".join(str(error).split())[:100]
            raise BadContent(f"{path} is not readable as parquet: {said}") from None


def _read(content: Content, wanted: str | None) -> Log:
    path = content.path
    table = read_table(path)
    columns = {name: column_values(path, name, table[name]) for name in table.column_names}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if not rows:
        raise BadContent(f"{path} holds no samples")
    is_new = set(NEW) <= set(columns)
    values = [_record(row["metric"] if is_new else _parsed(row["metrics"])) for row in rows]
    metrics = tuple(dict.fromkeys(name for one in values for name in one))
    metric = choose(metrics, wanted, path)
    docs = [_record(row["doc"]) if is_new else _old_doc(row, path) for row in rows]
    answers = [_texts(_record(row.get("model_response"))) if is_new else None for row in rows]
    samples = [
        _sample(doc, _model(path), None if answer == [] else as_score(one.get(metric), path, metric))
        for doc, answer, one in zip(docs, answers, values, strict=True)
    ]
    empty = sum(bool(answer) and not any(answer or ()) for answer in answers)
    note = f"{empty:,} empty answers were read as scored: lighteval writes calls that failed in the same way"
    return Log("lighteval", metric, samples, (note,) if empty else (), metrics)


def _texts(response: dict[str, Any]) -> list[Any] | None:
    """Find the texts of an answer; an empty list says that nothing came back, None that probabilities did."""
    texts = response.get("text")
    return None if response.get("logprobs") or not isinstance(texts, list) else texts


def _old_doc(row: dict[str, Any], path: Path) -> dict[str, Any]:
    choices = _parsed(row["choices"])
    return {
        "query": row["example"],
        "choices": choices if isinstance(choices, list) else [],
        "gold_index": row.get("gold_index"),
        "task_name": re.sub(r"^details_|_\d{4}-\d\d-\d\dT.*$", "", path.stem),
    }


def _record(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _parsed(value: Any) -> Any:
    """Parse what Python printed of a list or a record; None where it is neither, or much too long."""
    if not isinstance(value, str):
        return value
    for text in (value, NOTHING.sub("None", WRAPPED.sub(r"\1", value))) if len(value) <= LONGEST else ():
        try:
            return literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            pass
    return None


def _sample(doc: dict[str, Any], model: str, score: float | None) -> Sample:
    options = [str(one) for one in doc.get("choices") or ()]
    return Sample(
        model=model,
        task=doc.get("task_name") or "lighteval",
        text=doc.get("query") or "",
        score=score,
        choices=options if len(options) > 1 else (),  # one is the right answer of a question without any
        mark=digest([options, doc.get("gold_index")]),
    )


def _model(path: Path) -> str:
    """Join the folders between `details` and the date."""
    parts = list(path.resolve().parts[:-1])
    if parts and DATED.fullmatch(parts[-1]):
        parts.pop()
    if "details" not in parts:
        return parts[-1]
    return "/".join(parts[len(parts) - parts[::-1].index("details") :][-2:])


TOOL = Tool("lighteval", _claims, _read)
