"""State the contract of a kind of question: what it adds to the frame that all kinds share.

A kind says which session answers a plan, how a result is written into the log of a certificate, what the audit
recomputes, and which runs keep the answers. Everything else (running, storing, resuming, verifying, reporting,
printing) is written once, above, and knows kinds through this class alone. A new kind is one file and one line in
`cereval.questions`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cereval.plan import Known, Plan, groups_of, tell_apart
from cereval.questions.goals import goal_from_spec, in_words
from cereval.questions.log import Log, Teller, replayed
from cereval.questions.session import AskTell
from cereval.records import Draw, Scored

Earlier = Callable[[str], tuple[Plan, Log, tuple[Draw, ...]]]
"""Reads an earlier run: its plan, its log, and its draws as they are stored."""

STORED_FIELDS = frozenset({"run_id", "plan", "changes"})
ALWAYS = frozenset({"format", "engine", "result", "versions", "log", "chain", "digest"})
"""Fields of every certificate."""


class Kind(ABC):
    """See the module's docstring; `name` is what a plan's `kind` says, `format` what its certificates say."""

    name: ClassVar[str]
    format: ClassVar[str]
    begins_with: ClassVar[str] = "settings"
    """The field of a certificate that the hash chain of its log begins with."""
    without_history: ClassVar[str] = "--no-history"
    """What is typed for a run that knows nothing of earlier ones."""
    fields: ClassVar[frozenset[str]] = frozenset({"settings", "side_information"})
    """What a certificate of this kind has beside the fields of all."""
    optional: ClassVar[frozenset[str]] = frozenset()
    """What only some certificates of this kind have: left out where empty."""
    run_fields: ClassVar[frozenset[str]] = STORED_FIELDS
    """What the certificate of a run in the store has beside."""
    audited: ClassVar[str] = "nothing recomputed by an audit"
    """What the audit recomputes, in words."""
    audit: ClassVar[str] = ""
    """`module:Class` of the audit that recomputes the result a second time (`cereval.certificate.audit`)."""
    page: ClassVar[str] = ""
    """`module:function` that adds to the page of the frame (`cereval.report`)."""
    grows: ClassVar[bool] = False
    """Whether more data may be added later, so that nothing is guessed from the first file alone."""
    learns: ClassVar[bool] = True
    """Whether categories and earlier runs may steer the draws."""
    goal_may_change: ClassVar[bool] = False
    goals: ClassVar[tuple[Any, ...]] = ()
    """The classes of what may be asked."""
    asks: ClassVar[str] = "one"
    """How many models a run asks: `one`, `two` or `all` that there are."""
    least: ClassVar[float] = 0.0
    """The smallest value that an answer may have: -1 for a difference."""

    @property
    def is_part(self) -> bool:
        """Tell whether a run only keeps one model's answers for another run, and certifies nothing."""
        return not self.format

    @abstractmethod
    def session(self, plan: Plan, known: Known, earlier: Earlier) -> AskTell:
        """Open the session that a plan describes, before its first draw."""

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
        return groups_of(categories)

    def coded_groups(self, plan: Plan, names: Sequence[str], codes: NDArray[np.int64]) -> Any:  # noqa: ARG002
        """Return the same for items whose categories are numbered already."""
        return codes if tell_apart(len(names), len(codes)) else None

    def notes(self, plan: Plan) -> tuple[str, ...]:
        """Return lines for whoever watches a run begin."""
        if "groups" in plan.side_information:
            return ("categories help to choose questions",)
        return ()

    def goal_words(self, plan: Mapping[str, Any]) -> str:
        """Return the question in a few words."""
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

    def about(self, plan: Plan) -> dict[str, Any]:
        """Return what a certificate's settings say of the model and the data of a run."""
        return {"model": plan.name, "data": plan.data_name, "items": plan.data_hash}

    def settings(self, session: AskTell, about: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a certificate says of its session."""
        return {**session.settings(), "about": dict(about)}

    def side_information(self, session: AskTell, known: Known) -> dict[str, Any]:  # noqa: ARG002
        """Return what was known beforehand, packed."""
        return known.as_dict()

    def log(self, session: AskTell) -> list[dict[str, Any]]:
        """Return the log of a certificate: every consumed result, in draw order."""
        return [self.entry(draw, scores) for draw, scores in session.log]

    def entry(self, draw: Draw, scores: Scored) -> dict[str, Any]:
        """Return one result in the log of a certificate."""
        return {"item": draw.item, "probability": draw.probability, "score": scores[0]}

    def draws(self, log: Sequence[Mapping[str, Any]]) -> dict[int, Draw]:
        """Return the draws in the log of a certificate, by number, which the session is to follow."""
        return {number: Draw(number, entry["item"], entry["probability"]) for number, entry in enumerate(log)}

    def scores(self, entry: Mapping[str, Any]) -> Scored:
        """Return the scores in an entry of a log."""
        return (entry["score"],)

    @abstractmethod
    def reopened(self, certificate: Mapping[str, Any]) -> AskTell:
        """Open the session that a certificate describes, before its first draw."""

    def retold(self, certificate: Mapping[str, Any], log: Log, teller: Teller) -> tuple[AskTell, list[Draw]]:
        """Tell a reopened session its log once more; return it with the draws that it decided."""
        session = self.reopened(certificate)
        return session, list(replayed(session, log, teller))

    def check_plan(self, certificate: Mapping[str, Any], equal: Callable[..., None]) -> None:  # noqa: B027
        """Hold a run's plan against its settings; `equal(name, stated, found)` objects."""

    def goal(self, spec: Mapping[str, Any]) -> Any:
        """Return the goal that a spec names, if it is one of this kind."""
        return goal_from_spec(spec, self.goals)
