"""The forecast from history: past results on the same items, complete or not, as columns that forecast a new model.

Traits of the items. Past model m scores item i with

    h_im = mu_m + W_m . u_i + noise_m,    u_i ~ N(0, I)

(probabilistic principal components, Tipping and Bishop 1999; with missing entries, Ilin and Raiko 2010), fitted by
expectation-maximisation over the observed entries only: a missing entry is integrated out, never dropped or filled in.
An item that few models saw has its factors shrunk to 0 (the average item); a constant past model has W_m = 0; a random
guesser has W_m near 0; an inverted copy has a negative W_m. None misleads: the target's own results decide later what
each factor is worth.

Precedents. Many past models say what a new one is likely to make of these traits. A logistic model of one model's
scores has coefficients b on the columns x_i of a design. Past models have theirs, and a new model is taken for one more
of their kind (empirical Bayes, Efron and Morris 1973):

    b ~ N(mu, C),    mu and C from past models m by expectation-maximisation: with b_m and V_m the mode and
                     the covariance of m's own posterior,   mu = mean b_m,   C = mean((b_m - mu)(b_m - mu)' + V_m)

(Laplace's approximation in place of the expectation.) V_m is large for a model that was asked little, which then says
little: it speaks for the prior that the round began with. With C = LL', z = L^-1 b ~ N(L^-1 mu, I) on the columns XL: a
design as any other, so that a fit costs what it did. What a new model's first results say of its level then says what
it makes of hard items as well.

Forecasts need not be right for a certificate to hold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cereval.arrays import Floats, Ints
from cereval.forecasts.logistic import Design, posterior_covariance, posterior_mode, tie_breakers

MAX_RANK, SWEEPS = 8, 8
"""Ranks 3 to 12 and 5 to 25 sweeps need the same calls, within 2%, on MMLU, MATH, GSM8K and AlpacaEval."""
MAX_RELATIVES = 100
"""More past models than this enter `relatives` as so many principal axes, which keeps the cost of a fit flat."""
COPY = 0.9  # Columns correlated beyond this count as copies, and a set of copies as one model
FAMILY = 0.6  # Columns correlated beyond this are of one family: 99% of all pairs of real models are below
PSEUDO_COUNT = 0.5
"""Half a success and half a failure per item: finite logits for items that every past model solved."""

PRECEDENTS = "precedents"
FEWEST = 24.0
"""Past models from which on they say what a new one is like, families counted as one: the factors know each of a few
too well."""
LEAST_ASKED = 30  # Results of a past model for it to be counted among them
MOST_MODELS, MOST_ITEMS = 200, 4096  # As many are enough for a prior, and keep the cost of opening flat
ROUNDS = 2  # Of expectation-maximisation: four overfit where past models are few
PSEUDO_MODELS = 5.0  # What the design's own prior counts for in C


def history_designs(table: Floats, *, precedents: bool = False) -> dict[str, Design]:
    """The past's easiness alone, bent, and with factors or relatives: from the most to the least prejudiced expert.
    With `precedents`, also what many past models made of all that.

    The slope's prior mean is 1 on the logit scale: a new model is an average past model, shifted.
    """
    traits = summarise(table)
    scale = float(traits.easiness.std())
    if scale == 0.0:
        return {}
    standard = (traits.easiness - traits.easiness.mean()) / scale
    line = replace(Design.intercept(len(table)).beside(Design.of(standard[:, None], 2.0, scale)), past=True)
    bent = line.beside(Design.of((standard[:, None] ** 2 - 1.0) / 2.0, 2.0))
    designs = {
        "easiness": line,
        "bent": bent,
        "factors": line.beside(Design.of(traits.factors, 4.0)),
        "bent factors": bent.beside(Design.of(traits.factors, 10.0)),
        "relatives": line.beside(Design.of(traits.relatives, 10.0)),
    }
    if precedents:
        learnt = with_learnt_prior(designs["bent factors"], traits.table, traits.votes)
        designs |= {} if learnt is None else {PRECEDENTS: learnt}
    return designs


# -- traits of the items ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Traits:
    """What the past says of each item.

    easiness: the logit of the expected score of an average reliable past model. factors: items x rank, the
    strongest first, scaled to variance 1, the others in proportion: a ridge on them is a ridge on the scores.
    relatives: items x past models, their scores about their means, missing ones from the factors: what a new
    model shares with one or two past ones of its family, which a few factors smooth away.
    table: what was asked of the past models that were asked anything. votes: 1 / the size of each one's family.
    """

    easiness: Floats
    factors: Floats
    relatives: Floats
    table: Floats
    votes: Floats


def summarise(table: Floats) -> Traits:
    """Difficulty and factors of each item, from an items x past models table, NaN where not asked."""
    seen = np.isfinite(table)
    table, seen = table[:, seen.any(axis=0)], seen[:, seen.any(axis=0)]
    if table.shape[1] == 0:
        nothing = np.zeros((len(table), 0))
        return Traits(np.zeros(len(table)), nothing, nothing, table, np.zeros(0))
    means = np.array([column[mask].mean() for column, mask in zip(table.T, seen.T, strict=True)])
    centred = np.where(seen, table - means, 0.0)
    # Pairwise, over the items that both models saw: needs no filling in.
    together = seen.astype(np.float64).T @ seen
    covariance = (centred.T * tie_breakers(len(table))) @ centred / np.maximum(together, 1.0)
    votes = _votes(covariance, together, COPY)
    loadings, scores = _principal_components(centred, seen.astype(np.float64), covariance, votes)
    filled = np.clip(means + np.where(seen, centred, scores @ loadings.T), 0.0, 1.0)
    left, strengths, axes = np.linalg.svd(loadings * np.sqrt(votes)[:, None], full_matrices=False)
    return Traits(
        _easiness(filled, left[:, 0], votes),
        _scaled((scores @ axes.T) * strengths),
        _relatives((filled - means) * np.sqrt(votes)),
        table,
        _votes(covariance, together, FAMILY),
    )


def _votes(covariance: Floats, together: Floats, alike: float) -> Floats:
    """1 / the number of past models like each, itself included: from a correlation of `alike` on they count."""
    deviation = np.sqrt(np.maximum(np.diag(covariance), 1e-12))
    # Chance correlations of a few common items are no evidence of a copy: shrink by the number in common.
    correlation = covariance / np.outer(deviation, deviation) * together / (together + 30.0)
    likeness = np.clip((correlation - alike) / (1.0 - alike), 0.0, 1.0)
    np.fill_diagonal(likeness, 1.0)
    return np.asarray(1.0 / likeness.sum(axis=1))


def _principal_components(
    centred: Floats, seen: Floats, covariance: Floats, votes: Floats
) -> tuple[Floats, Floats]:
    """Loadings (models x rank) and posterior mean scores (items x rank)."""
    squares, count = (centred**2).sum(axis=0), seen.sum(axis=0)
    variance = np.maximum(squares / count, 1e-4)
    # The leading eigenvectors of the covariance in which each set of copies counts once.
    root = np.sqrt(votes)
    values, vectors = np.linalg.eigh(covariance * np.outer(root, root))
    rank = min(len(votes), MAX_RANK)
    leading = vectors[:, ::-1][:, :rank] * np.sqrt(np.maximum(0.8 * values[::-1][:rank], 1e-6))
    loadings: Floats = leading / root[:, None]
    noise = np.maximum(variance - (loadings**2).sum(axis=1), 0.2 * variance)
    for _ in range(SWEEPS):
        scores, moments = _expect(centred, seen, loadings, noise / votes)
        # One pseudo-item at loading 0 keeps hardly observed models near 0.
        gram = (seen.T @ moments.reshape(len(scores), -1)).reshape(-1, rank, rank) + np.eye(rank)
        loadings = np.asarray(
            np.linalg.solve(gram, (centred.T @ scores)[:, :, None])[:, :, 0], dtype=np.float64
        )
        fit = np.einsum("ij,ij->j", centred, scores @ loadings.T)
        noise = np.maximum((squares - fit) / count, 0.05 * variance)
    return loadings, _expect(centred, seen, loadings, noise / votes)[0]


def _expect(centred: Floats, seen: Floats, loadings: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Posterior means (items x rank) and second moments (items x rank x rank) of the items' factors."""
    rank = loadings.shape[1]
    outer = np.einsum("mr,ms->mrs", loadings, loadings / noise[:, None]).reshape(len(loadings), -1)
    precision = (seen @ outer).reshape(-1, rank, rank) + np.eye(rank)
    covariance = np.linalg.inv(precision)
    scores = np.einsum("irs,is->ir", covariance, centred @ (loadings / noise[:, None]))
    return scores, covariance + np.einsum("ir,is->irs", scores, scores)


def _easiness(filled: Floats, common: Floats, votes: Floats) -> Floats:
    """The logit of the mean score, each past model weighted by its part in the common direction."""
    weights = np.maximum(common * np.sign(common @ votes or 1.0), 0.0) * np.sqrt(votes) + 1e-9
    models = weights.sum() ** 2 / (weights**2).sum()
    successes = models * (filled @ weights) / weights.sum()
    odds: Floats = (successes + PSEUDO_COUNT) / (models - successes + PSEUDO_COUNT)
    return np.log(odds)


def _scaled(factors: Floats) -> Floats:
    scale = float(factors[:, 0].std()) if factors.shape[1] else 0.0
    return np.asarray(factors / scale if scale > 0 else np.zeros_like(factors))


def _relatives(deviations: Floats) -> Floats:
    """The columns, or their leading principal axes: all of these would be to a ridge what the columns are."""
    if deviations.shape[1] <= MAX_RELATIVES:
        return deviations
    _, axes = np.linalg.eigh((deviations.T * tie_breakers(len(deviations))) @ deviations)
    return np.asarray(deviations @ axes[:, -MAX_RELATIVES:])


# -- precedents -------------------------------------------------------------------------------------------------------


def with_learnt_prior(design: Design, table: Floats, votes: Floats) -> Design | None:
    """The design with the prior that past models make; None where they are too few.

    table: items x past models, NaN where not asked. votes: 1 / the size of each model's family.
    """
    # Copies among models that are always right, or always wrong, cannot be told: none of them counts.
    varied = np.flatnonzero(np.nanmax(table, axis=0) > np.nanmin(table, axis=0))
    asked = np.isfinite(table[:, varied]).sum(axis=0) >= min(LEAST_ASKED, len(table))
    # Thirds that should add up to a whole may fall short of it by a rounding error.
    if votes[varied][asked].sum() < FEWEST - 1e-6:
        return None
    models = varied[_evenly_spaced(len(varied), MOST_MODELS)]
    votes = votes[models] * (votes[varied].sum() / votes[models].sum())
    mean, root = design.mean, np.diag(np.sqrt(1.0 / design.precision))
    for _ in range(ROUNDS):
        prior = _in_coordinates(design.columns, mean, root)
        posteriors = [_posterior(prior, table[:, model]) for model in models]
        mean, covariance = _pool_posteriors(posteriors, votes, root, design)
        root = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    return _in_coordinates(design.columns, mean, root)


def _evenly_spaced(size: int, most: int) -> Ints:
    return np.linspace(0, size - 1, min(size, most)).astype(np.int64)


def _in_coordinates(columns: Floats, mean: Floats, root: Floats) -> Design:
    """The design in coordinates in which the prior, of covariance root root', has covariance 1."""
    start = np.asarray(np.linalg.solve(root, mean), dtype=np.float64)
    return Design(columns @ root, start, np.ones(len(mean)), past=True)


def _posterior(prior: Design, scores: Floats) -> tuple[Floats, Floats]:
    """The mode and the covariance of one past model's coefficients, in the prior's coordinates."""
    seen = np.flatnonzero(np.isfinite(scores))
    seen = seen[_evenly_spaced(len(seen), MOST_ITEMS)]
    rows = prior.columns[seen]
    mode = posterior_mode(rows, scores[seen], prior, prior.mean)
    return mode, posterior_covariance(rows, prior, mode)


def _pool_posteriors(
    posteriors: list[tuple[Floats, Floats]], votes: Floats, root: Floats, design: Design
) -> tuple[Floats, Floats]:
    modes = np.array([mode for mode, _ in posteriors]) @ root.T
    left = np.einsum("m,mij->ij", votes, np.array([part for _, part in posteriors]))
    mean = votes @ modes / votes.sum()
    away = (modes - mean) * np.sqrt(votes)[:, None]
    own = PSEUDO_MODELS * np.diag(1.0 / design.precision)
    return mean, np.asarray((away.T @ away + root @ left @ root.T + own) / (votes.sum() + PSEUDO_MODELS))
