from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cereval.errors import InvalidInput
from cereval.models.base import Reply
from cereval.scorers import build_scorer
from cereval.scorers.base import Score, ScoringFailure, score_answer, spec_of
from cereval.scorers.judge import comes_second, preference


@dataclass
class FakeJudge:
    """Says a fixed text; `likes` is the probability that it prefers the output that holds the word `good`."""

    text: str = ""
    likes: float = 0.5
    cost: float | None = 0.5
    name: str = "fake"
    prompts: list[str] = field(default_factory=list)

    async def answer(self, messages: Sequence[Mapping[str, str]], *, top_logprobs: int = 0) -> Reply:
        prompt = messages[0]["content"]
        self.prompts.append(prompt)
        good, bad = ("m", "M") if prompt.find("good") < prompt.find('<output model="M">') else ("M", "m")
        chances = {good: log(self.likes), bad: log(1 - self.likes)} if top_logprobs and self.likes else {}
        return Reply(self.text, cost_usd=self.cost, first_token=chances)


@dataclass(frozen=True)
class Asked:
    id: str = "q1"
    text: str = "Say something"
    answers: tuple[str, ...] = ("reference",)
    choices: tuple[str, ...] = ()


def judged(
    spec: object, judge: FakeJudge, answer: str = "a good answer", **asked: object
) -> Score | ScoringFailure:
    scorer = build_scorer(spec, judge)  # type: ignore[arg-type]
    return asyncio.run(score_answer(scorer, Asked(**asked), answer))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"), [("fine [[10]]", 1.0), ("[[3]] or rather [[1]]", 0.0), ("[[5.5]]", 0.5)]
)
def test_grades(text: str, expected: float) -> None:
    score = judged("grade", FakeJudge(text))
    assert isinstance(score, Score)
    assert (score.value, score.cost_usd) == (expected, 0.5)


@pytest.mark.parametrize("text", ["", "ten", "[[11]]", "[[0]]", "Rating: 5"])
def test_no_grade_is_a_failure(text: str) -> None:
    assert isinstance(judged("grade", FakeJudge(text)), ScoringFailure)


@pytest.mark.parametrize("item", [f"q{i}" for i in range(8)])
def test_preference_follows_the_answer_whatever_its_place(item: str) -> None:
    score = judged("prefer", FakeJudge(likes=0.8), id=item)
    assert isinstance(score, Score)
    assert score.value == pytest.approx(0.8)


def test_both_orders_cost_twice_and_unknown_cost_stays_unknown() -> None:
    both = {"name": "prefer", "both_orders": True}
    score, unknown = judged(both, FakeJudge(likes=0.8)), judged(both, FakeJudge(likes=0.8, cost=None))
    assert isinstance(score, Score)
    assert isinstance(unknown, Score)
    assert (score.cost_usd, unknown.cost_usd) == (1.0, None)


def test_a_judge_without_log_probabilities_is_a_failure() -> None:
    failure = judged("prefer", FakeJudge(likes=0.0))
    assert isinstance(failure, ScoringFailure)
    assert "log-probabilities" in failure.reason


def test_the_coin_is_fair_and_fixed() -> None:
    second = [comes_second(f"item-{i}") for i in range(1000)]
    assert second == [comes_second(f"item-{i}") for i in range(1000)]
    # Four standard deviations of a fair coin.
    assert abs(sum(second) - 500) < 64


@given(st.floats(-1000, 0), st.floats(-1000, 0))
def test_the_two_preferences_add_up(left: float, right: float) -> None:
    tokens = {"m": left, " M": right}
    if max(left, right) > -700:
        assert preference(tokens, "m") + preference(tokens, "M") == pytest.approx(1.0)


def test_braces_and_size_of_answers_do_not_matter() -> None:
    judge = FakeJudge("[[7]]")
    assert isinstance(judged("grade", judge, answer="{question} {0}" + "x" * 10**7), Score)
    assert len(judge.prompts[0]) < 60_000


def test_a_judge_is_written_by_name() -> None:
    assert spec_of(build_scorer("grade", FakeJudge())) == {
        "name": "grade",
        "judge": "fake",
        "criteria": "",
        "template": "",
    }


def test_a_template_of_ones_own_is_filled_once_and_checked_first() -> None:
    judge = FakeJudge("[[10]]")
    template = "{criteria}Q: {question} A: {answer}"
    spec = {"name": "grade", "template": template, "criteria": "be strict"}
    scorer = build_scorer(spec, judge)
    question = SimpleNamespace(id="1", text="what is {answer}?", answers=(), choices=())
    assert asyncio.run(scorer.score(question, "four")).value == 1.0
    assert judge.prompts[0] == "be strict\nQ: what is {answer}? A: four"
    with pytest.raises(InvalidInput, match="judge_template"):
        build_scorer({"name": "grade", "template": "no places"}, judge)
