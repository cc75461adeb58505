"""Evaluate many tasks at once: `tasks`, recorded or live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import UNSET, Meta, UnsetType

from cereval.errors import InvalidInput, Misuse
from cereval.plan import Known, Plan
from cereval.questions.base import Kind, Settings, SideInformation, Table
from cereval.questions.session import AskTell
from cereval.questions.tasks.goal import AllAtLeast, EachWithin, Macro, WhichFail
from cereval.questions.tasks.session import TaskSession, TasksResult, named_groups

UNNAMED = "(none)"
"""The task of items without a category."""


class TasksSettings(Settings):
    """What decided draws and answers, and the names of the model and of the data."""

    goal: Macro | EachWithin | AllAtLeast | WhichFail
    tasks: Annotated[list[str], Meta(min_length=1, description="Their names, in the order of their numbers.")]
    about: dict[str, Any]
    method: Literal["all"] | UnsetType = UNSET
    target: Literal["expected"] | UnsetType = UNSET


class TasksSideInformation(SideInformation):
    """The numbers of the items' tasks, and scores of earlier runs (NaN: not asked)."""

    groups: Table


class Tasks(Kind):
    """Estimate every task and their macro mean; the categories of the items are the tasks."""

    name = "tasks"
    goals, opens = TaskSession.goals, TaskSession
    format = "cereval-tasks/1"
    result_form, settings_form, side_form = TasksResult, TasksSettings, TasksSideInformation
    audited = "intervals and verdicts recomputed by the audit"
    audit = "cereval.questions.tasks.audit:TasksAudit"
    page = "cereval.questions.tasks.page:tasks_page"

    def complete_plan(self, plan: Plan, categories: Sequence[str | None]) -> Plan:
        if not any(categories):
            raise InvalidInput("by", "the field that names each question's task: no category is there", None)
        names, _ = named_groups([category or UNNAMED for category in categories])
        return replace(plan, tasks=names)

    def open(self, **asked: Any) -> AskTell:
        codes = asked.get("groups")
        if codes is None:
            raise InvalidInput("side information", "the number of each item's task", "none")
        return super().open(**asked | {"groups": np.array(asked["tasks"])[codes]})

    def groups(self, plan: Plan, categories: tuple[str | None, ...]) -> Any:
        names, codes = named_groups([category or UNNAMED for category in categories])
        if names != plan.tasks:
            raise Misuse("the items have other tasks than their plan")
        return codes

    def notes(self, plan: Plan) -> tuple[str, ...]:
        return (f"progress shows the macro mean of {len(plan.tasks):,} tasks",)

    def about(self, plan: Plan) -> dict[str, Any]:
        return {"model": plan.name, "data": [plan.data_name], "items": plan.data_hash}

    def side_information(self, session: AskTell, known: Known) -> dict[str, Any]:
        assert isinstance(session, TaskSession)
        return Known(session.method.groups, known.history).as_dict()
