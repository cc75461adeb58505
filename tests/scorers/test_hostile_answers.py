"""Answers of a million characters, made to be slow: every scorer is through with them in time, or says so."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cereval.datasets.base import Item
from cereval.errors import InvalidInput
from cereval.scorers import SCORERS, build_scorer, text
from cereval.scorers.base import Score, ScoringFailure, score_answer
from cereval.scorers.text import LONGEST, cut_long, fold, occurs

MILLION = 1_000_000
HOSTILE = {
    "blanks": " " * MILLION,
    # Of long answers the end counts: what is slow must stand there.
    "an answer of blanks": "x" * (MILLION - LONGEST) + "answer" + " " * (LONGEST - 6),
    "an answer of lines": "answer:" + "\n" * (LONGEST - 7),
    "many answers": "answer  is" * (MILLION // 10),
    "a box of blanks": "x" * (MILLION - LONGEST) + "\\boxed{" + " " * (LONGEST - 7),
    "a box of text": "\\boxed{\\text{" + " " * (LONGEST - 13),
    "a grade of blanks": "[[" + " " * (LONGEST - 2),
    "boxes": "\\boxed{" * (MILLION // 7),
    "digits": "7" * MILLION,
    "thousands": "1," + "111," * (MILLION // 4) + "1111",
    "powers": "1e1" * (MILLION // 3),
    "points": "1." * (MILLION // 2),
    "signs": "-" * MILLION,
    "parentheses": "(" * (MILLION // 2) + ")" * (MILLION // 2),
    "letters": "A " * (MILLION // 2),
    "one word": "a" * MILLION,
    "words": "ab " * (MILLION // 3),
    "stars": "*" * MILLION,
    "quotes": "\"'" * (MILLION // 2),
    "marks": "a" + "\u0301\u0316" * (MILLION // 2),
    "sorted marks": "a" + "\u0301" * (MILLION // 2) + "\u0316" * (MILLION // 2),
    "long ligatures": "\ufdfa" * MILLION,
    "halves": "\ud800" * MILLION,
    "control": "\x1b[31m" * (MILLION // 5),
}
SPECS = sorted(
    set(SCORERS) - {"recorded", "grade", "prefer", "panel", "people", "python", "math", "regex", "schema"}
)
CHOICES = ("a", "b", "a a", "ab ab a")


def scored(spec: Any, answer: str, *answers: str, choices: tuple[str, ...] = ()) -> Score | ScoringFailure:
    item = Item("q1", "a question", answers, choices)
    return asyncio.run(score_answer(build_scorer(spec), item, answer))


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("spec", [*SPECS, r"regex:answer is (\w+)", "exact:true", "contains:false"])
def test_hostile_answers_are_scored_in_time(spec: str, name: str) -> None:
    started = time.process_time()
    golds = ("7",) if spec == "numeric" else ("B", "aaaaaaaab", "ab ab a")
    assert isinstance(scored(spec, HOSTILE[name], *golds, choices=CHOICES), Score)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("expression", [r"(\s+)+x", r"\s*\s*\s*x", r"(a|aa)+$", r"(a*)*b", r".*.*.*="])
@pytest.mark.parametrize("name", ["blanks", "one word"])
def test_patterns_without_end_are_stopped(
    expression: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "LONGEST_S", 0.2)
    started = time.process_time()
    found = scored(f"regex:{expression}", HOSTILE[name], "x")
    assert isinstance(found, Score) or "took more than" in found.reason
    assert time.process_time() - started < 5


def test_a_long_answer_that_only_ends_rightly_is_not_exact() -> None:
    for answer in ("x" + " " * 150_000 + "Paris", "x" * 150_000 + "Paris", "Paris" + "x" * 150_000):
        assert scored("exact", answer, "Paris").value == 0.0  # type: ignore[union-attr]
    assert scored("exact", " " * 150_000 + "*Paris*", "Paris").value == 1.0  # type: ignore[union-attr]
    long = "word " * 50_000
    assert scored("exact", long + "\n", long).value == 1.0  # type: ignore[union-attr]


@given(st.text(st.sampled_from("a b*'.é")), st.text(st.sampled_from("a b*'.é"), min_size=1))
def test_a_short_answer_is_compared_whole(answer: str, gold: str) -> None:
    assert fold(cut_long(answer, (gold,))) == fold(answer)


@given(st.text(st.sampled_from("ab_ .+(é"), min_size=1, max_size=4), st.text(st.sampled_from("ab_ .+(é")))
def test_whole_words_are_found_as_a_pattern_would(phrase: str, text: str) -> None:
    assert occurs(phrase, text) == bool(re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text))


def test_an_exponent_needs_a_number() -> None:
    assert scored("numeric", "1e1e1", "1") == Score(1.0, detail="1")
    assert scored("numeric", "see 2e3e4", "4") == Score(1.0, detail="4")


FUNCTIONS = """
from cereval.scorers.base import Score

def good(output, item): return len(output) == len(item.answers[0])
async def later(output, item): return 0.5
def more(output, item, strict=False): return Score(0.25)
def some(*parts): return len(parts) == 2
class Object:
    async def __call__(self, output, item): return 0.75
callable_object = Object()
def one(output): return 1.0
def three(output, item, gold): return 1.0
def named(*, output, item): return 1.0
def none(): return 1.0
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)  # so that lines are as long wherever the tests run
    Path("own.py").write_text(FUNCTIONS)
    return "python:own.py"


@pytest.mark.parametrize(
    ("name", "value"), [("good", 1), ("later", 0.5), ("more", 0.25), ("some", 1), ("callable_object", 0.75)]
)
def test_functions_that_score(own: str, name: str, value: float) -> None:
    assert scored(f"{own}:{name}", "x", "y") == Score(value)


@pytest.mark.parametrize("name", ["one", "three", "named", "none"])
def test_functions_that_cannot_score_are_refused_when_built(own: str, name: str) -> None:
    with pytest.raises(InvalidInput, match=r"score\(output: str, item: Item\) -> float") as caught:
        build_scorer(f"{own}:{name}")
    line = str(caught.value)
    assert line.startswith("scorer must be")
    assert name in line
    assert "\n" not in line


def test_a_function_that_does_not_tell_is_tried() -> None:
    assert isinstance(scored("python:builtins:min", "x", "y"), ScoringFailure)
