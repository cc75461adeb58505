"""Put a judge on trial: how far its verdicts agree with the labels of people, and what it leans towards.

The labels of a run are those of a random draw of answers, made where they tell most of the mean. The same draws, told
again, certify the share of right answers among those that the judge called right and among those it called wrong
(`methods.tasks.Follower`), of which every measure is a function (`stats.verdicts`). Everything holds at once, with the
run's confidence, at every moment, for a pass mark that was chosen without looking at the labels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from markupsafe import Markup

from cereval.arrays import Bools, Floats, Ints
from cereval.errors import InvalidInput, Misuse
from cereval.methods.certified import CertifiedMethod
from cereval.methods.tasks import Follower
from cereval.plan import Plan
from cereval.questions.session import AskTell, tell
from cereval.records import Draw, Interval, Part, Scored, Table
from cereval.report import Section, said
from cereval.report.story import Story
from cereval.runner.finding import stored_items
from cereval.runner.people import judge_plan
from cereval.runner.resume import whole_plan
from cereval.runner.start import Start, start
from cereval.scorers import named
from cereval.scorers.judge import BOTH, Prefer
from cereval.stats.verdicts import Share, measures
from cereval.store.base import Store
from cereval.text import estimate_in_interval, interval, percent, signed_interval

PASS_MARK = 0.5
FOR_VERDICTS = 0.8
"""Share of the error for the measures of agreement; the rest is for the length."""
ABOUT: Mapping[str, str] = {
    "agreement": "judge and people give the same verdict",
    "kappa": "agreement beyond chance: 0 is chance, 1 is perfect",
    "sensitivity": "of the answers people call right, the judge calls right",
    "specificity": "of the answers people call wrong, the judge calls wrong",
    "leniency": "what the judge calls right, minus what people call right",
    "length": "leniency for the longer half of the answers, minus leniency for the shorter half",
    "order": "preference for an answer shown first, minus that for the same answer shown second",
    "flips": "questions on which the other order changes the verdict",
}
SIGNED = ("kappa", "leniency", "length", "order")


@dataclass(frozen=True, slots=True)
class Trial:
    """Hold what is certified of a judge; asked: how many of the items the parts rest on."""

    run_id: str
    judge: str
    confidence: float
    asked: int
    items: int
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()

    def headline(self) -> str:
        first = self.parts[0]
        verb = (
            "agrees with people on" if first.name == "agreement" else "changes its verdict with the order on"
        )
        what = "answers labelled" if first.name == "agreement" else "questions asked in both orders"
        return (
            f"{self.judge} {verb} {estimate_in_interval(first)}, {percent(self.confidence)} confidence, "
            f"{self.asked:,} of {self.items:,} {what}"
        )

    def table(self) -> Table:
        rows = [(one.name, *_numbers(one), ABOUT[one.name]) for one in self.parts]
        return Table(("measure", "estimate", "interval", "what it is"), rows, numbers=(1, 2))

    def as_dict(self) -> dict[str, Any]:
        parts = {
            one.name: {key: value for key, value in one._asdict().items() if key != "name"}
            for one in self.parts
        }
        return {**asdict(self), "parts": parts, "guarantee": "anytime"}


def _numbers(one: Part) -> tuple[str, str]:
    if one.name == "kappa":
        return (
            f"{one.estimate:.2f}",
            f"[{np.floor(one.lower * 100) / 100:.2f}, {np.ceil(one.upper * 100) / 100:.2f}]",
        )
    if one.name in SIGNED:
        return f"{one.estimate:+.1%}", signed_interval(one.lower, one.upper)
    return f"{one.estimate:.1%}", interval(one.lower, one.upper)


def try_judge(store: Store, run: str, mark: float = PASS_MARK) -> Trial:
    """Return how far the judge of a run can be trusted: against the labels of people (`--scorer people --judge`), or,
    of a run with the scorer `prefer:both_orders`, whether it looks at the order.

    mark: from which score on the judge calls an answer right; people do from 1/2 on.
    """
    plan = whole_plan(store.run(run))
    if not 0 < mark <= 1:
        raise InvalidInput("--mark", "a number in (0, 1]", mark)
    if plan.kind != "estimate" or plan.target != "benchmark":
        raise InvalidInput(
            "RUN", "a run of one model on these questions (--target benchmark)", f"{plan.kind}, {plan.target}"
        )
    graded = judge_plan(plan)
    return _order(store, plan) if graded is None else _verdicts(store, plan, graded, mark)


def judge_sections(store: Store, story: Story) -> list[Section]:
    plan, result = story.plan, story.result
    if plan is None or plan.kind != "estimate" or plan.target != "benchmark" or not result.n_evaluated:
        return []
    graded = judge_plan(plan)
    if graded is None or graded.run_id not in plan.history:
        return []
    trial = _verdicts(store, plan, graded, PASS_MARK)
    says = said("<b>{}</b>. All intervals hold at once.", trial.headline(), limit=300)
    return [
        Section("The judge, against people", [says, *map(Markup.escape, trial.notes)], table=trial.table())
    ]


def _verdicts(store: Store, plan: Plan, graded: Plan, mark: float) -> Trial:
    if graded.run_id not in plan.history:
        raise Misuse(f"the judge of run {plan.run_id} has graded nothing yet")
    grades, lengths = np.full(plan.n_items, np.nan), np.zeros(plan.n_items)
    for draw, answer, _ in store.rows(graded.run_id):
        if answer.failure is None:
            grades[draw.item], lengths[draw.item] = answer.score, len(answer.text)
    known = np.flatnonzero(~np.isnan(grades))
    if not len(known):
        raise Misuse(f"the judge of run {plan.run_id} has graded nothing yet")
    is_right = grades >= mark
    games = verdict_games(is_right, lengths, known, 1 - plan.confidence)
    told_again(store, plan, games)
    left_out = plan.n_items - len(known)
    notes = (f"{left_out:,} answers without a grade are left out",) if left_out else ()
    asked, parts = games[0].asked + games[1].asked, verdict_parts(games, is_right)
    return Trial(plan.run_id, ", ".join(plan.judges), plan.confidence, asked, len(known), parts, notes)


def verdict_games(is_right: Bools, lengths: Floats, known: Ints, delta: float) -> list[Game]:
    """Open the games behind the measures. is_right, lengths: the judge's verdict on every answer, and the answer's
    length; known: which answers it has graded."""
    is_long = lengths > median(lengths[known].tolist())
    groups = [known[is_right[known]], known[~is_right[known]], known[is_long[known]], known[~is_long[known]]]
    shares = (FOR_VERDICTS / 2,) * 2 + ((1 - FOR_VERDICTS) / 2,) * 2
    return [Game(group, share * delta, _label) for group, share in zip(groups, shares, strict=True)]


def verdict_parts(games: Sequence[Game], is_right: Bools) -> tuple[Part, ...]:
    right, wrong, long, short = (game.share() for game in games)
    parts = measures(right, wrong)
    if not (long.size and short.size):
        return parts
    ours, theirs = (float(is_right[game.items].mean()) for game in games[2:])
    return (*parts, _difference("length", ours - theirs, long, short))


def _difference(name: str, judge: float, first: Share, second: Share) -> Part:
    """Return the judge's difference of two shares of right answers, less that of people."""
    lower = judge - first.limits.upper + second.limits.lower
    return Part(
        name,
        judge - first.estimate + second.estimate,
        lower,
        judge - first.limits.lower + second.limits.upper,
    )


def _order(store: Store, plan: Plan) -> Trial:
    name, settings = named(plan.scorer["spec"])
    if name != Prefer.name or not settings.get("both_orders"):
        wanted = "a run with --scorer people and --judge, or --scorer prefer:both_orders"
        raise InvalidInput("RUN", wanted, f"{plan.run_id} (scorer {name})")
    found = {
        draw.item: tuple(map(float, both.groups()))
        for draw, answer, _ in store.rows(plan.run_id)
        if answer.failure is None and (both := re.search(BOTH, answer.detail or ""))
    }
    games = order_games(found, plan.n_items, 1 - plan.confidence)
    told_again(store, plan, games)
    judge, asked = ", ".join(plan.judges), games[0].asked
    return Trial(plan.run_id, judge, plan.confidence, asked, plan.n_items, order_parts(games))


def order_games(found: Mapping[int, Sequence[float]], n_items: int, delta: float) -> list[Game]:
    """Open the games on the order. found: the preferences for an item's answer where it is shown first, and second."""

    def flips(item: int, _: float) -> float:
        first, second = found[item]
        return float((first > 0.5) != (second > 0.5))

    def leans(item: int, _: float) -> float:
        first, second = found[item]
        return (1 + first - second) / 2

    return [Game(np.arange(n_items), delta / 2, value) for value in (flips, leans)]


def order_parts(games: Sequence[Game]) -> tuple[Part, ...]:
    changed, order = (game.share() for game in games)
    return (
        Part("flips", changed.estimate, changed.limits.lower, changed.limits.upper),
        Part("order", *(2 * one - 1 for one in (order.estimate, order.limits.lower, order.limits.upper))),
    )


def _label(item: int, score: float) -> float:  # noqa: ARG001
    return float(score >= PASS_MARK)


# -- the draws of a run, told again -----------------------------------------------------------------------------------


class Game:
    """Certify the mean of a value of their own over some of the items, from the draws of a run.

    value: gives it for an item and the score that the run took for it.
    """

    def __init__(self, items: Ints, delta: float, value: Callable[[int, float], float]) -> None:
        self.items, self.size, self.value = items, len(items), value
        self.members = frozenset(items.tolist())
        self.follower = Follower(items, delta) if len(items) else None
        self.outlook: object = None

    def take(self, session: AskTell, draw: Draw, score: float | None) -> None:
        if self.follower is None or draw.item not in self.members:
            return
        method = getattr(session, "method", None)
        if not isinstance(method, CertifiedMethod):
            raise Misuse("the questions of this run were not drawn at random with known chances")
        # What `all` asks is in no random order: only the scores themselves prove something.
        self.follower.bets = not method.asks_all
        if method.tally.outlook is not self.outlook:
            self.outlook = method.tally.outlook
            self.follower.turn_to(method.tally.outlook)
        low, high = (0.0, 1.0) if score is None else (self.value(draw.item, score),) * 2
        self.follower.take(draw, low, high)

    @property
    def asked(self) -> int:
        return 0 if self.follower is None else self.follower.consumed

    def share(self) -> Share:
        if self.follower is None:
            return Share(0, 0.5, Interval(0.0, 1.0))
        limits = self.follower.interval
        return Share(self.size, min(max(self.follower.estimate, limits.lower), limits.upper), limits)


def told_again(store: Store, plan: Plan, games: Sequence[Game]) -> Start:
    """Tell a run again from the store, and have games play along."""
    return start(plan, stored_items(plan, store), store, reading=True, teller=partial(tell_with, games))


def tell_with(games: Sequence[Game], session: AskTell, draw: Draw, scores: Scored) -> None:
    """Tell a session a result, and the games too, unless it came after the session's end."""
    before = session.n_evaluated
    tell(session, draw, scores)
    if session.n_evaluated > before:
        for game in games:
            game.take(session, draw, scores[0])
