"""Log to MLflow: a run with the certified numbers as metrics and the certificate as an artifact."""

from __future__ import annotations

from cereval.imports import optional
from cereval.integrations.exports import facts
from cereval.integrations.exports.base import Exported


def send(found: Exported) -> str:
    """Log to the tracking server of the environment (`MLFLOW_TRACKING_URI`, `MLFLOW_EXPERIMENT_NAME`)."""
    mlflow = optional("mlflow", "mlflow")
    with mlflow.start_run(run_name=f"cereval {found.run_id}") as run:
        mlflow.log_params(
            {"model": found.model, "data": found.story.data, "confidence": found.result.confidence}
        )
        mlflow.log_metrics(facts(found))
        mlflow.set_tags(
            {
                "cereval.run_id": found.run_id,
                "cereval.digest": found.digest,
                "cereval.answer": found.result.headline(),
            }
        )
        mlflow.log_dict(dict(found.certificate), "certificate.json")
        return f"mlflow run {run.info.run_id}"
