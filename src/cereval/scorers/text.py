"""Texts made comparable."""

from __future__ import annotations

import re
import string
import unicodedata

LONGEST = 100_000
"""Characters of an answer that pattern matching looks at: a runaway answer must not stall the run."""

MOST_MARKS = 30
"""Combining marks in a row, as in Unicode's stream-safe format: they are sorted, at quadratic cost."""

_WORD_END = re.compile(r"\W")
_MARKS = re.compile(rb"[^\0]{%d,}" % (MOST_MARKS + 1))
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def ending(answer: str) -> str:
    """The last part of a long answer, where conclusions stand."""
    return answer[-LONGEST:]


def occurs(phrase: str, text: str) -> bool:
    """Tell whether a phrase stands in a text as whole words, as `(?<!\\w)phrase(?!\\w)` does, but in linear time.

    >>> occurs("4", "14 or 4."), occurs("4", "14"), occurs("c++", "c++, of course")
    (True, False, True)
    """
    start = text.find(phrase)
    while start >= 0:
        end = start + len(phrase)
        if not (start and _is_word(text[start - 1])) and not (end < len(text) and _is_word(text[end])):
            return True
        # The next place can only be after the end of this word: not every letter of it is tried.
        word_end = _WORD_END.search(text, start)
        start = text.find(phrase, word_end.end()) if word_end else -1
    return False


def composed(text: str) -> str:
    """Bring a text into Unicode's compatible, composed form (NFKC), in linear time.

    >>> composed("ﬁ"), len(composed("a" + "\u0316\u0301" * 9999)) < 40
    ('fi', True)
    """
    if text.isascii():
        return text
    classes = bytes(map(unicodedata.combining, text))
    kept, place = [], 0
    for run in _MARKS.finditer(classes):
        kept.append(text[place : run.start() + MOST_MARKS])
        place = run.end()
    return unicodedata.normalize("NFKC", "".join([*kept, text[place:]]))


def beginning(answer: str, golds: tuple[str, ...]) -> str:
    """Cut an answer that is far longer than every accepted one: what is left is still longer, and equal to none."""
    if len(answer) <= LONGEST:
        return answer
    # What folding takes away without bound goes first; the rest it shortens three times at most (Korean).
    bare = " ".join(answer.split()).strip("\"'`* ")
    return bare[: max(LONGEST, 10 * max(map(len, golds)))]


def folded(text: str) -> str:
    """Without differences of case, width and blanks, quotes around the text and a full stop after it.

    >>> folded('  "Forty  Two." ')
    'forty two'
    """
    text = " ".join(composed(text).casefold().split())
    return text.strip("\"'`*").removesuffix(".").strip("\"'`* ")


def tokens(text: str) -> list[str]:
    """The words that SQuAD compares: folded, without punctuation and articles.

    >>> tokens("The cat's hat!")
    ['cats', 'hat']
    """
    bare = composed(text).casefold().translate(_PUNCTUATION)
    return _ARTICLES.sub(" ", bare).split()


def _is_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"
