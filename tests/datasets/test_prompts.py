from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cereval.datasets.base import Item
from cereval.datasets.prompts import Prompt, split_examples
from cereval.errors import InvalidInput

ITEM = Item("a", "Which?", ("B",), ("x", "<y>"), "odd", {"level": 3})


def test_choices_are_lettered_and_nothing_is_escaped() -> None:
    (turn,) = Prompt().messages(ITEM)
    assert "A. x\nB. <y>\n" in turn["content"]


def test_template_system_and_examples() -> None:
    prompt = Prompt(
        "{{ level }}: {{ question }}", "Be brief", (Item("e", "One?", ("1",), metadata={"level": 1}),)
    )
    assert [turn["role"] for turn in prompt.messages(ITEM)] == ["system", "user", "assistant", "user"]
    assert [turn["content"] for turn in prompt.messages(ITEM)] == ["Be brief", "1: One?", "1", "3: Which?"]


def test_a_chat_keeps_its_earlier_turns() -> None:
    chat = Item("c", ({"role": "user", "content": "hi"}, {"role": "user", "content": "bye"}))
    assert [turn["content"] for turn in Prompt("<{{ question }}>").messages(chat)] == ["hi", "<bye>"]


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{ question", "valid Jinja2"),
        ("{{ answer }}", "made of"),
        ("{{ qestion }}", "made of"),
        ("{{ ''.__class__.__mro__ }}", "made of|renders"),
        ("{{ metadata.update({}) }}", "renders|made of"),
        ("{% for i in range(10**9) %}{% endfor %}", "renders"),
        ("{{ 1 / 0 }}", "renders"),
    ],
)
def test_templates_that_cannot_be(template: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        Prompt(template).messages(ITEM)


@given(st.text(st.characters()))
def test_a_question_is_put_as_it_is(text: str) -> None:
    assert Prompt().messages(Item("a", text))[0]["content"] == text


@given(st.integers(0, 9), st.integers(0, 5))
def test_examples_leave_the_pool(count: int, seed: int) -> None:
    items = tuple(Item(str(i), "q", ("a",)) for i in range(10))
    examples, rest = split_examples(items, count, seed)
    assert len(examples) == count
    assert sorted((*examples, *rest), key=lambda item: item.id) == list(items)
    with pytest.raises(InvalidInput):
        split_examples(items, 10)


def test_an_example_needs_an_answer() -> None:
    with pytest.raises(InvalidInput, match="with an answer"):
        Prompt(examples=(Item("a", "q"),))
