"""Follow data that grow: `extend`, recorded or live. Each version is a run, which names the run of the version
before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from cereval.errors import InvalidInput, LogMismatch, Misuse, StoreError
from cereval.forms import Count, Positive, Record, Share
from cereval.plan import Known, Plan, about_luck
from cereval.questions.base import Earlier, Engine, Entry, Kind
from cereval.questions.growing.session import Growing, GrowingResult, VersionSession
from cereval.questions.log import Log, Teller, replayed
from cereval.questions.mean.goal import Estimate
from cereval.questions.session import AskTell
from cereval.records import Draw, Scored


class VersionEntry(Entry):
    """One result, version by version, in draw order."""

    version: Annotated[int, Meta(ge=1, description="The number of the version, from 1.")]


class GrowingSettings(Record):
    """What decided draws and answers, and the names of the model and of the data."""

    goal: Estimate
    confidence: Share
    target: Literal["benchmark", "population"]
    seed: Count
    engine: Engine
    sizes: Annotated[list[Positive], Meta(min_length=1, description="How many items each version added.")]
    about: dict[str, Any]
    budgets: list[Positive | None] | UnsetType = UNSET


class GrowingData(Kind):
    """Estimate the mean of every version of a data set, all certificates valid at once."""

    name = "growing"
    goals, opens = VersionSession.goals, VersionSession
    learns, grows = False, True
    format = "cereval-growing/1"
    result_form, entry_form, settings_form = GrowingResult, VersionEntry, GrowingSettings
    side_form, lists_changes = None, False
    audited = "the interval of every version recomputed by the audit"
    audit = "cereval.questions.growing.audit:GrowingAudit"
    page = "cereval.questions.growing.page:growing_page"

    def complete_plan(self, plan: Plan, categories: Sequence[str | None]) -> Plan:  # noqa: ARG002
        return replace(plan, method="growing", growth={"sizes": [plan.n_items], "after": None})

    def session(self, plan: Plan, known: Known, earlier: Earlier | None = None) -> VersionSession:
        """Return the version that a plan describes; those before it are told their results again."""
        *_, size = plan.growth["sizes"]
        after = plan.growth["after"]
        if after is None:
            first = Growing(
                size,
                goal=self.goal(plan.goal),
                confidence=plan.confidence,
                target=plan.target,
                seed=plan.seed,
                models=plan.names,
            )
            return _begun(first.last, plan)
        assert earlier is not None
        before, log, _ = earlier(after)
        version = self.session(before, known, earlier)
        try:
            replayed(version, log)
        except (LogMismatch, Misuse) as error:
            raise StoreError(
                f"the stored draws of run {after} do not fit its plan ({error}): the database was changed, or the run "
                "was made by another engine; start the data set anew, the answers that are there are used"
            ) from None
        version.whole.extend(size)
        return _begun(version.whole.last, plan)

    def before(self, plan: Mapping[str, Any]) -> str | None:
        after: str | None = plan.get("growth", {}).get("after")
        return after

    def notes(self, plan: Plan) -> tuple[str, ...]:
        *before, new = plan.growth["sizes"]
        return (f"version {len(before) + 1}: {new:,} new items, {sum(before):,} before",)

    def log(self, session: AskTell) -> list[dict[str, Any]]:
        assert isinstance(session, VersionSession)
        return [
            {"version": number, **self.entry(draw, scores)}
            for number, log in enumerate(session.whole.logs, start=1)
            for draw, scores in log
        ]

    def reopened(self, certificate: Mapping[str, Any]) -> VersionSession:
        settings = certificate["settings"]
        first = Growing(
            settings["sizes"][0],
            goal=self.goal(settings["goal"]),
            models=(str(settings["about"].get("model")),),
            **{name: settings[name] for name in ("confidence", "target", "seed")},
        )
        return first.last

    def retold(self, certificate: Mapping[str, Any], log: Log, teller: Teller) -> tuple[AskTell, list[Draw]]:
        versions = [entry["version"] for entry in certificate["log"]]
        if versions != sorted(versions):
            raise InvalidInput("log", "in the order of the versions", "another order")
        draws: list[Draw] = []
        session, sizes = self.reopened(certificate), certificate["settings"]["sizes"]
        budgets = certificate["settings"].get("budgets") or [None] * len(sizes)
        for number, (new, budget) in enumerate(zip(sizes, budgets, strict=True), start=1):
            if number > 1:
                session.whole.extend(new)
                session = session.whole.last
            _limit(session, budget)
            for place in (place for place, version in enumerate(versions) if version == number):
                fresh = [] if session.done else session.ask(1)
                if not fresh:
                    raise Misuse(f"version {number} would have had no further draw")
                draws += fresh
                teller(session, fresh[0], log.results[place])
        return session, draws

    def kept(self, certificate: Mapping[str, Any], plan: Plan, earlier: Earlier) -> list[tuple[Draw, Scored]]:
        after, number = plan.growth["after"], len(plan.growth["sizes"])
        before = [] if after is None else self.kept(certificate, earlier(after)[0], earlier)
        _, log, draws = earlier(plan.run_id)
        count = sum(entry["version"] == number for entry in certificate["log"])
        return [
            *before,
            *((draw, log.results[draw.index]) for draw in draws[:count] if draw.index in log.results),
        ]

    def chosen_later(self, certificate: Mapping[str, Any], plan: Plan) -> tuple[str, ...]:
        """Compare the budget of the version with the plan's: its certificate states the last one, and no changes."""
        *_, budget = certificate["settings"].get("budgets") or [None]
        if budget == plan.max_calls:
            return ()
        return (f"max_calls was changed after the start to {budget}, sealed {plan.max_calls}",)

    def check_plan(self, certificate: Mapping[str, Any], equal: Callable[..., None]) -> None:
        plan, settings = Plan.from_dict(certificate["plan"]), certificate["settings"]
        equal("plan.growth.sizes", list(plan.growth["sizes"]), settings["sizes"])
        equal("plan.n_items", plan.n_items, sum(settings["sizes"]))
        equal("plan.method, plan.weights", (plan.method, dict(plan.weights)), ("growing", {}))
        for name in ("goal", "confidence", "target", "seed"):
            equal(f"plan.{name}", getattr(plan, name), settings[name])
        equal("settings.about", settings["about"], self.about(plan))


def _begun(version: VersionSession, plan: Plan) -> VersionSession:
    version.scorer, version.remarks = plan.scorer_words, about_luck(plan)
    _limit(version, plan.max_calls)
    return version


def _limit(version: VersionSession, budget: int | None) -> None:
    """Give a version a budget of calls of its own: its bets do not look at it, so it only ends the draws."""
    if budget is not None:
        version.change(version.goal.spec(), budget)
