"""Write words and numbers for people: safe to show, never narrower than what is proven."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Protocol

FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet would take for the beginning of a formula."""

REPLACEMENT = "\ufffd"
UNSTORABLE = re.compile("[\ud800-\udfff\0]")
ESCAPE_PICTURES = 0x2400
"""U+2400 and up: pictures of the control characters, as in ␛ for ESC."""


def printable(text: str, limit: int = 400, *, lines: bool = False) -> str:
    """Return a text that can do nothing to a terminal or a page but be read; `lines` keeps line breaks.

    >>> printable("red: \\x1b[31m, half a pair: \\ud800"), printable("a" * 9, limit=4)
    ('red: ␛[31m, half a pair: �', 'aaaa… (5 more characters)')
    """
    kept = "".join(_shown(letter, lines) for letter in text[:limit])
    more = len(text) - limit
    return kept if more <= 0 else f"{kept}… ({more:,} more characters)"


def storable(text: str) -> str:
    """Return a text that every database and terminal takes: U+FFFD for NUL and for halves of surrogate pairs.

    >>> storable("a\\ud800b\\0")
    'a\ufffdb\ufffd'
    """
    return UNSTORABLE.sub(REPLACEMENT, text)


def shortened(name: str, width: int) -> str:
    """Return a name of at most so many characters, cut in its middle: versions differ at the end.

    >>> shortened("claude-3-5-sonnet-20241022", 15), shortened("gpt-4o", 15)
    ('claude-…0241022', 'gpt-4o')
    """
    if len(name) <= width:
        return name
    end = width // 2
    return f"{name[: width - 1 - end]}…{name[-end:]}"


def _shown(letter: str, lines: bool) -> str:
    if letter in "\n\t":
        return letter if lines else " "
    if letter.isprintable():
        return letter
    code = ord(letter)
    # What is left: halves of pairs, marks that turn the direction of writing, letters without a shape.
    return chr(ESCAPE_PICTURES + code) if code < 0x20 else " " if letter.isspace() else REPLACEMENT


def harmless_cell(value: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula: most texts in a table are written by strangers.

    >>> harmless_cell("=HYPERLINK(1)"), harmless_cell("2 = 2"), harmless_cell(-1)
    ("'=HYPERLINK(1)", '2 = 2', -1)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULAS) else value


def did_you_mean(name: str, known: Iterable[str], most: int = 3) -> str:
    """Return a hint that ends an error line: the nearest known names, or the first few where none is near.

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


SIDES = {"above": "certified pass", "below": "certified fail", None: "undecided"}


def percent(share: float) -> str:
    """Return a share with the digits it has, and no more.

    >>> percent(0.95), percent(0.999)
    ('95%', '99.9%')
    """
    return f"{round(share * 100, 6):g}%"


def rounded(share: float, digits: int = 1) -> str:
    """Return a share with so many digits.

    >>> rounded(0.95, 0), rounded(0.82449)
    ('95%', '82.4%')
    """
    return f"{share * 100:.{digits}f}%"


def outwards(lower: float, upper: float, digits: int = 1) -> tuple[str, str]:
    """Return both ends of an interval, rounded away from its middle.

    >>> outwards(0.80123, 0.83871)
    ('80.1%', '83.9%')
    """
    step = 10.0 ** -(digits + 2)
    low, high = math.floor(lower / step + 1e-6) * step, math.ceil(upper / step - 1e-6) * step
    return rounded(max(low, 0.0), digits), rounded(min(high, 1.0), digits)


def interval(lower: float, upper: float) -> str:
    """Return an interval on a line, rounded outwards.

    >>> interval(0.80123, 0.83871)
    '[80.12%, 83.88%]'
    """
    return "[{}, {}]".format(*outwards(lower, upper, 2))


def signed_interval(lower: float, upper: float) -> str:
    """Return the ends of a difference, rounded away from its middle.

    >>> signed_interval(-0.00123, 0.02)
    '[-0.13%, +2.00%]'
    """
    low, high = math.floor(lower * 1e4 + 1e-6) / 100, math.ceil(upper * 1e4 - 1e-6) / 100
    return f"[{low:+.2f}%, {high:+.2f}%]"


class Bounded(Protocol):
    @property
    def estimate(self) -> float: ...
    @property
    def lower(self) -> float: ...
    @property
    def upper(self) -> float: ...


EXACT = 1e-9
"""An interval no wider than this is the mean of all scores itself, but for rounding."""


def estimate_in_interval(result: Bounded) -> str:
    """Return the best estimate and the certified interval, whose ends are rounded outwards.

    >>> from types import SimpleNamespace
    >>> estimate_in_interval(SimpleNamespace(estimate=0.31234, lower=0.26234, upper=0.36233))
    '31.2% (26.2% to 36.3%)'
    >>> estimate_in_interval(SimpleNamespace(estimate=0.8245, lower=0.8245, upper=0.8245))
    '82.45% (exact)'
    """
    digits, ends = _ends(result.lower, result.upper)
    if ends is None:
        return f"{rounded(result.estimate, digits)} (exact)"
    low, high = (f"{min(max(end, 0.0), 100.0):.{digits}f}%" for end in ends)
    return f"{rounded(result.estimate, digits)} ({low} to {high})"


def points(difference: float, lower: float, upper: float) -> str:
    """Return a difference of two shares with its certified interval, in percentage points.

    >>> points(0.0275, -0.0215, 0.0765), points(-0.5, -0.5, -0.5)
    ('+2.8 points (-2.2 to +7.7)', '-50.00 points (exact)')
    """
    digits, ends = _ends(lower, upper)
    inside = "exact" if ends is None else " to ".join(_signed(end, digits) for end in ends)
    return f"{_signed(100 * difference, digits)} points ({inside})"


def points_ahead(difference: float, lower: float, upper: float) -> str:
    """Return by how much one that is certainly better is ahead: more than 0, however near to 0 the interval ends.

    >>> points_ahead(0.07, 0.021, 0.12), points_ahead(0.07, 0.0, 0.1416)
    ('7.0 points (2.1 to 12.0)', '7.0 points (more than 0, at most 14.2)')
    """
    digits, ends = _ends(lower, upper)
    inside = "exact"
    if ends is not None:
        low, high = (f"{end:.{digits}f}" for end in ends)
        inside = f"{low} to {high}" if ends[0] > 0 else f"more than 0, at most {high}"
    return f"{100 * difference:.{digits}f} points ({inside})"


def _ends(lower: float, upper: float) -> tuple[int, tuple[float, float] | None]:
    """Return the digits that an interval deserves, and its ends in percent, rounded outwards; None: it is exact.

    The ends are rounded by a 20th of the interval at most.
    """
    width = upper - lower
    if width <= EXACT:
        return 2, None
    digits = 1 if width >= 0.02 - EXACT else 2 if width >= 0.002 - EXACT else 3
    scale = 10.0**digits
    return digits, (
        math.floor(100 * lower * scale + 1e-6) / scale,
        math.ceil(100 * upper * scale - 1e-6) / scale,
    )


def _signed(value: float, digits: int) -> str:
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text


def money(cost_usd: float | None) -> str:
    """Write an amount in US dollars.

    >>> money(None), money(0.0), money(0.0412), money(12.3)
    ('unknown', 'nothing', '$0.0412', '$12.30')
    """
    if cost_usd is None:
        return "unknown"
    if cost_usd == 0:
        return "nothing"
    return f"${cost_usd:.2f}" if cost_usd >= 1 else f"${cost_usd:.4f}"


def duration(seconds: float) -> str:
    """Write a number of seconds in the units people use.

    >>> duration(0.4), duration(75), duration(7260)
    ('0.4 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
