"""Write Every Eval Ever 0.3: JSON in which evaluations are collected across tools, with `uncertainty`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from cereval.errors import StoreError, shown
from cereval.integrations.exports import Exported, Part
from cereval.version import __version__

SCHEMA = "0.3.0"


def text(found: Exported, organization: str = "unknown", **_: str) -> str:
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
    return json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _moment(text: str, run_id: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise StoreError(
            f"run {run_id} is damaged, or was changed by hand: {shown(text)} is no moment in ISO 8601"
        ) from None


def _result(found: Exported, part: Part) -> dict[str, Any]:
    name = f"{found.story.data}: {part.name}" if part.name else found.story.data
    scorer = found.plan["scorer"]["spec"]
    return {
        "evaluation_result_id": f"{found.run_id}/{part.name or 'all'}",
        "evaluation_name": name,
        "source_data": _source(found),
        "metric_config": {
            "metric_name": scorer if isinstance(scorer, str) else str(scorer.get("name", "score")),
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
