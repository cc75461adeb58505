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
    "estimate": "cereval.questions.mean:EstimateMean",
    "part": "cereval.questions.parts:Part",
    "compare": "cereval.questions.compare:Compare",
    "rank": "cereval.questions.rank:Rank",
    "tasks": "cereval.questions.tasks:Tasks",
    "each": "cereval.questions.each:Each",
    "growing": "cereval.questions.growing:GrowingData",
}
"""Name -> where its class lives, imported when used."""

_made: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    """Add a kind of one's own, before those that are built in."""
    places = {kind.name: "", **{name: place for name, place in _KINDS.items() if name != kind.name}}
    _KINDS.clear()
    _KINDS.update(places)
    _made[kind.name] = kind


def kind_named(name: str) -> Kind:
    if name not in _KINDS:
        raise InvalidInput("kind", "one of " + ", ".join(_KINDS), name)
    if name not in _made:
        module, _, attribute = _KINDS[name].partition(":")
        _made[name] = getattr(import_module(module), attribute)()
    return _made[name]


def kind_of(plan: Plan | Mapping[str, Any]) -> Kind:
    return kind_named(str(plan.get("kind") if isinstance(plan, Mapping) else plan.kind))


def kinds() -> Iterator[Kind]:
    return (kind_named(name) for name in tuple(_KINDS))


def all_goals() -> dict[str, Any]:
    return {goal_name(goal): goal for kind in kinds() for goal in kind.goals}


def kind_for(goal: Any) -> Kind:
    """Return the kind that a goal, or the name of one, belongs to."""
    for kind in kinds():
        if any(
            goal == goal_name(one) if isinstance(goal, str) else isinstance(goal, one) for one in kind.goals
        ):
            return kind
    raise InvalidInput("goal", "one of " + ", ".join(all_goals()), goal)


def goal_name(goal: Any) -> str:
    return str(goal.__struct_config__.tag)


def formats() -> dict[str, Kind]:
    """Return the kinds by the format of their certificates."""
    return {kind.format: kind for kind in kinds() if kind.format}
