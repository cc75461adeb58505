"""Prove a ranking's claims a second time, slowly: one pair after the other, in plain numbers.

It shares no code with `stats.pairs`, `stats.means` and `rank.claims`: the games are played in the increments
X = S/N + (1 - t/N) D of the pair's mean difference, as `stats.increments` derives them, and with the standard library's
normal distribution. With history, the order and the bets along it are made again from the scores of the past models
(`audit.race`). A pair's evidence may be taken over all items that both models answered: the session may have
stopped looking earlier, and more of a game can only show more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, count
from math import ceil, exp, fsum, inf, isnan, log, log1p, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np

from cereval.arrays import Floats, unpacked
from cereval.certificate.audit import Audit, Equal
from cereval.forecasts.draw_weights import ALIKE, EVEN, LEVELS, NOISE, PRIOR
from cereval.forecasts.pool import Pool
from cereval.questions.goals import goal_from_spec
from cereval.questions.rank.goal import INTERVALS_SHARE, ORDER_SHARE, RankGoal, Top
from cereval.questions.rank.rounds import CHUNK
from cereval.randomness import generator
from cereval.stats.means import CAP, CELLS
from cereval.stats.pairs import HINT_PRIOR, LARGEST_GAP, PRIOR_SQUARE, PairTuning
from cereval.stats.race import CARE, SAFE
from cereval.stats.rounding import RANGE_SLACK

Scores = Sequence[tuple[float, float]]
"""Lowest and highest possible score on each item of the shared order."""

NORMAL = NormalDist()
TOLERANCE = 1e-6
CERTAIN = 1e-9
"""Means that differ by less are equal."""


class RankingProof:
    """hints: of fresh answers h, the largest h and minus the least, places x models each, as the session had them: the
    theorem holds for any that know earlier places alone."""

    def __init__(self, certificate: Mapping[str, Any], hints: Sequence[Floats] | None = None) -> None:
        settings, self.result = certificate["settings"], certificate["result"]
        self.names: list[str] = list(settings["models"])
        self.n_items: float = settings["n_items"]
        self.hints = hints if settings.get("target") == "expected" else None
        self.delta = 1 - settings["confidence"]
        self.goal: RankGoal = goal_from_spec(settings["goal"])
        self.scores: list[list[tuple[float, float]]] = [[] for _ in self.names]
        self.items: list[list[int]] = [[] for _ in self.names]
        for entry in certificate["log"]:
            score = entry["score"]
            self.scores[entry["model"]].append((0.0, 1.0) if score is None else (score, score))
            self.items[entry["model"]].append(entry["item"])
        self.race = None
        if self.hints is not None:
            longest = max(map(len, self.items))
            self.shared = _fresh_order(settings["seed"], settings["n_items"], longest)
            self.n_items = inf  # of the games: an item may come again for ever
        else:
            self.race = self._race(certificate.get("side_information", {}), settings)
            uniform = generator("ranking", settings["seed"], "").permutation(settings["n_items"])
            self.shared = uniform.tolist() if self.race is None else self.race.order
        self.whole = settings.get("method") == "all"
        self._set_levels()
        self.wins = cache(self._wins)
        self.passes = cache(self._passes)

    def _race(self, known: Mapping[str, Any], settings: Mapping[str, Any]) -> SlowRace | None:
        if "history" not in known:
            return None
        size = settings["n_items"]
        history = unpacked("history", known["history"], "<f8", size, 2)
        rng = generator("ranking", settings["seed"], Pool.build(size, history=history).history_digest())
        return SlowRace.of(history.tolist(), rng)

    def _set_levels(self) -> None:
        models = len(self.names)
        family, pairs = self.goal.family(models), len(self.goal.pairs(models)[0])
        share = 1 - INTERVALS_SHARE - (0 if self.goal.orders_all else ORDER_SHARE)
        if self.hints is not None and self.goal.orders_all:
            family = 2 * pairs
        self.alpha = share * self.delta / family
        self.order_alpha = self.alpha if self.goal.orders_all else ORDER_SHARE * self.delta / (2 * pairs)
        self.mean_alpha = INTERVALS_SHARE * self.delta / models / 2

    # -- claims ---------------------------------------------------------------------------------------------------

    def objection(self) -> str | None:
        number = {name: index for index, name in enumerate(self.names)}
        order = {(number[one], number[other]) for one, other in self.result["order"]}
        return (
            self._object_to_items()
            or self._object_to_order(order)
            or self._object_to_ties(number)
            or self._object_to_answer(number)
            or self._object_to_intervals(order)
        )

    def _object_to_items(self) -> str | None:
        for name, items in zip(self.names, self.items, strict=True):
            if items != self.shared[: len(items)]:
                return f"{name} was not asked the items of the shared order (audit)"
        return None

    def _object_to_order(self, order: set[tuple[int, int]]) -> str | None:
        below: dict[int, set[int]] = {}
        for one, other in order:
            below.setdefault(one, set()).add(other)
        for one, other in sorted(order):
            between = [middle for middle in below[one] if other in below.get(middle, ())]
            if not between and not self.wins(one, other, self.order_alpha):
                return f"{self.names[one]} above {self.names[other]} is not proven by the log (audit)"
            missing = below.get(other, set()) - below[one]
            if missing:
                return f"the order lacks {self.names[one]} above {self.names[missing.pop()]} (audit)"
        return None

    def _object_to_ties(self, number: Mapping[str, int]) -> str | None:
        if not self.result["ties_proven"]:
            return None
        for one, other in self.result["ties"]:
            i, j = number[one], number[other]
            if not (self.passes(i, j) and self.passes(j, i)):
                return f"the tie of {one} and {other} is not proven by the log (audit)"
        return None

    def _object_to_answer(self, number: Mapping[str, int]) -> str | None:
        winners = [number[name] for name in self.result["winners"]]
        losers = [number[name] for name in self.result["eliminated"]]
        if isinstance(self.goal, Top):
            return self._object_to_top(winners, losers, self.goal.k)
        baseline = getattr(self.goal, "baseline", 0)
        for one, other in [(w, baseline) for w in winners] + [(baseline, x) for x in losers]:
            if not self.wins(one, other, self.alpha):
                return f"{self.names[one]} above {self.names[other]} is not proven by the log (audit)"
        return None

    def _object_to_top(self, winners: list[int], losers: list[int], k: int) -> str | None:
        for loser in losers:
            if len(self._betters(loser, k)) < k:
                return f"that {self.names[loser]} is out is not proven by the log (audit)"
        rivals = set(range(len(self.names))) - set(winners) - set(losers)
        for winner in winners:
            for rival in sorted(rivals):
                if not self.passes(winner, rival) and winner not in self._betters(rival, len(self.names)):
                    return f"that {self.names[winner]} is near {self.names[rival]} is not proven (audit)"
        return None

    def _betters(self, model: int, enough: int) -> set[int]:
        found: set[int] = set()
        front = [model]
        while front and len(found) < enough:
            low = front.pop()
            fresh = [i for i in range(len(self.names)) if i != model and i not in found]
            for one in fresh:
                if len(found) < enough and self.wins(one, low, self.alpha):
                    found.add(one)
                    front.append(one)
        return found

    # -- evidence -------------------------------------------------------------------------------------------------

    def _wins(self, one: int, other: int, alpha: float) -> bool:
        if self.whole:
            return self._certain_lead(one, other) > CERTAIN
        proven = self._evidence(one, other, 0.0, alpha)
        return proven and (
            self.goal.margin is None or self._evidence(one, other, -self.goal.margin, self.alpha)
        )

    def _passes(self, one: int, other: int) -> bool:
        margin = self.goal.margin
        assert margin is not None
        if self.whole:
            return self._certain_lead(one, other) >= -margin - CERTAIN
        if self._evidence(one, other, -margin, self.alpha):
            return True
        lows = self._differences(one, other)
        return len(lows) == self.n_items and sum(low for low, _ in lows) / self.n_items >= -margin - TOLERANCE

    def _certain_lead(self, one: int, other: int) -> float:
        if not len(self.scores[one]) == len(self.scores[other]) == self.n_items:
            return -inf
        least = fsum(low for low, _ in self.scores[one]) - fsum(high for _, high in self.scores[other])
        return least / self.n_items

    def _differences(self, one: int, other: int) -> list[tuple[float, float]]:
        shared = zip(self.scores[one], self.scores[other], strict=False)
        return [(a - d, (a - d + b - c) / 2) for (a, b), (c, d) in shared]

    def _evidence(self, one: int, other: int, null: float, alpha: float) -> bool:
        tuning = PairTuning(cap=self.goal.cap)
        bets = null, self.alpha, self.goal.floor, tuning
        game = SlowGame(self.n_items, *bets) if self.race is None else SlowRacedGame(self.race, *bets)
        needed = log(1 / alpha) - TOLERANCE
        differences = self._differences(one, other)
        if self.hints is None:
            return any(game.play(low, middle) >= needed for low, middle in differences)
        (h, top, _), (h2, _, bottom2) = ([table[:, model] for table in self.hints] for model in (one, other))
        return any(
            game.play_hinted(low, middle, float(h[place] - h2[place]), float(top[place] + bottom2[place]))
            >= needed
            for place, (low, middle) in enumerate(differences)
        )

    # -- intervals ------------------------------------------------------------------------------------------------

    def _object_to_intervals(self, order: set[tuple[int, int]]) -> str | None:
        limits = [self._limits(model, scores) for model, scores in enumerate(self.scores)]
        for index, name in enumerate(self.names):
            lower = max([limits[index][0], *(limits[j][0] for i, j in order if i == index)])
            upper = min([limits[index][1], *(limits[i][1] for i, j in order if j == index)])
            stated = self.result["intervals"][name]
            if abs(stated["lower"] - lower) > TOLERANCE or abs(stated["upper"] - upper) > TOLERANCE:
                return f"the interval of {name} is [{lower:.6g}, {upper:.6g}] by the audit"
        return None

    def _limits(self, model: int, scores: Scores) -> tuple[float, float]:
        if self.whole and len(scores) == self.n_items:
            return fsum(low for low, _ in scores) / self.n_items, fsum(
                high for _, high in scores
            ) / self.n_items
        if self.hints is None:
            return mean_limits(scores, self.n_items, self.mean_alpha, self.race)
        rows = zip(*(table[: len(scores), model].tolist() for table in self.hints), strict=True)
        return fresh_limits(scores, list(rows), self.mean_alpha)


class Coefficient:
    """The share of a hint that is used: least squares on what came before, shrunk towards 0."""

    def __init__(self) -> None:
        self.product = self.square = 0.0

    @property
    def share(self) -> float:
        return min(max(self.product / (self.square + HINT_PRIOR), 0.0), 1.0)

    def learn(self, surprise: float, hint: float) -> None:
        self.product, self.square = self.product + surprise * hint, self.square + hint**2


class SlowGame:
    """Play one pair, one direction, one null: the accounts of `stats.pairs.PairGames`, in increments of the mean."""

    def __init__(self, n_items: float, null: float, alpha: float, floor: float, tuning: PairTuning) -> None:
        self.n_items, self.null, self.alpha, self.floor, self.tuning = n_items, null, alpha, floor, tuning
        self.gaps = [floor * 2**power for power in range(20) if power == 0 or floor * 2**power <= LARGEST_GAP]
        rest = (1 - tuning.deadline) / len(self.gaps)
        self.wealth = [log(tuning.deadline), *[log(rest)] * len(self.gaps)]
        self.time, self.total, self.squares = 0, 0.0, 0.0
        self.middles, self.coefficient = 0.0, Coefficient()

    def play_hinted(self, low: float, middle: float, hint: float, most: float) -> float:
        """Play with a fresh answer of each; most: the largest hint."""
        share, before = self.coefficient.share, self.middles / max(self.time, 1)
        self.coefficient.learn(middle - before, hint)
        self.middles += middle - share * hint
        return self.play(low - share * hint, middle - share * hint, 1 + share * most)

    def play(self, low: float, middle: float, least: float = 1.0) -> float:
        """Play one more difference, which cannot be below -least."""
        left = 1 - self.time / self.n_items
        increment = self.total / self.n_items + left * low
        reach = self.null - (self.total / self.n_items - least * left)
        for account, stake in enumerate(self._stakes(left)):
            stake = min(stake, self.tuning.cap / max(reach, left * 1e-12))
            self.wealth[account] += log1p(max(stake * (increment - self.null), -1 + 1e-12))
        return self._booked(low, middle**2)

    def _booked(self, low: float, square: float) -> float:
        self.time, self.total, self.squares = self.time + 1, self.total + low, self.squares + square
        if self.total - (self.n_items - self.time) > self.n_items * self.null + 1e-9:
            return inf
        most = max(self.wealth)
        return most + log(sum(exp(wealth - most) for wealth in self.wealth))

    def _stakes(self, left: float) -> list[float]:
        tuning, count = self.tuning, max(self.time, 1)
        square = (self.squares + PRIOR_SQUARE) / (self.time + 1)
        error = sqrt(square * left / count)
        lead = self.total / count - self.null - tuning.caution * error
        return self._aimed(lead, square, self.time / left, left**2)

    def _aimed(self, lead: float, square: float, information: float, variance: float) -> list[float]:
        tuning = self.tuning
        gap = max(lead, tuning.opening * exp(-self.time / tuning.fade), self.floor)
        needed = square * (NORMAL.inv_cdf(self.alpha) / gap) ** 2
        ahead = max(needed - information, tuning.patience * needed)
        chance = exp(min(self.wealth[0] + log(self.alpha / (1 + tuning.overshoot)), 0.0))
        chance = min(max(chance, 1e-30), 1 - 1e-6)
        slope = NORMAL.pdf(NORMAL.inv_cdf(chance)) / chance
        deadline = slope / sqrt(square * ahead) / variance
        return [deadline, *(gap / square / variance for gap in self.gaps)]


class SlowRacedGame(SlowGame):
    """Play the same along a race: the accounts of `stats.pairs.RacedPairGames`."""

    def __init__(self, race: SlowRace, null: float, alpha: float, floor: float, tuning: PairTuning) -> None:
        super().__init__(len(race.order), null, alpha, floor, tuning)
        self.race, self.weighed, self.middle = race, 0.0, 0.0

    def play(self, low: float, middle: float, least: float = 1.0) -> float:  # noqa: ARG002
        race, time = self.race, self.time
        owed = self.null - self.total / self.n_items
        most = race.largest(time, owed, self.tuning.cap)
        for account, stake in enumerate(self._stakes(0.0)):
            found = race.payoff(time, min(stake, most), owed, low)
            self.wealth[account] += log(max(found, 1e-12))
        factor, variance = race.factor(time), race.variances[time]
        self.weighed += (self.middle / self.n_items + factor * middle) / variance
        self.middle += middle
        return self._booked(low, (factor * middle) ** 2 / variance)

    def _stakes(self, left: float) -> list[float]:  # noqa: ARG002
        square = (self.squares + PRIOR_SQUARE) / (self.time + 1)
        information = self.race.information[self.time]
        error = sqrt(square / max(information, 1.0))
        lead = self.weighed / max(information, 1e-12) - self.null - self.tuning.caution * error
        return self._aimed(lead, square, information, self.race.variances[self.time])


def fresh_limits(
    scores: Scores, hints: Sequence[tuple[float, float, float]], alpha: float
) -> tuple[float, float]:
    """Return one model's interval from fresh answers: `stats.means.FreshMeanGames`, one model at a time."""
    shifted, beyond = [], []
    coefficient, total = Coefficient(), 0.0
    for time, ((low, high), (hint, top, bottom)) in enumerate(zip(scores, hints, strict=True)):
        share, before = coefficient.share, total / time if time else 0.5
        coefficient.learn((low + high) / 2 - before, hint)
        shifted.append((low - share * hint, high - share * hint))
        total += sum(shifted[-1]) / 2
        beyond.append((share * top, share * bottom))
    return mean_limits(shifted, inf, alpha, None, beyond)


def mean_limits(
    scores: Scores, n_items: float, alpha: float, race: SlowRace | None = None, beyond: Scores = ()
) -> tuple[float, float]:
    """Return one model's interval: the games of `stats.means.MeanGames`, one model at a time, in increments.

    beyond: how far below 0, and above 1, each score may lie; ()  not at all.
    """
    below, above = zip(*beyond, strict=True) if beyond else ([0.0] * len(scores), [0.0] * len(scores))
    lows, highs = [low for low, _ in scores], [1 - high for _, high in scores]
    middles = [sum(score) / 2 for score in scores]
    turned = [1 - middle for middle in middles]
    sides = [
        (_rejected(lows, middles, n_items, alpha, race, below), False),
        (_rejected(highs, turned, n_items, alpha, race, above), True),
    ]
    ends = []
    for prefix, flipped in sides:
        end = 0.0 if prefix == 0 else (prefix - 1) / CELLS
        logical = sum((1 - high) if flipped else low for low, high in scores) / n_items
        ends.append((max(end, logical), logical))
    (lower, lowest), (under, least) = ends
    crossed = lower > 1 - under
    return (lowest, 1 - least) if crossed else (lower, 1 - under)


def _rejected(
    lows: list[float],
    middles: list[float],
    n_items: float,
    alpha: float,
    race: SlowRace | None,
    below: Sequence[float],
) -> int:
    """Return how many grid values from 0 up are rejected as too low; scores turned over give the other side.

    Without a race all chances are alike, and the forecast g falls out of the increments.
    """
    grid: Floats = np.linspace(0.0, 1.0, CELLS + 1)
    wealth, best = np.zeros(CELLS + 1), np.zeros(CELLS + 1)
    total = spread = squares = 0.0
    for time, (low, middle) in enumerate(zip(lows, middles, strict=True)):
        left = 1 - time / n_items
        mean = (spread + 0.5) / (time + 1)
        variance = max((squares + 0.5) / (time + 1) - mean**2, 1e-4)
        forecast = min(max(mean, 0.0), 1.0)
        factor, reach = (left, left) if race is None else (race.factor(time), race.reach(time))
        known = total / n_items + forecast * left
        bet = sqrt(2 * log(1 / alpha) / (variance * (time + 1) * log(time + 2))) / left
        stake = np.minimum(bet, CAP / np.maximum(grid - known + forecast * reach + below[time], 1e-12 * left))
        wealth += np.log1p(np.maximum(stake * (known + factor * (low - forecast) - grid), -1 + 1e-12))
        best = np.maximum(best, wealth)
        score = forecast + (middle - forecast) * factor / left
        total, spread, squares = total + low, spread + score, squares + score**2
    refused = best >= log(1 / alpha) + 1e-9
    return int(np.argmin(refused)) if not refused.all() else CELLS + 1


class RankAudit(Audit):
    def check(self, certificate: Mapping[str, Any], session: Any, equal: Equal) -> str:
        if certificate["result"]["stopped"] == "contradiction":
            return "no order is claimed, so that none was recomputed by the audit"
        equal("the audit's objection", RankingProof(certificate, session.hints).objection(), None)
        return self.kind.audited


def _fresh_order(seed: int, size: int, places: int) -> list[int]:
    """Draw a shared order in which items come again: each place an item, all alike likely."""
    order: list[int] = []
    for number in count():
        points = generator("ranking answers", seed, number).random(max(CHUNK, len(order)))
        order += [min(int(point * size), size - 1) for point in points.tolist()]
        if len(order) >= places:
            break
    return order


@dataclass(frozen=True, slots=True)
class SlowRace:
    """Hold the order, each item's weight along it, and at each place the unseen items of every level, lowest first."""

    order: list[int]
    weights: list[float]
    unseen: list[list[tuple[float, int]]]
    sums: list[float]
    variances: list[float]
    information: list[float]

    @classmethod
    def of(cls, history: Sequence[Sequence[float]], rng: np.random.Generator) -> SlowRace | None:
        """Return the race that past scores ask for; None where they do not tell items apart."""
        squares = expected_squares(history)
        if squares is None:
            return None
        weight = levels_of(squares)
        clocks = rng.exponential(size=len(weight)).tolist()
        order = sorted(range(len(weight)), key=lambda item: clocks[item] / weight[item])
        return cls.along(order, [weight[item] for item in order], [squares[item] for item in order])

    @classmethod
    def along(cls, order: list[int], weights: list[float], squares: list[float]) -> SlowRace:
        items = len(order)
        numbers = dict.fromkeys(sorted(set(weights)), 0)
        usual = fsum(squares) / items
        unseen, sums, variances, energy = [], [], [], 0.0
        for weight, square in zip(reversed(weights), reversed(squares), strict=True):
            numbers[weight] += 1
            energy += (NOISE + (1 - NOISE) * square) / (NOISE + (1 - NOISE) * usual) / weight
            unseen.append([(level, number) for level, number in numbers.items() if number])
            sums.append(fsum(level * number for level, number in unseen[-1]))
            variances.append(sums[-1] * energy / items**2)
        for one in (unseen, sums, variances):
            one.reverse()
        return cls(order, weights, unseen, sums, variances, [0.0, *accumulate(1 / one for one in variances)])

    def factor(self, place: int) -> float:
        return self.sums[place] / (self.weights[place] * len(self.order))

    def reach(self, place: int) -> float:
        return self.sums[place] / (self.unseen[place][0][0] * len(self.order)) * (1 + RANGE_SLACK)

    def largest(self, place: int, owed: float, cap: float) -> float:
        left = 1 - place / len(self.order)
        room = owed + left + CARE * (self.reach(place) - left)
        return min(cap / max(room, 1e-12), 1 / max(owed + left / SAFE, 1e-12))

    def payoff(self, place: int, stake: float, owed: float, gain: float) -> float:
        """Return what a unit of an account becomes if the difference on the item at a place is `gain`."""
        items, race = len(self.order), self.sums[place]
        least, rest, weight = stake / (items * SAFE), 1 - stake * owed, race
        level = rest / weight
        for value, number in self.unseen[place]:
            if level * value >= least:
                break
            rest, weight = rest - least * number, weight - value * number
            level = rest / weight if weight > 1e-9 * race else 0.0
        part = max(level * self.weights[place], least)
        return (part + stake * gain / items) * race / self.weights[place]


def expected_squares(history: Sequence[Sequence[float]]) -> list[float] | None:
    """Return the mean square of two past models' difference on each item, 1 on average, shrunk to that.

    >>> expected_squares([[1.0, 0.0], [1.0, 1.0]])
    [1.4, 0.6]
    """
    told = [[score for score in row if not isnan(score)] for row in history]
    squares = [_square(row) if len(row) > 1 else None for row in told]
    known = [square for square in squares if square is not None]
    usual = fsum(known) / len(known) if known else 0.0
    if usual <= 0.0:
        return None
    found = [
        1.0 if square is None else (len(row) * square / usual + PRIOR) / (len(row) + PRIOR)
        for row, square in zip(told, squares, strict=True)
    ]
    return found if max(found) - min(found) > ALIKE else None


def _square(scores: Sequence[float]) -> float:
    mean = fsum(scores) / len(scores)
    return 2 * fsum((score - mean) ** 2 for score in scores) / (len(scores) - 1)


def levels_of(squares: Sequence[float]) -> list[float]:
    exact = [log(sqrt(square + EVEN)) for square in squares]
    step = (max(exact) - min(exact)) / (LEVELS - 1)
    # Half-way between two levels: the lower one.
    return [exp(min(exact) + step * ceil((one - min(exact)) / step - 0.5 - 1e-9)) for one in exact]
