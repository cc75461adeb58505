"""From a run and what the store has of it to its certificate, whatever kind it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cereval.certificate.base import Entry
from cereval.certificate.growing import issue_growing_run
from cereval.certificate.issue import issue
from cereval.certificate.tasks import issue_tasks_run
from cereval.growing_result import GrowingResult
from cereval.growing_version import LastVersion
from cereval.runner.start import Start
from cereval.sessions import AnyResult
from cereval.store.base import Store
from cereval.tasks import TasksResult


def certificate_of(begun: Start, result: AnyResult, store: Store) -> dict[str, Any]:
    """The certificate of the results consumed so far."""
    if isinstance(result, GrowingResult):
        assert isinstance(begun.session, LastVersion)
        return issue_growing_run(begun.plan, begun.session.whole, result)
    log = stored_log(store, begun)
    if isinstance(result, TasksResult):
        return issue_tasks_run(begun.plan, begun.known, result, log, begun.changes)
    return issue(begun.plan, begun.known, result, log, begun.changes)


def stored_log(store: Store, begun: Start) -> list[Entry]:
    """The consumed results as the store has them: what is certified is what is kept."""
    draws = store.draws(begun.plan.run_id)[: begun.session.n_evaluated]
    scores = {answer.draw: answer.score for answer in store.answers(begun.plan.run_id, texts=False)}
    return [Entry(draw.item, draw.probability, scores[draw.index]) for draw in draws]


def newest_certificate(begun: Start, store: Store) -> Mapping[str, Any]:
    """The newest certificate of a run, or that of what its log has come to since."""
    result, issued = begun.session.result(), store.certificates(begun.plan.run_id)
    if issued and issued[-1]["result"]["n_evaluated"] == result.n_evaluated:
        return issued[-1]
    return certificate_of(begun, result, store)
