"""Make random generators: each from the name of this package, a purpose and a seed.

A user's simulated model may well be `np.random.default_rng(seed)`, or `default_rng([seed, 1])`. If draws came from the
same generator, its scores would depend on them, and no interval would hold. The hash keeps the two apart.
"""

from __future__ import annotations

import hashlib

import numpy as np


def generator(purpose: str, seed: int, *more: int | str) -> np.random.Generator:
    """Return a generator that nobody else has by chance; `more` tells those of one purpose and seed apart.

    >>> generator("draws", 1).random() == generator("draws", 1).random()
    True
    >>> generator("draws", 1).random() == generator("draws", 1, "block 2").random()
    False
    """
    text = "\0".join(map(str, ("cereval", purpose, seed, *more)))
    return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest(), "big"))
