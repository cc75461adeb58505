from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cereval.datasets.base import Item
from cereval.errors import InvalidInput
from cereval.models.base import EndpointError
from cereval.scorers import SCORERS, build_scorer
from cereval.scorers.base import LONGEST_DETAIL, Score, ScoringFailure, score_answer, spec_of


def asked(answers: tuple[str, ...] = (), choices: tuple[str, ...] = ()) -> Item:
    return Item("q1", "a question", answers, choices)


def scored(spec: Any, answer: str, *answers: str, choices: tuple[str, ...] = ()) -> Score | ScoringFailure:
    return asyncio.run(score_answer(build_scorer(spec), asked(answers, choices), answer))


def value(*args: Any, **kwargs: Any) -> float:
    score = scored(*args, **kwargs)
    assert isinstance(score, Score), score
    return score.value


@pytest.mark.parametrize(
    ("spec", "answer", "golds", "expected"),
    [
        ("exact", " Paris. ", ["paris"], 1),
        ("exact", "**Paris**", ["Lyon", "Paris"], 1),
        ("exact", "Paris, France", ["Paris"], 0),
        ("exact:true", "paris", ["Paris"], 0),
        ({"name": "exact", "strict": True}, " Paris\n", ["Paris"], 1),
        ("contains", "It is 14.", ["4"], 0),
        ("contains", "It is 4!", ["4"], 1),
        ("contains:false", "It is 14.", ["4"], 1),
        ("contains", "costs C++ (a+b)", ["C++"], 1),
        (r"regex:answer: (\w+)", "answer: no\nanswer: YES", ["yes"], 1),
        (r"regex:\d+", "12", [], 1),
        (r"regex:\d+", "none", [], 0),
        ("numeric", "So it is $1,234.50.", ["1234.5"], 1),
        ("numeric", "#### 72", ["Natalia sold 48/2 = 24. #### 72"], 1),
        ("numeric:0.01", "3.14", ["3.14159"], 1),
        ("numeric", "3.14", ["3.14159"], 0),
        ("numeric", "the answer is −5", ["-5"], 1),
        ("numeric", "1e3", ["1000"], 1),
        ("numeric", "I cannot say", ["7"], 0),
        ("f1", "the red cat", ["cat"], 2 / 3),
        ("f1", "", ["cat"], 0),
    ],
)
def test_scores(spec: Any, answer: str, golds: list[str], expected: float) -> None:
    assert value(spec, answer, *golds) == pytest.approx(expected)


CITIES = ("London", "Paris", "New York", "York")


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("B", "B"),
        ("b)", "B"),
        ("(B) Paris", "B"),
        ("**B**", "B"),
        ("B. Paris is the capital", "B"),
        ("The answer is B.", "B"),
        ("Answer: C\nNo wait, the correct answer is (B)", "B"),
        (r"so \boxed{B}", "B"),
        ("Paris", "B"),
        ("It must be Paris, of course", "B"),
        ("York", "D"),
        ("A good guess would be (B)", "B"),
        ("the answer is Zebra", ""),
        ("Z", ""),
        ("", ""),
        ("<b>dunno</b>\x1b[31m", ""),
    ],
)
def test_the_letter_is_read(answer: str, letter: str) -> None:
    score = scored("choice", answer, "B", choices=CITIES)
    assert isinstance(score, Score)
    assert score.detail == (letter or "no choice recognised")
    assert score.value == (letter == "B")


@pytest.mark.parametrize(
    ("answer", "gold", "expected"),
    [
        (r"Thus $\boxed{\frac{1}{2}}$", "0.5", 1),
        (r"The answer is $x = \sqrt{8}$", r"2\sqrt{2}", 1),
        (r"$(-\infty, 3]$", r"(-\infty, 3]", 1),
        ("I do not know", r"\frac{1}{3}", 0),
        (r"\boxed{\frac{1}{2", "0.5", 0),
        (r"$9^{9^{9^{9}}}$", "5", 0),
    ],
)
def test_mathematics(answer: str, gold: str, expected: float) -> None:
    pytest.importorskip("math_verify", reason="pip install 'cereval[math]'")
    assert value("math:1", answer, gold) == expected


def test_mathematics_in_another_thread() -> None:
    pytest.importorskip("math_verify", reason="pip install 'cereval[math]'")
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(value, "math", r"$\frac{1}{2}$", "0.5").result() == 1


HOSTILE = [
    "<script>alert(1)</script>",
    "\x1b[2J\x1b]0;x\x07",
    "\ud800\udfff",
    "\0" * 100,
    "(" * 10_000,
    "9" * 10_000,
]


@pytest.mark.parametrize(
    "name",
    sorted(set(SCORERS) - {"grade", "prefer", "panel", "people", "python", "math", "schema", "recorded"}),
)
def test_hostile_and_huge_answers_score_in_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In time of its own: a loaded machine takes longer, for which no pattern is to be blamed."""
    monkeypatch.setattr("cereval.scorers.text.LONGEST_S", 60.0)
    spec = f"{name}:(x+)+y" if name == "regex" else name
    for answer in [*HOSTILE, "1,234 the answer is B " * 500_000]:
        started = time.process_time()
        assert isinstance(scored(spec, answer, "7", choices=("a", "b")), Score)
        assert time.process_time() - started < 8


def test_a_pattern_without_end_is_a_failure_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cereval.scorers.text.LONGEST_S", 0.05)
    failed = scored("regex:(a|aa)+$", "a" * 60 + "b", "7")
    assert isinstance(failed, ScoringFailure)
    assert "took more than" in failed.reason


@given(
    st.sampled_from(["exact", "contains", "choice", "numeric", "f1", r"regex:\w+"]), st.text(st.characters())
)
def test_scores_lie_in_the_unit_interval(spec: str, answer: str) -> None:
    score = scored(spec, answer, "7", choices=("a", "b"))
    assert isinstance(score, Score)
    assert 0 <= score.value <= 1


@given(st.lists(st.sampled_from("abc"), min_size=1), st.lists(st.sampled_from("abc"), min_size=1))
def test_f1_is_symmetric_and_one_only_for_the_same_words(left: list[str], right: list[str]) -> None:
    said, gold = " ".join(f"w{x}" for x in left), " ".join(f"w{x}" for x in right)
    assert value("f1", said, gold) == value("f1", gold, said)
    assert (value("f1", said, gold) == 1) == (sorted(left) == sorted(right))


@given(st.floats(-1e15, 1e15, allow_nan=False))
@settings(max_examples=50)
def test_every_number_is_read_back(number: float) -> None:
    assert value("numeric:0", f"It is {number!r} units", repr(number)) == 1


FUNCTIONS = """
from cereval.scorers.base import Score
def length(answer, item): return len(answer) / 10
async def same(answer, item): return answer == item.answers[0]
def crash(answer, item): return 1 / 0
def nothing(answer, item): return None
def word(answer, item): return "1"
def nan(answer, item): return float("nan")
def full(answer, item): return Score(0.25, "why", 0.01)
def pair(answer, item): return 0.5, "too short"
def named(answer, item): return {"score": True, "reason": "as it should be"}
async def reasonless(answer, item): return {"score": 0.75}
def triple(answer, item): return 0.5, "too", "short"
def two(answer, item): return 1.0, 0.0
def later(answer, item): return same(answer, item)
def other(answer, item): return {"score": 1.0, "strict": 0.0}
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("length", 0.3),
        ("same", 0.0),
        ("full", 0.25),
        ("pair", 0.5),
        ("named", 1.0),
        ("reasonless", 0.75),
        ("triple", None),
        ("two", None),
        ("later", 0.0),
        ("other", None),
        ("crash", None),
        ("nothing", None),
        ("word", None),
        ("nan", None),
    ],
)
def test_functions_of_users(tmp_path: Path, name: str, expected: float | None) -> None:
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    score = scored(f"python:{tmp_path}/mine.py:{name}", "abc", "x")
    if expected is None:
        assert isinstance(score, ScoringFailure)
        assert "\n" not in score.reason
    else:
        assert isinstance(score, Score)
        assert score.value == expected


@pytest.mark.parametrize("name", ["two", "later"])
def test_functions_of_users_are_tried_before_anything_is_paid(tmp_path: Path, name: str) -> None:
    """Two numbers are two scores, and no score with its reason."""
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    scorer = build_scorer(f"python:{tmp_path}/mine.py:{name}")
    if name == "two":
        with pytest.raises(InvalidInput, match=r"a number, \(score, reason\) or .* got \(1.0, 0.0\)"):
            scorer.check([Item("1", "q", answers=("a",))])
    else:
        scorer.check([Item("1", "q", answers=("a",))])


def test_reasons_are_kept_whole_and_bounded(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    for name, reason in (("pair", "too short"), ("named", "as it should be"), ("reasonless", "")):
        score = scored(f"python:{tmp_path}/mine.py:{name}", "abc")
        assert isinstance(score, Score)
        assert score.detail == reason
    assert len(Score(1.0, "x" * 10**6).detail) == LONGEST_DETAIL


def test_a_function_is_a_scorer_itself() -> None:
    def length(output: str, item: Any) -> tuple[float, str]:
        return len(output) / 10, f"of {item.id}"

    scorer = build_scorer(length)
    assert asyncio.run(score_answer(scorer, asked(), "abc")) == Score(0.3, "of q1")
    assert spec_of(scorer)["function"].endswith("test_a_function_is_a_scorer_itself.<locals>.length")
    assert scorer.code == build_scorer(length).code  # type: ignore[attr-defined]
    with pytest.raises(InvalidInput, match="the second argument is the item"):
        build_scorer(lambda output, target: output == target)


PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^[A-Z]"}, "age": {"type": "integer"}},
    "required": ["name"],
}


@pytest.mark.parametrize(
    ("answer", "expected", "why"),
    [
        ('{"name": "Ann", "age": 7}', 1, ""),
        ('```json\n{"name": "Ann"}\n```\n', 1, ""),
        ('{"name": "Ann", "age": "7"}', 0, "$.age: '7' is not of type 'integer'"),
        ('{"name": "ann"}', 0, "$.name: 'ann' does not match"),
        ("{}", 0, "$: 'name' is a required property"),
        ("Here you are: {}", 0, "broken JSON"),
        ('{"name": "Ann", "name": "Bob"}', 0, "the key 'name' twice"),
        ("[" * 100_000, 0, "nested too deeply"),
        ("", 0, "broken JSON"),
    ],
)
def test_json_of_a_schema(answer: str, expected: float, why: str) -> None:
    score = scored({"name": "schema", "schema": PERSON}, answer)
    assert isinstance(score, Score)
    assert score.value == expected
    assert why in score.detail


def test_a_schema_reaches_nothing_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cereval.scorers.text.LONGEST_S", 0.2)
    for schema in (
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"type": "string", "pattern": "^(a|aa)+$"},
        {"$ref": "#"},
    ):
        failure = scored({"name": "schema", "schema": schema}, json.dumps("a" * 50 + "b"))
        assert isinstance(failure, ScoringFailure)


def test_a_schema_is_part_of_the_spec_and_must_be_one() -> None:
    scorer = build_scorer({"name": "schema", "schema": PERSON})
    assert build_scorer(json.loads(json.dumps(spec_of(scorer)))) == scorer
    for spec in ("schema", "schema:file.json", {"name": "schema", "schema": "x"}):
        with pytest.raises(InvalidInput, match=r"SCHEMA|schema|argument"):
            build_scorer(spec)
    with pytest.raises(InvalidInput, match="a JSON schema"):
        build_scorer({"name": "schema", "schema": {"type": "text"}})


def test_a_score_takes_the_numbers_of_other_libraries() -> None:
    assert Score(np.float32(0.5)).value == 0.5  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        Score(1.5)


@pytest.mark.parametrize(
    "spec",
    ["exact", "exact:true", r"regex:(\d+)", "numeric:0.5", "math:2", "f1", "choice", "python:math:pow"],
)
def test_a_spec_rebuilds_its_scorer(spec: str) -> None:
    scorer = build_scorer(spec)
    assert build_scorer(spec_of(scorer)) == scorer


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("exat", "did you mean 'exact'"),
        ("regex", "regex:PATTERN"),
        ("regex:(", "regular expression"),
        ("regex:" + "(" * 3000, "fewer groups"),
        ("f1:3", "without an argument"),
        ("numeric:wide", "tolerance must be"),
        ("numeric:2", "tolerance must be"),
        ("python:nowhere:f", "importable module"),
        ({"name": "exact", "strikt": True}, "did you mean 'strict'"),
        ({"name": "exact", "strict": "yes"}, "strict must be"),
        ("grade", "--judge"),
    ],
)
def test_scorers_that_cannot_be(spec: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        build_scorer(spec)


def test_data_without_answers_is_a_failure_that_says_so() -> None:
    score = scored("exact", "x")
    assert isinstance(score, ScoringFailure)
    assert "none for item q1" in score.reason


def test_an_error_of_every_call_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def dead(*_: object) -> None:
        raise EndpointError("wrong key")

    monkeypatch.setattr("cereval.scorers.text.fold", dead)
    with pytest.raises(EndpointError):
        scored("exact", "x", "x")


HANGING = """
import subprocess
import sys
import time

def hangs(output, item):
    while output == "endless":
        time.sleep(0.01)
    return 1

async def waits(output, item):
    import asyncio
    await asyncio.sleep(60 if output == "endless" else 0)
    return 1
"""


@pytest.mark.parametrize("name", ["hangs", "waits"])
def test_a_scorer_that_hangs_is_a_failure_and_holds_up_nobody(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"hanging_{name}.py"
    path.write_text(HANGING)
    scorer = build_scorer(f"python:{path}:{name}")

    def scoring(text: str) -> asyncio.Task[Score | ScoringFailure]:
        return asyncio.create_task(score_answer(scorer, asked(("1",)), text))

    async def both() -> tuple[list[Score | ScoringFailure], ScoringFailure | Score]:
        monkeypatch.setattr("cereval.scorers.base.LONGEST_S", 600.0)
        hanging = [scoring("endless") for _ in range(3)]
        fine = await asyncio.gather(*(scoring("fine") for _ in range(40)))
        assert not any(task.done() for task in hanging), "the others did not wait for them"
        for task in hanging:
            task.cancel()
        monkeypatch.setattr("cereval.scorers.base.LONGEST_S", 0.3)
        return fine, await scoring("endless")

    fine, failed = asyncio.run(both())
    assert all(isinstance(score, Score) for score in fine)
    assert failed == ScoringFailure("python: no score in 0.3 s")


def test_the_program_ends_though_a_scorer_hangs(tmp_path: Path) -> None:
    """Python waits for the threads of a pool when it ends; a scorer's thread is not one of them."""
    path = tmp_path / "hanging.py"
    path.write_text(HANGING)
    code = (
        "import asyncio; from cereval.scorers import base; from cereval.scorers import build_scorer\n"
        "from cereval.datasets.base import Item\n"
        "base.LONGEST_S = 0.2\n"
        f"scorer = build_scorer('python:{path}:hangs')\n"
        "print(asyncio.run(base.score_answer(scorer, Item('a', 'q'), 'endless')).reason)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    assert "no score in 0.2 s" in done.stdout
