"""Embedders: deterministic, finite, of length 1, and closer for like texts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cereval.errors import InvalidInput
from cereval.forecasts.embeddings import EMBEDDERS, embed, tfidf, unit_rows

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
    vectors = tfidf(texts, dimensions)
    assert vectors.shape == (len(texts), dimensions)
    assert np.isfinite(vectors).all()


def test_svd_keeps_inner_products_of_a_small_table() -> None:
    """All directions kept: the rotated rows have the cosines of the TF-IDF rows."""
    texts = ["a b", "a b c", "c d", "d c a", "b b b a"]
    full = tfidf(texts, 40)
    again = tfidf(texts[::-1], 40)[::-1]
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
