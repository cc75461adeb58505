from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cereval.datasets.base import Item
from cereval.datasets.prompts import Prompt
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


ASKED = Item("q1", "Say something", ("reference",))


def judged(
    spec: object, judge: FakeJudge, answer: str = "a good answer", **asked: object
) -> Score | ScoringFailure:
    scorer = build_scorer(spec, judge)  # type: ignore[arg-type]
    return asyncio.run(score_answer(scorer, replace(ASKED, **asked), answer))  # type: ignore[arg-type]


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
    question = Item("1", "what is {answer}?")
    assert asyncio.run(scorer.score(question, "four")).value == 1.0
    assert judge.prompts[0] == "be strict\nQ: what is {answer}? A: four"
    with pytest.raises(InvalidInput, match="judge_template"):
        build_scorer({"name": "grade", "template": "no places"}, judge)


ITEM = Item(
    "q1",
    "Which city?",
    ("Paris",),
    metadata={"context": "France has a capital.", "level": 3},
    names={"query": "question"},
)
CHAT = Item(
    "c1",
    (
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": "Bye"},
    ),
)


def prompt_of(spec: object, item: Item, asks: Prompt | None = None) -> str:
    judge = FakeJudge("[[7]]", likes=0.5)
    scorer = build_scorer(spec, judge, asks and asks.messages)  # type: ignore[arg-type]
    scorer.check([item])  # type: ignore[attr-defined]
    assert isinstance(asyncio.run(score_answer(scorer, item, "the answer")), Score)
    return judge.prompts[0]


def test_a_judge_sees_the_whole_chat_and_the_rendered_prompt() -> None:
    for said in (prompt_of("grade", CHAT), prompt_of("grade", CHAT, Prompt())):
        assert "user: Hi\n\nassistant: Yes?\n\nuser: Bye" in said
    prompt = Prompt("Read: {{ context }}\n{{ question }}", system="Be brief.")
    said = prompt_of("grade", ITEM, prompt)
    assert "system: Be brief.\n\nuser: Read: France has a capital.\nWhich city?" in said
    assert "Be brief." in prompt_of("prefer", ITEM, prompt)
    assert "<question>\nWhich city?\n</question>" in prompt_of("grade", ITEM)


def test_a_judge_template_may_name_every_field() -> None:
    template = "{question} {query} {context} {level} {id} {choices} {reference}{answer}"
    said = prompt_of({"name": "grade", "template": template}, ITEM)
    reference = "<reference>\nParis\n</reference>\n"
    assert said == f"Which city? Which city? France has a capital. 3 q1 [] {reference}the answer"


@pytest.mark.parametrize("spec", ["grade", "prefer", "panel"])
def test_a_judge_template_that_names_no_field_is_refused(spec: str) -> None:
    places = "{first} {second}" if spec == "prefer" else "{answer}"
    scorer = build_scorer({"name": spec, "template": "{question} {contxt} " + places}, FakeJudge())
    with pytest.raises(InvalidInput, match=r"made of .*\{context\}.* got '\{contxt\}'"):
        scorer.check([ITEM])  # type: ignore[attr-defined]


def test_a_field_that_one_item_lacks_is_empty() -> None:
    judge = FakeJudge("[[7]]")
    scorer = build_scorer({"name": "grade", "template": "{question}{answer}<{context}>"}, judge)
    scorer.check([CHAT, ITEM])  # type: ignore[attr-defined]
    asyncio.run(scorer.score(CHAT, "x"))
    assert judge.prompts[0].endswith("<>")


def test_what_the_judge_says_is_kept() -> None:
    why = "It names the capital, but not the country. " * 20
    score = judged("grade", FakeJudge(why + "[[7]]"))
    assert isinstance(score, Score)
    assert score.detail == f"grade 7: {why}[[7]]"


def panel(spec: object, *grades: int | str) -> Score | ScoringFailure:
    judges = [FakeJudge(f"[[{grade}]]", name=f"judge-{number}") for number, grade in enumerate(grades)]
    scorer = build_scorer(spec, judges)  # type: ignore[arg-type]
    assert build_scorer(spec_of(scorer), judges) == scorer  # type: ignore[arg-type]
    return asyncio.run(score_answer(scorer, ASKED, "x"))


@pytest.mark.parametrize(
    ("spec", "grades", "expected"),
    [
        ("grade", (1, 10, 10), 2 / 3),
        ("panel", (10,), 1.0),
        ("panel:mean", (1, 10), 0.5),
        ("panel:majority", (6, 7, 1), 1.0),
        ("panel:majority", (6, 1), 0.5),
        ({"name": "panel", "how": "majority", "of": "grade", "criteria": "strict"}, (1, 1, 10), 0.0),
    ],
)
def test_several_judges_are_a_panel(spec: object, grades: tuple[int, ...], expected: float) -> None:
    score = panel(spec, *grades)
    assert isinstance(score, Score)
    assert score.value == pytest.approx(expected)
    assert score.cost_usd == 0.5 * len(grades)
    assert all(f"judge-{number}: grade {grade}" in score.detail for number, grade in enumerate(grades))


def test_a_panel_of_which_one_judge_is_silent_gives_no_score() -> None:
    assert isinstance(panel("panel", 10, "none"), ScoringFailure)
    for spec in ("panel:median", {"name": "panel", "of": "exact"}, {"name": "panel", "of": "python"}):
        with pytest.raises(InvalidInput):
            build_scorer(spec, [FakeJudge()])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="--judge"):
        build_scorer("panel")
