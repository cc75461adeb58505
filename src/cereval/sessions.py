"""The kinds of session that a run in the store can have, and what each comes to."""

from __future__ import annotations

from cereval.growing_result import GrowingResult
from cereval.growing_version import LastVersion
from cereval.records import Result
from cereval.session import Session
from cereval.tasks import TaskSession, TasksResult

AnySession = Session | TaskSession | LastVersion
AnyResult = Result | TasksResult | GrowingResult
