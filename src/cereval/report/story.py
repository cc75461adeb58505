"""Collect everything that a page tells into a `Story`, of a run from the store alone, or of a recorded evaluation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, variance
from typing import Any, NamedTuple, get_args

import numpy as np

from cereval.arrays import Floats
from cereval.datasets.base import Item
from cereval.methods.certified import CertifiedMethod
from cereval.plan import Plan
from cereval.questions.base import Kind
from cereval.questions.session import AskTell, tell
from cereval.records import Certified, Draw, Rows, Scored, Step, Stopped
from cereval.runner.finding import stored_items
from cereval.runner.samples import Samples, unpacked
from cereval.runner.start import Start, doubts, newest_certificate, served_by, start
from cereval.store.base import Answer, Run, Store

NO_CATEGORY = "(no category)"
SAME = 1e-9


@dataclass(frozen=True, slots=True)
class Asked:
    """Record one draw, the model and the item that it put together, and what came of it; None: nothing yet."""

    model: str
    draw: Draw
    item: Item
    answer: Answer | None


@dataclass(frozen=True, slots=True, eq=False)
class Story:
    """Describe a run or a recorded evaluation as a page shows it; what a recorded one does not have is empty.

    steps: what was certified after every result. counted: the answers that the result rests on; None where nothing is
    concluded. categories: of every item. uneven: categories in which some item was likelier to be drawn than another.
    """

    kind: Kind
    result: Certified
    data: str
    settings: Rows
    steps: tuple[Step, ...] = ()
    certificate: Mapping[str, Any] | None = None
    run: Run | None = None
    plan: Plan | None = None
    asked: tuple[Asked, ...] = ()
    counted: int | None = None
    categories: tuple[str, ...] = ()
    uneven: frozenset[str] = frozenset()
    doubts: tuple[str, ...] = ()
    """Warnings of what the interval does not show."""


def read_story(store: Store, run_id: str) -> Story:
    run = store.run(run_id)
    plan = Plan.from_dict(run.plan)
    items = stored_items(plan, store)
    begun, watch = replayed_run(plan, items, store)
    story = told_story(run, begun, watch, newest_certificate(begun, store), _asked(begun, items, store))
    return replace(story, doubts=doubts(begun, store, served_by(begun, store)))


def replayed_run(plan: Plan, items: Sequence[Item], store: Store) -> tuple[Start, Watch]:
    watch = Watch(tuple(item.category or NO_CATEGORY for item in items))
    begun = start(plan, items, store, reading=True, teller=watch.tell)
    watch.begin(begun.session)
    return begun, watch


def _stopped(certificate: Mapping[str, Any]) -> Stopped:
    """Return how a certificate says that its run ended; one that was changed by hand says nothing of that."""
    result = certificate.get("result")
    said = result.get("stopped") if isinstance(result, Mapping) else None
    return next((one for one in get_args(Stopped) if one == said), "running")


def told_story(
    run: Run, begun: Start, watch: Watch, certificate: Mapping[str, Any] | None, asked: tuple[Asked, ...]
) -> Story:
    plan, result = begun.plan, begun.session.result()
    if certificate is not None and result.stopped == "running":
        # A budget of dollars or minutes is the runner's: the session knows nothing of it.
        result = replace(result, stopped=_stopped(certificate))
    return Story(
        kind=begun.kind,
        result=result,
        data=plan.data_name or "unnamed data",
        settings=_run_settings(run, begun, result),
        steps=tuple(watch.steps),
        certificate=certificate,
        run=run,
        plan=plan,
        asked=asked,
        counted=None if begun.kind.is_part else begun.session.calls,
        categories=watch.categories,
        uneven=frozenset(watch.uneven),
    )


def recorded_story(
    kind: Kind,
    result: Certified,
    certificate: Mapping[str, Any],
    steps: Sequence[Step],
    about: Mapping[str, Any],
) -> Story:
    """Tell a recorded evaluation. about: names of the models and the data, as its certificate has them."""
    data = _plain(about.get("data") or "unnamed data")
    told = {name: value for name, value in about.items() if name not in ("model", "first", "second")}
    told |= {"data": ", ".join((data, *([str(told.pop("items"))] if told.get("items") else [])))}
    rows = [(name.capitalize(), _plain(value)) for name, value in told.items()]
    goal = [("Goal", kind.goal_words({"goal": dict(result.goal)}))] if result.goal else []
    settings = [*rows, *goal, *_result_settings(result)]
    return Story(kind, result, data, settings, tuple(steps), dict(certificate) or None)


def _asked(begun: Start, items: Sequence[Item], store: Store) -> tuple[Asked, ...]:
    found = []
    for voice in begun.voices:
        answers = {answer.draw: _readable(answer, begun) for answer in store.answers(voice.run_id)}
        found += [
            Asked(voice.name, draw, items[draw.item], answers.get(draw.index))
            for draw in voice.stored.values()
        ]
    return tuple(found)


def _readable(answer: Answer, begun: Start) -> Answer:
    if Samples.of(begun.plan.scorer).count == 1:
        return answer
    texts = [f"[{one.detail or one.score}] {one.text}" for one in unpacked(answer)]
    return replace(answer, text="\n\n".join(texts))


# -- the run told again -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Watch:
    """Take a step before the first and after every result, and note which categories were drawn unevenly."""

    categories: tuple[str, ...]
    steps: list[Step] = field(default_factory=list)
    uneven: set[str] = field(default_factory=set)
    outlook: object = None
    watching: bool | None = None
    """Whether the session has steps to show; None before its first result."""

    def tell(self, session: AskTell, draw: Draw, scores: Scored) -> None:
        """Tell a session what came of a draw, as it is replayed anyway, and look at it."""
        self.begin(session)
        before = session.n_evaluated
        tell(session, draw, scores)
        if self.watching and session.n_evaluated > before:
            self.note(session)

    def begin(self, session: AskTell) -> None:
        """Look at a session that has been told nothing, once."""
        if self.watching is None:
            self.watching = session.step() is not None
            if self.watching:
                self.note(session)

    def note(self, session: AskTell) -> None:
        step = session.step()
        if step is not None:
            self.steps.append(step)
        method = getattr(session, "method", None)
        if not isinstance(method, CertifiedMethod):
            self.uneven.update(self.categories)
        elif method.tally.outlook is not self.outlook:
            self.outlook = method.tally.outlook
            self.uneven |= uneven_categories(method.tally.outlook.weights, self.categories)


def uneven_categories(weights: Floats, categories: Sequence[str]) -> set[str]:
    """Return the categories whose open items (weight > 0) do not all have the same draw weight.

    >>> sorted(uneven_categories(np.array([1.0, 2.0, 3.0, 0.0, 3.0]), list("aabbb")))
    ['a']
    """
    names, codes = np.unique(np.array(categories, dtype=np.str_), return_inverse=True)
    open_items = weights > 0
    least, most = np.full(len(names), np.inf), np.zeros(len(names))
    np.minimum.at(least, codes[open_items], weights[open_items])
    np.maximum.at(most, codes[open_items], weights[open_items])
    return {str(name) for name in names[most > least * (1 + SAME)]}


# -- how random answers are --------------------------------------------------------------------------------------------


class Randomness(NamedTuple):
    """Describe the answers to questions that were asked at least twice, without a guarantee.

    right, wrong: questions that got the same score each time, at least 1/2 or less. random: the others, by their names,
    the most random first, with their scores. within: the mean variance of the answers to one question. between: the
    variance of the questions' rates, that of their few answers taken out.
    """

    asked: int
    again: int
    right: int
    wrong: int
    random: Mapping[str, Sequence[float]]
    within: float
    between: float


def randomness(scores: Mapping[str, Sequence[float]]) -> Randomness:
    """Return how random the answers to questions are, from all scores of each.

    >>> found = randomness({"a": [1, 1, 1], "b": [0, 0], "c": [1, 0, 1, 0], "d": [1]})
    >>> found.asked, found.again, found.right, found.wrong, list(found.random), round(found.within, 2)
    (4, 3, 1, 1, ['c'], 0.11)
    """
    again = {item: tuple(own) for item, own in scores.items() if len(own) > 1}
    spread = {item: variance(own) for item, own in again.items()}
    rates = [fmean(own) for own in again.values()]
    luck = fmean(spread[item] / len(own) for item, own in again.items()) if again else 0.0
    steady = [rate for item, rate in zip(again, rates, strict=True) if not spread[item]]
    return Randomness(
        len(scores),
        len(again),
        right=sum(rate >= 0.5 for rate in steady),
        wrong=sum(rate < 0.5 for rate in steady),
        random={item: again[item] for item in sorted(spread, key=lambda one: -spread[one]) if spread[item]},
        within=fmean(spread.values()) if again else 0.0,
        between=max(variance(rates) - luck, 0.0) if len(rates) > 1 else 0.0,
    )


# -- what a result depends on -----------------------------------------------------------------------------------------


def _run_settings(run: Run, begun: Start, result: Certified) -> Rows:
    plan = begun.plan
    candidates = [{key: value for key, value in one.items() if key != "prompt"} for one in plan.candidates]
    prompts = dict.fromkeys(_flat(one["prompt"]) for one in plan.candidates)
    rows = [
        ("Run", f"{run.run_id} ({run.status}), started {run.created_at[:16].replace('T', ' ')} UTC"),
        ("Candidate" if len(candidates) == 1 else "Candidates", "; ".join(map(_flat, candidates))),
        ("Data", f"{plan.data_name or 'unnamed'}, {plan.n_items:,} items, {plan.data_hash}"),
        ("Scorer", _flat(plan.scorer)),
        ("Prompt" if len(prompts) == 1 else "Prompts", "; ".join(prompts) or "the question as it is"),
        ("Goal", begun.kind.goal_words({**plan.as_dict(), "goal": dict(result.goal)})),
        *_result_settings(result),
        ("Side information", ", ".join(plan.side_information) or "none"),
    ]
    samples = Samples.of(plan.scorer)
    priced_by = run.summary.get("priced_by")
    rows += [("Prices", str(priced_by))] if priced_by else []
    rows += [("Samples", samples.words(plan.target))] if samples.count > 1 else []
    return [*rows, ("Weights", str(plan.weights["source"]))] if plan.weights else rows


def _result_settings(result: Certified) -> Rows:
    proof = f"guarantee: {result.guarantee}, target: {result.target}"
    return [
        ("Method", f"{result.method} ({proof}), seed {result.seed}"),
        ("Failed calls", f"{result.failures:,}; each counts as unknown: 0 from below, 1 from above"),
    ]


def _flat(values: Mapping[str, Any]) -> str:
    pairs = [(key, value) for key, value in values.items() if value not in (None, "", (), [], {})]
    return ", ".join(
        _flat(value) if isinstance(value, Mapping) else f"{key}: {_plain(value)}" for key, value in pairs
    )


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
