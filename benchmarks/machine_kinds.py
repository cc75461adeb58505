"""The evaluations that `benchmarks.machines` repeats on every machine: one function for each kind, by name.

A kind makes a session from a seed, and the scores to answer it with. Nothing here depends on the machine: scores are
recorded, or drawn by Python's or numpy's generators.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.side_information import ALPACA, DATA, GSM8K
from cereval.datasets.bank import QUESTIONS, SCORES, example
from cereval.paper.experiments import Benchmark, load
from cereval.questions.compare.goal import Sign
from cereval.questions.compare.session import CompareSession
from cereval.questions.goals import Goal
from cereval.questions.growing.session import Growing
from cereval.questions.mean.goal import Estimate, Threshold
from cereval.questions.mean.session import Session
from cereval.questions.rank.goal import Order, Top
from cereval.questions.rank.session import RankSession
from cereval.questions.session import AskTell, tell
from cereval.questions.tasks.goal import AllAtLeast, Macro
from cereval.questions.tasks.session import TaskSession
from cereval.records import Certified, Draw

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one evaluation: the draws, and every number that is certified."""

    count: int
    decision: str
    numbers: tuple[tuple[float, float, float], ...]
    """The estimate, the lower and the upper end of each interval."""
    draws: tuple[tuple[int, tuple[int, ...], float], ...]
    """The item, the models asked and the probability of each draw."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """A session and the scores that answer it: items, or items x models."""

    session: AskTell
    scores: Floats
    more: tuple[int, ...] = ()
    """Items that are added when the session has ended, version after version."""
    whole: Growing | None = None
    known: Mapping[str, Any] = field(default_factory=dict)
    """What is known of the items beforehand, as it was given."""


Watch = Callable[[Draw], None]
Kind = Callable[[int], Evaluation]


def evaluate(kind: str, seed: int, watch: Watch | None = None) -> Answer:
    """Carry out one evaluation; `watch` is called at every draw."""
    evaluation = KINDS[kind](seed)
    draws: list[Draw] = []
    for session in _versions(evaluation):
        _answer_all(session, evaluation.scores, draws, watch)
    return read_answer(evaluation.session.result(), draws)


def _versions(evaluation: Evaluation) -> Iterator[AskTell]:
    yield evaluation.session
    for new in evaluation.more:
        assert evaluation.whole is not None
        evaluation.whole.extend(new)
        yield evaluation.whole.last


def _answer_all(session: AskTell, scores: Floats, draws: list[Draw], watch: Watch | None) -> None:
    table = scores[:, None] if scores.ndim == 1 else scores
    while not session.done:
        for draw in session.ask(64 if isinstance(session, RankSession) else 1):
            draws.append(draw)
            if watch is not None:
                watch(draw)
            found = table[draw.item, list(draw.models)].tolist()
            tell(session, draw, tuple(None if isnan(score) else score for score in found))


def read_answer(result: Certified, draws: Sequence[Draw]) -> Answer:
    """Read off what has to be the same everywhere."""
    every = result.as_dict()
    said = {name: every.get(name) for name in ("decision", "stopped", "order", "winners", "failing")}
    return Answer(
        count=result.n_evaluated,
        decision=json.dumps({name: value for name, value in said.items() if value}),
        numbers=tuple((part.estimate, part.lower, part.upper) for part in result.parts()),
        draws=tuple((draw.item, tuple(draw.models), draw.probability) for draw in draws),
    )


# -- data -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Bank:
    """The questions and the made-up scores that ship with the package."""

    models: tuple[str, ...]
    scores: Floats
    texts: list[str]
    categories: list[str]

    def leave_out(self, *columns: int) -> Floats:
        return np.delete(self.scores, columns, axis=1)


@cache
def bank() -> Bank:
    questions = [json.loads(line) for line in example(QUESTIONS).splitlines()]
    header, *rows = csv.reader(io.StringIO(example(SCORES)))
    scores = np.array([[float(cell) for cell in row[1:]] for row in rows])
    texts = [str(question.get("question", question.get("input"))) for question in questions]
    return Bank(tuple(header[1:]), scores, texts, [str(question["category"]) for question in questions])


@cache
def recorded(folder: str) -> Benchmark:
    return load(Path(DATA) / folder)


def simulate(seed: int, size: int, models: int, dimensions: int = 8) -> tuple[Floats, Floats]:
    """Make up the positions of items, and chances of models to answer each of them rightly."""
    rng = np.random.default_rng([seed, 20_251])
    positions = rng.standard_normal((size, dimensions))
    tastes = rng.standard_normal((dimensions, models)) / np.sqrt(dimensions)
    ease = sum(np.outer(positions[:, k], tastes[k]) for k in range(dimensions))
    hardness = rng.standard_normal((size, 1))
    return positions, np.asarray(1 / (1 + np.exp(-(1.0 + ease + hardness))))


def throw(seed: int, chances: Floats) -> Floats:
    return (np.random.default_rng([seed, 20_252]).uniform(size=chances.shape) < chances).astype(np.float64)


# -- kinds ------------------------------------------------------------------------------------------------------------


def ask_mean(scores: Floats, seed: int, goal: Goal, *, method: str = "auto", **known: Any) -> Evaluation:
    """Open a session of one mean; known: what is known of the items beforehand, and the target."""
    session = Session(len(scores), goal=goal, method=method, seed=seed, **known)
    return Evaluation(session, scores, known={name: known[name] for name in known if name != "target"})


def use_groups(seed: int) -> Evaluation:
    data, column = bank(), seed % 12
    return ask_mean(data.scores[:, column], seed, Estimate(0.05), groups=data.categories)


def use_history(seed: int) -> Evaluation:
    data, column = bank(), seed % 12
    return ask_mean(data.scores[:, column], seed, Estimate(0.04), history=data.leave_out(column))


def use_history_and_texts(seed: int) -> Evaluation:
    """The example of the issue: recorded scores with history, categories and texts."""
    data, column = bank(), seed % 12
    known: dict[str, Any] = {
        "history": data.leave_out(column),
        "groups": data.categories,
        "texts": data.texts,
    }
    return ask_mean(data.scores[:, column], seed, Estimate(0.04), **known)


def _use_recorded(folder: str, eps: float) -> Kind:
    def use(seed: int) -> Evaluation:
        data = recorded(folder)
        series = data.series(data.models[(7 * seed) % len(data.models)])
        return ask_mean(series.scores, seed, Estimate(eps), history=series.history)

    return use


def use_texts(seed: int) -> Evaluation:
    data, column = bank(), seed % 12
    return ask_mean(data.scores[:, column], seed, Estimate(0.05), texts=data.texts)


def use_embeddings(seed: int) -> Evaluation:
    positions, chances = simulate(seed, 2000, 1, 16)
    return ask_mean(throw(seed, chances)[:, 0], seed, Estimate(0.04), embeddings=positions)


def use_graded_scores(seed: int) -> Evaluation:
    _, chances = simulate(seed, 2000, 6)
    noise = np.random.default_rng([seed, 20_253]).uniform(-0.2, 0.2, size=chances.shape)
    scores = np.clip(chances + noise, 0.0, 1.0).round(3)
    return ask_mean(scores[:, 0], seed, Estimate(0.02), history=scores[:, 1:])


def use_gate(seed: int) -> Evaluation:
    data, column = bank(), seed % 12
    scores = data.scores[:, column]
    value = round(float(scores.mean()) + (0.05 if seed % 2 else -0.05), 2)
    return ask_mean(scores, seed, Threshold(value), history=data.leave_out(column))


def use_expected(seed: int) -> Evaluation:
    data, column = bank(), seed % 12
    known: dict[str, Any] = {"history": data.leave_out(column), "target": "expected"}
    return ask_mean(data.scores[:, column], seed, Estimate(0.05), **known)


def use_weights(seed: int) -> Evaluation:
    data, column = bank(), seed % 12
    weights = np.random.default_rng([seed, 20_254]).uniform(0.2, 2.0, size=len(data.texts)).round(4)
    known: dict[str, Any] = {"weights": weights, "history": data.leave_out(column), "groups": data.categories}
    return ask_mean(data.scores[:, column], seed, Estimate(0.05), **known)


def use_comparison(seed: int) -> Evaluation:
    data = bank()
    first, second = seed % 12, (seed + 1 + seed // 12) % 12
    session = CompareSession(
        len(data.texts),
        goal=Sign(),
        texts=data.texts,
        history=data.leave_out(first, second),
        seed=seed,
    )
    return Evaluation(session, data.scores[:, [first, second]])


def use_rank(seed: int) -> Evaluation:
    data = bank()
    ranked = [(seed + k) % 12 for k in range(7)]
    goal = Top(1, within=0.05) if seed % 2 else Order(tie=0.05)
    names = [data.models[column] for column in ranked]
    session = RankSession(len(data.texts), names, goal=goal, history=data.leave_out(*ranked), seed=seed)
    return Evaluation(session, data.scores[:, ranked])


def use_tasks(seed: int) -> Evaluation:
    """The worst case of the issue: 1,500 items, 12 tasks, five past models, a goal for each task."""
    _, chances = simulate(seed, 1500, 6)
    scores = throw(seed, chances)
    tasks = [f"task {item % 12:02}" for item in range(1500)]
    session = TaskSession(tasks, goal=Macro(0.04, each=0.12), history=scores[:, 1:], seed=seed)
    return Evaluation(session, scores[:, 0])


def use_tasks_of_the_bank(seed: int) -> Evaluation:
    data, column = bank(), seed % 12
    goal = AllAtLeast(0.4) if seed % 2 else Macro(0.04)
    session = TaskSession(data.categories, goal=goal, history=data.leave_out(column), seed=seed)
    return Evaluation(session, data.scores[:, column])


def _use_growing(target: str) -> Kind:
    def use(seed: int) -> Evaluation:
        _, chances = simulate(seed, 2000, 1)
        scores = throw(seed, chances)[:, 0]
        whole = Growing(1500, goal=Estimate(0.05), target=target, seed=seed)
        return Evaluation(whole.last, scores, (300, 200), whole)

    return use


def _use_method(method: str) -> Kind:
    def use(seed: int) -> Evaluation:
        positions, chances = simulate(seed, 2000, 1, 6)
        known: dict[str, Any] = {"embeddings": positions}
        if method == "oracle":
            known["groups"] = (positions[:, 0] > 0).astype(int)
        return ask_mean(throw(seed, chances)[:, 0], seed, Estimate(0.1), method=method, **known)

    return use


# -- kinds with ties: where many numbers are equal, rounding decides which of them comes first ------------------------


def use_alike_texts(seed: int) -> Evaluation:
    """Sixty topics of equal size, each with two words of its own: all axes of the texts are equally strong."""
    topics = np.arange(1800) % 60
    texts = [f"alpha{topic} beta{topic}" for topic in topics]
    chances = np.random.default_rng([seed, 20_255]).uniform(size=60)[topics]
    return ask_mean(throw(seed, chances), seed, Estimate(0.05), texts=texts)


def use_binary_embeddings(seed: int) -> Evaluation:
    """Embeddings of 0 and 1: many items are equally far from two centres."""
    bits = np.random.default_rng([seed, 20_256]).integers(0, 2, size=(1800, 10)).astype(np.float64)
    return ask_mean(throw(seed, 0.2 + 0.06 * bits.sum(axis=1)), seed, Estimate(0.05), embeddings=bits)


def use_equal_axes(seed: int) -> Evaluation:
    """One of sixty corners for every item: more equal axes than are kept."""
    corner = np.arange(1800) % 60
    chances = np.random.default_rng([seed, 20_255]).uniform(size=60)[corner]
    return ask_mean(throw(seed, chances), seed, Estimate(0.05), embeddings=np.eye(60)[corner])


def use_copies(seed: int) -> Evaluation:
    """A past of copies, of models that are always right, and of models that were never asked."""
    _, chances = simulate(seed, 1500, 2)
    scores = throw(seed, chances)
    past = [scores[:, 1]] * 3 + [1 - scores[:, 1], np.ones(1500), np.zeros(1500), np.full(1500, np.nan)]
    return ask_mean(scores[:, 0], seed, Estimate(0.05), history=np.column_stack(past))


def use_holes(seed: int) -> Evaluation:
    """A past in which every model was asked a part of the items, as in a store of earlier runs."""
    _, chances = simulate(seed, 1500, 9)
    scores = throw(seed, chances)
    asked = np.random.default_rng([seed, 20_257]).uniform(size=scores.shape) < 0.3
    return ask_mean(scores[:, 0], seed, Estimate(0.04), history=np.where(asked, scores, np.nan)[:, 1:])


def use_disjoint_past(seed: int) -> Evaluation:
    """Forty past models of equal quality, each asked its own items."""
    _, chances = simulate(seed, 1600, 1)
    scores = throw(seed, np.repeat(chances, 41, axis=1))
    asked = np.arange(1600)[:, None] % 40 == np.arange(40)
    return ask_mean(scores[:, 0], seed, Estimate(0.05), history=np.where(asked, scores[:, 1:], np.nan))


def use_all_right(seed: int) -> Evaluation:
    """A model that is nearly always right, as the past models are: forecasts near 1 and many equal ones."""
    scores = throw(seed, np.full((2000, 31), 0.97))
    return ask_mean(scores[:, 0], seed, Estimate(0.02), history=scores[:, 1:])


def use_few_items(seed: int) -> Evaluation:
    """So few items that nearly all of them are asked."""
    _, chances = simulate(seed, 60, 5)
    scores = throw(seed, chances)
    known: dict[str, Any] = {"history": scores[:, 1:], "groups": np.arange(60) % 3}
    return ask_mean(scores[:, 0], seed, Estimate(0.01), **known)


KINDS: dict[str, Kind] = {
    "groups": use_groups,
    "history": use_history,
    "history-43": _use_recorded(GSM8K, 0.03),
    "history-122": _use_recorded(ALPACA, 0.03),
    "history-texts": use_history_and_texts,
    "texts": use_texts,
    "embeddings": use_embeddings,
    "graded": use_graded_scores,
    "gate": use_gate,
    "expected": use_expected,
    "weights": use_weights,
    "compare": use_comparison,
    "rank": use_rank,
    "tasks": use_tasks,
    "tasks-bank": use_tasks_of_the_bank,
    "growing": _use_growing("benchmark"),
    "growing-population": _use_growing("population"),
    "alike-texts": use_alike_texts,
    "binary-embeddings": use_binary_embeddings,
    "equal-axes": use_equal_axes,
    "copies": use_copies,
    "holes": use_holes,
    "disjoint-past": use_disjoint_past,
    "all-right": use_all_right,
    "few-items": use_few_items,
    "partition": _use_method("partition"),
    **{name: _use_method(name) for name in ("uniform", "static", "seq", "cer-eval", "oracle", "hedged")},
}
