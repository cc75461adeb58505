"""Vectors for texts: TF-IDF + SVD, and a small neural embedder that ships with its weights.

Rows have length 1 (0 for a text without known words), so nearest in distance is nearest in angle. The same
texts give the same vectors.

TF-IDF has sublinear counts and smooth idf. Terms are whole numbers from the start: Python sees each word once, counting
and pairing is array work, which takes a quarter of the time of a counter of strings for each text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cereval.arrays import Floats, Ints
from cereval.errors import InvalidInput
from cereval.forecasts.logistic import tie_breakers
from cereval.imports import optional
from cereval.text import did_you_mean

Vectors = NDArray[np.float32]

DIMENSIONS, MOST_TERMS, POWER_STEPS = 128, 10_000, 2
"""256 dimensions, 20,000 terms and 4 steps forecast no better and take four times as long."""
NO_STRENGTH = 1e-12  # Directions with less than this share of the strongest one's square are none
LENGTH_SCALE = 0.15  # Beside rows of length 1: about the first principal component, no more


def embed(texts: Sequence[str], name: str = "tfidf", dimensions: int = DIMENSIONS) -> Vectors:
    """One vector for each text, by the named embedder.

    >>> embed(["one text", "one other text"], dimensions=8).shape
    (2, 8)
    """
    if name not in EMBEDDERS:
        raise InvalidInput("embedder", f"a known embedder ({did_you_mean(name, EMBEDDERS)})", name)
    if isinstance(texts, str) or not len(texts):
        raise InvalidInput("texts", "a sequence of at least one text", texts)
    if dimensions < 1:
        raise InvalidInput("dimensions", ">= 1", dimensions)
    return unit_rows(EMBEDDERS[name](texts, dimensions))


def text_features(texts: Sequence[str], name: str = "tfidf") -> Vectors:
    lengths = np.log1p([len(text) for text in texts])
    standard = (lengths - lengths.mean()) / max(float(lengths.std()), 1e-6)
    return np.column_stack([embed(texts, name), LENGTH_SCALE * standard]).astype(np.float32)


def unit_rows(vectors: NDArray[Any]) -> Vectors:
    """The rows scaled to length 1; a zero row stays zero.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).round(2).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    array = np.asarray(vectors, dtype=np.float64)
    lengths = np.sqrt((array**2).sum(axis=1, keepdims=True))
    return (array / np.where(lengths > 1e-12, lengths, np.inf)).astype(np.float32)


# -- embedders --------------------------------------------------------------------------------------------------------


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def letters(text: str) -> list[str]:
    """Overlapping runs of four characters: robust to spelling, and to languages without spaces.

    >>> letters("ab cd")
    [' ab ', 'ab c', 'b cd', ' cd ']
    """
    padded = f" {' '.join(text.lower().split())} "
    return [padded[i : i + 4] for i in range(max(len(padded) - 3, 1))]


def tfidf(texts: Sequence[str], dimensions: int) -> NDArray[Any]:
    """TF-IDF of words and pairs of neighbouring words, reduced by a truncated SVD (Deerwester et al. 1990)."""
    terms = with_pairs(read_terms(map(words, texts)))
    return _truncated_svd(term_table(terms, len(texts), MOST_TERMS), dimensions)


def character_tfidf(texts: Sequence[str], dimensions: int) -> NDArray[Any]:
    return _truncated_svd(term_table(read_terms(map(letters, texts)), len(texts), MOST_TERMS), dimensions)


def wordllama(texts: Sequence[str], dimensions: int) -> NDArray[Any]:
    """Pooled token vectors of WordLlama (extra `embeddings`), whose weights lie in its package: nothing is downloaded.
    They are trained to be cut."""
    if dimensions > 256:
        raise InvalidInput("dimensions", "at most 256 for wordllama", dimensions)
    package = optional("wordllama", "embeddings")
    model = package.WordLlama.load(cache_dir=Path(package.__file__).parent, disable_download=True)
    return np.asarray(model.embed(list(texts), norm=False))[:, :dimensions]


def noise(texts: Sequence[str], dimensions: int) -> NDArray[Any]:
    """Vectors that know nothing of the texts: the control of an ablation."""
    return np.random.default_rng(0).normal(size=(len(texts), dimensions))


EMBEDDERS: dict[str, Callable[[Sequence[str], int], NDArray[Any]]] = {
    "tfidf": tfidf,
    "characters": character_tfidf,
    "wordllama": wordllama,
    "noise": noise,
}
"""Embedders by the name that users type; `embed` scales their rows to length 1."""


def _truncated_svd(table: Any, dimensions: int) -> Floats:
    """U S of the leading `dimensions` directions (randomised, Halko, Martinsson and Tropp 2011); padded with zeros
    where the table has fewer."""
    rank = min(dimensions, *table.shape)
    width = min(rank + 10, *table.shape)
    weights = tie_breakers(table.shape[0])[:, None]
    table = table.astype(np.float64).multiply(weights).tocsr()
    start = np.random.default_rng(0).standard_normal((table.shape[1], width))
    basis = np.linalg.qr(table @ start)[0]
    for _ in range(POWER_STEPS):
        basis = np.linalg.qr(table @ (table.T @ basis))[0]
    projected = table.T @ basis
    strengths, left = np.linalg.eigh(projected.T @ projected)
    leading = slice(None, -rank - 1, -1)
    # Directions that the table does not have are made of rounding errors alone.
    there = np.where(strengths > NO_STRENGTH * strengths[-1], strengths, 0.0)
    scores = (basis @ left[:, leading]) * np.sqrt(there[leading]) / weights
    return np.pad(scores, ((0, 0), (0, dimensions - rank)))


# -- the table of terms -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Occurrences:
    """Term `codes[k]` stands in text `rows[k]`. `size`: one more than the largest code."""

    rows: Ints
    codes: Ints
    size: int


def read_terms(tokens: Iterable[Sequence[str]]) -> Occurrences:
    """The tokens of each text, numbered in alphabetical order: no number depends on the order of the texts."""
    numbers: dict[str, int] = {}
    codes: list[int] = []
    lengths: list[int] = []
    for found in tokens:
        codes += [numbers.setdefault(token, len(numbers)) for token in found]
        lengths.append(len(found))
    place = np.empty(len(numbers), dtype=np.int64)
    place[[numbers[token] for token in sorted(numbers)]] = np.arange(len(numbers))
    rows = np.repeat(np.arange(len(lengths)), lengths)
    return Occurrences(rows, place[np.array(codes, dtype=np.int64)], len(numbers))


def with_pairs(terms: Occurrences) -> Occurrences:
    inside = np.flatnonzero(terms.rows[1:] == terms.rows[:-1])
    pairs = terms.codes[inside] * max(terms.size, 1) + terms.codes[inside + 1]
    distinct, codes = np.unique(pairs, return_inverse=True)
    return Occurrences(
        np.concatenate([terms.rows, terms.rows[inside]]),
        np.concatenate([terms.codes, terms.size + codes]),
        terms.size + len(distinct),
    )


def term_table(terms: Occurrences, texts: int, most: int) -> Any:
    """Texts x terms in float32: the `most` frequent of the terms that stand in at least two texts."""
    from scipy.sparse import csr_matrix

    # One number for each (text, term): counting repetitions is then one sort.
    places, counts = np.unique(terms.rows * max(terms.size, 1) + terms.codes, return_counts=True)
    rows, codes = np.divmod(places, max(terms.size, 1))
    spread = np.bincount(codes, minlength=max(terms.size, 1))
    shared = np.flatnonzero(spread > 1)
    # A stable sort: equal counts keep the order of the codes.
    chosen = shared[np.argsort(-spread[shared], kind="stable")[:most]]
    column = np.full(len(spread), -1)
    column[chosen] = np.arange(len(chosen))
    kept = column[codes] >= 0
    rows, codes = rows[kept], codes[kept]
    values = (1.0 + np.log(counts[kept])) * (np.log((1 + texts) / (1 + spread[codes])) + 1.0)
    lengths = np.sqrt(np.bincount(rows, values**2, minlength=texts))
    values /= lengths[rows]
    shape = (texts, max(len(chosen), 1))
    return csr_matrix((values.astype(np.float32), (rows, column[codes])), shape=shape)
