"""List the kinds of question. This is the only place that knows them all: a new one is a file here and a line below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cereval.errors import InvalidInput

if TYPE_CHECKING:
    from cereval.plan import Plan
    from cereval.questions.base import Kind

_KINDS = {
    "part": "cereval.questions.parts:Part",
    "compare": "cereval.questions.compare.kind:Compare",
    "rank": "cereval.questions.rank.kind:Rank",
    "tasks": "cereval.questions.tasks.kind:Tasks",
    "growing": "cereval.questions.growing.kind:GrowingData",
    "estimate": "cereval.questions.mean.kind:EstimateMean",
}
"""Name -> where its class lives, imported when used. The first that claims a plan has it, `estimate` the rest."""

_made: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    """Add a kind of one's own, before those that are built in."""
    places = {kind.name: "", **{name: place for name, place in _KINDS.items() if name != kind.name}}
    _KINDS.clear()
    _KINDS.update(places)
    _made[kind.name] = kind


def kind_named(name: str) -> Kind:
    """Return the kind of this name."""
    if name not in _KINDS:
        raise InvalidInput("kind", "one of " + ", ".join(_KINDS), name)
    if name not in _made:
        module, _, attribute = _KINDS[name].partition(":")
        _made[name] = getattr(import_module(module), attribute)()
    return _made[name]


def kind_of(plan: Plan | Mapping[str, Any]) -> Kind:
    """Return the kind of a plan, as it is or as the store keeps it."""
    return kind_named(str(plan.get("kind") if isinstance(plan, Mapping) else plan.kind))


def kinds() -> Iterator[Kind]:
    """Yield every kind."""
    return (kind_named(name) for name in tuple(_KINDS))


def formats() -> dict[str, Kind]:
    """Return the kinds by the format of their certificates."""
    return {kind.format: kind for kind in kinds() if kind.format}
