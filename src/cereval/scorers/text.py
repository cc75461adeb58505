"""Texts made comparable."""

from __future__ import annotations

import re
import string
import unicodedata

LONGEST = 100_000
"""Characters of an answer that pattern matching looks at: a runaway answer must not stall the run."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def ending(answer: str) -> str:
    """The last part of a long answer, where conclusions stand."""
    return answer[-LONGEST:]


def folded(text: str) -> str:
    """Without differences of case, width and blanks, quotes around the text and a full stop after it.

    >>> folded('  "Forty  Two." ')
    'forty two'
    """
    text = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return text.strip("\"'`*").removesuffix(".").strip("\"'`* ")


def tokens(text: str) -> list[str]:
    """The words that SQuAD compares: folded, without punctuation and articles.

    >>> tokens("The cat's hat!")
    ['cats', 'hat']
    """
    bare = unicodedata.normalize("NFKC", text).casefold().translate(_PUNCTUATION)
    return _ARTICLES.sub(" ", bare).split()
