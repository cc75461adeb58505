"""The term table against the obvious way: counters of strings, text by text."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cereval.forecasts.embeddings import read_terms, term_table, text_features, with_pairs, words


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
