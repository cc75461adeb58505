"""Compare two models on the same items: `compare`, recorded or live."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from cereval.arrays import packed, unpacked
from cereval.errors import InvalidInput
from cereval.plan import Known, Plan
from cereval.questions.base import Earlier, Kind
from cereval.questions.compare.goal import Difference, NotWorse, Sign
from cereval.questions.compare.session import CompareSession
from cereval.questions.session import AskTell
from cereval.records import Draw, Scored

ARRAYS = {"weights": ("<f8", 1), "embeddings": ("<f8", 2), "groups": ("<i8", 1), "history": ("<f8", 2)}
"""What may be known beforehand: kind of number, and dimensions."""


class Compare(Kind):
    """Decide which of two models is better; every draw asks both."""

    name: ClassVar[str] = "compare"
    format: ClassVar[str] = "cereval-comparison/1"
    goals = (Sign, Difference, NotWorse)
    asks = "two"
    least = -1.0
    without_history: ClassVar[str] = "--history none"
    audited: ClassVar[str] = "interval and decision recomputed by the audit"
    audit: ClassVar[str] = "cereval.questions.compare.audit:CompareAudit"
    page: ClassVar[str] = "cereval.questions.compare.page:compare_page"

    def session(self, plan: Plan, known: Known, earlier: Earlier | None = None) -> CompareSession:  # noqa: ARG002
        return CompareSession(
            plan.n_items,
            goal=self.goal(plan.goal),
            confidence=plan.confidence,
            groups=known.groups,
            history=known.history,
            weights=plan.item_weights,
            budget=plan.max_calls,
            seed=plan.seed,
            models=plan.names,
        )

    def parts(self, plan: Plan) -> tuple[Plan, ...]:
        """Return a run of each model: where the two were drawn together, their answers count for each alone."""
        bare = replace(plan, kind="part", max_calls=None, side_information=(), history={}, weights={})
        words = "one side of a comparison"
        return tuple(
            replace(
                bare,
                candidates=(candidate,),
                goal={"goal": "part", "of": plan.run_id, "number": number, "words": words},
            )
            for number, candidate in enumerate(plan.candidates)
        )

    def about(self, plan: Plan) -> dict[str, Any]:
        first, second = plan.names
        return {"first": first, "second": second, "data": plan.data_name, "items": plan.data_hash}

    def side_information(self, session: AskTell, known: Known) -> dict[str, Any]:  # noqa: ARG002
        assert isinstance(session, CompareSession)
        pool = session.pool
        arrays = {
            "weights": session.weights,
            "embeddings": pool.embeddings,
            "groups": pool.groups,
            "history": pool.history,
        }
        return {name: packed(array) for name, array in arrays.items() if array is not None}

    def entry(self, draw: Draw, scores: Scored) -> dict[str, Any]:
        first, second = scores
        return {"item": draw.item, "probability": draw.probability, "first": first, "second": second}

    def scores(self, entry: Mapping[str, Any]) -> Scored:
        return entry["first"], entry["second"]

    def reopened(self, certificate: Mapping[str, Any]) -> CompareSession:
        settings, side = certificate["settings"], certificate["side_information"]
        unknown = sorted(set(side) - set(ARRAYS))
        if unknown:
            raise InvalidInput("side information", "one of " + ", ".join(ARRAYS), unknown[0])
        arrays: dict[str, Any] = {
            name: unpacked(name, side[name], kind, settings["n_items"], dimensions)
            for name, (kind, dimensions) in ARRAYS.items()
            if name in side
        }
        about = settings["about"]
        return CompareSession(
            settings["n_items"],
            goal=self.goal(settings["goal"]),
            models=(str(about.get("first")), str(about.get("second"))),
            **arrays,
            **{name: settings[name] for name in ("confidence", "budget", "seed")},
        )

    def check_plan(self, certificate: Mapping[str, Any], equal: Callable[..., None]) -> None:
        plan, settings = Plan.from_dict(certificate["plan"]), certificate["settings"]
        equal("plan.n_items", plan.n_items, settings["n_items"])
        equal("plan.max_calls", plan.max_calls, settings["budget"])
        equal("plan.kind, plan.target", (plan.kind, plan.target), (self.name, "benchmark"))
        for name in ("goal", "confidence", "seed"):
            equal(f"plan.{name}", getattr(plan, name), settings[name])
        known = [name for name in ("groups", "history") if name in certificate["side_information"]]
        equal("plan.side_information", list(plan.side_information), known)
        equal("settings.about", settings["about"], self.about(plan))
