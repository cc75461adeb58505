"""Small fleets for the tests, with workers in this process or, where that is what is tested, in others."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cereval.fleet.drive import Row
from cereval.fleet.work import Job, carried_out
from cereval.store.base import opened_store

FIELDS = {"input": "ask", "answer": "gold", "scorer": "exact"}


def fleet_of(data: list[str], **more: Any) -> dict[str, Any]:
    models = ["scripted/0.6", "scripted/0.7"]
    return {"models": models, "data": data, "eps": 0.1, "seed": 3, "workers": 1, **FIELDS, **more}


def certificates(url: str) -> dict[str, Any]:
    with opened_store(url) as store:
        return {run.run_id: store.certificates(run.run_id)[-1] for run in store.runs()}


def paid_for(url: str) -> int:
    with opened_store(url) as store:
        return sum(not answer.kept for run in store.runs() for _, answer, _ in store.rows(run.run_id))


class Here:
    """Carries out jobs in this process, one after the other: no Python is started for each fleet."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._jobs: deque[str] = deque()

    def submit(self, job: Job) -> None:
        self._jobs.append(json.dumps(job.as_dict()))

    def next(self) -> tuple[int, Row]:
        job = Job.from_dict(json.loads(self._jobs.popleft()))
        return job.entry.number, json.loads(json.dumps(carried_out(job)))

    def interrupt(self) -> None:
        """Nothing is under way while the driver is asked to stop."""


@contextmanager
def here(capacity: int) -> Iterator[Here]:
    yield Here(capacity)
