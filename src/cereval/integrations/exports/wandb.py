"""Log to Weights & Biases: a run with the certified numbers in its summary and the certificate as a file."""

from __future__ import annotations

import json
from pathlib import Path

from cereval.imports import optional
from cereval.integrations.exports import facts
from cereval.integrations.exports.base import Exported


def send(found: Exported) -> str:
    """Log to the project of the environment (`WANDB_PROJECT`, else `cereval`)."""
    import os

    wandb = optional("wandb", "wandb")
    about = {"model": found.model, "data": found.story.data, "run_id": found.run_id, "digest": found.digest}
    name = f"cereval {found.run_id}"
    with wandb.init(project=os.environ.get("WANDB_PROJECT", "cereval"), name=name, config=about) as run:
        run.summary.update({**facts(found), "answer": found.result.headline()})
        Path(run.dir, "certificate.json").write_text(json.dumps(dict(found.certificate)), encoding="utf-8")
        run.save(str(Path(run.dir, "certificate.json")), base_path=run.dir, policy="now")
        return f"wandb run {run.id}"
