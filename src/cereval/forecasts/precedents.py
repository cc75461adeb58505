"""Learn from many past models what a new one is likely to make of the items' traits.

A logistic model of one model's scores has coefficients b on the columns x_i of a design. Past models have theirs, and
a new model is taken for one more of their kind (empirical Bayes, Efron and Morris 1973):

    b ~ N(mu, C),    mu and C from past models m by expectation-maximisation: with b_m and V_m the mode and
                     the covariance of m's own posterior,   mu = mean b_m,   C = mean((b_m - mu)(b_m - mu)' + V_m)

(Laplace's approximation in place of the expectation.) V_m is large for a model that was asked little, which then says
little: it speaks for the prior that the round began with. With C = LL', z = L^-1 b ~ N(L^-1 mu, I) on the columns XL: a
design as any other, so that a fit costs what it did. What a new model's first results say of its level then says what
it makes of hard items as well.

Forecasts need not be right for a certificate to hold. Share of the variance left after 25, 50, 100, 200 results on
AlpacaEval (121 past models): .58, .575, .56, .563 for .64, .62, .596, .578 of the mixture without; on MATH-L5 and
GSM8K (42 past models) the same to 1%.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cereval.forecasts.design import Design
from cereval.forecasts.logistic import posterior_covariance, posterior_mode

Floats = NDArray[np.float64]

FEWEST = 24.0
"""Past models from which on they say what a new one is like, families counted as one. With the 10 of MMLU the factors
know each of them too well: 5 to 10% more variance left than with a fixed prior."""
LEAST_ASKED = 30
"""Results of a past model for it to be counted among them."""
MOST_MODELS = 200
MOST_ITEMS = 4096
"""As many are enough for a prior, and keep the cost of opening flat."""
ROUNDS = 2
"""Of expectation-maximisation. Four overfit where past models are few: GSM8K .770 of the variance for .742."""
PSEUDO_MODELS = 5.0
"""What the design's own prior counts for in C."""


def precedented(design: Design, table: Floats, votes: Floats) -> Design | None:
    """Return the design with the prior that past models make; None where they are too few.

    table: items x past models, NaN where not asked. votes: 1 / the size of each model's family.

    >>> line = Design.of(np.column_stack([np.ones(9), np.linspace(-1, 1, 9)]), 1.0)
    >>> past = np.linspace(0.2, 0.8, 9)[:, None] * np.linspace(0.5, 1.0, 40)
    >>> learnt = precedented(line, past, np.ones(40))
    >>> learnt.columns.shape, learnt.precision.tolist()
    ((9, 2), [1.0, 1.0])
    >>> precedented(line, past[:, :10], np.ones(10)) is None
    True
    """
    # Copies among models that are always right, or always wrong, cannot be told: none of them counts.
    varied = np.flatnonzero(np.nanmax(table, axis=0) > np.nanmin(table, axis=0))
    asked = np.isfinite(table[:, varied]).sum(axis=0) >= min(LEAST_ASKED, len(table))
    # Thirds that should add up to a whole may fall short of it by a rounding error.
    if votes[varied][asked].sum() < FEWEST - 1e-6:
        return None
    models = varied[_spaced(len(varied), MOST_MODELS)]
    votes = votes[models] * (votes[varied].sum() / votes[models].sum())
    mean, root = design.mean, np.diag(np.sqrt(1.0 / design.precision))
    for _ in range(ROUNDS):
        prior = _turned(design.columns, mean, root)
        found = [_posterior(prior, table[:, model]) for model in models]
        mean, covariance = _pooled(found, votes, root, design)
        root = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    return _turned(design.columns, mean, root)


def _spaced(size: int, most: int) -> NDArray[np.int64]:
    """Return places in equal steps, all of them where they are few."""
    return np.linspace(0, size - 1, min(size, most)).astype(np.int64)


def _turned(columns: Floats, mean: Floats, root: Floats) -> Design:
    """Return the design in coordinates in which the prior, of covariance root root', has covariance 1."""
    start = np.asarray(np.linalg.solve(root, mean), dtype=np.float64)
    return Design(columns @ root, start, np.ones(len(mean)), past=True)


def _posterior(prior: Design, scores: Floats) -> tuple[Floats, Floats]:
    """Return the mode and the covariance of one past model's coefficients, in the prior's coordinates."""
    seen = np.flatnonzero(np.isfinite(scores))
    seen = seen[_spaced(len(seen), MOST_ITEMS)]
    rows = prior.columns[seen]
    mode = posterior_mode(rows, scores[seen], prior, prior.mean)
    return mode, posterior_covariance(rows, prior, mode)


def _pooled(
    found: list[tuple[Floats, Floats]], votes: Floats, root: Floats, design: Design
) -> tuple[Floats, Floats]:
    """Return mu and C of the past models' posteriors, in the design's coordinates."""
    modes = np.array([mode for mode, _ in found]) @ root.T
    left = np.einsum("m,mij->ij", votes, np.array([part for _, part in found]))
    mean = votes @ modes / votes.sum()
    away = (modes - mean) * np.sqrt(votes)[:, None]
    own = PSEUDO_MODELS * np.diag(1.0 / design.precision)
    return mean, np.asarray((away.T @ away + root @ left @ root.T + own) / (votes.sum() + PSEUDO_MODELS))
