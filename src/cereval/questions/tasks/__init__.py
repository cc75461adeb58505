"""Evaluate many tasks at once: `tasks`, recorded or live."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cereval.errors import InvalidInput, Misuse
from cereval.plan import Known, Plan
from cereval.questions.base import Earlier, Kind
from cereval.questions.session import AskTell
from cereval.questions.tasks.goal import AllAtLeast, EachWithin, Macro, WhichFail
from cereval.questions.tasks.session import TaskSession, named_groups

UNNAMED = "(none)"
"""The task of items without a category."""


class Tasks(Kind):
    """Estimate every task and their macro mean; the categories of the items are the tasks."""

    name: ClassVar[str] = "tasks"
    format: ClassVar[str] = "cereval-tasks/1"
    goals = (Macro, EachWithin, AllAtLeast, WhichFail)
    audited: ClassVar[str] = "intervals and verdicts recomputed by the audit"
    audit: ClassVar[str] = "cereval.questions.tasks.audit:TasksAudit"
    page: ClassVar[str] = "cereval.questions.tasks.page:tasks_page"
    without_history: ClassVar[str] = "--history none"

    def complete_plan(self, plan: Plan, categories: Sequence[str | None]) -> Plan:
        if not any(categories):
            raise InvalidInput("by", "the field that names each question's task: no category is there", None)
        names, _ = named_groups([category or UNNAMED for category in categories])
        return replace(plan, tasks=names)

    def session(self, plan: Plan, known: Known, earlier: Earlier | None = None) -> TaskSession:  # noqa: ARG002
        if known.groups is None:
            raise InvalidInput("side information", "the number of each item's task", "none")
        return TaskSession(
            np.array(plan.tasks)[known.groups],
            goal=self.goal(plan.goal),
            confidence=plan.confidence,
            history=known.history,
            budget=plan.max_calls,
            seed=plan.seed,
            models=plan.names,
        )

    def groups(self, plan: Plan, categories: tuple[str | None, ...]) -> Any:
        """Return the number of each item's task, as the plan names the tasks."""
        names, codes = named_groups([category or UNNAMED for category in categories])
        if names != plan.tasks:
            raise Misuse("the items have other tasks than their plan")
        return codes

    def coded_groups(self, plan: Plan, names: Sequence[str], codes: NDArray[np.int64]) -> Any:
        used, places = np.unique(codes, return_inverse=True)
        return self.groups(plan, tuple(names[code] for code in used))[places]

    def notes(self, plan: Plan) -> tuple[str, ...]:
        return (f"progress shows the macro mean of {len(plan.tasks):,} tasks",)

    def about(self, plan: Plan) -> dict[str, Any]:
        return {"model": plan.name, "data": [plan.data_name], "items": plan.data_hash}

    def side_information(self, session: AskTell, known: Known) -> dict[str, Any]:
        assert isinstance(session, TaskSession)
        return Known(session.engine.groups, known.history).as_dict()

    def reopened(self, certificate: Mapping[str, Any]) -> TaskSession:
        settings = certificate["settings"]
        known = Known.from_dict(certificate["side_information"], settings["n_items"])
        if known.groups is None:
            raise InvalidInput("side information", "the items' tasks", "none")
        return TaskSession(
            np.array(settings["tasks"])[known.groups],
            goal=self.goal(settings["goal"]),
            history=known.history,
            models=(str(settings["about"].get("model")),),
            **{name: settings[name] for name in ("confidence", "budget", "seed")},
        )

    def check_plan(self, certificate: Mapping[str, Any], equal: Callable[..., None]) -> None:
        plan = Plan.from_dict(certificate["plan"])
        known = Known.from_dict(certificate["side_information"], plan.n_items)
        equal("side_information", list(known.names), list(plan.side_information))
        stated = plan.target, dict(plan.weights), dict(plan.growth)
        equal("plan.target, plan.weights, plan.growth", stated, ("benchmark", {}, {}))
        found = self.settings(self.session(plan, known), self.about(plan))
        equal("settings of the plan", certificate["settings"], found)
