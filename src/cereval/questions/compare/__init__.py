"""Compare two models on the same items: `compare`, recorded or live."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from cereval.arrays import packed
from cereval.forms import Record
from cereval.plan import CandidateSpec, Known, Plan
from cereval.questions.base import ARRAYS, Chance, Item, Kind, Score, Settings, SideInformation, Table
from cereval.questions.compare.goal import CompareGoal
from cereval.questions.compare.session import CompareSession, Comparison
from cereval.questions.session import AskTell
from cereval.records import Draw, Scored


class PairEntry(Record):
    """The results of both models on one item, in draw order."""

    item: Item
    probability: Chance
    first: Score
    second: Score


class CompareSettings(Settings):
    """What decided draws and answers; side_information: SHA-256 of what was known of the items beforehand."""

    goal: CompareGoal
    side_information: str
    about: Annotated[dict[str, Any], Meta(description="The names of the two models, and of the data.")]
    method: Literal["all"] | UnsetType = UNSET
    target: Literal["population", "expected"] | UnsetType = UNSET


class CompareSideInformation(SideInformation):
    """What was known of the items beforehand."""

    weights: Table | UnsetType = UNSET
    embeddings: Table | UnsetType = UNSET


def _baseline_note(plan: Plan, spec: CandidateSpec) -> str:
    if "not_asked" not in spec:
        return f"baseline: run {spec['run']} ({spec['name']}); questions that it did not answer are asked now"
    over = f"only the {plan.n_items:,} questions that run {spec['run']} answered are compared"
    more = "a baseline made with `cereval run --method all --fresh` has answered all"
    return f"baseline: {spec['name']} is not asked ({spec['not_asked']}): {over}; {more}"


class Compare(Kind):
    """Decide which of two models is better; every draw asks both."""

    name = "compare"
    goals, opens = CompareSession.goals, CompareSession
    asks, least = "two", -1.0
    format = "cereval-comparison/1"
    result_form, entry_form = Comparison, PairEntry
    settings_form, side_form = CompareSettings, CompareSideInformation
    audited = "interval and decision recomputed by the audit"
    audit = "cereval.questions.compare.audit:CompareAudit"
    page = "cereval.questions.compare.page:compare_page"

    def parts(self, plan: Plan) -> tuple[Plan, ...]:
        """Return a run of each model: where the two were drawn together, their answers count for each alone."""
        bare = replace(plan, kind="part", max_calls=None, side_information=(), history={}, weights={})
        goal = {"goal": "part", "of": plan.run_id, "words": "one side of a comparison"}
        return tuple(
            replace(bare, candidates=(candidate,), goal={**goal, "number": number})
            for number, candidate in enumerate(plan.candidates)
        )

    def notes(self, plan: Plan) -> tuple[str, ...]:
        """Say also where the answers of a baseline come from, and what the comparison is about then."""
        return (*super().notes(plan), *(_baseline_note(plan, one) for one in plan.candidates if "run" in one))

    def about(self, plan: Plan) -> dict[str, Any]:
        first, second = plan.names
        return {"first": first, "second": second, "data": plan.data_name, "items": plan.data_hash}

    def side_information(self, session: AskTell, known: Known) -> dict[str, Any]:  # noqa: ARG002
        assert isinstance(session, CompareSession)
        arrays = {name: getattr(session.pool, name) for name in ARRAYS} | {"weights": session.weights}
        return {name: packed(array) for name, array in arrays.items() if array is not None}

    def entry(self, draw: Draw, scores: Scored) -> dict[str, Any]:
        first, second = scores
        return {"item": draw.item, "probability": draw.probability, "first": first, "second": second}

    def scores(self, entry: Mapping[str, Any]) -> Scored:
        return entry["first"], entry["second"]
