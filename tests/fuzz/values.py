"""Values that programs stumble over, and changes of JSON values that keep their structure in sight."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

TEXTS = (
    "",
    " ",
    "x" * 70_000,
    "\ud800",
    "a\udfffb",
    "\x00",
    "\x1b[31mvalid\x1b[0m",
    "\u202eabc",
    "e" + "\u0301" * 2000,
    "ﬁ１２",
    "nan",
    "NaN",
    "-inf",
    "1e999",
    "9" * 5000,
    "0x10",
    "١٢",
    "null",
    "true",
    "{{ 7 * 7 }}",
    "{% for i in range(999999999) %}{{ i }}{% endfor %}",
    "{question}{answer!r:>99999999}",
    "%s%n",
    "=cmd|' /C calc'!A0",
    "../../../etc/passwd",
    "line\nline\r\nline",
    "python:nothing:here",
    "[" * 5000,
    "sha256:" + "0" * 64,
    "(a+)+$" * 50,
)
NUMBERS: tuple[Any, ...] = (
    0,
    -1,
    1,
    2,
    0.5,
    -0.0,
    1e-320,
    1.0000000000000002,
    1e308,
    -1e308,
    math.nan,
    math.inf,
    -math.inf,
    2**31,
    2**53 + 1,
    2**63,
    -(2**63) - 1,
    10**12,
    10**18,
    10**30,
    10**400,
)
OTHERS: tuple[Any, ...] = (
    None,
    True,
    False,
    [],
    {},
    [[]],
    [None],
    {"": None},
    [1, "a", None],
    {"a": {"b": [1]}},
)


def deep(levels: int) -> Any:
    """Nest lists and mappings in one another."""
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def hostile(rng: random.Random) -> Any:
    """Draw a value that a reader may not expect."""
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(NUMBERS)
    if kind < 0.7:
        return rng.choice(TEXTS)
    if kind < 0.95:
        return copy.deepcopy(rng.choice(OTHERS))
    return deep(rng.choice((5, 90, 150, 400)))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with a key of it, from outside in."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


def mutated(value: Any, rng: random.Random, times: int | None = None) -> Any:
    """Copy a JSON value and change it in a few places."""
    value = copy.deepcopy(value)
    for _ in range(times or rng.choice((1, 1, 1, 2, 4))):
        value = _changed(value, rng)
    return value


def _changed(value: Any, rng: random.Random) -> Any:
    found = list(places(value))
    if not found or rng.random() < 0.02:
        return hostile(rng)
    # Deep places are many (a log has hundreds): half of the changes are to the few at the top.
    holder, key = rng.choice(found if rng.random() < 0.5 else found[: max(1, len(found) // 20)])
    rng.choice(CHANGES)(holder, key, rng)
    return value


def _replace(holder: Any, key: Any, rng: random.Random) -> None:
    holder[key] = hostile(rng)


def _remove(holder: Any, key: Any, rng: random.Random) -> None:  # noqa: ARG001
    del holder[key]


def _wrap(holder: Any, key: Any, rng: random.Random) -> None:
    holder[key] = rng.choice(([holder[key]], {"a": holder[key]}, str(holder[key])))


def _nudge(holder: Any, key: Any, rng: random.Random) -> None:
    old = holder[key]
    if isinstance(old, bool) or not isinstance(old, int | float):
        holder[key] = rng.choice(("", 0, old * 2 if isinstance(old, str | list) else None))
    elif not (math.isfinite(old) if isinstance(old, float) else abs(old) < 1e308):
        holder[key] = 0
    else:
        holder[key] = rng.choice((old + 1, -old, old / 2, old * 10**6, int(old), float(min(old, 1e300))))


def _repeat(holder: Any, key: Any, rng: random.Random) -> None:
    if isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    else:
        holder[rng.choice((str(key) + "x", "", "\ud800", "a" * 999))] = copy.deepcopy(holder[key])


def _swap(holder: Any, key: Any, rng: random.Random) -> None:
    other = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    holder[key], holder[other] = holder[other], holder[key]


def _shuffle(holder: Any, key: Any, rng: random.Random) -> None:
    if isinstance(holder[key], list):
        rng.shuffle(holder[key])
    elif isinstance(holder[key], str) and holder[key]:
        letters = list(holder[key])
        letters[rng.randrange(len(letters))] = rng.choice("\x00\ud800a0/{\u0660")
        holder[key] = "".join(letters)


Change = Callable[[Any, Any, random.Random], None]
CHANGES: tuple[Change, ...] = (
    _replace,
    _replace,
    _replace,
    _remove,
    _wrap,
    _nudge,
    _nudge,
    _repeat,
    _swap,
    _shuffle,
)
