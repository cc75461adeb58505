"""Names that users type: what they probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str], most: int = 3) -> str:
    """A hint that ends an error line: the nearest known names, or the first few where none is near.

    >>> did_you_mean("gpt4", ["gpt-4", "gpt-4o", "llama"])
    "did you mean 'gpt-4' or 'gpt-4o'?"
    >>> did_you_mean("zzz", ["a", "b"])
    "there are 'a', 'b'"
    >>> did_you_mean("zzz", [])
    'there are none'
    """
    choices = list(known)
    folded = {choice.casefold(): choice for choice in reversed(choices)}
    near = [folded[match] for match in get_close_matches(name.casefold(), list(folded), n=most)]
    if near:
        return "did you mean " + " or ".join(map(repr, near)) + "?"
    if not choices:
        return "there are none"
    more = f" and {len(choices) - 8} more" if len(choices) > 8 else ""
    return "there are " + ", ".join(map(repr, choices[:8])) + more
