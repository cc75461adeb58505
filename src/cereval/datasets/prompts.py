"""Turn an item into the chat that a model is asked: template (sandboxed), system prompt, examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from cereval.datasets.base import Item
from cereval.datasets.large import FileItems
from cereval.errors import InvalidInput, shown
from cereval.randomness import generator

CHOICES = """\
{{ question }}

{% for letter, choice in options %}{{ letter }}. {{ choice }}
{% endfor %}
Answer with the letter of the right choice."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Say how items are put to a model.

    The template (Jinja2) sees `question`, `choices`, `options` (letter and choice), `category`, `id` and the
    data's other fields, by name and as `metadata`; never the answer. Without one the question is put as is,
    with lettered choices under it. Examples go before the question as earlier turns, each with its answer.

    Of a chat the template sees and rewrites the last message alone; earlier turns, a system message of its own among
    them, stay as they are, after `system` and the examples.

    >>> Prompt("Q: {{ question }}", system="Be brief.").messages(Item("a", "1+1?"))[1]
    {'role': 'user', 'content': 'Q: 1+1?'}
    """

    template: str | None = None
    system: str | None = None
    examples: tuple[Item, ...] = ()

    def __post_init__(self) -> None:
        if self.template is not None:
            _check(self.template)
        for example in self.examples:
            if example.answer is None:
                raise InvalidInput("examples", "items with an answer", example.id)

    def messages(self, item: Item) -> tuple[dict[str, str], ...]:
        """Return the chat for one item."""
        turns = [{"role": "system", "content": self.system}] if self.system else []
        for example in self.examples:
            turns += self._asked(example)
            turns.append({"role": "assistant", "content": example.answer or ""})
        return tuple(turns + self._asked(item))

    def _asked(self, item: Item) -> list[dict[str, str]]:
        earlier = [dict(turn) for turn in item.input[:-1]] if not isinstance(item.input, str) else []
        return [*earlier, {"role": "user", "content": self._rendered(item)}]

    def _rendered(self, item: Item) -> str:
        if self.template is None and not item.choices:
            return item.text
        import jinja2

        from cereval.datasets.templates import rendered

        template = self.template or CHOICES
        try:
            return rendered(template, _variables(item))
        except jinja2.UndefinedError as error:
            known = ", ".join(_variables(item))
            raise InvalidInput("template", f"made of {known}", str(error)) from error
        except Exception as error:
            said = str(error) or type(error).__name__
            raise InvalidInput("template", f"one that renders item {item.id}", shown(said)) from error


def split_examples(
    items: Sequence[Item], count: int, seed: int = 0
) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """Draw examples from the items, and return them and the items left: an example must not be a question too."""
    if not 0 <= count < len(items):
        raise InvalidInput("shots", f"in [0, {len(items) - 1}]", count)
    chosen = generator("worked examples", seed).permutation(len(items))[:count].tolist()
    taken = set(chosen)
    return tuple(items[i] for i in chosen), tuple(item for i, item in enumerate(items) if i not in taken)


def split_large(items: FileItems, count: int, seed: int = 0) -> tuple[tuple[Item, ...], FileItems]:
    """Draw examples from the items of a large file, and return them and the items left."""
    if not 0 <= count < len(items):
        raise InvalidInput("shots", f"in [0, {len(items) - 1}]", count)
    chosen = generator("worked examples", seed).permutation(len(items))[:count].tolist()
    return tuple(items[one] for one in chosen), items.without(chosen)


def _variables(item: Item) -> dict[str, Any]:
    return dict(item.metadata) | {
        "question": item.text,
        "input": item.text,
        "choices": list(item.choices),
        "options": list(zip(ascii_uppercase, item.choices, strict=False)),
        "category": item.category,
        "id": item.id,
        "metadata": dict(item.metadata),
    }


def _check(template: str) -> None:
    import jinja2

    from cereval.datasets.templates import compiled

    try:
        compiled(template)
    except jinja2.TemplateSyntaxError as error:
        raise InvalidInput(
            "template", f"valid Jinja2 (line {error.lineno}: {error.message})", template
        ) from error
    except Exception as error:
        said = str(error) or type(error).__name__
        raise InvalidInput("template", f"valid Jinja2 ({shown(said)})", template) from error
