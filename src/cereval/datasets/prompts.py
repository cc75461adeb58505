"""Turn an item into the chat that a model is asked: template (sandboxed), system prompt, examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from cereval.datasets.base import Item
from cereval.datasets.sandbox import BadTemplate, shared_renderer
from cereval.errors import InvalidInput
from cereval.randomness import generator


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
        turns = [{"role": "system", "content": self.system}] if self.system else []
        for example in self.examples:
            turns += self._asked(example)
            turns.append({"role": "assistant", "content": example.answer or ""})
        return tuple(turns + self._asked(item))

    def _asked(self, item: Item) -> list[dict[str, str]]:
        earlier = [dict(turn) for turn in item.input[:-1]] if not isinstance(item.input, str) else []
        return [*earlier, {"role": "user", "content": self._rendered(item)}]

    def _rendered(self, item: Item) -> str:
        if self.template is None:
            return _lettered(item) if item.choices else item.text
        variables = item.without_answer()
        variables["options"] = list(zip(ascii_uppercase, item.choices, strict=False))
        try:
            return shared_renderer().render(self.template, variables)
        except BadTemplate as error:
            if error.kind == "undefined":
                raise InvalidInput(
                    "template", f"made of fields of the data ({', '.join(variables)})", str(error)
                ) from None
            raise InvalidInput("template", f"one that renders item {item.id}", str(error)) from None


def renders_alike(prompt: Prompt, items: Sequence[Item]) -> bool:
    """Tell whether a prompt asks the same of all items though their questions differ: it has no placeholder then.

    >>> items = [Item("a", "1+1?"), Item("b", "2+2?")]
    >>> renders_alike(Prompt("Question: { question }"), items), renders_alike(Prompt(), items)
    (True, False)
    """
    asked = {prompt.messages(item)[-1]["content"] for item in items}
    return len(asked) == 1 < len({(item.text, item.choices) for item in items})


def _lettered(item: Item) -> str:
    choices = "".join(
        f"{letter}. {choice}\n" for letter, choice in zip(ascii_uppercase, item.choices, strict=False)
    )
    return f"{item.text}\n\n{choices}\nAnswer with the letter of the right choice."


def split_examples(
    items: Sequence[Item], count: int, seed: int = 0
) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """Draw examples from the items, and return them and the items left: an example must not be a question too."""
    if not 0 <= count < len(items):
        raise InvalidInput("shots", f"in [0, {len(items) - 1}]", count)
    chosen = generator("worked examples", seed).permutation(len(items))[:count].tolist()
    taken = set(chosen)
    return tuple(items[i] for i in chosen), tuple(item for i, item in enumerate(items) if i not in taken)


def _check(template: str) -> None:
    try:
        shared_renderer().render(template, None)
    except BadTemplate as error:
        raise InvalidInput("template", f"valid Jinja2 ({error!s})", template) from None
