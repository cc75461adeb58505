"""Say how far out the tails of the normal distribution are, also where they are too thin for 1 - tail."""

from __future__ import annotations

from sys import float_info

from scipy.special import ndtri


def upper_quantile(tail: float) -> float:
    """Return what a standard normal number exceeds with the chance `tail`.

    >>> round(upper_quantile(0.025), 3), round(upper_quantile(1e-17), 3)
    (1.96, 8.494)
    """
    # The first form is that of all certificates so far; it has no finite value where 1 - tail rounds to 1.
    return float(ndtri(1 - tail) if tail > float_info.epsilon else -ndtri(tail))
