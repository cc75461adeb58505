"""Vectors for texts: TF-IDF + SVD, and a small neural embedder that ships with its weights.

Rows have length 1 (0 for a text without known words), so nearest in distance is nearest in angle. The same
texts give the same vectors. An embeddings endpoint is in `cereval.models.embeddings`: it goes over a network.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cereval.errors import InvalidInput
from cereval.imports import optional
from cereval.names import did_you_mean

Vectors = NDArray[np.float32]
Tokens = Callable[[str], Iterable[str]]

_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Lower-case words and pairs of neighbouring words.

    >>> words("What is 2+2?")
    ['what', 'is', '2', '2', 'what is', 'is 2', '2 2']
    """
    single = _WORD.findall(text.lower())
    return single + [f"{left} {right}" for left, right in pairwise(single)]


def letters(text: str) -> list[str]:
    """Overlapping runs of four characters: robust to spelling, and to languages without spaces.

    >>> letters("ab cd")
    [' ab ', 'ab c', 'b cd', ' cd ']
    """
    padded = f" {' '.join(text.lower().split())} "
    return [padded[i : i + 4] for i in range(max(len(padded) - 3, 1))]


def tfidf(
    texts: Sequence[str], dimensions: int = 256, *, tokens: Tokens = words, most: int = 20_000
) -> Vectors:
    """TF-IDF (sublinear counts, smooth idf, rows of length 1) reduced by a truncated SVD.

    Tokens of at least two texts, the `most` frequent ones. Reference: Deerwester et al. 1990; randomised SVD
    after Halko, Martinsson and Tropp 2011.

    >>> vectors = tfidf(["add two numbers", "add three numbers", "who wrote Hamlet", "who wrote Faust"], 2)
    >>> near, far = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    >>> bool(near > 0.9 > abs(far))
    True
    """
    _check(texts, dimensions)
    table = _tfidf_table([Counter(tokens(text)) for text in texts], most)
    return unit_rows(_truncated_svd(table, dimensions))


def wordllama(texts: Sequence[str], dimensions: int = 256) -> Vectors:
    """Pooled token vectors of WordLlama, whose weights lie in its package: nothing is downloaded.

    `dimensions` at most 256 (its vectors are trained to be cut). Needs the extra `embeddings`.
    """
    _check(texts, dimensions)
    if dimensions > 256:
        raise InvalidInput("dimensions", "at most 256 for wordllama", dimensions)
    package = optional("wordllama", "embeddings")
    model = package.WordLlama.load(cache_dir=Path(package.__file__).parent, disable_download=True)
    return unit_rows(np.asarray(model.embed(list(texts), norm=False))[:, :dimensions])


def character_tfidf(texts: Sequence[str], dimensions: int = 256) -> Vectors:
    """TF-IDF + SVD over runs of four characters instead of words."""
    return tfidf(texts, dimensions, tokens=letters)


def noise(texts: Sequence[str], dimensions: int = 256) -> Vectors:
    """Vectors that know nothing of the texts: the control of an ablation."""
    _check(texts, dimensions)
    return unit_rows(np.random.default_rng(0).normal(size=(len(texts), dimensions)))


EMBEDDERS: dict[str, Callable[[Sequence[str], int], Vectors]] = {
    "tfidf": tfidf,
    "characters": character_tfidf,
    "wordllama": wordllama,
    "noise": noise,
}
"""Embedders by the name that users type."""


def embed(texts: Sequence[str], name: str = "tfidf", dimensions: int = 256) -> Vectors:
    """One vector for each text, by the named embedder.

    >>> embed(["one text", "one other text"], dimensions=8).shape
    (2, 8)
    """
    if name not in EMBEDDERS:
        raise InvalidInput("embedder", f"a known embedder ({did_you_mean(name, EMBEDDERS)})", name)
    return EMBEDDERS[name](texts, dimensions)


def unit_rows(vectors: NDArray[Any]) -> Vectors:
    """The rows scaled to length 1; a zero row stays zero.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).round(2).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    array = np.asarray(vectors, dtype=np.float64)
    lengths = np.sqrt((array**2).sum(axis=1, keepdims=True))
    return (array / np.where(lengths > 1e-12, lengths, np.inf)).astype(np.float32)


def _tfidf_table(counts: list[Counter[str]], most: int) -> Any:
    from scipy.sparse import csr_matrix

    spread = Counter(token for count in counts for token in count)
    # Sorted before the cut: equal counts must not depend on the order of the texts.
    shared = sorted(
        (token for token, n in spread.items() if n > 1), key=lambda token: (-spread[token], token)
    )
    column = {token: position for position, token in enumerate(shared[:most])}
    rows, columns, values = [], [], []
    for row, count in enumerate(counts):
        for token in count.keys() & column.keys():
            rows.append(row)
            columns.append(column[token])
            values.append(
                (1 + math.log(count[token])) * (math.log((1 + len(counts)) / (1 + spread[token])) + 1)
            )
    table = csr_matrix((values, (rows, columns)), shape=(len(counts), max(len(column), 1)))
    lengths = np.sqrt(table.multiply(table).sum(axis=1)).A1
    table.data /= np.repeat(np.maximum(lengths, 1e-12), np.diff(table.indptr))
    return table


def _truncated_svd(table: Any, dimensions: int) -> NDArray[np.float64]:
    """U S of the leading `dimensions` directions; padded with zeros where the table has fewer."""
    rank = min(dimensions, *table.shape)
    start = np.random.default_rng(0).normal(size=(table.shape[1], min(rank + 10, *table.shape)))
    basis = np.linalg.qr(table @ start)[0]
    for _ in range(4):
        basis = np.linalg.qr(table @ (table.T @ basis))[0]
    projected = table.T @ basis
    strengths, left = np.linalg.eigh(projected.T @ projected)
    leading = np.argsort(strengths)[::-1][:rank]
    scores = (basis @ left[:, leading]) * np.sqrt(np.maximum(strengths[leading], 0.0))
    return np.pad(scores, ((0, 0), (0, dimensions - rank)))


def _check(texts: Sequence[str], dimensions: int) -> None:
    if isinstance(texts, str) or not len(texts):
        raise InvalidInput("texts", "a sequence of at least one text", texts)
    if dimensions < 1:
        raise InvalidInput("dimensions", ">= 1", dimensions)
