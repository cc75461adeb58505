"""Define the hook of certified tasks: it tells their source what run began, and puts the certificate into the log."""

from __future__ import annotations

import sys
from typing import Any

from inspect_ai.hooks import Hooks, TaskEnd, TaskStart, hooks
from inspect_ai.log import MetadataEdit, ProvenanceData, edit_eval_log, write_eval_log_async

from cereval.integrations.inspect.logs import CERTIFICATE, HEADLINE
from cereval.integrations.inspect.metric import LIVE, NOTE
from cereval.integrations.inspect.source import CertifiedSource
from cereval.text import printable

MOST_UNWRITTEN = 10
"""Samples that Inspect keeps before it writes them to the log, unless a data set is small."""


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
            if source.refusal is None:
                _write_less_often(data.spec, len(source.pool.samples))

    async def on_task_end(self, data: TaskEnd) -> None:
        source = live(data.log.eval.metadata)
        if source is None or source.question is None or source.refusal is not None:
            return
        headline = source.subject + source.question.result.headline()
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


def _write_less_often(spec: Any, samples: int) -> None:
    """Write the log as often as Inspect does for a data set of this size, where --log-buffer does not say otherwise.

    Of a source it counts no samples beforehand, and would write after each: each time it reads the list of all that the
    log holds. Versions without the control of a running task go on doing so.
    """
    try:
        from inspect_ai._control.eval_state import get_eval_state
    except ImportError:
        return
    state = get_eval_state(spec.eval_id)
    asked = samples if spec.config.limit is None else min(samples, spec.config.limit)
    if spec.config.log_buffer is None and state is not None and state.live is not None:
        state.live.buffer_config(
            log_buffer=max(1, min(asked * (spec.config.epochs or 1) // 3, MOST_UNWRITTEN))
        )


def live(metadata: dict[str, Any] | None) -> CertifiedSource | None:
    """Return the source of a run, if it is one of ours."""
    noted = (metadata or {}).get(NOTE)
    return LIVE.get(noted["key"]) if isinstance(noted, dict) and "key" in noted else None
