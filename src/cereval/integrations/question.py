"""Say what a host asks of a session: a wish becomes a plan, a plan a session, a session a certificate.

Inspect and lm-evaluation-harness run the model, score the answers and keep the log. They hand over which items there
are, and what is wanted; the kinds of question decide the rest, exactly as for a run in the store.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cereval.arrays import Floats
from cereval.certificate.format import issue
from cereval.certificate.seal import provenance
from cereval.errors import InvalidInput, Misuse
from cereval.integrations import HOPELESS
from cereval.plan import DRAWN, Known, Plan, candidate_spec, digest_of
from cereval.questions import kind_for, kind_of
from cereval.questions.base import Kind
from cereval.questions.goals import checked_confidence
from cereval.questions.log import Log
from cereval.questions.session import AskTell, fresh_seed, unit_score, whole
from cereval.questions.tasks.session import TasksResult, named_groups
from cereval.records import Certified, Draw
from cereval.settings import goal_of


@dataclass(frozen=True, slots=True)
class Wish:
    """Say what somebody wants to know, in the words of both hosts; checked when it is made.

    eps: the mean within this (0.02 where nothing else is asked). at_least: is the mean that high? tasks: the items are
    several tasks: their macro mean within eps, with at_least a threshold for all of them, with which_fail the names of
    those below it, with each every task within that width.

    >>> Wish(eps=0.05).goal, Wish(at_least=0.8).goal, Wish(tasks=True).goal
    (Estimate(eps=0.05), Threshold(value=0.8), Macro(eps=0.02, each=None))
    """

    eps: float | None = None
    at_least: float | None = None
    confidence: float = 0.95
    seed: int | None = None
    budget: int | None = None
    tasks: bool = False
    each: float | None = None
    which_fail: float | None = None

    def __post_init__(self) -> None:
        for name in ("eps", "at_least", "each", "which_fail", "confidence"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise InvalidInput(name, "a number in (0, 1)", value)
        checked_confidence(self.confidence)
        for name, least in (("seed", 0), ("budget", 1)):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), least)
        _ = self.goal

    @property
    def goal(self) -> Any:
        """Return the goal; wishes that exclude one another are refused."""
        names = ("at_least", "which_fail", "eps", "each")
        asked = [name for name in names if getattr(self, name) is not None]
        if len(asked) > 1 and asked != ["eps", "each"]:
            raise InvalidInput(asked[0], f"left out where {asked[1]} is given", getattr(self, asked[0]))
        for name in ("each", "which_fail"):
            if name in asked and not self.tasks:
                raise InvalidInput(name, "left out where there is one task", getattr(self, name))
        options = {
            "min": self.at_least,
            "each_eps": self.each,
            "eps": self.eps,
            "which_fail": self.which_fail,
        }
        return goal_of("tasks" if self.tasks else "estimate", options)


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """Say who is asked what: the model, the items by their contents, and what is known of them beforehand.

    contents: a digest of each item, in the order of their numbers. target: expected, where every draw is answered
    afresh. temperature: None where the host does not say that it is 0. labels: the task of each, if there are several.
    history: items x past evaluations, NaN where one was not asked; history_names: which they were.
    """

    model: str
    data: str
    contents: Sequence[str]
    scorer: Mapping[str, Any]
    target: str = "benchmark"
    temperature: float | None = 0.0
    labels: Sequence[str] | None = None
    history: Floats | None = None
    history_names: Sequence[str] = ()

    @property
    def data_hash(self) -> str:
        return f"sha256:{digest_of(list(self.contents))}"


class Hopeless(Misuse):
    """Report that nothing can be certified, because what scores the answers does not work."""


@dataclass(slots=True)
class Question:
    plan: Plan
    known: Known
    kind: Kind = field(init=False)
    session: AskTell = field(init=False)
    scored: int = field(default=0, init=False)
    """Draws that came to a score."""

    def __post_init__(self) -> None:
        self.kind = kind_of(self.plan)
        self.session = self.kind.session(self.plan, self.known, _no_earlier)

    @property
    def result(self) -> Certified:
        return self.session.result()

    def tell(self, draw: Draw, score: float | None, why: str = "") -> None:
        """Tell the session what came of a draw; give up where none of the first ones came to a score.

        why: the reason where there is no score.
        """
        tell_score(self.session, draw, score)
        self.scored += score is not None and not math.isnan(score)
        first = self.session.n_evaluated
        if not self.scored and (first >= HOPELESS or self.session.done):
            reason = f": {why}" if why else ""
            raise Hopeless(f"stopped, because none of the first {first} draws came to a score{reason}")

    def certificate(self) -> dict[str, Any]:
        return issue(
            self.kind,
            self.session,
            self.result,
            self.known,
            plan=self.plan,
            provenance=provenance(self.plan, self.known, {}),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the plan and what is known, JSON-able: `Question.from_dict` opens the session again."""
        return {"plan": self.plan.as_dict(), "side_information": self.known.as_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Question:
        plan = Plan.from_dict(values["plan"])
        return cls(plan, Known.from_dict(values["side_information"], plan.n_items))


def question(wish: Wish, subject: Subject, seed: int | None = None) -> Question:
    """Open the session that a wish asks of a subject.

    seed: one that nobody chose, where the wish has none; else it is drawn here.
    """
    names, codes = ((), None) if subject.labels is None else named_groups(list(subject.labels))
    known = Known(codes, subject.history)
    drawn = fresh_seed() if seed is None else seed
    settings = {"temperature": subject.temperature, "max_tokens": None}
    plan = Plan(
        kind=kind_for(wish.goal).name,
        goal=wish.goal.spec(),
        data_hash=subject.data_hash,
        n_items=len(subject.contents),
        candidates=(candidate_spec(subject.model, settings=settings),),
        scorer={"spec": dict(subject.scorer)},
        data_name=subject.data,
        confidence=wish.confidence,
        target=subject.target,
        seed=drawn if wish.seed is None else wish.seed,
        seed_source=DRAWN if wish.seed is None else "",
        max_calls=wish.budget,
        side_information=known.names,
        history={name: len(subject.contents) for name in sorted(subject.history_names)},
        tasks=names,
    )
    return Question(plan, known)


def tell_score(session: AskTell, draw: Draw, score: float | None) -> None:
    """Tell a session what came of a draw: a number in [0, 1]; None or NaN: it failed for good."""
    if score is None or math.isnan(score):
        session.fail(draw)
    else:
        session.tell(draw, unit_score(score, allowed="a number in [0, 1]"))


def retold(session: AskTell, told: Mapping[int, tuple[int, float | None]]) -> None:
    """Tell a fresh session results by draw number, each with the item it belongs to, as far as they are its own draws.

    A gap before the last result is a call that failed. Where other scores than at the time lead to another draw, what
    came before it stands: every interval on the way holds.
    """
    last = max(told, default=-1)
    while not session.done and session.n_drawn <= last:
        fresh = session.ask(1)
        if not fresh:
            return
        item, score = told.get(fresh[0].index, (fresh[0].item, None))
        if item != fresh[0].item:
            return
        tell_score(session, fresh[0], score)


def overall(result: Certified) -> Any:
    """Return what has the estimate and the interval of a result: itself, or the macro mean of several tasks."""
    return result.macro if isinstance(result, TasksResult) else result


def figures(result: Certified) -> dict[str, float]:
    """Return the numbers that a host's table shows: the mean or the macro mean, its interval, asked of how many."""
    mean = overall(result)
    shown = {"": mean.estimate, "_lower": mean.lower, "_upper": mean.upper}
    numbers = {f"certified{end}": value for end, value in shown.items()}
    return {**numbers, "asked": float(result.n_evaluated), "of": float(result.n_items)}


def _no_earlier(run_id: str) -> tuple[Plan, Log, tuple[Draw, ...]]:
    raise Misuse(f"run {run_id} is in no store")
