"""Build a scorer from `NAME[:ARGUMENT]` or a mapping. A new scorer: its own file here, and its class in SCORERS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from cereval.errors import InvalidInput
from cereval.scorers.base import Scorer
from cereval.scorers.choice import Choice
from cereval.scorers.judge import Grade, Judge, Prefer
from cereval.scorers.maths import Maths, Numeric
from cereval.scorers.people import People
from cereval.scorers.python_scorer import PythonScorer
from cereval.scorers.text import F1, Contains, Exact, Regex
from cereval.text import did_you_mean

SCORERS: dict[str, type[Any]] = {
    kind.name: kind
    for kind in (Exact, Contains, Regex, Choice, Numeric, Maths, F1, PythonScorer, Grade, Prefer, People)
}
JUDGES = frozenset({Grade.name, Prefer.name})


def build_scorer(spec: str | Mapping[str, Any], judge: Judge | None = None) -> Scorer:
    """Build the scorer that a text or a mapping describes; `grade` and `prefer` need a judge, the others take none.

    Texts: `exact`, `regex:PATTERN`, `numeric:0.01`, `python:module:function`. Mappings: what `spec_of` gives.

    >>> build_scorer("numeric:0.01")
    Numeric(tolerance=0.01)
    """
    name, parts = named(spec)
    if name in JUDGES:
        if judge is None:
            raise InvalidInput("judge", f"a model for the scorer `{name}` (--judge openai/NAME)", judge)
        parts["judge"] = judge
    elif judge is not None:
        raise InvalidInput("judge", f"left out for the scorer `{name}`", judge.name)
    return _made(name, parts)


def named(spec: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of the scorer that a text or a mapping describes, and its settings; refuse one that is none.

    >>> named("numeric:0.01")
    ('numeric', {'tolerance': 0.01})
    """
    parts = _parsed(spec) if isinstance(spec, str) else dict(spec)
    name = str(parts.pop("name", ""))
    if name not in SCORERS:
        raise InvalidInput("scorer", f"a known name ({did_you_mean(name, SCORERS)})", name)
    return name, parts


def code_of(spec: str | Mapping[str, Any]) -> str | None:
    """Return the `module:function` of the user's own that a scorer calls; None for scorers that are part of cereval.

    >>> code_of("python:mine:score"), code_of({"name": "python", "function": "mine:score"}), code_of("exact")
    ('mine:score', 'mine:score', None)
    """
    parts = _parsed(spec) if isinstance(spec, str) else dict(spec)
    if str(parts.get("name", "")) != PythonScorer.name:
        return None
    if not isinstance(parts.get("function"), str):
        raise InvalidInput("scorer", "python:module:function", parts.get("function"))
    return str(parts["function"])


def _parsed(text: str) -> dict[str, Any]:
    name, colon, argument = text.partition(":")
    settings = [field for field in fields(SCORERS[name]) if field.name != "judge"] if name in SCORERS else []
    if not colon or name not in SCORERS:
        return {"name": name}
    if not settings:
        raise InvalidInput("scorer", f"`{name}` without an argument", text)
    return {"name": name, settings[0].name: _value(settings[0].type, argument)}


def _value(kind: Any, text: str) -> Any:
    if kind == "bool":
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return {"float": float, "int": int}.get(kind, str)(text)
    except ValueError:
        return text


def _made(name: str, arguments: dict[str, Any]) -> Scorer:
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
    scorer: Scorer = SCORERS[name](**arguments)
    return scorer


def _check(field: str, kind: Any, value: Any) -> None:
    allowed = {"bool": (bool,), "float": (float, int), "int": (int,), "str": (str,)}.get(kind)
    if allowed and (not isinstance(value, allowed) or (isinstance(value, bool) and kind != "bool")):
        raise InvalidInput(field, f"of the kind {kind}", value)
