"""Score `choice`: the letter that the model picked among the item's choices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import exp
from string import ascii_uppercase
from typing import ClassVar

from cereval.scorers.base import Question, Score, need_answers
from cereval.scorers.text import fold, occurs, take_end

# Possessive repeats (`*+`, `++`, `?+`): two runs of blanks side by side would be divided in every way, which takes
# quadratic time. What follows a run never begins like it, so that nothing is lost.
_STATED = re.compile(
    r"(?:answer|choice|option)(?:\s++is)?+\s*+:?+\s*+(?:is\s*+)?+[*_`\"']*+(?:\\boxed\{)?+[(\[]?+([A-Z])(?![\w'])"
    r"|\\boxed\{\s*+(?:\\text\{\s*+)?+\(?+([A-Z])\)?+\s*+\}",
    re.IGNORECASE,
)
_LEADING = re.compile(r"\s*+[*_`\"']*+[(\[]?+([A-Za-z])(?:[)\].:,]|[*_`\"']*+\s*?(?:$|\n))")
_BRACKETED = re.compile(r"\(([A-Z])\)")


@dataclass(frozen=True, slots=True)
class Choice:
    """Score 1 when the letter read from the answer is the right one; 0 when it is not or none can be read.

    Read in this order: a stated answer ("the answer is C", a boxed one; the last counts), a leading letter,
    the text of exactly one choice, a letter in brackets (the last). Of long answers the last 100,000 characters count.
    """

    name: ClassVar[str] = "choice"

    async def score(self, question: Question, answer: str) -> Score:
        letter = pick_letter(answer, question.choices)
        golds = {gold.strip().strip("().").upper() for gold in need_answers(question)}
        return Score(letter in golds, detail=letter or "no choice recognised")


def pick_letter(answer: str, choices: tuple[str, ...]) -> str:
    """Read the chosen letter, or an empty text.

    >>> pick_letter("I think the answer is (b).", ("3", "4"))
    'B'
    >>> pick_letter("A good question. It is Paris", ("London", "Paris"))
    'B'
    """
    allowed = ascii_uppercase[: len(choices) or 26]
    text = take_end(answer)
    stated = [next(filter(None, match.groups())).upper() for match in _STATED.finditer(text)]
    leading = [match[1].upper() for match in [_LEADING.match(answer[:200])] if match]
    bracketed = _BRACKETED.findall(text)
    for letters in (stated[::-1], leading, _find_named(text, choices), bracketed[::-1]):
        for letter in letters:
            if letter in allowed:
                return letter
    return ""


def letter_chances(first_token: Mapping[str, float], count: int) -> dict[str, float]:
    """Return the chance of each letter among the likeliest first tokens, in proportion to one another; likeliest
    first.

    Tokens that differ by blanks or brackets alone (`B`, ` B`, `(B`) are the same letter.

    >>> chances = letter_chances({"B": -0.7, " B": -2.3, "A": -1.4, "The": -3.0}, 4)
    >>> {letter: round(chance, 3) for letter, chance in chances.items()}
    {'B': 0.708, 'A': 0.292}
    """
    weights: dict[str, float] = {}
    for token, logprob in first_token.items():
        letter = token.strip(" ()[].:*\n▁Ġ")
        if len(letter) == 1 and letter in ascii_uppercase[:count]:
            weights[letter] = weights.get(letter, 0.0) + exp(min(logprob, 0.0))
    total = sum(weights.values())
    likeliest = sorted(weights, key=lambda letter: (-weights[letter], letter))
    return {letter: weights[letter] / total for letter in likeliest} if total > 0 else {}


def _find_named(text: str, choices: tuple[str, ...]) -> list[str]:
    said = fold(text)
    names = [fold(choice) for choice in choices]
    whole = [i for i, name in enumerate(names) if name == said]
    found = whole or [i for i, name in enumerate(names) if name and occurs(name, said)]
    return [ascii_uppercase[found[0]]] if len(found) == 1 and found[0] < 26 else []
