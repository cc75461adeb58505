"""Embedders: deterministic, finite, of length 1, closer for like texts; and the term table against the obvious way."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cereval.errors import InvalidInput
from cereval.forecasts.embeddings import (
    EMBEDDERS,
    embed,
    read_terms,
    term_table,
    text_features,
    unit_rows,
    with_pairs,
    words,
)

TEXTS = [
    "What is the derivative of x squared with respect to x?",
    "What is the derivative of x cubed with respect to x?",
    "Which treaty ended the First World War?",
    "Which treaty ended the war of 1812?",
    "",
    "数学の問題です",
]


@pytest.mark.parametrize("name", list(EMBEDDERS))
def test_rows_are_finite_and_of_length_one_or_zero(name: str) -> None:
    if name == "wordllama":
        pytest.importorskip("wordllama", reason="the extra `embeddings` is not installed")
    vectors = embed(TEXTS, name, 16)
    assert vectors.shape == (6, 16)
    assert vectors.dtype == np.float32
    lengths = np.linalg.norm(vectors, axis=1)
    assert ((np.abs(lengths - 1) < 1e-5) | (lengths == 0)).all()
    assert (vectors == embed(TEXTS, name, 16)).all()


@pytest.mark.parametrize("name", ["tfidf", "characters", "wordllama"])
def test_like_texts_are_closer(name: str) -> None:
    if name == "wordllama":
        pytest.importorskip("wordllama", reason="the extra `embeddings` is not installed")
    vectors = embed(TEXTS[:4], name, 4)
    likeness = vectors @ vectors.T
    assert likeness[0, 1] > likeness[0, 2]
    assert likeness[2, 3] > likeness[2, 0]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(texts=st.lists(st.text(max_size=30), min_size=1, max_size=8), dimensions=st.integers(1, 12))
def test_any_texts_embed(texts: list[str], dimensions: int) -> None:
    vectors = embed(texts, dimensions=dimensions)
    assert vectors.shape == (len(texts), dimensions)
    assert np.isfinite(vectors).all()


def test_svd_keeps_inner_products_of_a_small_table() -> None:
    """All directions kept: the rotated rows have the cosines of the TF-IDF rows."""
    texts = ["a b", "a b c", "c d", "d c a", "b b b a"]
    full = embed(texts, dimensions=40)
    again = embed(texts[::-1], dimensions=40)[::-1]
    np.testing.assert_allclose(full @ full.T, again @ again.T, atol=1e-5)


def test_unit_rows_leave_zero_rows() -> None:
    assert unit_rows(np.zeros((2, 3))).tolist() == [[0.0] * 3] * 2


def test_bad_requests_are_refused() -> None:
    with pytest.raises(InvalidInput, match="embedder"):
        embed(["a"], "tf-idf")
    with pytest.raises(InvalidInput, match="texts"):
        embed([])
    with pytest.raises(InvalidInput, match="dimensions"):
        embed(["a"], dimensions=0)


def obvious(texts: list[list[str]], most: int) -> dict[tuple[int, str], float]:
    counts = [Counter(found + [f"{left} {right}" for left, right in pairwise(found)]) for found in texts]
    spread = Counter(term for count in counts for term in count)
    shared = sorted((term for term, n in spread.items() if n > 1), key=lambda term: -spread[term])[:most]
    table = {
        (row, term): (1 + math.log(count[term])) * (math.log((1 + len(texts)) / (1 + spread[term])) + 1)
        for row, count in enumerate(counts)
        for term in shared
        if term in count
    }
    lengths = [
        math.sqrt(sum(v * v for (at, _), v in table.items() if at == row)) for row in range(len(texts))
    ]
    return {(row, term): value / lengths[row] for (row, term), value in table.items()}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcd"), max_size=8), min_size=1, max_size=8))
def test_the_same_table_as_the_obvious_way(texts: list[list[str]]) -> None:
    table = term_table(with_pairs(read_terms(texts)), len(texts), 10_000)
    expected = obvious(texts, 10_000)
    assert table.nnz == len(expected)
    for row in range(len(texts)):
        values = sorted(value for (at, _), value in expected.items() if at == row)
        np.testing.assert_allclose(sorted(table[[row]].data), values, rtol=1e-5)


def test_the_most_frequent_terms_are_kept() -> None:
    texts = [["a", "b", "c"], ["a", "c", "b"], ["a"], ["a", "d"]]
    table = term_table(read_terms(texts), len(texts), 1)
    assert table.shape == (4, 1)
    np.testing.assert_allclose(table.toarray(), 1.0)


def test_texts_without_a_shared_term_are_zero_rows() -> None:
    table = term_table(with_pairs(read_terms([["a"], [], ["b"]])), 3, 10)
    assert table.shape == (3, 1)
    assert table.nnz == 0


def test_features_end_with_the_length() -> None:
    texts = ["one", "two words here", "many more words than the others have"]
    features = text_features(texts)
    assert (np.diff(features[:, -1]) > 0).all()
    assert features.dtype == np.float32
    assert (text_features(["same"] * 3)[:, -1] == 0).all()
    assert words("Ab, c_d 3") == ["ab", "c_d", "3"]
