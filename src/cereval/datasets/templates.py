"""Templates (Jinja2) that end: sandboxed, and bounded in the steps they take and in the texts they make.

A template may come with a task file or a store from anybody. Jinja's own sandbox keeps it from Python's inside and from
`range(10**9)`; it does not keep it from `'x' * 10**10`, from loops in loops, or from a macro that calls itself twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, wraps
from time import monotonic
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

LONGEST = 20_000_000
"""Characters of a text that a template makes, at any moment."""
MOST_STEPS = 100_000
"""Turns of loops and calls of functions, of one item."""
LONGEST_S = 5.0
"""Seconds for one item: a step may go through a long list."""
MOST_DIGITS = 4096
"""Bits of a whole number."""

_WIDE = re.compile(r"%[^%a-zA-Z]*(\d{5}|\*)|:[^{}]*\d{5}")
_AMPLIFIERS = ("replace", "join", "center", "indent", "wordwrap", "batch", "slice", "ljust", "rjust", "zfill")
"""Filters and methods of texts whose result may be far longer than what they are given."""


class _Meter:
    """Counts the steps of one rendering."""

    def __init__(self) -> None:
        self.steps, self.end = 0, monotonic() + LONGEST_S

    def step(self) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS or monotonic() > self.end:
            raise SecurityError(f"it takes more than {MOST_STEPS:,} steps or {LONGEST_S:g} s for one item")


_meter: ContextVar[_Meter] = ContextVar("meter")


@cache
def compiled(template: str) -> jinja2.Template:
    """Compile a template; its syntax errors are Jinja's own."""
    # The prompt is plain text: HTML escaping would change the question.
    return _Environment(undefined=jinja2.StrictUndefined, autoescape=False).from_string(template)


def rendered(template: str, variables: Mapping[str, Any]) -> str:
    """Render a template within its bounds; whatever it does wrong is an exception.

    >>> rendered("{% for i in range(3) %}{{ i * 2 }} {% endfor %}", {})
    '0 2 4 '
    """
    token = _meter.set(_Meter())
    try:
        parts, size = [], 0
        for part in compiled(template).generate(**variables):
            size += len(part)
            _check_size(size)
            parts.append(part)
        return "".join(parts)
    finally:
        _meter.reset(token)


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.filters["counted"] = _counted
        for name in (*_AMPLIFIERS, "format"):
            if name in self.filters:
                self.filters[name] = _bounded(self.filters[name])
        del self.globals["lipsum"]

    def _generate(self, source: nodes.Template, *arguments: Any, **named: Any) -> str:
        made: str = super()._generate(_Metered().visit(source), *arguments, **named)
        return made

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" and isinstance(left, int) and isinstance(right, int):
            _check_digits(left.bit_length() * max(right, 1))
        elif operator == "*" and isinstance(left, int) and isinstance(right, int):
            _check_digits(left.bit_length() + right.bit_length())
        elif operator == "*":
            _check_size(_size(left) * _size(right))
        elif operator == "%" and isinstance(left, str):
            _check_format(left)
        elif operator == "+":
            _check_size(_size(left) + _size(right) if not isinstance(left, int | float) else 0)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, called: Any, /, *arguments: Any, **named: Any) -> Any:
        _meter.get().step()
        # The sandbox wraps the formatting methods of texts.
        method = getattr(called, "__wrapped__", called)
        owner, name = getattr(method, "__self__", None), getattr(method, "__name__", "")
        if isinstance(owner, str) and name in ("format", "format_map"):
            _check_format(owner)
        elif isinstance(owner, str) and name in (*_AMPLIFIERS, "expandtabs"):
            _check_size(_size(owner) * sum(map(_size, (*arguments, *named.values()))))
        return super().call(context, called, *arguments, **named)


class _Metered(NodeTransformer):
    """Has every loop count its turns, and every `~` be a sum, which is checked."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.iter = nodes.Filter(node.iter, "counted", [], [], None, None, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        made: nodes.Expr = nodes.Const("", lineno=node.lineno)
        for part in node.nodes:
            text = nodes.Filter(part, "string", [], [], None, None, lineno=node.lineno)
            made = nodes.Add(made, text, lineno=node.lineno)
        return made


def _counted(values: Any) -> Iterable[Any]:
    """Count the turns of a loop over some values."""
    if isinstance(values, str | list | tuple | dict | range):
        for _ in range(len(values)):
            _meter.get().step()
        return values
    return _turns(values)


def _turns(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        _meter.get().step()
        yield value


def _bounded(filter_: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(filter_)
    def bounded(*arguments: Any, **named: Any) -> Any:
        known = [
            value
            for value in (*arguments, *named.values())
            if isinstance(value, str | int | list | tuple | range)
        ]
        if known and filter_.__name__ == "do_format":
            _check_format(str(known[0]))
        elif known:
            _check_size(_size(known[0]) * sum(map(_size, known[1:])) if known[1:] else 0)
        return filter_(*arguments, **named)

    return bounded


def _size(value: Any) -> int:
    """Bound what a value may add to a text; numbers say how often or how wide."""
    if isinstance(value, str):
        return len(value) + 1
    if isinstance(value, list | tuple):
        return 1 + sum(len(one) + 1 if isinstance(one, str) else 8 for one in value)
    return abs(value) if isinstance(value, int) else 8


def _check_size(size: int) -> None:
    if size > LONGEST:
        raise SecurityError(f"it makes texts of more than {LONGEST:,} characters")


def _check_digits(bits: int) -> None:
    if bits > MOST_DIGITS:
        raise SecurityError("it makes numbers with thousands of digits")


def _check_format(text: str) -> None:
    if _WIDE.search(text):
        raise SecurityError("it pads to more than 9,999 characters")
