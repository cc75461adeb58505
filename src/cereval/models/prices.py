"""Price tokens: by flags, then by the user's own table, then by list prices that ship with their date; no network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from cereval.errors import BadFile, InvalidInput, shown
from cereval.files import is_file, parse_yaml, read_yaml, settings_folder

OWN = "prices.yaml"
HIGHEST = 1e100
"""A price times all tokens, or all calls, is still a number."""
_VERSION = re.compile(r"-(20\d\d.*|latest|\d{3})")
"""What may follow the name of a family: a date or a number of a version."""


@dataclass(frozen=True, slots=True)
class Price:
    """Hold prices in USD per million tokens; `source` says where that is written.

    >>> Price(input=2.5, output=10.0).cost(1000, 100)
    0.0035
    """

    input: float
    output: float
    source: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for name, value in (("price_in", self.input), ("price_out", self.output)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= HIGHEST:
                raise InvalidInput(name, f"USD per million tokens, >= 0 and at most {HIGHEST:g}", value)

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        return (input_tokens * self.input + output_tokens * self.output) / 1e6


FREE = Price(0.0, 0.0)


def list_price(model: str) -> Price | None:
    """Look up the list price of a model, or of the family that a dated version belongs to; None: unknown.

    >>> list_price("openai/gpt-4o-2024-08-06") == list_price("openai/gpt-4o"), list_price("openai/llama-3")
    (True, None)
    >>> list_price("openai/gpt-4o").source
    'list prices of 2025-10'
    """
    table = _shipped()
    return _find(table["prices"], model, f"list prices of {table['date']}")


def own_price(model: str) -> Price | None:
    """Look up a model in the user's own table, which counts at every address; None: it does not have it."""
    folder = settings_folder()
    path = None if folder is None else folder / OWN
    if path is None or not is_file(path):
        return None
    table = read_yaml(path) or {}
    prices = table.get("prices", table) if isinstance(table, Mapping) else table
    if not isinstance(prices, Mapping):
        raise BadFile(f"{path} must hold lines such as `openai/NAME: {{input: 0.5, output: 1.5}}`")
    try:
        return _find(prices, model, str(path))
    except (InvalidInput, TypeError, KeyError) as error:
        reason = error if isinstance(error, InvalidInput) else "it needs `input` and `output`"
        raise BadFile(f"{path}: the price of {shown(model)}: {reason}") from None


def _find(prices: Mapping[str, Any], model: str, source: str) -> Price | None:
    """Find the longest name that is the model's, or that of its family."""
    for name in sorted(map(str, prices), key=len, reverse=True):
        if model == name or (model.startswith(name) and _VERSION.fullmatch(model[len(name) :])):
            return Price(prices[name]["input"], prices[name]["output"], source)
    return None


@cache
def _shipped() -> Mapping[str, Any]:
    table: Mapping[str, Any] = parse_yaml((files("cereval.models") / OWN).read_text(encoding="utf-8"), OWN)
    return table
