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


BOMBS = {
    "{{ 'x' * 10**10 }}": "characters",
    "{{ question * 10**8 }}": "characters",
    "{{ [0] * 10**10 }}": "characters",
    "{{ 9 ** (9 ** 9) }}": "digits",
    "{{ '%99999d' % 1 }}": "pads",
    "{{ '{:>99999}'.format(1) }}": "pads",
    "{{ 'a'.ljust(10**10) }}": "characters",
    "{{ 'a' | center(10**10) }}": "characters",
    "{{ 'a b' | replace(' ', 'x' * 10**6) | replace('x', 'y' * 10**6) }}": "characters",
    "{% for i in range(999) %}{% for j in range(999) %}{% endfor %}{% endfor %}": "steps",
    "{% for i in range(999) %}{{ 'x' * 10**6 }}{% endfor %}": "characters",
    "{% set n = namespace(a='xx') %}{% for i in range(99) %}{% set n.a = n.a ~ n.a %}{% endfor %}": "characters",
    "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}": "steps",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}": "recursion",
    "{{ " + "-" * 5000 + "1 }}": "recursion",
}


@pytest.mark.parametrize("template", BOMBS)
def test_a_template_that_would_not_end_is_one_line(template: str) -> None:
    with pytest.raises(InvalidInput, match=BOMBS[template]) as caught:
        Prompt(template).messages(ITEM)
    assert len(str(caught.value).splitlines()) == 1


def test_bounds_leave_ordinary_templates_alone() -> None:
    template = (
        "{% for letter, choice in options %}{{ loop.index }}/{{ loop.length }} {{ letter ~ '. ' ~ choice }}"
        "{{ '' if loop.last else ' | ' }}{% endfor %} {{ question | replace('W', 'w') | indent(2) }}"
        " {{ choices | join(', ') }} {{ '%03d' % level }} {{ '{:>4}'.format(level) }} {{ level * 2 ** 3 }}"
    )
    said = Prompt(template).messages(ITEM)[0]["content"]
    assert said == "1/2 A. x | 2/2 B. <y> which? x, <y> 003    3 24"
    long = Item("a", "word " * 200_000)
    assert len(Prompt("Q: {{ question | replace('w', 'v') }}").messages(long)[0]["content"]) == 1_000_003
