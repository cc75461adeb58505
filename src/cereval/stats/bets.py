"""Bet rules: how much to stake on each candidate value, from the past only.

For each grid value m two games are played (see `interval`): against R <= m, with payoff 1 + lambda (X - m), and
against R >= m, with payoff 1 - lambda (X - m). A rule proposes lambda >= 0 for all of them at once, as an array
of shape (2, grid values); the table caps it. Any lambda that depends on the past alone keeps the games fair, so a
rule is judged by the calls it needs, never by validity.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi, sqrt
from typing import Protocol

import numpy as np
from scipy.special import ndtri

from cereval.arrays import Floats
from cereval.stats.increments import Increment, Prospect
from cereval.stats.information import LARGEST_SQUARE, Information

LOWEST_CHANCE, HIGHEST_CHANCE = 1e-30, 1 - 1e-6
"""An account that is nearly ruined, or has won, bets as at these chances to win."""
LEAST_SQUARE, MOST_SQUARE = -2 * log(HIGHEST_CHANCE), -2 * log(LOWEST_CHANCE)
SLOPE_ABOVE, SLOPE_BELOW = (2.0708, 19.168, 3.5342), (15.832, 18.654, 3.5734)
"""Coefficients of the quick slope above and below the line, fitted to a largest relative error of .0008."""


@dataclass(frozen=True, slots=True, eq=False)
class Position:
    """All that a bet may look at: the candidates, the account's log-wealth, the clock and the next range."""

    candidates: Floats
    log_wealth: Floats
    null_variance: Floats
    prospect: Prospect
    clock: Information
    information_needed: float
    eps: float


class BetRule(Protocol):
    def stakes(self, position: Position) -> Floats:
        """lambda >= 0 for each side and candidate, before capping."""


@dataclass(frozen=True, slots=True)
class DeadlineBets:
    """Replicate a fixed-horizon test from wherever the account stands.

    An account of wealth w that must reach 1/alpha is worth the chance p = w alpha of a test that is decided after
    the information tau still to come. In the normal limit that test's value is Phi((x - c)/sqrt(tau)), whose slope
    at value p is phi(z)/sqrt(tau) with z = Phi^-1(p); betting the slope replicates it:

        lambda = phi(z) / (p sqrt(tau) s^2),   tau = nu/sigma^2,  s^2 = sigma^2 r.

    If the variance were known and the horizon right, the account would reach 1/alpha exactly when the fixed-n
    test of level alpha rejects (Voracek and Orabona 2025, STaR-Bets, for the idea). `overshoot` aims a little above
    1/alpha, so that an account about to win gets there before the last moment; `patience` is the least
    share of the total information that the horizon stays ahead.
    """

    alpha: float
    overshoot: float = 0.05
    patience: float = 0.03

    def stakes(self, position: Position) -> Floats:
        goal = position.information_needed
        ahead = max(goal - position.clock.total, self.patience * goal)
        return replicating_stakes(position, self.alpha / (1 + self.overshoot), ahead)


@dataclass(frozen=True, slots=True)
class SideBets:
    """Deadline bets that ask of every candidate on which side of it the target lies, however far away.

    The horizon of candidate m is the information at which a test of level alpha rejects it if the estimate is right:
    (z / gap)^2 with gap = |estimate - m|, or `certain` standard errors where the estimate is nearer than that.
    The gap is never under the eps aimed at: closer values need not be told apart. `margin` and
    `caution` as for the one horizon of an estimate (`methods.certified.Tuning`). `near`: the starting capital of the
    games whose answer is awaited, so that their tests are of level alpha x near.
    """

    alpha: float
    overshoot: float = 0.05
    patience: float = 0.03
    certain: float = 0.85
    margin: float = 0.1
    caution: float = 1.2
    near: float = 1.0

    def stakes(self, position: Position) -> Floats:
        clock = position.clock
        nearest = max(self.certain * clock.standard_error, position.eps)
        gaps = np.maximum(np.abs(clock.mean - position.candidates), nearest)
        variance = clock.cautious_variance(self.caution)
        needed = (1 + self.margin) * variance * (ndtri(1 - self.near * self.alpha) / gaps) ** 2
        ahead = np.maximum(needed - clock.total, self.patience * needed)
        return replicating_stakes(position, self.alpha / (1 + self.overshoot), ahead)


@dataclass(frozen=True, slots=True)
class KellyBets:
    """lambda = gap / s^2: the growth-optimal bet if the target is this far from a candidate (Kelly 1956).

    Never ruined and never in a hurry: a small share of the capital, bet towards eps, rescues an unlucky start.
    gap None: the eps aimed at.
    """

    gap: float | None = None

    def stakes(self, position: Position) -> Floats:
        gap = position.eps if self.gap is None else self.gap
        return np.asarray(gap / (position.null_variance * position.prospect.variance))


@dataclass(frozen=True, slots=True)
class HedgedBets:
    """The predictable plug-in bets of Waudby-Smith and Ramdas (2024, JRSS B), as a baseline.

    lambda_t = sqrt(2 ln(1/alpha) / (sigma_{t-1}^2 t ln(t + 1))): good at every time, best at none.
    """

    alpha: float

    def stakes(self, position: Position) -> Floats:
        step = position.clock.count + 1
        variance = position.clock.variance * step * log(step + 1)
        bet = sqrt(2 * log(1 / self.alpha) / variance) / sqrt(position.prospect.variance)
        return np.full_like(position.log_wealth, bet)


def replicating_stakes(
    position: Position, level: float, ahead: float | Floats, *, exact: bool = False
) -> Floats:
    """The slope of the fixed-horizon test that each account is worth, with `ahead` information still to come."""
    log_chance = position.log_wealth + log(level)
    slope = exact_slope(log_chance) if exact else quick_slope(log_chance)
    return np.asarray(slope / (np.sqrt(position.null_variance * ahead) * position.prospect.variance))


def exact_slope(log_chance: Floats) -> Floats:
    """phi(z)/p with z = Phi^-1(p), of the logarithm of p."""
    chance = np.exp(log_chance)
    np.clip(chance, LOWEST_CHANCE, HIGHEST_CHANCE, out=chance)
    quantile = ndtri(chance)
    return np.asarray(np.exp(-0.5 * quantile * quantile) / (sqrt(2 * pi) * chance))


def quick_slope(log_chance: Floats) -> Floats:
    """The same to one part in a thousand, without a quantile: a ratio of polynomials in t = sqrt(-2 ln p).

    As p goes to 0 the slope goes to -z, which goes to t; as p goes to 1 it falls like t^2. The quantile took two
    thirds of the time of a long run, and any bet that depends on the past alone is valid.
    """
    square = np.minimum(np.maximum(-2 * log_chance, LEAST_SQUARE), MOST_SQUARE)
    root = np.sqrt(square)
    (a, b, c), (d, e, f) = SLOPE_ABOVE, SLOPE_BELOW
    return np.asarray(square * (a + root * (b + root * c)) / (1 + root * (d + root * (e + root * f))))


def null_variance(candidates: Floats, prospect: Prospect, clock: Information) -> Floats:
    """sigma^2 as it would be if the target were each candidate, shape (2, candidates).

    If R = m, the unseen items have mean mu = (m - seen)/unseen. Scores near 0 or 1 vary less: for 0/1 scores
    the variance is mu(1 - mu), and graded scores keep their observed share of it. So sigma^2 is scaled
    by mu(1 - mu) over its value at the estimate. Where scores are counted (`Information.counts`), nothing is estimated.
    """
    seen = np.array([[prospect.seen_low], [prospect.seen_high]])
    means = np.minimum(np.maximum((candidates - seen) / prospect.unseen, 1e-4), 1 - 1e-4)
    binary: Floats = means * (1 - means)
    if clock.counts:
        return LARGEST_SQUARE * binary
    middle = (prospect.seen_low + prospect.seen_high) / 2
    least = 0.5 / (clock.count + 1)
    at_estimate = min(max((clock.mean - middle) / prospect.unseen, least), 1 - least)
    return clock.variance * (binary / (at_estimate * (1 - at_estimate)))


def largest_stakes(candidates: Floats, prospect: Prospect, cap: float) -> Floats:
    """The stakes that lose a share `cap` of an account at the worst X, shape (2, candidates)."""
    room = np.array((candidates - prospect.floor, prospect.ceiling - candidates))
    return np.asarray(cap / np.maximum(room, 1e-12))


def payoffs(candidates: Floats, increment: Increment) -> Floats:
    """What a stake of 1 wins on each side of each candidate, shape (2, candidates)."""
    return np.array((increment.low - candidates, candidates - increment.high))
