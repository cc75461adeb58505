"""Score by the answer's text: `exact`, `contains`, `f1`, `regex`, `choice` (the letter that was picked), `schema`."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import exp
from string import ascii_uppercase
from typing import Any, ClassVar

import regex

from cereval.datasets.base import Item
from cereval.errors import BadContent, InvalidInput
from cereval.files import parse_json
from cereval.imports import optional
from cereval.scorers.base import Score, need_answers, off_the_loop

LONGEST = 100_000
"""Characters of an answer that pattern matching looks at: a runaway answer must not stall the run."""

MOST_MARKS = 30
"""Combining marks in a row, as in Unicode's stream-safe format: they are sorted, at quadratic cost."""

_WORD_END = re.compile(r"\W")
_MARKS = re.compile(rb"[^\0]{%d,}" % (MOST_MARKS + 1))
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class Exact:
    """Score 1 when the answer is an accepted one up to case, blanks, quotes around it and a final full stop.

    `strict`: up to surrounding blanks only.
    """

    strict: bool = False
    name: ClassVar[str] = "exact"

    async def score(self, question: Item, answer: str) -> Score:
        golds = need_answers(question)
        form = str.strip if self.strict else fold
        read = answer.strip() if self.strict else fold(cut_long(answer, golds))
        return Score(any(read == form(gold) for gold in golds), detail=read[:200])


@dataclass(frozen=True, slots=True)
class Contains:
    """Score 1 when an accepted answer occurs, as whole words unless told otherwise: `4` does not occur in `14`.

    Of long answers the last 100,000 characters count.
    """

    whole_words: bool = True
    name: ClassVar[str] = "contains"

    async def score(self, question: Item, answer: str) -> Score:
        text = fold(take_end(answer))
        for gold in map(fold, need_answers(question)):
            if not gold:
                raise InvalidInput("answer", "not empty for the scorer `contains`", question.id)
            if occurs(gold, text) if self.whole_words else gold in text:
                return Score(1.0, detail=gold[:200])
        return Score(0.0)


@dataclass(frozen=True, slots=True)
class F1:
    """Score by the best F1 of the answer's words against each accepted answer's; of long ones the last 100,000
    characters.
    """

    name: ClassVar[str] = "f1"

    async def score(self, question: Item, answer: str) -> Score:
        said = Counter(tokens(take_end(answer)))
        return Score(max(f1(said, Counter(tokens(gold))) for gold in need_answers(question)))


def f1(said: Counter[str], gold: Counter[str]) -> float:
    """Take the harmonic mean of precision and recall over words with their counts.

    >>> f1(Counter(["red", "cat"]), Counter(["cat"]))
    0.6666666666666666
    """
    if not said or not gold:
        return float(said == gold)
    shared = (said & gold).total()
    return 2 * shared / (said.total() + gold.total())


def take_end(answer: str) -> str:
    """Take the last part of a long answer, where conclusions stand."""
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


def compose(text: str) -> str:
    """Bring a text into Unicode's compatible, composed form (NFKC), in linear time.

    >>> compose("ﬁ"), len(compose("a" + "\u0316\u0301" * 9999)) < 40
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


def cut_long(answer: str, golds: tuple[str, ...]) -> str:
    """Cut an answer that is far longer than every accepted one: what is left is still longer, and equal to none."""
    if len(answer) <= LONGEST:
        return answer
    # What folding takes away without bound goes first; the rest it shortens three times at most (Korean).
    bare = " ".join(answer.split()).strip("\"'`* ")
    return bare[: max(LONGEST, 10 * max(map(len, golds)))]


def fold(text: str) -> str:
    """Remove differences of case, width and blanks, quotes around the text and a full stop after it.

    >>> fold('  "Forty  Two." ')
    'forty two'
    """
    text = " ".join(compose(text).casefold().split())
    return text.strip("\"'`*").removesuffix(".").strip("\"'`* ")


def tokens(text: str) -> list[str]:
    """Split a text into the words that SQuAD compares: folded, without punctuation and articles.

    >>> tokens("The cat's hat!")
    ['cats', 'hat']
    """
    bare = compose(text).casefold().translate(_PUNCTUATION)
    return _ARTICLES.sub(" ", bare).split()


def _is_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


LONGEST_S = 2.0
"""Seconds of the processor for one answer: a pattern with nested repeats could take years."""


@dataclass(frozen=True, slots=True)
class Regex:
    """Compare the last match (its first group, if it has one) with the accepted answers as `exact` does.

    For items without answers a match alone scores 1. Of long answers the last 100,000 characters count. A pattern
    that finds no end on an answer, as `(a|aa)+$` may not, is stopped: that answer counts as a failed call.
    """

    pattern: str
    name: ClassVar[str] = "regex"

    def __post_init__(self) -> None:
        try:
            regex.compile(self.pattern)
        except (regex.error, TypeError) as error:
            raise InvalidInput("pattern", f"a regular expression ({error})", self.pattern) from error
        except RecursionError:
            raise InvalidInput("pattern", "a regular expression with fewer groups", self.pattern) from None

    async def score(self, question: Item, answer: str) -> Score:
        # In a thread and without the interpreter's lock: a slow pattern must not hold up the other calls.
        read = await off_the_loop(self._read, take_end(answer))
        if read is None:
            return Score(0.0, detail="no match")
        right = not question.answers or fold(read) in map(fold, question.answers)
        return Score(right, detail=read[:200])

    def _read(self, text: str) -> str | None:
        found = None
        try:
            for match in regex.finditer(
                self.pattern, text, regex.MULTILINE, concurrent=True, timeout=LONGEST_S
            ):
                found = match
        except TimeoutError:
            raise TimeoutError(f"the pattern took more than {LONGEST_S:g} s; avoid nested repeats") from None
        if found is None:
            return None
        return (found.group(1) if found.re.groups else found.group()) or ""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Take the answer for the score: of columns of recorded scores, where nothing is left to be scored."""

    name: ClassVar[str] = "recorded"

    async def score(self, question: Item, answer: str) -> Score:  # noqa: ARG002
        return Score(float(answer))


# -- choices ----------------------------------------------------------------------------------------------------------


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

    async def score(self, question: Item, answer: str) -> Score:
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


# -- JSON of a given schema --------------------------------------------------------------------------------------------


LONGEST_JSON = 1_000_000
"""Characters of an answer that are parsed."""


@dataclass(frozen=True, slots=True)
class Schema:
    """Score 1 when the answer is JSON, alone or in a fence (```json), that the JSON schema allows."""

    schema: Mapping[str, Any]
    name: ClassVar[str] = "schema"
    argument: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if not isinstance(self.schema, Mapping):
            raise InvalidInput("schema", "a JSON schema (--schema FILE)", self.schema)
        library = optional("jsonschema", "schema")
        try:
            library.validators.validator_for(self.schema).check_schema(self.schema)
        except library.SchemaError as error:
            raise InvalidInput("schema", f"a JSON schema ({error.message})", self.schema) from None

    async def score(self, question: Item, answer: str) -> Score:  # noqa: ARG002
        try:
            value = parse_json(_unfenced(answer[:LONGEST_JSON]), "the answer", unique=True, mend=True)
        except BadContent as error:
            return Score(0.0, str(error))
        wrong: str = await off_the_loop(_what_is_wrong, self.schema, value)
        return Score(not wrong, wrong)


def _what_is_wrong(schema: Mapping[str, Any], value: Any) -> str:
    library, registry = (
        optional("jsonschema", "schema"),
        optional("referencing.jsonschema", "schema").EMPTY_REGISTRY,
    )
    kind = library.validators.extend(library.validators.validator_for(schema), {"pattern": _check_pattern})
    # Without a registry of its own, a reference to another address would be fetched from there.
    error = library.exceptions.best_match(kind(dict(schema), registry=registry).iter_errors(value))
    return "" if error is None else f"{error.json_path}: {error.message}"


def _check_pattern(_: Any, pattern: str, value: Any, __: Any) -> Iterator[Any]:
    if isinstance(value, str) and not regex.search(pattern, value, concurrent=True, timeout=LONGEST_S):
        yield optional("jsonschema", "schema").ValidationError(f"{value!r} does not match {pattern!r}")


def _unfenced(answer: str) -> str:
    lines = answer.strip().splitlines()
    if len(lines) > 2 and lines[0].startswith("```") and lines[-1].strip() == "```":
        return "\n".join(lines[1:-1])
    return answer.strip()
