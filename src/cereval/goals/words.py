"""The question of a run in words, from the spec of its goal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cereval.wording import percent

Spec = Mapping[str, Any]


def in_words(spec: Spec) -> str:
    """The question of a run of any kind.

    >>> in_words({"goal": "estimate", "eps": 0.02}), in_words({"goal": "threshold", "value": 0.8})
    ('within 2%', 'at least 80%?')
    >>> in_words({"goal": "sign", "tie": 0.02}), in_words({"goal": "macro", "eps": 0.01, "each": 0.05})
    ('which is better, or within 0.02', 'macro mean within 0.01, every task within 0.05')
    """
    return WORDS[spec["goal"]](spec)


def _macro(spec: Spec) -> str:
    each = spec.get("each")
    return f"macro mean within {spec['eps']:g}" + ("" if each is None else f", every task within {each:g}")


WORDS: Mapping[str, Callable[[Spec], str]] = {
    "estimate": lambda spec: f"within {percent(spec['eps'])}",
    "threshold": lambda spec: f"at least {percent(spec['value'])}?",
    "sign": lambda spec: f"which is better, or within {spec['tie']:g}",
    "difference": lambda spec: f"difference within {spec['eps']:g}",
    "not-worse": lambda spec: f"not worse by more than {spec['eps']:g}?",
    "ranked": lambda _: "part of a ranking",
    "macro": _macro,
    "each": lambda spec: f"every task within {spec['eps']:g}",
    "all-at-least": lambda spec: f"every task at least {spec['value']:g}?",
    "which-fail": lambda spec: f"which tasks are below {spec['value']:g}?",
}
"""By the name of the goal."""
