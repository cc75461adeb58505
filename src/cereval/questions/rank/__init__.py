"""Rank many models on shared items: `rank`, recorded or live."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cereval.arrays import packed
from cereval.errors import InvalidInput
from cereval.plan import Known, Plan
from cereval.questions.base import Earlier, Kind
from cereval.questions.rank.goal import Beats, Order, Top
from cereval.questions.rank.session import RankSession
from cereval.questions.session import AskTell
from cereval.records import Draw, Scored

SETTINGS = frozenset(("models", "n_items", "goal", "confidence", "budget", "seed", "engine", "data"))
WITH_HISTORY = SETTINGS | {"side_information"}


class Rank(Kind):
    """Certify the order of many models; every draw asks one of them."""

    name: ClassVar[str] = "rank"
    format: ClassVar[str] = "cereval-ranking/1"
    goals = (Order, Top, Beats)
    asks = "all"
    without_history: ClassVar[str] = "--history none"
    fields: ClassVar[frozenset[str]] = frozenset({"settings"})
    audited: ClassVar[str] = "order, answer and intervals recomputed by the audit"
    audit: ClassVar[str] = "cereval.questions.rank.audit:RankAudit"
    page: ClassVar[str] = "cereval.questions.rank.page:rank_page"
    optional: ClassVar[frozenset[str]] = frozenset({"side_information"})

    def groups(self, plan: Plan, categories: tuple[str | None, ...]) -> None:
        """Return nothing: the shared order does not look at categories."""

    def coded_groups(self, plan: Plan, names: Sequence[str], codes: NDArray[np.int64]) -> None:
        """Return nothing, as `groups`."""

    def session(self, plan: Plan, known: Known, earlier: Earlier | None = None) -> RankSession:  # noqa: ARG002
        return RankSession(
            plan.n_items,
            plan.names,
            goal=self.goal(plan.goal),
            confidence=plan.confidence,
            history=known.history,
            budget=plan.max_calls,
            seed=plan.seed,
        )

    def parts(self, plan: Plan) -> tuple[Plan, ...]:
        """Return a run of each model along the order of the items, which the seed and the history decide.

        Neither the other models nor the goal are part of it: a ranking with another goal or one more model asks nothing
        again that was paid for. The engine is.
        """
        alone = replace(
            plan, kind="part", goal={"goal": "ranked"}, confidence=0.95, max_calls=None, weights={}
        )
        return tuple(replace(alone, candidates=(candidate,)) for candidate in plan.candidates)

    def complete_plan(self, plan: Plan, categories: Sequence[str | None]) -> Plan:  # noqa: ARG002
        return replace(plan, method="pairs")

    def about(self, plan: Plan) -> dict[str, Any]:
        return {"data": f"{plan.data_name} {plan.data_hash}"}

    def settings(self, session: AskTell, about: Mapping[str, Any]) -> dict[str, Any]:
        return {**session.settings(), "data": about.get("data", "")}

    def entry(self, draw: Draw, scores: Scored) -> dict[str, Any]:
        return {"model": draw.model, "item": draw.item, "score": scores[0]}

    def draws(self, log: Sequence[Mapping[str, Any]]) -> dict[int, Draw]:  # noqa: ARG002
        """Return none: the shared order is drawn again from the seed, and each entry held against it."""
        return {}

    def side_information(self, session: AskTell, known: Known) -> dict[str, Any]:  # noqa: ARG002
        assert isinstance(session, RankSession)
        history = session.pool.history
        return {} if history is None else {"history": packed(history)}

    def reopened(self, certificate: Mapping[str, Any]) -> RankSession:
        settings = certificate["settings"]
        if set(settings) not in (SETTINGS, WITH_HISTORY):
            raise InvalidInput("settings", "the fields of a ranking", sorted(settings))
        return RankSession(
            settings["n_items"],
            settings["models"],
            goal=self.goal(settings["goal"]),
            history=_history(certificate),
            **{name: settings[name] for name in ("confidence", "budget", "seed")},
        )

    def kept(self, certificate: Mapping[str, Any], plan: Plan, earlier: Earlier) -> list[tuple[Draw, Scored]]:
        """Return the stored answers by model and item: each model's stand in its part, along the shared order."""
        found: list[dict[int, tuple[Draw, Scored]]] = []
        for number, part in enumerate(self.parts(plan)):
            _, log, draws = earlier(part.run_id)
            mine = {draw.item: replace(draw, models=(number,)) for draw in draws if draw.index in log.results}
            found.append({item: (draw, log.results[draw.index]) for item, draw in mine.items()})
        asked = [(entry["model"], entry["item"]) for entry in certificate["log"]]
        return [found[model][item] for model, item in asked if item in found[model]]

    def check_plan(self, certificate: Mapping[str, Any], equal: Callable[..., None]) -> None:
        plan, settings = Plan.from_dict(certificate["plan"]), certificate["settings"]
        equal("plan.method, plan.target", (plan.method, plan.target), ("pairs", "benchmark"))
        known = Known(None, _history(certificate))
        equal("plan.side_information", list(plan.side_information), list(known.names))
        equal("settings of the plan", settings, self.settings(self.session(plan, known), self.about(plan)))


def _history(certificate: Mapping[str, Any]) -> NDArray[np.float64] | None:
    """Return the past models' scores that a certificate holds."""
    side = certificate.get("side_information", {})
    if set(side) - {"history"}:
        raise InvalidInput("side_information of a ranking", "made of history alone", sorted(side))
    return Known.from_dict(side, certificate["settings"]["n_items"]).history
