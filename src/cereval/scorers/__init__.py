"""Build a scorer from `NAME[:ARGUMENT]` or a mapping. A new scorer: its own file here, and its class in SCORERS."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from cereval.errors import InvalidInput
from cereval.imports import name_of
from cereval.models.base import Model
from cereval.scorers.base import Scorer
from cereval.scorers.judge import Asks, Grade, Panel, Prefer
from cereval.scorers.maths import Maths, Numeric
from cereval.scorers.people import People
from cereval.scorers.python_scorer import PythonScorer
from cereval.scorers.text import F1, Choice, Contains, Exact, Recorded, Regex, Schema
from cereval.text import did_you_mean

SCORERS: dict[str, type[Any]] = {
    kind.name: kind
    for kind in (
        *(Exact, Contains, Regex, Choice, Numeric, Maths, F1, Schema, Recorded),
        *(PythonScorer, Grade, Prefer, Panel, People),
    )
}
JUDGES = frozenset({Grade.name, Prefer.name, Panel.name})


def build_scorer(
    spec: str | Mapping[str, Any] | Callable[..., Any],
    judge: Model | Sequence[Model] | None = None,
    asks: Asks | None = None,
) -> Scorer:
    """Build the scorer that a text or a mapping describes, or that is a function.

    Texts: `exact`, `regex:PATTERN`, `numeric:0.01`, `python:module:function`. Mappings: what `spec_of` gives. `grade`,
    `prefer` and `panel` need a judge, the others take none; several judges are a panel. asks: what a judge is shown of
    the question, as the messages that the model gets.

    >>> build_scorer("numeric:0.01")
    Numeric(tolerance=0.01)
    """
    if callable(spec):
        return PythonScorer(name_of(spec), spec)
    name, parts = named(spec)
    judges = [] if judge is None else list(judge) if isinstance(judge, Sequence) else [judge]
    if name not in JUDGES:
        if judges:
            raise InvalidInput("judge", f"left out for the scorer `{name}`", judges[0].name)
        plain: Scorer = _make(name, parts)
        return plain
    if not judges:
        raise InvalidInput("judge", f"a model for the scorer `{name}` (--judge openai/NAME)", None)
    how, of = parts.pop("how", "mean"), parts.pop("of", Grade.name if name == Panel.name else name)
    if of not in (Grade.name, Prefer.name):
        raise InvalidInput("panel", "of `grade` or `prefer`", of)
    members = tuple(_make(of, parts | {"judge": one, "asks": asks}) for one in judges)
    panel = Panel(members, how)
    return panel if len(members) > 1 or name == Panel.name else panel.members[0]


def named(spec: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of the scorer that a text or a mapping describes, and its settings; refuse one that is none.

    >>> named("numeric:0.01")
    ('numeric', {'tolerance': 0.01})
    """
    parts = _parse_text(spec) if isinstance(spec, str) else dict(spec)
    name = str(parts.pop("name", ""))
    if name not in SCORERS:
        raise InvalidInput("scorer", f"a known name ({did_you_mean(name, SCORERS)})", name)
    return name, parts


def code_of(spec: str | Mapping[str, Any]) -> str | None:
    """Return the `module:function` of the user's own that a scorer calls; None for scorers that are part of cereval.

    >>> code_of("python:mine:score"), code_of({"name": "python", "function": "mine:score"}), code_of("exact")
    ('mine:score', 'mine:score', None)
    """
    parts = _parse_text(spec) if isinstance(spec, str) else dict(spec)
    if str(parts.get("name", "")) != PythonScorer.name:
        return None
    if not isinstance(parts.get("function"), str):
        raise InvalidInput("scorer", "python:module:function", parts.get("function"))
    return str(parts["function"])


def _parse_text(text: str) -> dict[str, Any]:
    name, colon, argument = text.partition(":")
    if not colon or name not in SCORERS:
        return {"name": name}
    known = {field.name: field.type for field in fields(SCORERS[name]) if field.name != "judge"}
    setting = getattr(SCORERS[name], "argument", next(iter(known), ""))
    if not setting:
        raise InvalidInput("scorer", f"`{name}` without an argument", text)
    # A switch may be named: `prefer:both_orders`.
    return {
        "name": name,
        setting: _value(
            known[setting], "true" if (known[setting], setting) == ("bool", argument) else argument
        ),
    }


def _value(kind: Any, text: str) -> Any:
    if kind == "bool":
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return {"float": float, "int": int}.get(kind, str)(text)
    except ValueError:
        return text


def _make(name: str, arguments: dict[str, Any]) -> Any:
    known = {field.name: field for field in fields(SCORERS[name])}
    for argument in arguments:
        if argument not in known:
            hint = did_you_mean(argument, known)
            raise InvalidInput("scorer", f"`{name}` with settings of its own ({hint})", argument)
    for field in known.values():
        if field.default is MISSING and field.name not in arguments:
            raise InvalidInput("scorer", f"`{name}:{field.name.upper()}`", name)
        if field.name in arguments:
            _check(field.name, field.type, arguments[field.name])
    return SCORERS[name](**arguments)


def _check(field: str, kind: Any, value: Any) -> None:
    allowed = {"bool": (bool,), "float": (float, int), "int": (int,), "str": (str,)}.get(kind)
    if allowed and (not isinstance(value, allowed) or (isinstance(value, bool) and kind != "bool")):
        raise InvalidInput(field, f"of the kind {kind}", value)
