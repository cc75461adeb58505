"""What others do to find a mean score with few calls: one function each, for `benchmarks.peers`.

A rival of fixed size is told how many calls to make, and gives an interval. A rival that may stop by itself looks after
every answer, and stops where its interval is narrow enough. Packages are called as they are installed; what is
labelled `ours` we wrote from a paper, where no package does it or none could be built here.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session
from cereval.questions.replay import drive

Floats = NDArray[np.float64]
DELTA, QUANTILE = 0.05, 1.959964
LEAST = 30
"""Answers before the first look of somebody who looks until the interval is narrow."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One model on one data set: its scores, those of past models (items x models, or None), and the goal."""

    data: str
    model: str
    scores: Floats
    history: Floats | None
    eps: float

    @property
    def size(self) -> int:
        return len(self.scores)

    @property
    def truth(self) -> float:
        return float(self.scores.mean())


class Ending(NamedTuple):
    """Where a run ended: different questions asked, and its interval."""

    calls: int
    lower: float
    upper: float


Fixed = Callable[[Case, int, int], Ending]
"""(case, number of draws, seed) -> ending"""
Anytime = Callable[[Case, int], Ending]
"""(case, seed) -> ending"""


@dataclass(frozen=True, slots=True)
class Rival:
    """A way to do it: by whom, what it promises, and one of the two functions."""

    name: str
    promise: str
    fixed: Fixed | None = None
    anytime: Anytime | None = None
    package: str | None = None
    """The module that has to be installed."""
    needs_history: bool = False
    only_binary: bool = False

    def suits(self, case: Case) -> bool:
        binary = bool(np.isin(case.scores, (0, 1)).all())
        return (case.history is not None or not self.needs_history) and (binary or not self.only_binary)

    @property
    def is_installed(self) -> bool:
        return self.package is None or importlib.util.find_spec(self.package) is not None


def order(case: Case, seed: int) -> NDArray[np.int64]:
    """Draw the order in which whoever draws uniformly asks."""
    return np.random.default_rng([seed, 7]).permutation(case.size)


def around(calls: int, mean: float, radius: float) -> Ending:
    return Ending(calls, max(0.0, mean - radius), min(1.0, mean + radius))


def stopped(case: Case, seen: Floats, lower: Floats, upper: Floats, least: int = 1) -> Ending:
    """Stop at the first interval that is narrow enough; whoever has asked everything knows the mean."""
    narrow = np.flatnonzero((upper - lower)[least - 1 :] <= 2 * case.eps)
    if not len(narrow):
        return Ending(len(seen), case.truth, case.truth)
    at = least - 1 + int(narrow[0])
    return Ending(at + 1, float(lower[at]), float(upper[at]))


# -- what people do ---------------------------------------------------------------------------------------------------


def share_left(case: Case, count: Floats) -> Floats:
    """Return what is left of the variance of a mean, of so many out of a finite number."""
    left: Floats = np.maximum(0.0, (case.size - count) / max(case.size - 1, 1))
    return left


def normal(case: Case, draws: int, seed: int) -> Ending:
    seen = case.scores[order(case, seed)[:draws]]
    left = float(share_left(case, np.array([draws]))[0])
    return around(draws, float(seen.mean()), QUANTILE * sqrt(seen.var(ddof=1) / draws * left))


def planned(case: Case, variance: float) -> int:
    """Plan for a variance: the size at which the normal interval is narrow enough."""
    endless = variance * (QUANTILE / case.eps) ** 2
    return max(2, ceil(endless / (1 + endless / case.size)))


def plan_for_the_worst(case: Case, seed: int) -> Ending:
    return normal(case, planned(case, 0.25), seed)


def plan_with_the_variance(case: Case, seed: int) -> Ending:
    return normal(case, planned(case, float(case.scores.var())), seed)


def look_until_narrow(case: Case, seed: int) -> Ending:
    seen = case.scores[order(case, seed)]
    count = np.arange(1, case.size + 1, dtype=float)
    mean = np.cumsum(seen) / count
    variance = np.maximum(0.0, np.cumsum(seen**2) / count - mean**2) * count / np.maximum(count - 1, 1)
    radius = QUANTILE * np.sqrt(variance / count * share_left(case, count))
    return stopped(case, seen, mean - radius, mean + radius, LEAST)


def look_at_wilson(case: Case, seed: int) -> Ending:
    """Stop where the Wilson interval is narrow: at every look as if it were the only one."""
    from evalci._intervals import wilson_interval

    right = np.cumsum(case.scores[order(case, seed)])
    for count in range(LEAST, case.size + 1):
        lower, upper = wilson_interval(int(right[count - 1]), count)
        if upper - lower <= 2 * case.eps:
            return Ending(count, float(lower), float(upper))
    return Ending(case.size, case.truth, case.truth)


# -- intervals that hold at every look --------------------------------------------------------------------------------


def truescore_sequence(case: Case, seed: int) -> Ending:
    from truescore.sequential import confidence_sequence

    seen = case.scores[order(case, seed)]
    found = confidence_sequence(seen, alpha=DELTA)
    return stopped(case, seen, found.lower_bounds, found.upper_bounds)


def evalsig_sequence(case: Case, seed: int) -> Ending:
    """As it is shipped: it takes the standard deviation from the data. Looked at after every tenth answer."""
    from evalsig.inference.sequential import confidence_sequence

    seen = case.scores[order(case, seed)]
    for count in range(10, case.size + 1, 10):
        found = confidence_sequence(seen[:count], alpha=DELTA)
        if found.half_width <= case.eps:
            return around(count, found.delta, found.half_width)
    return Ending(case.size, case.truth, case.truth)


def session(case: Case, seed: int, method: str, history: Floats | None = None) -> Ending:
    found = drive(
        Session(case.size, goal=Estimate(case.eps), method=method, history=history, seed=seed), case.scores
    )
    return Ending(found.n_evaluated, found.lower, found.upper)


def hedged_betting(case: Case, seed: int) -> Ending:
    return session(case, seed, "hedged")


def cereval_uniform(case: Case, seed: int) -> Ending:
    return session(case, seed, "uniform")


def cereval_active(case: Case, seed: int) -> Ending:
    return session(case, seed, "active", case.history)


# -- forecasts from past models, at a fixed size ----------------------------------------------------------------------


def past_means(history: Floats) -> Floats:
    """Forecast every item by the mean of the past models that have it, and by the mean of all where none has."""
    known = ~np.isnan(history)
    count = known.sum(axis=1)
    total = np.where(known, history, 0.0).sum(axis=1)
    forecast: Floats = np.where(count > 0, total / np.maximum(count, 1), total.sum() / count.sum())
    return forecast


def past_of(case: Case) -> Floats:
    assert case.history is not None
    return case.history


def prediction_powered(case: Case, draws: int, seed: int) -> Ending:
    from ppi_py import ppi_mean_ci

    chosen, rest = np.split(order(case, seed), [draws])
    forecast = past_means(past_of(case))
    lower, upper = ppi_mean_ci(case.scores[chosen], forecast[chosen], forecast[rest], alpha=DELTA)
    return Ending(draws, max(0.0, float(np.ravel(lower)[0])), min(1.0, float(np.ravel(upper)[0])))


SHARES = (0.05, 0.25, 0.5, 0.75)
"""Of uniform draws in active inference: those that Wu, Nair and Candès try."""


def inclusion(forecast: Floats, draws: int, share: float) -> Floats:
    """Return the chance of every item to be asked: by how unsure its forecast is, and a share of uniform."""
    unsure = np.sqrt(forecast * (1 - forecast))
    spread = np.minimum(1.0, draws * unsure / max(unsure.sum(), 1e-12))
    chance: Floats = (1 - share) * spread + share * draws / len(forecast)
    return chance


def active_variance(scores: Floats, forecast: Floats, draws: int, share: float) -> float:
    chance = inclusion(forecast, draws, share)
    return float(np.nansum((scores - forecast) ** 2 * (1 - chance) / chance))


@lru_cache(maxsize=64)
def best_share(case: Case, draws: int) -> float:
    """Choose the share of uniform draws with which past models would have had the narrowest interval."""
    history = past_of(case)
    losses = np.zeros(len(SHARES))
    for column in range(history.shape[1]):
        forecast = past_means(np.delete(history, column, axis=1))
        losses += [active_variance(history[:, column], forecast, draws, share) for share in SHARES]
    return SHARES[int(np.argmin(losses))]


def active_inference(case: Case, draws: int, seed: int) -> Ending:
    """Ask every item by a coin of its own (Zrnic and Candès, 2024), forecasts and shares from past models."""
    forecast = past_means(past_of(case))
    chance = inclusion(forecast, draws, best_share(case, draws))
    asked = np.random.default_rng([seed, 11]).uniform(size=case.size) < chance
    gap = np.where(asked, (case.scores - forecast) / chance, 0.0)
    variance = float(((1 - chance) * gap**2).sum()) / case.size**2
    return around(int(asked.sum()), float((forecast + gap).mean()), QUANTILE * sqrt(variance))


# -- Factorized Active Querying (Wu, Nair and Candès, 2026), ours from the paper --------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """A logistic factor model of past models: the items' factors, and the mean and spread of the models'."""

    items: Floats
    mean: Floats
    spread: Floats


class Tuning(NamedTuple):
    """What the paper tunes on past models: how sharp draws are, and how much of them is uniform."""

    sharpness: float
    uniform: float


TUNINGS = tuple(Tuning(sharpness, uniform) for sharpness in (0.5, 1.0) for uniform in (0.05, 0.25, 0.5))
RANKS = (2, 4)
EXPLORING = 0.1
"""The first tenth of the draws moves from learning the model's factors to measuring its mean."""


def sigmoid(values: Floats) -> Floats:
    found: Floats = 1 / (1 + np.exp(-np.clip(values, -30, 30)))
    return found


def fit_factors(history: Floats, rank: int, known: NDArray[np.bool_], steps: int = 200) -> Factors:
    """Fit scores = sigmoid(items' factors . models' factors) by Adam, with some shrinkage."""
    rng = np.random.default_rng(858)
    items, models = rng.normal(size=(history.shape[0], rank)), rng.normal(size=(history.shape[1], rank))
    target = np.where(known, history, 0.0)
    moments = [(np.zeros_like(items), np.zeros_like(items)), (np.zeros_like(models), np.zeros_like(models))]
    for step in range(1, steps + 1):
        gap = np.where(known, sigmoid(items @ models.T) - target, 0.0)
        slopes = (gap @ models + 0.3 * items, gap.T @ items + 0.3 * models)
        for place, slope in enumerate(slopes):
            first, second = moments[place]
            first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
            moments[place] = first, second
            move = 0.05 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
            if place:
                models = models - move
            else:
                items = items - move
    spread = np.atleast_2d(np.cov(models.T)) + 1e-3 * np.eye(rank)
    return Factors(items, models.mean(axis=0), spread)


def choose_factors(history: Floats) -> Factors:
    """Choose the rank by how well a tenth of the entries, left out, is forecast; fit it on all."""
    known = ~np.isnan(history)
    left_out = known & (np.random.default_rng(859).uniform(size=history.shape) < 0.1)
    losses = []
    for rank in RANKS:
        losses.append(_held_out_loss(history, rank, known & ~left_out, left_out))
    return fit_factors(history, RANKS[int(np.argmin(losses))], known)


def _held_out_loss(
    history: Floats, rank: int, known: NDArray[np.bool_], left_out: NDArray[np.bool_]
) -> float:
    """Return the mean squared error of the entries left out, each model's factors updated on those known."""
    factors = fit_factors(history, rank, known)
    errors = []
    for column in range(history.shape[1]):
        mean, spread = factors.mean, factors.spread
        for _ in range(10):  # Newton steps to the model's factors under their prior
            chance = sigmoid(factors.items @ mean)
            seen = known[:, column]
            weighted = factors.items[seen] * (chance * (1 - chance))[seen, None]
            precision = weighted.T @ factors.items[seen] + np.linalg.inv(spread)
            slope = factors.items[seen].T @ (history[seen, column] - chance[seen])
            mean = mean + np.linalg.solve(precision, slope - np.linalg.solve(spread, mean - factors.mean))
        gap = history[:, column] - sigmoid(factors.items @ mean)
        errors.append(gap[left_out[:, column]] ** 2)
    return float(np.mean(np.concatenate(errors)))


def query(scores: Floats, factors: Factors, draws: int, tuning: Tuning, seed: int) -> Ending:
    """Draw with replacement by the factor model, and give its normal interval."""
    rng, size = np.random.default_rng([seed, 13]), len(scores)
    mean, spread, items = factors.mean.copy(), factors.spread.copy(), factors.items
    sums, gaps, raw = np.zeros(draws), np.zeros(draws), np.zeros(draws)
    asked = set()
    for step in range(draws):
        chance = np.clip(sigmoid(items @ mean), 1e-12, 1 - 1e-12)
        noise = chance * (1 - chance)
        measuring = np.sqrt(noise)
        measuring /= measuring.sum()
        exploring = max(0.0, 1 - (step + 1) / (EXPLORING * draws))
        if exploring:
            pull = (items @ (spread @ (noise @ items / size))) ** 2
            learning = noise * pull / (1 + noise * np.einsum("ni,ij,nj->n", items, spread, items))
            measuring = (1 - exploring) * measuring + exploring * learning / max(learning.sum(), 1e-300)
        sharp = measuring**tuning.sharpness
        probability = (1 - tuning.uniform) * sharp / sharp.sum() + tuning.uniform / size
        item = int(rng.choice(size, p=probability / probability.sum()))
        asked.add(item)
        sums[step] = chance.sum()
        gaps[step] = (scores[item] - chance[item]) / probability[item]
        raw[step] = scores[item] / probability[item]
        factor = spread @ items[item]
        spread = spread - noise[item] * np.outer(factor, factor) / (
            1 + noise[item] * float(items[item] @ factor)
        )
        mean = mean + spread @ items[item] * (scores[item] - chance[item])
    variance = (gaps**2).mean() - ((raw.mean() - sums) ** 2).mean()
    radius = QUANTILE * sqrt(max(float(variance), 0.0) / draws) / size
    return around(len(asked), float((sums + gaps).mean()) / size, radius)


def factorized_querying(case: Case, draws: int, seed: int) -> Ending:
    """Ask by a Bayesian factor model of past models (arXiv 2601.20251)."""
    return query(case.scores, factors_of(case), draws, tuning_of(case), seed)


@lru_cache(maxsize=2)
def factors_of(case: Case) -> Factors:
    return choose_factors(past_of(case))


@lru_cache(maxsize=2)
def tuning_of(case: Case) -> Tuning:
    """Choose the tuning with the narrowest intervals for three past models, each left out in turn."""
    history = past_of(case)
    complete = np.flatnonzero(~np.isnan(history).any(axis=0))
    draws, widths = planned(case, 0.25) // 2, np.zeros(len(TUNINGS))
    for column in complete[:: max(1, len(complete) // 3)][:3]:
        others = np.delete(history, column, axis=1)
        factors = fit_factors(others, factors_of(case).items.shape[1], ~np.isnan(others))
        ends = [query(history[:, column], factors, draws, tuning, 0) for tuning in TUNINGS]
        widths += [end.upper - end.lower for end in ends]
    return TUNINGS[int(np.argmin(widths))]


ASYMPTOTIC = "at one size, fixed beforehand; asymptotic"
LOOKED_AT = "none: it holds for one look only"
ALWAYS = "at every look, for any number of answers"

RIVALS = (
    Rival("plan for the worst variance, normal interval", ASYMPTOTIC, anytime=plan_for_the_worst),
    Rival("plan with the variance told, normal interval", ASYMPTOTIC, anytime=plan_with_the_variance),
    Rival("look until narrow, normal interval", LOOKED_AT, anytime=look_until_narrow),
    Rival(
        "look until narrow, Wilson (evalci)",
        LOOKED_AT,
        anytime=look_at_wilson,
        package="evalci",
        only_binary=True,
    ),
    Rival(
        "evalsig, confidence sequence",
        "at every look; asymptotic",
        anytime=evalsig_sequence,
        package="evalsig",
    ),
    Rival("truescore, confidence sequence", ALWAYS, anytime=truescore_sequence, package="truescore"),
    Rival("hedged betting, ours after Waudby-Smith and Ramdas", ALWAYS, anytime=hedged_betting),
    Rival("ppi_py, size told", ASYMPTOTIC, fixed=prediction_powered, package="ppi_py", needs_history=True),
    Rival("active inference, ours, size told", ASYMPTOTIC, fixed=active_inference, needs_history=True),
    Rival("FAQ, ours, size told", ASYMPTOTIC, fixed=factorized_querying, needs_history=True),
    Rival("cereval uniform", ALWAYS, anytime=cereval_uniform),
    Rival("cereval active", ALWAYS, anytime=cereval_active),
)
