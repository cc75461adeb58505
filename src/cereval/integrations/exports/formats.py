"""Write a result as a text: Every Eval Ever 0.3 (JSON in which evaluations are collected across tools), `.eval_results`
of a model on Hugging Face, Markdown for model cards and pull requests, and JUnit XML, which every CI shows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from cereval.errors import InvalidInput, StoreError, shown
from cereval.files import cleaned, write_whole
from cereval.integrations.exports import Exported, Part
from cereval.records import FAILED, PASSED, Table
from cereval.text import interval, percent, printable, signed_interval
from cereval.version import __version__

# -- Every Eval Ever --------------------------------------------------------------------------------------------------

SCHEMA = "0.3.0"


def every_eval_ever(
    found: Exported, organization: str = "unknown", beside: Path | None = None, **_: str
) -> str:
    """Write a record. beside: the file that gets the samples; they are named in the record with their digest."""
    began, changed = (_moment(moment, found.run_id) for moment in (found.began, found.changed))
    stamp = str(int(changed.timestamp()))
    name = found.story.data
    record = {
        "schema_version": SCHEMA,
        # The run's own moments, so that the same run is the same record however often it is written.
        "evaluation_id": f"{name}/{found.model}/{stamp}",
        "evaluation_timestamp": began.isoformat(timespec="seconds"),
        "retrieved_timestamp": stamp,
        "source_metadata": {
            "source_name": "cereval",
            "source_type": "evaluation_run",
            "source_organization_name": organization,
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "cereval", "version": __version__},
        "model_info": {
            "name": found.model,
            "id": found.model_id,
            "additional_details": {"deployment_type": "unknown", "model_availability": "unknown"},
        },
        "evaluation_results": [_result(found, part) for part in found.means("every-eval-ever")],
    }
    if beside is not None:
        lines = [_line_of(sample) for sample in _samples(found, record["evaluation_id"])]
        record["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": beside.name,
            "hash_algorithm": "sha256",
            "checksum": sha256("".join(lines).encode()).hexdigest(),
            "total_rows": len(lines),
        }
        write_whole(beside, "".join(lines))
    return json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _line_of(value: Any) -> str:
    return str(cleaned(json.dumps(value, ensure_ascii=False, allow_nan=False), "", mend=True)) + "\n"


def _samples(found: Exported, evaluation: Any) -> Iterator[dict[str, Any]]:
    """Give the answers that the result rests on, but for failed calls: they have no score.

    Their plain mean is not the result where questions were not equally likely to be drawn: `metadata` has the chance.
    """
    by_task = {part.name for part in found.parts}
    for one in found.story.asked[: found.story.counted]:
        if one.answer is None or one.answer.score is None:
            continue
        item, text, score = one.item, one.answer.text, one.answer.score
        task = item.category if item.category in by_task else ""
        source = {"raw": item.text, "reference": list(item.answers)}
        key = json.dumps(source, sort_keys=True, separators=(",", ":"))
        extracted = {"extracted_value": text, "extraction_method": found.scorer, "is_terminal": True}
        yield {
            "schema_version": SCHEMA,
            "evaluation_id": evaluation,
            "evaluation_result_id": f"{found.run_id}/{task or 'all'}",
            "evaluation_name": f"{found.story.data}: {task}" if task else found.story.data,
            "model_id": found.model_id,
            "sample_id": item.id,
            "sample_hash": sha256(key.encode("utf-8", "surrogatepass")).hexdigest(),
            "interaction_type": "single_turn",
            "input": source | ({"choices": list(item.choices)} if item.choices else {}),
            "output": {"raw": [text]},
            "answer_attribution": [{"turn_idx": 0, "source": "output.raw", **extracted}],
            "evaluation": {"score": score, "is_correct": score >= 0.5},
            "metadata": {"draw": str(one.draw.index), "probability": repr(one.draw.probability)},
        }


def _moment(text: str, run_id: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise StoreError(
            f"run {run_id} is damaged, or was changed by hand: {shown(text)} is no moment in ISO 8601"
        ) from None


def _result(found: Exported, part: Part) -> dict[str, Any]:
    name = f"{found.story.data}: {part.name}" if part.name else found.story.data
    return {
        "evaluation_result_id": f"{found.run_id}/{part.name or 'all'}",
        "evaluation_name": name,
        "source_data": _source(found),
        "metric_config": {
            "metric_name": found.scorer,
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": 0.0,
            "max_score": 1.0,
        },
        "score_details": {
            "score": part.estimate,
            "uncertainty": _uncertainty(found, part),
            "details": {
                "run_id": found.run_id,
                "certificate_digest": found.digest,
                "guarantee": found.result.guarantee,
                "stopped": found.result.stopped,
                "target": found.result.target,
            },
        },
    }


def _uncertainty(found: Exported, part: Part) -> dict[str, Any]:
    method = f"cereval {found.result.method} ({found.result.guarantee}), {part.asked} of {part.items} questions asked"
    bounds = {"lower": part.lower, "upper": part.upper}
    level = {"confidence_level": found.result.confidence, "method": method}
    return {"confidence_interval": {**bounds, **level}, "num_samples": part.asked}


def _source(found: Exported) -> dict[str, Any]:
    name, details = found.story.data, {"data_hash": str(found.plan["data_hash"])}
    if not name.startswith("hf:"):
        return {"dataset_name": name, "source_type": "other", "additional_details": details}
    from cereval.datasets.formats import HubSource

    source = HubSource.parse(name)
    split = {"hf_split": source.split} if source.split else {}
    return {
        "dataset_name": source.name,
        "source_type": "hf_dataset",
        "hf_repo": source.name,
        "samples_number": found.result.n_items,
        **split,
        "additional_details": details,
    }


# -- Hugging Face -----------------------------------------------------------------------------------------------------


def hugging_face(found: Exported, dataset: str | None = None, url: str | None = None, **_: str) -> str:
    """Write the entries of a run, in percent: the whole, or the tasks where there are several."""
    import yaml

    parts = found.means("hf")
    where, task = _dataset(found, dataset)
    entries = [_entry(found, part, where, part.name or task, url) for part in parts[1:] or parts]
    return str(yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=1000))


def _entry(found: Exported, part: Part, dataset: str, task: str, url: str | None) -> dict[str, Any]:
    source = {} if url is None else {"source": {"url": url, "name": "cereval certificate"}}
    return {
        "dataset": {"id": dataset, "task_id": task},
        "value": round(100 * part.estimate, 2),
        "date": found.changed,
        **source,
        "notes": f"certified {interval(part.lower, part.upper)} at {percent(found.result.confidence)} confidence "
        f"({found.result.guarantee}), {part.asked:,} of {part.items:,} questions asked, "
        f"cereval certificate {found.digest[:16]}",
    }


def _dataset(found: Exported, given: str | None) -> tuple[str, str]:
    named = given or found.story.data.removeprefix("hf:").partition("@")[0]
    where, _, task = named.partition(":")
    if (
        (given is None and not found.story.data.startswith("hf:"))
        or where.count("/") != 1
        or not all(where.split("/"))
    ):
        wanted = "ORG/NAME or ORG/NAME:TASK on the Hugging Face Hub (this run's data is a file)"
        raise InvalidInput("--dataset", wanted, given)
    return where, task or "default"


# -- Markdown ---------------------------------------------------------------------------------------------------------

ESCAPED = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "@": "&#64;",
    **{one: f"\\{one}" for one in "\\`*_[]|#!~$"},
}
"""Names come from data files: none may become markup, a mention or a picture."""


def markdown(found: Exported, url: str | None = None, **_: str) -> str:
    known = (
        f"certificate `{found.digest[:16]}`"
        if url is None
        else f"[certificate `{found.digest[:16]}`]({_link(url)})"
    )
    table = found.result.table() or (_means(found) if found.parts else _differences(found))
    return "\n".join(
        [
            f"**{escaped(found.result.headline())}**",
            "",
            *_lines(table),
            "",
            f"{escaped(found.model)} on {escaped(found.story.data)}, run `{found.run_id}`, {known} "
            "(`cereval verify` recomputes it)",
            "",
        ]
    )


def _means(found: Exported) -> Table:
    rows = [
        (
            found.model,
            found.story.data,
            f"{part.estimate:.1%}",
            interval(part.lower, part.upper),
            percent(found.result.confidence),
            f"{part.asked:,} of {part.items:,}",
        )
        for part in found.parts
    ]
    return Table(
        ("model", "data", "score", "certified interval", "confidence", "asked"), rows, numbers=(2, 3, 4, 5)
    )


def _differences(found: Exported) -> Table:
    result = found.result
    rows = [
        (
            part.name,
            f"{part.estimate:+.1%}",
            signed_interval(part.lower, part.upper),
            percent(result.confidence),
            f"{result.n_evaluated:,} of {result.n_items:,}",
        )
        for part in result.parts()
    ]
    return Table(
        ("models", "difference", "certified interval", "confidence", "asked"), rows, numbers=(1, 2, 3, 4)
    )


def _lines(table: Table) -> Iterable[str]:
    yield _row(table.header)
    yield _row(
        ["---:" if column in table.numbers else "---" for column in range(len(table.header))], raw=True
    )
    yield from map(_row, table.rows)


def _row(cells: Sequence[str], *, raw: bool = False) -> str:
    return "| " + " | ".join(cells if raw else map(escaped, cells)) + " |"


def escaped(text: str) -> str:
    """Return a text that Markdown shows as it is.

    >>> escaped("a|b <img> @all")
    'a\\\\|b &lt;img&gt; &#64;all'
    """
    return "".join(ESCAPED.get(letter, letter) for letter in printable(" ".join(text.split()), 1000))


def _link(url: str) -> str:
    return "".join(
        letter if letter.isalnum() or letter in "-._~:/?#@!$&'*+,;=%" else f"%{ord(letter):02X}"
        for letter in url
    )


# -- JUnit ------------------------------------------------------------------------------------------------------------


def junit(found: Exported, **_: str) -> str:
    """Write one test: passed, failed (certified fail), or failed because the budget ended before it was decided."""
    result, code = found.result, found.result.exit_code
    counts = {"tests": "1", "failures": str(int(code != PASSED)), "errors": "0", "skipped": "0"}
    suite = Element("testsuite", {"name": "cereval", "timestamp": found.changed[:19], **counts})
    name = printable(f"{found.model} on {found.story.data}: {result.goal.get('goal', found.story.kind.name)}")
    case = SubElement(suite, "testcase", {"classname": "cereval", "name": name, "time": "0"})
    facts = {
        "answer": result.headline(),
        "decision": result.decision or result.stopped,
        "confidence": result.confidence,
        "run_id": found.run_id,
        "certificate": found.digest,
        **found.numbers(),
    }
    properties = SubElement(case, "properties")
    for key, value in facts.items():
        SubElement(properties, "property", {"name": key, "value": printable(str(value))})
    if code != PASSED:
        kind = "certified fail" if code == FAILED else "undecided"
        SubElement(case, "failure", {"type": kind, "message": printable(result.headline())})
    suites = Element("testsuites", counts)
    suites.append(suite)
    indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suites, encoding="unicode") + "\n"
