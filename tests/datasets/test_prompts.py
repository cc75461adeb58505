from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cereval.datasets import prompts, sandbox
from cereval.datasets.base import Item
from cereval.datasets.items import Fields
from cereval.datasets.prompts import Prompt, renders_alike, split_examples
from cereval.datasets.read import read_dataset
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
    "{{ '%4000000000s' % 1 }}": "memory",
    "{{ '%(a)4000000000s' % {'a': 1} }}": "memory",
    "{{ '{:>4000000000}'.format(1) }}": "memory",
    "{{ 'x' * 10**10 }}": "memory",
    "{{ [0] * 10**10 }}": "memory",
    "{{ (1).to_bytes(4 * 10**9, 'big') }}": "memory",
    "{{ 'a b' | replace(' ', 'x' * 10**6) | replace('x', 'y' * 10**6) }}": "memory",
    "{% set a = 'x' * 10**6 %}{% set b = [a] * 10**4 %}{{ b | join }}": "memory",
    "{{ '\"'" + " | tojson" * 60 + " }}": "memory",
    "{% set n = namespace(a='xx') %}{% for i in range(99) %}{% set n.a = n.a ~ n.a %}{% endfor %}": "memory",
    "{% set x = 'xx' %}" + "{% set x = [x, x] %}" * 60 + "{{ x }}": "memory",
    "{{ 9 ** (9 ** 9) }}": "memory",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}": "memory",
    "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}": "memory",
    "{{ 'x' * (3 * 10**7) }}": "characters|memory",
    "{% for i in range(999) %}{{ 'x' * 10**6 }}{% endfor %}": "characters|memory",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}": "recursion",
    "{{ " + "-" * 5000 + "1 }}": "recursion",
}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A renderer that waits for half a second and leaves a quarter of a gigabyte."""
    renderer = sandbox.Renderer(longest_s=0.5, most_memory=2**28)
    monkeypatch.setattr(prompts, "shared_renderer", lambda: renderer)
    yield
    renderer.close()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("template", BOMBS)
def test_a_template_that_would_not_end_is_one_line(template: str) -> None:
    began = monotonic()
    with pytest.raises(InvalidInput, match=BOMBS[template]) as caught:
        Prompt(template).messages(ITEM)
    assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(InvalidInput):
        Prompt(template).messages(ITEM)
    assert monotonic() - began < 20
    assert Prompt("{{ question }}").messages(ITEM)[0]["content"] == "Which?"


def test_what_renders_templates_is_bounded_and_knows_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    renderer = sandbox.Renderer(most_memory=2**28)
    assert renderer.render("{{ 1 }}", {}) == "1"
    (process,) = renderer._started.values()
    if sys.platform == "linux":
        status = Path(f"/proc/{process.pid}/limits").read_text()
        assert re.search(rf"Max address space +{2**28} ", status)
        assert b"sk-secret" not in Path(f"/proc/{process.pid}/environ").read_bytes()
    renderer.close()
    assert process.returncode is not None
    assert renderer.render("{{ 2 }}", {}) == "2"
    renderer.close()


def test_a_field_keeps_the_name_that_the_data_gives_it(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(json.dumps({"query": "1+1?", "ideal": "2", "subject": "sums"}))
    (item,) = read_dataset(path, Fields(input="query")).items
    prompt = Prompt("{{ subject }}: {{ query }} {{ question }}")
    assert prompt.messages(item)[0]["content"] == "sums: 1+1? 1+1?"
    assert prompt.messages(Item(**item.as_dict()))[0]["content"] == "sums: 1+1? 1+1?"
    with pytest.raises(InvalidInput, match="made of"):
        Prompt("{{ ideal }}").messages(item)


def test_a_prompt_without_a_placeholder_is_noticed() -> None:
    items = [Item("a", "1+1?"), Item("b", "2+2?")]
    assert renders_alike(Prompt("Question: { question }"), items)
    assert not renders_alike(Prompt("Question: {{ question }}"), items)
    assert not renders_alike(Prompt("Anything"), [items[0], items[0]])


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
