"""Past results on the same items, complete or not, turned into a difficulty and a few factors per item.

Model: probabilistic principal components with missing entries. Past model m scores item i with

    h_im = mu_m + W_m . u_i + noise_m,    u_i ~ N(0, I)

fitted by expectation-maximisation over the observed entries only: a missing entry is integrated out, never
dropped or filled in. An item that few models saw has its factors shrunk to 0 (the average item); a constant
past model has W_m = 0; a random guesser has W_m near 0; an inverted copy has a negative W_m. None misleads:
the target's own results decide later what each factor is worth.

Reference: Tipping and Bishop (1999); with missing entries, Ilin and Raiko (2010).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MAX_RANK = 12
SWEEPS = 12
# Half a success and half a failure per item: finite logits for items that every past model solved, and on
# MMLU the logit on which a new model's results are closest to linear.
PSEUDO_COUNT = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Traits:
    """What the past says of each item.

    easiness: the logit of the expected score of an average reliable past model. factors: items x rank, the
    strongest first, scaled to variance 1, the others in proportion: a ridge on them is a ridge on the scores.
    """

    easiness: Floats
    factors: Floats


def summarise(table: Floats) -> Traits:
    """Difficulty and factors of each item from an items x past models table, NaN where not asked.

    >>> traits = summarise(np.array([[1, 1, 1], [0, 1, np.nan], [0, 0, 0]]))
    >>> bool(traits.easiness[0] > traits.easiness[1] > traits.easiness[2])
    True
    """
    seen = np.isfinite(table)
    table, seen = table[:, seen.any(axis=0)], seen[:, seen.any(axis=0)]
    if table.shape[1] == 0:
        return Traits(np.zeros(len(table)), np.zeros((len(table), 0)))
    means = np.array([column[mask].mean() for column, mask in zip(table.T, seen.T, strict=True)])
    centred = np.where(seen, table - means, 0.0)
    loadings, scores = _principal_components(centred, seen.astype(np.float64))
    filled = np.clip(means + np.where(seen, centred, scores @ loadings.T), 0.0, 1.0)
    return Traits(_easiness(filled, loadings), _ordered_factors(loadings, scores))


def _principal_components(centred: Floats, seen: Floats) -> tuple[Floats, Floats]:
    """Loadings (models x rank) and posterior mean scores (items x rank)."""
    rank = min(centred.shape[1], MAX_RANK)
    count = seen.sum(axis=0)
    variance = np.maximum((centred**2).sum(axis=0) / count, 1e-4)
    loadings = _start(centred, seen, rank)
    noise = np.maximum(variance - (loadings**2).sum(axis=1), 0.2 * variance)
    for _ in range(SWEEPS):
        scores, moments = _expect(centred, seen, loadings, noise)
        loadings = _maximise(centred, seen, scores, moments)
        fit = np.einsum("ij,ij->j", centred, scores @ loadings.T)
        noise = np.maximum(((centred**2).sum(axis=0) - fit) / count, 0.05 * variance)
    return loadings, _expect(centred, seen, loadings, noise)[0]


def _start(centred: Floats, seen: Floats, rank: int) -> Floats:
    """Leading eigenvectors of the pairwise covariance, which needs no filling in."""
    covariance = (centred.T @ centred) / np.maximum(seen.T @ seen, 1.0)
    values, vectors = np.linalg.eigh(covariance)
    start: Floats = vectors[:, ::-1][:, :rank] * np.sqrt(np.maximum(0.8 * values[::-1][:rank], 1e-6))
    return start


def _expect(centred: Floats, seen: Floats, loadings: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Posterior means (items x rank) and second moments (items x rank x rank) of the items' factors."""
    rank = loadings.shape[1]
    outer = np.einsum("mr,ms->mrs", loadings, loadings / noise[:, None]).reshape(len(loadings), -1)
    precision = (seen @ outer).reshape(-1, rank, rank) + np.eye(rank)
    covariance = np.linalg.inv(precision)
    scores = np.einsum("irs,is->ir", covariance, centred @ (loadings / noise[:, None]))
    return scores, covariance + np.einsum("ir,is->irs", scores, scores)


def _maximise(centred: Floats, seen: Floats, scores: Floats, moments: Floats) -> Floats:
    """Loadings given the factors; one pseudo-item at loading 0 keeps hardly observed models near 0."""
    rank = scores.shape[1]
    gram = (seen.T @ moments.reshape(len(scores), -1)).reshape(-1, rank, rank) + np.eye(rank)
    return np.asarray(np.linalg.solve(gram, (centred.T @ scores)[:, :, None])[:, :, 0], dtype=np.float64)


def _easiness(filled: Floats, loadings: Floats) -> Floats:
    """Logit of the mean score, each past model weighted by its part in the common direction."""
    direction = np.linalg.svd(loadings, full_matrices=False)
    common = direction[0][:, 0] * np.sign(direction[0][:, 0].sum() or 1.0)
    weights = np.maximum(common, 0.0) + 1e-9
    models = weights.sum() ** 2 / (weights**2).sum()
    successes = models * (filled @ weights) / weights.sum()
    odds: Floats = (successes + PSEUDO_COUNT) / (models - successes + PSEUDO_COUNT)
    return np.log(odds)


def _ordered_factors(loadings: Floats, scores: Floats) -> Floats:
    """Factors rotated to principal axes and scaled by the score variance that each one explains."""
    _, strengths, axes = np.linalg.svd(loadings, full_matrices=False)
    factors = (scores @ axes.T) * strengths
    scale = factors[:, 0].std() if factors.shape[1] else 0.0
    return factors / scale if scale > 0 else np.zeros_like(factors)
