"""Write certified results for other tools and people: Every Eval Ever 0.3 (JSON in which evaluations are collected
across tools), `.eval_results` of a model on Hugging Face, Markdown, JUnit XML, which every CI shows; or hand them to
MLflow, Weights & Biases or whatever collects OpenTelemetry's events. A new format is a function and a line below."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from cereval.errors import BadFile, CerevalError, InvalidInput, Misuse, StoreError, shown
from cereval.files import cleaned, write_whole
from cereval.imports import optional
from cereval.plan import Plan, full_name
from cereval.records import FAILED, PASSED, Certified, Table
from cereval.report.story import Story, read_story
from cereval.store.base import Run, Store, opened_store
from cereval.text import interval, percent, printable, signed_interval
from cereval.version import __version__


class Mean(NamedTuple):
    """A certified mean: that of all questions, or that of a task; `name` is empty for the former."""

    name: str
    estimate: float
    lower: float
    upper: float
    asked: int
    items: int


@dataclass(frozen=True, slots=True)
class Exported:
    """Show a run as formats see it. parts: its certified means; none where models are compared or ranked."""

    story: Story
    run: Run
    plan: Plan
    certificate: Mapping[str, Any]
    parts: tuple[Mean, ...]

    @property
    def result(self) -> Certified:
        return self.story.result

    @property
    def model(self) -> str:
        return ", ".join(map(full_name, self.plan.candidates))

    @property
    def model_id(self) -> str:
        return ", ".join(dict.fromkeys(spec["model"] for spec in self.plan.candidates))

    @property
    def scorer(self) -> str:
        spec = self.plan.scorer["spec"]
        return spec if isinstance(spec, str) else str(spec.get("name", "score"))

    @property
    def digest(self) -> str:
        return str(self.certificate.get("digest", ""))

    def means(self, format: str) -> tuple[Mean, ...]:
        """List the certified means, for formats that have no room for anything else."""
        if not self.parts:
            wanted = f"a run that certifies scores of one model: {format} has no place for comparisons and rankings"
            raise InvalidInput("RUN", wanted, self.run.run_id)
        return self.parts

    def numbers(self) -> dict[str, float]:
        return {
            f"{part.name}/{name}" if part.name else name: float(value)
            for part in self.parts
            for name, value in zip(Mean._fields[1:], part[1:], strict=True)
        }


def read_run(store: Store, run: str) -> Exported:
    story = read_story(store, run)
    if story.certificate is None or story.run is None or story.plan is None:
        raise Misuse(
            f"run {run} has no certificate: nothing was answered yet, or it is a part of another run"
        )
    values = story.result.as_dict()
    means = [("", values["macro"]), *values["tasks"].items()] if "macro" in values else [("", values)]
    parts = tuple(
        Mean(
            name,
            one["estimate"],
            one["lower"],
            one["upper"],
            int(one.get("n_evaluated", one.get("n")) or 0),
            int(one["n_items"]),
        )
        for name, one in means
        if "estimate" in one
    )
    return Exported(story, story.run, story.plan, story.certificate, parts)


# -- Every Eval Ever --------------------------------------------------------------------------------------------------

SCHEMA = "0.3.0"


def every_eval_ever(
    found: Exported, organization: str = "unknown", beside: Path | None = None, **_: str
) -> str:
    """Write a record. beside: the file that gets the samples; they are named in the record with their digest."""
    began, changed = (
        _moment(moment, found.run.run_id) for moment in (found.run.created_at, found.run.changed_at)
    )
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
            "evaluation_result_id": f"{found.run.run_id}/{task or 'all'}",
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


def _result(found: Exported, part: Mean) -> dict[str, Any]:
    name = f"{found.story.data}: {part.name}" if part.name else found.story.data
    result = found.result
    method = f"cereval {result.method} ({result.guarantee}), {part.asked} of {part.items} questions asked"
    level = {"confidence_level": result.confidence, "method": method}
    return {
        "evaluation_result_id": f"{found.run.run_id}/{part.name or 'all'}",
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
            "uncertainty": {
                "confidence_interval": {"lower": part.lower, "upper": part.upper, **level},
                "num_samples": part.asked,
            },
            "details": {
                "run_id": found.run.run_id,
                "certificate_digest": found.digest,
                "guarantee": result.guarantee,
                "stopped": result.stopped,
                "target": result.target,
            },
        },
    }


def _source(found: Exported) -> dict[str, Any]:
    name, details = found.story.data, {"data_hash": found.plan.data_hash}
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


def _entry(found: Exported, part: Mean, dataset: str, task: str, url: str | None) -> dict[str, Any]:
    source = {} if url is None else {"source": {"url": url, "name": "cereval certificate"}}
    return {
        "dataset": {"id": dataset, "task_id": task},
        "value": round(100 * part.estimate, 2),
        "date": found.run.changed_at,
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
IN_LINKS = "-._~:/?#@!$&'*+,;=%"


def markdown(found: Exported, url: str | None = None, **_: str) -> str:
    known = f"certificate `{found.digest[:16]}`"
    if url is not None:
        known = f"[{known}]({quote(url, safe=IN_LINKS)})"
    table = found.result.table() or (_means(found) if found.parts else _differences(found))
    return "\n".join(
        [
            f"**{escaped(found.result.headline())}**",
            "",
            *_lines(table),
            "",
            f"{escaped(found.model)} on {escaped(found.story.data)}, run `{found.run.run_id}`, {known} "
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


def _lines(table: Table) -> list[str]:
    header, *rows = ([escaped(cell) for cell in row] for row in (table.header, *table.rows))
    marks = ["---:" if column in table.numbers else "---" for column in range(len(header))]
    return [f"| {' | '.join(cells)} |" for cells in (header, marks, *rows)]


def escaped(text: str) -> str:
    """Return a text that Markdown shows as it is.

    >>> escaped("a|b <img> @all")
    'a\\\\|b &lt;img&gt; &#64;all'
    """
    return "".join(ESCAPED.get(letter, letter) for letter in printable(" ".join(text.split()), 1000))


# -- JUnit ------------------------------------------------------------------------------------------------------------


def junit(found: Exported, **_: str) -> str:
    """Write one test: passed, failed (certified fail), or failed because the budget ended before it was decided."""
    result, code = found.result, found.result.exit_code
    counts = {"tests": "1", "failures": str(int(code != PASSED)), "errors": "0", "skipped": "0"}
    suite = Element("testsuite", {"name": "cereval", "timestamp": found.run.changed_at[:19], **counts})
    name = printable(f"{found.model} on {found.story.data}: {result.goal.get('goal', found.story.kind.name)}")
    case = SubElement(suite, "testcase", {"classname": "cereval", "name": name, "time": "0"})
    facts = {
        "answer": result.headline(),
        "decision": result.decision or result.stopped,
        "confidence": result.confidence,
        "run_id": found.run.run_id,
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


# -- programs that keep results ----------------------------------------------------------------------------------------


def log_to_mlflow(found: Exported) -> str:
    """Log a run with the numbers as metrics and the certificate as an artifact, to the tracking server of the
    environment (`MLFLOW_TRACKING_URI`, `MLFLOW_EXPERIMENT_NAME`).
    """
    mlflow = optional("mlflow", "mlflow")
    about = {"model": found.model, "data": found.story.data, "confidence": found.result.confidence}
    tags = {"run_id": found.run.run_id, "digest": found.digest, "answer": found.result.headline()}
    with mlflow.start_run(run_name=f"cereval {found.run.run_id}") as run:
        mlflow.log_params(about)
        mlflow.log_metrics(found.numbers())
        mlflow.set_tags({f"cereval.{name}": value for name, value in tags.items()})
        mlflow.log_dict(dict(found.certificate), "certificate.json")
        return f"mlflow run {run.info.run_id}"


def log_to_wandb(found: Exported) -> str:
    """Log a run with the numbers in its summary and the certificate as a file, to the project of the environment
    (`WANDB_PROJECT`, else `cereval`).
    """
    wandb = optional("wandb", "wandb")
    about = {
        "model": found.model,
        "data": found.story.data,
        "run_id": found.run.run_id,
        "digest": found.digest,
    }
    project, name = os.environ.get("WANDB_PROJECT", "cereval"), f"cereval {found.run.run_id}"
    with wandb.init(project=project, name=name, config=about) as run:
        run.summary.update({**found.numbers(), "answer": found.result.headline()})
        Path(run.dir, "certificate.json").write_text(json.dumps(dict(found.certificate)), encoding="utf-8")
        run.save(str(Path(run.dir, "certificate.json")), base_path=run.dir, policy="now")
        return f"wandb run {run.id}"


def emit_events(found: Exported) -> str:
    """Emit an event `gen_ai.evaluation.result` for every certified mean, to the collector of the environment
    (`OTEL_EXPORTER_OTLP_ENDPOINT`) or the provider that the program has set up.
    """
    logs = optional("opentelemetry._logs", "otel")
    provider, results = logs.get_logger_provider(), list[Any]()
    if type(provider).__name__.startswith("Proxy"):  # nobody has set up one
        provider = _own_provider(results)
    logger = provider.get_logger("cereval")
    for part in found.means("otel"):
        attributes = {
            "gen_ai.evaluation.name": f"{found.story.data}: {part.name}" if part.name else found.story.data,
            "gen_ai.evaluation.score.value": part.estimate,
            "gen_ai.evaluation.score.label": str(found.result.decision or found.result.stopped),
            "gen_ai.evaluation.explanation": found.result.headline(),
            "gen_ai.request.model": found.model_id,
            "cereval.lower": part.lower,
            "cereval.upper": part.upper,
            "cereval.confidence": found.result.confidence,
            "cereval.asked": part.asked,
            "cereval.items": part.items,
            "cereval.run_id": found.run.run_id,
            "cereval.digest": found.digest,
        }
        logger.emit(logs.LogRecord(event_name="gen_ai.evaluation.result", attributes=attributes))
    if any(one.name != "SUCCESS" for one in results):
        raise Misuse("otel: the collector took no event: is OTEL_EXPORTER_OTLP_ENDPOINT right?")
    return f"{len(found.parts)} events gen_ai.evaluation.result"


def _own_provider(results: list[Any]) -> Any:
    """Send to the collector that the environment names, at once; note what it says."""
    sdk = optional("opentelemetry.sdk._logs", "otel")
    export = optional("opentelemetry.sdk._logs.export", "otel")
    exporter = optional("opentelemetry.exporter.otlp.proto.http._log_exporter", "otel").OTLPLogExporter()
    send = exporter.export

    def noted(batch: Any) -> Any:
        results.append(send(batch))
        return results[-1]

    exporter.export = noted
    provider = sdk.LoggerProvider()
    provider.add_log_record_processor(export.SimpleLogRecordProcessor(exporter))
    return provider


# -- all of them ------------------------------------------------------------------------------------------------------

TEXTS: Mapping[str, Callable[..., str]] = {
    "every-eval-ever": every_eval_ever,
    "hf": hugging_face,
    "markdown": markdown,
    "junit": junit,
}
SERVICES: Mapping[str, Callable[[Exported], str]] = {
    "mlflow": log_to_mlflow,
    "wandb": log_to_wandb,
    "otel": emit_events,
}
"""Formats that another program keeps; their functions say where."""


def export(
    run: str, format: str, output: str | Path | None = None, *, store: str | None = None, **about: str | None
) -> str:
    """Write or send what a run came to; return where it is.

    format: `every-eval-ever` (its samples go into a file beside it), `hf`, `markdown` or `junit` with a file as
    `output`; `mlflow`, `wandb` or `otel` without.
    about: what a store does not know: `dataset` (the data set's name on the Hugging Face Hub), `url` (where the
    certificate is), `organization` (who evaluated).
    """
    if format not in {**TEXTS, **SERVICES}:
        raise InvalidInput("format", "one of " + ", ".join([*TEXTS, *SERVICES]), format)
    if (output is None) != (format in SERVICES):
        wanted = "left out: the result goes to the service" if format in SERVICES else "given: a file"
        raise InvalidInput("-o", wanted, output)
    with opened_store(store) as opened:
        found = read_run(opened, run)
    if output is None:
        return _sent(found, format)
    given: dict[str, Any] = {name: value for name, value in about.items() if value is not None}
    if format == "every-eval-ever":
        given["beside"] = Path(output).with_name(f"{Path(output).stem}_samples.jsonl")
    try:
        content = TEXTS[format](found, **given)
        write_whole(Path(output), content)
    except OSError as error:
        raise BadFile(f"the result cannot be written to {output} ({error.strerror})") from None
    return str(output)


def _sent(found: Exported, service: str) -> str:
    try:
        return SERVICES[service](found)
    except CerevalError:
        raise
    except Exception as error:
        # Servers, settings and versions of another program: whatever it raises, it is its own to explain.
        raise Misuse(f"{service} refused: {type(error).__name__}: {shown(str(error), 300)}") from error
