"""State the contract of a kind of question: what it adds to the frame that all kinds share.

A kind says which session answers a plan, what its certificates hold, what the audit recomputes, and which runs keep the
answers. Everything else (running, storing, resuming, verifying, reporting, printing) is written once, above, and knows
kinds through this class alone. A new kind is a folder with its goal, session, audit and page, and one line in
`cereval.questions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Annotated, Any, ClassVar

from msgspec import UNSET, Meta, UnsetType
from numpy.typing import NDArray

from cereval.arrays import unpacked
from cereval.forms import Count, Positive, Record, Share
from cereval.plan import KNOWN, Known, Plan, about_luck, groups_of
from cereval.questions.goals import goal_from_spec, in_words
from cereval.questions.log import Log, Teller, replayed
from cereval.questions.session import AskTell
from cereval.records import Certified, Draw, Scored

Earlier = Callable[[str], tuple[Plan, Log, tuple[Draw, ...]]]
"""Reads an earlier run: its plan, its log, and its draws as they are stored."""

ARRAYS = {"weights": ("<f8", 1), "embeddings": ("<f8", 2), "groups": ("<i8", 1), "history": ("<f8", 2)}
"""What may be known of the items beforehand: kind of number, and dimensions."""

# -- what certificates hold -------------------------------------------------------------------------------------------

Chance = Annotated[
    float, Meta(gt=0, le=1, description="The chance with which it was drawn among those not drawn before.")
]
Item = Annotated[int, Meta(ge=0, description="The item's number in the data, from 0.")]
Score = Annotated[Share | None, Meta(description="null: the call failed for good.")]
Engine = Annotated[int, Meta(ge=1, description="The number of the rules that decide draws and bets.")]


class Entry(Record):
    """One result in the log, in draw order."""

    item: Item
    probability: Chance
    score: Score


class Table(Record):
    """Little-endian 64-bit numbers (whole for groups, floats elsewhere; NaN: not known), row by row, zlib, base64."""

    shape: list[Count]
    zlib: str


class SideInformation(Record):
    """What was known of the items beforehand: categories as whole numbers, scores of earlier runs (NaN: not asked)."""

    groups: Table | UnsetType = UNSET
    history: Table | UnsetType = UNSET


class Settings(Record):
    """What decided draws and answers, beside what was known of the items."""

    n_items: Positive
    confidence: Share
    budget: Positive | None
    seed: Count
    engine: Engine


class Kind:
    """See the module's docstring; `name` is what a plan's `kind` says, `format` what its certificates say."""

    name: ClassVar[str]
    goals: ClassVar[tuple[Any, ...]] = ()
    """The classes of what may be asked."""
    opens: ClassVar[Any]
    """The class of its sessions."""
    asks: ClassVar[str] = "one"
    """How many models a run asks: `one`, `two` or `all` that there are."""
    least: ClassVar[float] = 0.0
    """The smallest value that an answer may have: -1 for a difference."""
    learns_from_own: ClassVar[bool] = True
    """Whether the candidates' own earlier runs are history too."""
    learns: ClassVar[bool] = True
    """Whether categories and earlier runs may steer the draws."""
    by_category: ClassVar[bool] = True
    """Whether sessions look at the categories of the items."""
    goal_may_change: ClassVar[bool] = False
    grows: ClassVar[bool] = False
    """Whether more data may be added later, so that nothing is guessed from the first file alone."""

    format: ClassVar[str] = ""
    result_form: ClassVar[type[Certified]]
    entry_form: ClassVar[type[Record]] = Entry
    settings_form: ClassVar[type[Record] | None] = None
    """None: certificates are of runs alone, whose plans say it all."""
    side_form: ClassVar[type[Record] | None] = SideInformation
    """None: nothing is known of the items beforehand."""
    side_may_lack: ClassVar[bool] = False
    """Whether certificates leave out side information that is empty."""
    lists_changes: ClassVar[bool] = True
    """Whether certificates of runs list the goals and budgets that were set on the way."""
    audited: ClassVar[str] = "nothing recomputed by an audit"
    """What the audit recomputes, in words."""
    audit: ClassVar[str] = ""
    """`module:Class` of the audit that recomputes the result a second time (`cereval.certificate.audit`)."""
    page: ClassVar[str] = ""
    """`module:function` that adds to the page of the frame (`cereval.report`)."""

    @property
    def is_part(self) -> bool:
        """Tell whether a run only keeps one model's answers for another run, and certifies nothing."""
        return not self.format

    def goal(self, spec: Mapping[str, Any]) -> Any:
        return goal_from_spec(spec, self.goals)

    # -- sessions ---------------------------------------------------------------------------------------------

    def session(self, plan: Plan, known: Known, earlier: Earlier | None = None) -> AskTell:  # noqa: ARG002
        session = self.open(
            n_items=plan.n_items,
            goal=self.goal(plan.goal),
            confidence=plan.confidence,
            method=plan.method,
            target=plan.target,
            weights=plan.item_weights,
            groups=known.groups,
            history=known.history,
            embeddings=known.embeddings,
            budget=plan.max_calls,
            seed=plan.seed,
            models=plan.names,
            tasks=plan.tasks,
        )
        session.scorer, session.remarks = plan.scorer_words, about_luck(plan)
        return session

    def open(self, **asked: Any) -> AskTell:
        """Open a session with those of the arguments that it takes."""
        taken = signature(self.opens).parameters
        found: AskTell = self.opens(**{name: value for name, value in asked.items() if name in taken})
        return found

    # -- runs in the store ------------------------------------------------------------------------------------

    def complete_plan(self, plan: Plan, categories: Sequence[str | None]) -> Plan:  # noqa: ARG002
        """Return a new plan with what this kind adds to it. categories: those of the items."""
        return plan

    def parts(self, plan: Plan) -> tuple[Plan, ...]:
        """Return the runs that keep the answers, one for each model; the run itself where one model is asked."""
        return (plan,)

    def before(self, plan: Mapping[str, Any]) -> str | None:  # noqa: ARG002
        """Return the run that a run goes on from, where it is one of a series."""
        return None

    def groups(self, plan: Plan, categories: tuple[str | None, ...]) -> Any:  # noqa: ARG002
        """Return what the categories of the items tell the session; None: nothing."""
        return groups_of(categories) if self.by_category else None

    def notes(self, plan: Plan) -> tuple[str, ...]:
        """Return lines for whoever watches a run begin."""
        if plan.method == "all":
            use = "the answer is exact" if plan.target == "benchmark" else "as a sample of the population"
            return (f"all {plan.n_items:,} answers are used: {use}",)
        return ("categories are used to choose questions",) if "groups" in plan.side_information else ()

    def goal_words(self, plan: Mapping[str, Any]) -> str:
        return in_words(plan["goal"])

    def refusal(self, plan: Plan) -> str | None:  # noqa: ARG002
        """Return why a run of this kind cannot be resumed by itself; None: it can."""
        return None

    def chosen_later(self, certificate: Mapping[str, Any], plan: Plan) -> tuple[str, ...]:  # noqa: ARG002
        """Name what a certificate shows of choices on the way, beside the changes that it lists."""
        return ()

    def kept(
        self,
        certificate: Mapping[str, Any],  # noqa: ARG002
        plan: Plan,
        earlier: Earlier,
    ) -> list[tuple[Draw, Scored]]:
        """Return what the store has of the results in a certificate's log, in its order, up to the first that is
        missing."""
        parts = [earlier(part.run_id) for part in self.parts(plan)]
        found: list[tuple[Draw, Scored]] = []
        for draw in parts[0][2]:
            if not all(draw.index in log.results for _, log, _ in parts):
                break
            found.append((draw, tuple(log.results[draw.index][0] for _, log, _ in parts)))
        return found

    # -- certificates -----------------------------------------------------------------------------------------

    @property
    def begins_with(self) -> str:
        """Return the field of a certificate that the hash chain of its log begins with."""
        return "settings" if self.settings_form else "plan"

    def about(self, plan: Plan) -> dict[str, Any]:
        return {"model": plan.name, "data": plan.data_name, "items": plan.data_hash}

    def settings(self, session: AskTell, about: Mapping[str, Any]) -> dict[str, Any]:
        return {**session.settings(), "about": dict(about)}

    def side_information(self, session: AskTell, known: Known) -> dict[str, Any]:  # noqa: ARG002
        return known.as_dict()

    def log(self, session: AskTell) -> list[dict[str, Any]]:
        return [self.entry(draw, scores) for draw, scores in session.log]

    def entry(self, draw: Draw, scores: Scored) -> dict[str, Any]:
        return {"item": draw.item, "probability": draw.probability, "score": scores[0]}

    def draws(self, log: Sequence[Mapping[str, Any]]) -> dict[int, Draw]:
        """Return the draws in the log of a certificate, by number, which the session is to follow."""
        return {number: Draw(number, entry["item"], entry["probability"]) for number, entry in enumerate(log)}

    def scores(self, entry: Mapping[str, Any]) -> Scored:
        return (entry["score"],)

    def known(self, certificate: Mapping[str, Any], n_items: int) -> dict[str, NDArray[Any]]:
        side = certificate.get("side_information", {})
        return {
            name: unpacked(name, table, ARRAYS[name][0], n_items, ARRAYS[name][1])
            for name, table in side.items()
        }

    def reopened(self, certificate: Mapping[str, Any]) -> AskTell:
        """Open the session that a certificate describes, before its first draw."""
        settings = certificate["settings"]
        goal, known = self.goal(settings["goal"]), self.known(certificate, settings["n_items"])
        names = [settings.get("about", {}).get(name) for name in ("model", "first", "second")]
        models = tuple(str(name) for name in names if name is not None)
        return self.open(**{"models": models, **settings, **known, "goal": goal})

    def retold(self, certificate: Mapping[str, Any], log: Log, teller: Teller) -> tuple[AskTell, list[Draw]]:
        """Tell a reopened session its log once more; return it with the draws that it decided."""
        session = self.reopened(certificate)
        return session, list(replayed(session, log, teller))

    def check_plan(self, certificate: Mapping[str, Any], equal: Callable[..., None]) -> None:
        """Hold a run's plan against its settings; `equal(name, stated, found)` objects."""
        plan = Plan.from_dict(certificate["plan"])
        known = self.known(certificate, plan.n_items)
        equal("plan.side_information", list(plan.side_information), [name for name in KNOWN if name in known])
        if self.settings_form:
            side = Known(**{name: known.get(name) for name in KNOWN})
            equal("plan.target", plan.target, certificate["settings"].get("target", "benchmark"))
            found = self.settings(self.session(plan, side), self.about(plan))
            equal("settings of the plan", certificate["settings"], found)
