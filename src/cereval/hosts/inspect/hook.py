"""Define the hook of certified tasks: it tells their source what run began, and puts the certificate into the log."""

from __future__ import annotations

import sys
from typing import Any

from inspect_ai.hooks import Hooks, TaskEnd, TaskStart, hooks
from inspect_ai.log import MetadataEdit, ProvenanceData, edit_eval_log, write_eval_log_async

from cereval.hosts.inspect.logs import CERTIFICATE, HEADLINE
from cereval.hosts.inspect.metric import LIVE, NOTE
from cereval.hosts.inspect.source import CertifiedSource
from cereval.text import printable


@hooks(name="cereval_certificate", description="certified tasks: the interval and its certificate in the log")
class Certificate(Hooks):
    """Begin and end the run of every certified task of this process; others do not concern it."""

    def enabled(self) -> bool:
        return bool(LIVE)

    async def on_task_start(self, data: TaskStart) -> None:
        source = live(data.spec.metadata)
        if source is not None:
            connections = data.plan.config.max_connections or data.spec.model_generate_config.max_connections
            source.begin(data.spec, connections)

    async def on_task_end(self, data: TaskEnd) -> None:
        source = live(data.log.eval.metadata)
        if source is None or source.question is None or source.refusal is not None:
            return
        headline = source.question.result.headline()
        noted = {HEADLINE: headline, CERTIFICATE: source.question.certificate()}
        edited = edit_eval_log(
            data.log,
            [MetadataEdit(metadata_set=noted)],
            ProvenanceData(author="cereval", reason="certified interval"),
        )
        # In place: `eval()` returns this very object.
        data.log.log_updates = edited.log_updates
        data.log.recompute_tags_and_metadata()
        await write_eval_log_async(data.log, header_only=data.log.location.endswith(".eval"))
        print(printable(headline), file=sys.stderr)
        if data.log.status == "success":
            del LIVE[data.log.eval.metadata[NOTE]["key"]]


def live(metadata: dict[str, Any] | None) -> CertifiedSource | None:
    """Return the source of a run, if it is one of ours."""
    noted = (metadata or {}).get(NOTE)
    return LIVE.get(noted["key"]) if isinstance(noted, dict) and "key" in noted else None
