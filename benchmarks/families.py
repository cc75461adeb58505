"""The families of evaluations in which a miss rate above delta would be a bug."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.populations import bernoulli, two_point
from benchmarks.scenes import Scene, SceneMaker
from cereval.forecasts.predictors import Forecast
from cereval.paper.experiments import Population, hubness, s1, s2, s3
from cereval.questions.goals import Goal
from cereval.questions.mean.goal import Estimate, Threshold

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SIZE = 500
EPS = 0.1
BOTH = ("uniform", "active")


@dataclass(frozen=True, slots=True)
class Family:
    """A way to make scenes, and the methods that must cover in it."""

    name: str
    make: SceneMaker
    methods: tuple[str, ...] = BOTH


class Contrary:
    """The worst forecaster: certain of the opposite, and it looks hardest where it expects nothing."""

    def __init__(self, scores: Floats) -> None:
        self._forecast = Forecast(1.0 - scores, 0.05 + 0.95 * (1.0 - scores))

    def fit(self, items: Integers, scores: Floats, probabilities: Floats) -> Forecast:  # noqa: ARG002
        return self._forecast

    def alike(self, forecast: Forecast) -> tuple[float, float]:
        """So that forecasts are used, whatever they say (`methods.memory.Remembering`)."""
        return 0.5, 4 * float(forecast.spread.max()) ** 2


def plain(population: Population, goal: Goal, **plan: Any) -> Scene:
    """The mean of one benchmark, with the population's embeddings as side information."""
    return Scene(population.scores, population.mean, goal, {"embeddings": population.embeddings, **plan})


def _bernoulli(rng: np.random.Generator, mean: float, size: int = SIZE, eps: float = EPS) -> Scene:
    return plain(bernoulli(rng, mean, size), Estimate(eps))


def _simulated(rng: np.random.Generator, make: Callable[..., Population], size: int, eps: float) -> Scene:
    return plain(make(rng, size), Estimate(eps))


def _two_point(rng: np.random.Generator) -> Scene:
    return plain(two_point(rng, 0.2, 0.9, 0.3, SIZE), Estimate(EPS))


def _constant(rng: np.random.Generator) -> Scene:
    value = float(rng.choice([0.0, 0.3, 1.0]))
    return plain(two_point(rng, value, value, size=SIZE), Estimate(EPS))


def _contrary(rng: np.random.Generator) -> Scene:
    population = bernoulli(rng, float(rng.choice([0.1, 0.5])), SIZE)
    return plain(population, Estimate(EPS), options={"predictor": Contrary(population.scores)})


def _hostile_history(rng: np.random.Generator) -> Scene:
    """Past models that are constant, guess, copy the target upside down, turn coats or copy one guesser; or all."""
    scores = bernoulli(rng, float(rng.choice([0.1, 0.5])), SIZE).scores
    half = rng.uniform(size=SIZE) < 0.5
    kinds = [
        np.full((SIZE, 3), 0.7),
        rng.integers(2, size=(SIZE, 3)).astype(float),
        np.tile(1.0 - scores[:, None], 20),
        np.where(half, scores, 1.0 - scores)[:, None],
        np.tile(rng.integers(2, size=(SIZE, 1)).astype(float), 20),
    ]
    chosen = int(rng.integers(len(kinds) + 1))
    history = np.hstack(kinds) if chosen == len(kinds) else kinds[chosen]
    return Scene(scores, float(scores.mean()), Estimate(EPS), {"history": history})


def _history(rng: np.random.Generator, mean: float, graded: bool = False) -> Scene:
    """Twelve past models that find the same items hard, some of them hardly asked; `mean`: of a typical item."""
    easiness = np.log(mean / (1.0 - mean)) + rng.normal(scale=1.5, size=(SIZE, 1))
    chances = 1.0 / (1.0 + np.exp(-(easiness + rng.normal(size=13))))
    table = (rng.uniform(size=chances.shape) < chances).astype(float)
    if graded:
        table = np.clip(table * rng.beta(4.0, 1.0, size=table.shape), 0.0, 1.0)
    history = np.where(rng.uniform(size=(SIZE, 12)) < np.linspace(0.05, 1.0, 12), table[:, 1:], np.nan)
    return Scene(table[:, 0], float(table[:, 0].mean()), Estimate(0.06), {"history": history})


def _many_past(rng: np.random.Generator, *, alike: bool) -> Scene:
    """Forty past models, of which the abler tell easy items from hard ones more sharply; the new one does so too, or
    (not `alike`) the other way round, so that all they say of it is wrong."""
    ability = rng.normal(-2.0, 1.0, size=41)
    slope = 1.0 + 0.6 * (ability + 2.0)
    slope[0] *= 1.0 if alike else -1.0
    chances = 1.0 / (1.0 + np.exp(-(ability + rng.normal(scale=1.5, size=(SIZE, 1)) * slope)))
    table = np.clip(
        (rng.uniform(size=chances.shape) < chances) * rng.beta(4.0, 1.0, size=chances.shape), 0.0, 1.0
    )
    return Scene(table[:, 0], float(table[:, 0].mean()), Estimate(0.06), {"history": table[:, 1:]})


def _weights_in_groups(rng: np.random.Generator) -> Scene:
    """Weights of all sizes inside each group, the largest on the items that the model gets right."""
    groups = rng.integers(4, size=SIZE)
    scores = (rng.uniform(size=SIZE) < 0.2 + 0.2 * groups).astype(float)
    weights = rng.pareto(1.5, SIZE) + 0.1 + 3.0 * scores
    truth = float(np.average(scores, weights=weights))
    return Scene(scores, truth, Estimate(EPS), {"groups": groups, "weights": weights})


def _heavy_weights(rng: np.random.Generator) -> Scene:
    """Heavy tailed, and the heaviest items are mostly the ones the model gets right."""
    population = bernoulli(rng, 0.3, SIZE)
    weights = (rng.pareto(1.2, SIZE) + 1e-3) * np.where(population.scores > 0.5, 5.0, 1.0)
    weights[rng.uniform(size=SIZE) < 0.1] = 0.0
    scene = plain(population, Estimate(EPS), weights=weights)
    return replace(scene, truth=float(weights @ population.scores / weights.sum()))


def _in_flight(rng: np.random.Generator, count: int) -> Scene:
    return replace(_bernoulli(rng, 0.3), in_flight=count)


def _failing(rng: np.random.Generator) -> Scene:
    """One call in ten fails, and more often where the model would have been wrong."""
    scene = _bernoulli(rng, 0.7, eps=0.15)
    return replace(scene, failing=rng.uniform(size=SIZE) < np.where(scene.scores > 0.5, 0.05, 0.2))


def _goal_moves(rng: np.random.Generator) -> Scene:
    """Loose, tight, a threshold, tight again, at moments of chance and with calls in flight."""
    at = np.sort(rng.integers(5, 90, size=3))
    goals: tuple[Goal, ...] = (Estimate(0.09), Threshold(0.45), Estimate(0.12))
    changes = tuple((int(moment), goal) for moment, goal in zip(at, goals, strict=True))
    return replace(_bernoulli(rng, 0.5, eps=0.2), changes=changes, in_flight=4)


def _threshold_given_up(rng: np.random.Generator) -> Scene:
    """Undecided after a while, so an estimate is asked for instead; the truth is just under the threshold."""
    population = bernoulli(rng, 0.5, SIZE)
    goal = Threshold(min(population.mean + 0.005, 0.99))
    return replace(plain(population, goal), changes=((int(rng.integers(20, 150)), Estimate(EPS)),))


def _closer(rng: np.random.Generator, mean: float, by: float) -> Scene:
    """Resumed with a closer goal, as soon as the first is met."""
    return replace(_bernoulli(rng, mean, eps=0.15), closer=Estimate(0.15 * by))


def _by_money(rng: np.random.Generator, mean: float) -> Scene:
    """What money and pace are expected to buy changes with the results, calls in flight included."""
    return replace(_bernoulli(rng, mean), foreseen=int(rng.integers(5, 20)), in_flight=4)


def _threshold(rng: np.random.Generator, gap: float, mean: float, size: int) -> Scene:
    population = bernoulli(rng, mean, size)
    return plain(population, Threshold(float(np.clip(population.mean + gap, 0.001, 0.999))))


def _tiny(rng: np.random.Generator, size: int) -> Scene:
    return plain(bernoulli(rng, 0.5, size), Estimate(0.05))


def _population(rng: np.random.Generator, mean: float) -> Scene:
    """A fresh data set in every run; the truth is the mean of the distribution it came from."""
    drawn = s1(rng, SIZE) if mean == 0.5 else bernoulli(rng, mean, SIZE)
    return Scene(drawn.scores, mean, Estimate(EPS), {"target": "population"})


def _expected(rng: np.random.Generator) -> Scene:
    """Item i is answered right with its own chance, anew at every call."""
    chances = rng.beta(0.4, 0.6, size=100)
    embeddings = (chances + rng.normal(scale=0.2, size=100))[:, None]
    plan = {"target": "expected", "embeddings": embeddings}
    return Scene(chances, float(chances.mean()), Estimate(EPS), plan, noisy=True)


def _rates(rng: np.random.Generator, a: float, b: float, size: int = 60, **plan: Any) -> Scene:
    """Items with rates from a Beta distribution, each answered anew at every call; a = 0: always right or wrong."""
    rates = rng.beta(a, b, size) if a else (rng.uniform(size=size) < b).astype(float)
    goal = plan.pop("goal", Estimate(EPS))
    shares = plan.get("weights", np.ones(size))
    truth = float(np.average(rates, weights=shares))
    return Scene(rates, truth, goal, {"target": "expected", **plan}, noisy=True)


def _rates_in_flight(rng: np.random.Generator) -> Scene:
    return replace(_rates(rng, 0.3, 0.3), in_flight=30)


def _rates_failing(rng: np.random.Generator) -> Scene:
    """Items that are mostly wrong fail, all of their calls."""
    scene = _rates(rng, 0.5, 0.5, goal=Estimate(0.15))
    return replace(scene, failing=rng.uniform(size=60) < 0.15 * (1 - scene.scores))


def _rates_by_money(rng: np.random.Generator) -> Scene:
    return replace(_rates(rng, 0.3, 0.3), foreseen=int(rng.integers(5, 20)), in_flight=4)


def _rates_closer(rng: np.random.Generator) -> Scene:
    return replace(_rates(rng, 0.3, 0.3, goal=Estimate(0.15)), closer=Estimate(EPS))


def _rates_with_history(rng: np.random.Generator, *, lying: bool) -> Scene:
    """Ten past models with the same rates, give or take, or with the opposite ones."""
    scene = _rates(rng, 0.4, 0.4)
    said = 1 - scene.scores if lying else scene.scores
    history = (rng.uniform(size=(60, 10)) < 0.1 + 0.8 * said[:, None]).astype(float)
    return replace(scene, plan={**scene.plan, "history": history})


def _rates_with_weights(rng: np.random.Generator) -> Scene:
    return _rates(rng, 0.4, 0.4, weights=rng.pareto(1.5, 60) + 0.05)


def _rates_budget(rng: np.random.Generator) -> Scene:
    return _rates(rng, 0.3, 0.3, goal=Estimate(0.05), budget=int(rng.integers(20, 300)))


def _rates_threshold(rng: np.random.Generator, gap: float) -> Scene:
    scene = _rates(rng, 0.3, 0.3)
    return replace(scene, goal=Threshold(float(np.clip(scene.truth + gap, 0.001, 0.999))))


def _rates_contrary(rng: np.random.Generator) -> Scene:
    scene = _rates(rng, 0.3, 0.3, budget=300)
    return replace(scene, plan={**scene.plan, "options": {"predictor": Contrary(scene.scores)}})


def _rates_goal_moves(rng: np.random.Generator) -> Scene:
    scene, at = _rates(rng, 0.3, 0.3, goal=Estimate(0.15)), np.sort(rng.integers(5, 90, size=3))
    goals: tuple[Goal, ...] = (Estimate(0.09), Threshold(0.45), Estimate(0.12))
    changes = tuple((int(moment), goal) for moment, goal in zip(at, goals, strict=True))
    return replace(scene, changes=changes, in_flight=4)


REMEMBERED = ("memory",)
SHAPES = {"facts": (0.0, 0.6), "one coin": (4e4, 6e4), "Beta(.1,.1)": (0.1, 0.1), "Beta(2,2)": (2.0, 2.0)}

FAMILIES = (
    *(Family(f"Bernoulli {mean:g}", partial(_bernoulli, mean=mean)) for mean in (0.5, 0.1)),
    Family("Bernoulli 0.02", partial(_bernoulli, mean=0.02, size=1000, eps=0.03)),
    Family("Bernoulli 0.1, N = 5000", partial(_bernoulli, mean=0.1, size=5000, eps=0.05)),
    *(
        Family(make.__name__.upper(), partial(_simulated, make=make, size=SIZE, eps=0.07))
        for make in (s1, s2, s3)
    ),
    Family("S2, by the paper's partition", partial(_simulated, make=s2, size=SIZE, eps=0.07), ("partition",)),
    Family("hubness", partial(_simulated, make=hubness, size=SIZE, eps=EPS), ("active", "partition")),
    Family("two-point", _two_point),
    Family("constant", _constant),
    Family("adversarial predictor", _contrary, ("active",)),
    Family("adversarial history", _hostile_history, ("active",)),
    *(
        Family(f"history, a typical item {mean:g}", partial(_history, mean=mean), ("active",))
        for mean in (0.03, 0.5, 0.97)
    ),
    Family("history, rare graded scores", partial(_history, mean=0.05, graded=True), ("active",)),
    Family("history, 40 past models alike", partial(_many_past, alike=True), ("active",)),
    Family("history, 40 past models unlike", partial(_many_past, alike=False), ("active",)),
    Family("weights in groups", _weights_in_groups, ("active",)),
    Family("adversarial weights", _heavy_weights),
    *(Family(f"{count} in flight, shuffled", partial(_in_flight, count=count)) for count in (1, 16, 64)),
    Family("10% failed calls", _failing),
    Family("goal changed mid-run", _goal_moves),
    Family("threshold given up", _threshold_given_up),
    *(
        Family(f"resumed with a goal {by:g} x as wide, mean {mean:g}", partial(_closer, mean=mean, by=by))
        for mean, by in ((0.5, 0.9), (0.1, 0.6))
    ),
    *(
        Family(f"stopped by money or time, mean {mean:g}", partial(_by_money, mean=mean))
        for mean in (0.5, 0.1)
    ),
    *(Family(f"N = {size}", partial(_tiny, size=size)) for size in (1, 2, 10)),
    *(
        Family(f"threshold mean {gap:+g}", partial(_threshold, gap=gap, mean=0.5, size=1000))
        for gap in (-0.05, -0.02, 0.02, 0.05)
    ),
    Family("threshold mean +0.02, rare", partial(_threshold, gap=0.02, mean=0.05, size=1000)),
    Family("hedged, Bernoulli 0.1", partial(_bernoulli, mean=0.1), ("hedged",)),
    *(
        Family(f"population, mean {mean:g}", partial(_population, mean=mean), ("uniform",))
        for mean in (0.5, 0.1)
    ),
    Family("expected, random responses", _expected, (*BOTH, "memory")),
    *(Family(f"rates: {name}", partial(_rates, a=a, b=b), REMEMBERED) for name, (a, b) in SHAPES.items()),
    Family("rates: rare", partial(_rates, a=0.05, b=1.5, goal=Estimate(0.04)), REMEMBERED),
    Family("rates: five items", partial(_rates, a=0.5, b=0.5, size=5), REMEMBERED),
    Family("rates: 30 in flight", _rates_in_flight, REMEMBERED),
    Family(
        "rates: 30 in flight, the best items first",
        lambda rng: replace(_rates_in_flight(rng), best_first=True),
        REMEMBERED,
    ),
    Family("rates: graded", lambda rng: replace(_rates(rng, 0.5, 0.5), graded=True), REMEMBERED),
    Family("rates: adversarial predictor", _rates_contrary, REMEMBERED),
    Family("rates: goal changed mid-run", _rates_goal_moves, REMEMBERED),
    Family("rates: failures", _rates_failing, REMEMBERED),
    Family("rates: money or time", _rates_by_money, REMEMBERED),
    Family("rates: closer goal", _rates_closer, REMEMBERED),
    *(
        Family(f"rates: history that {does}", partial(_rates_with_history, lying=does == "lies"), REMEMBERED)
        for does in ("helps", "lies")
    ),
    Family("rates: weights", _rates_with_weights, REMEMBERED),
    Family("rates: budget", _rates_budget, REMEMBERED),
    *(
        Family(f"rates: threshold {gap:+g}", partial(_rates_threshold, gap=gap), REMEMBERED)
        for gap in (-0.04, 0.04)
    ),
)

BY_NAME = {family.name: family for family in FAMILIES}
