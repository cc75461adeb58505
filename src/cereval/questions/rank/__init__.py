"""Rank many models on shared items: `rank`, recorded or live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from cereval.forms import Record
from cereval.plan import Known, Plan
from cereval.questions.base import Earlier, Item, Kind, Score, Settings, Table
from cereval.questions.rank.goal import Beats, Order, Top
from cereval.questions.rank.session import Ranking, RankSession
from cereval.questions.session import AskTell
from cereval.records import Draw, Scored


class RankEntry(Record):
    """One result, in draw order. Items come in the shared order that the seed decides."""

    model: Annotated[int, Meta(ge=0, description="The model's number in the settings, from 0.")]
    item: Item
    score: Score


class RankSettings(Settings):
    """What decided draws and answers; data: its name. side_information: SHA-256 of it; absent: nothing was known."""

    models: Annotated[list[str], Meta(min_length=2)]
    goal: Order | Top | Beats
    data: str
    side_information: str | UnsetType = UNSET
    method: Literal["all"] | UnsetType = UNSET
    target: Literal["expected"] | UnsetType = UNSET


class RankSideInformation(Record):
    """Scores of past models on the items, by which the shared order was drawn; absent: all orders were equally
    likely."""

    history: Table


class Rank(Kind):
    """Certify the order of many models; every draw asks one of them."""

    name = "rank"
    goals, opens = RankSession.goals, RankSession
    asks, by_category = "all", False
    learns_from_own = False  # the order of the items would be another after every ranking
    format = "cereval-ranking/1"
    result_form, entry_form = Ranking, RankEntry
    settings_form, side_form, side_may_lack = RankSettings, RankSideInformation, True
    audited = "order, answer and intervals recomputed by the audit"
    audit = "cereval.questions.rank.audit:RankAudit"
    page = "cereval.questions.rank.page:rank_page"

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
        return plan if plan.method == "all" else replace(plan, method="pairs")

    def about(self, plan: Plan) -> dict[str, Any]:
        return {"data": f"{plan.data_name} {plan.data_hash}"}

    def settings(self, session: AskTell, about: Mapping[str, Any]) -> dict[str, Any]:
        return {**session.settings(), "data": about.get("data", "")}

    def side_information(self, session: AskTell, known: Known) -> dict[str, Any]:  # noqa: ARG002
        assert isinstance(session, RankSession)
        return Known(None, session.pool.history).as_dict()

    def entry(self, draw: Draw, scores: Scored) -> dict[str, Any]:
        return {"model": draw.model, "item": draw.item, "score": scores[0]}

    def draws(self, log: Sequence[Mapping[str, Any]]) -> dict[int, Draw]:  # noqa: ARG002
        """Return none: the shared order is drawn again from the seed, and each entry held against it."""
        return {}

    def kept(self, certificate: Mapping[str, Any], plan: Plan, earlier: Earlier) -> list[tuple[Draw, Scored]]:
        found: list[dict[int, tuple[Draw, Scored]]] = []
        for number, part in enumerate(self.parts(plan)):
            _, log, draws = earlier(part.run_id)
            mine = {
                draw.index: replace(draw, models=(number,)) for draw in draws if draw.index in log.results
            }
            found.append({place: (draw, log.results[place]) for place, draw in mine.items()})
        reached = [0] * len(found)
        kept = []
        for entry in certificate["log"]:
            model, place = entry["model"], reached[entry["model"]]
            reached[model] += 1
            kept += [found[model][place]] if place in found[model] else []
        return kept
