"""Texts of strangers, made safe to show: no control characters, no change of direction, bounded length."""

from __future__ import annotations

REPLACEMENT = "\ufffd"
ESCAPE_PICTURES = 0x2400
"""U+2400 and up: pictures of the control characters, as in ␛ for ESC."""


def printable(text: str, limit: int = 400, *, lines: bool = False) -> str:
    """A text that can do nothing to a terminal or a page but be read; `lines` keeps line breaks.

    >>> printable("red: \\x1b[31m, half a pair: \\ud800"), printable("a" * 9, limit=4)
    ('red: ␛[31m, half a pair: �', 'aaaa… (5 more characters)')
    """
    kept = "".join(_shown(letter, lines) for letter in text[:limit])
    more = len(text) - limit
    return kept if more <= 0 else f"{kept}… ({more:,} more characters)"


def shortened(name: str, width: int) -> str:
    """A name of at most so many characters, cut in its middle: versions differ at the end.

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
