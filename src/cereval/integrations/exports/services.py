"""Hand results to programs that keep them: MLflow, Weights & Biases, and whatever collects OpenTelemetry's events."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from cereval.errors import Misuse
from cereval.imports import optional
from cereval.integrations.exports import Exported


def log_to_mlflow(found: Exported) -> str:
    """Log a run with the numbers as metrics and the certificate as an artifact, to the tracking server of the
    environment (`MLFLOW_TRACKING_URI`, `MLFLOW_EXPERIMENT_NAME`).
    """
    mlflow = optional("mlflow", "mlflow")
    about = {"model": found.model, "data": found.story.data, "confidence": found.result.confidence}
    tags = {"run_id": found.run_id, "digest": found.digest, "answer": found.result.headline()}
    with mlflow.start_run(run_name=f"cereval {found.run_id}") as run:
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
    about = {"model": found.model, "data": found.story.data, "run_id": found.run_id, "digest": found.digest}
    project, name = os.environ.get("WANDB_PROJECT", "cereval"), f"cereval {found.run_id}"
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
            "cereval.run_id": found.run_id,
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
