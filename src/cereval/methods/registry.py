"""The methods by name. A new method is one file and one line here."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from cereval.errors import InvalidInput
from cereval.methods.active import Active, Partition
from cereval.methods.base import Method, Setting
from cereval.methods.memory import Memory
from cereval.methods.uniform import Hedged, Uniform, Whole
from cereval.paper.methods import CerEval, Oracle, Seq, Static

METHODS: Mapping[str, Callable[..., Method]] = {
    cls.name: cls for cls in (Static, Seq, CerEval, Oracle, Uniform, Active, Memory, Partition, Hedged, Whole)
}

MOST_FORECAST = 200_000
"""Items up to which `auto` forecasts each of them: 100,000 take 3 ms a draw, 1.3 s and 250 MB to open."""


def known_method(name: str) -> str:
    if name != "auto" and name not in METHODS:
        close = difflib.get_close_matches(str(name), [*METHODS, "auto"], n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise InvalidInput("method", "one of auto, " + ", ".join(METHODS) + hint, name)
    return name


def build_method(name: str, setting: Setting, options: Mapping[str, Any]) -> Method:
    """Build a method by name; `options` are its own parameters.

    `auto` is memory where items are asked again (one item alone has nothing to be told apart from), active where there
    is side information, else uniform; and uniform where the pool is too large for forecasts. The population target is
    about items never seen, so forecasts of the known ones cannot help it.
    """
    pool, of_population = setting.pool, setting.target == "population"
    if name == "auto":
        again = setting.target == "expected" and pool.size > 1
        helps = (again or pool.has_side_information) and pool.size <= MOST_FORECAST and not of_population
        name = (Memory.name if again else Active.name) if helps else Uniform.name
    if known_method(name) in (Active.name, Partition.name) and of_population:
        raise InvalidInput("method", "uniform, all or a method of the paper for the target population", name)
    try:
        return METHODS[name](setting, **options)
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise InvalidInput("options", f"parameters of the method {name}", dict(options)) from error
