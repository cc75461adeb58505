"""The kinds of session that a run in the store can have, and what each comes to."""

from __future__ import annotations

from cereval.records import Result
from cereval.session import Session
from cereval.tasks import TaskSession, TasksResult

AnySession = Session | TaskSession
AnyResult = Result | TasksResult
