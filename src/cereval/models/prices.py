"""Price tokens: by flags, then by the user's own table, then by the list of genai-prices; no network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from cereval.errors import BadFile, InvalidInput, shown
from cereval.files import is_file, read_json, read_yaml, settings_folder

OWN = "prices.yaml"
NEWER = "genai-prices.json"
"""A newer list, as the project of genai-prices publishes it between two releases."""
HIGHEST = 1e100
"""A price times all tokens, or all calls, is still a number."""
BATCH = {"processing": "batch"}
"""What genai-prices calls the price of a batch."""
_VERSION = re.compile(r"-(20\d\d.*|latest|\d{3})")
"""What may follow the name of a family: a date or a number of a version."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Count the tokens of one call. cached, written: of the input, read from the provider's cache or written there.
    reasoning: of the output."""

    input: int
    output: int
    cached: int = 0
    written: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class FlatPrice:
    """Hold prices in USD per million tokens; `source` says where that is written.

    >>> FlatPrice(input=2.5, output=10.0).cost(Tokens(1000, 100))
    0.0035
    """

    input: float
    output: float
    source: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for name, value in (("price_in", self.input), ("price_out", self.output)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= HIGHEST:
                raise InvalidInput(name, f"USD per million tokens, >= 0 and at most {HIGHEST:g}", value)

    def cost(self, tokens: Tokens) -> float | None:
        return (tokens.input * self.input + tokens.output * self.output) / 1e6


FREE = FlatPrice(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class ListPrice:
    """Price by genai-prices, which knows dates, tiers, batches, cached and reasoning tokens. Find one with
    `list_price`."""

    provider: str
    model: str
    batch: bool = False

    @property
    def source(self) -> str:
        from genai_prices import __version__

        newer = newer_list()
        if newer is None:
            return f"genai-prices {__version__}{self._tier}"
        day = datetime.fromtimestamp(newer.stat().st_mtime, UTC)
        return f"{NEWER} of {day:%Y-%m-%d}{self._tier}"

    @property
    def _tier(self) -> str:
        if not self.batch:
            return ""
        return ", batch" if self.has_batch_price else f", no batch price of {self.model} known: live price"

    @property
    def has_batch_price(self) -> bool:
        """Tell whether the list knows what this model costs in a batch; else its live price is counted."""
        _, model = price_list().find_provider_model(self.model, None, self.provider, None)
        return any(dict(one.when) == BATCH for one in model.price_variants or ())

    def cost(self, tokens: Tokens) -> float | None:
        """Return the cost; None where the list cannot price such a call."""
        from genai_prices import Usage

        usage = Usage(
            input_tokens=tokens.input,
            output_tokens=tokens.output,
            cache_read_tokens=tokens.cached or None,
            cache_write_tokens=tokens.written or None,
            output_reasoning_tokens=tokens.reasoning or None,
        )
        context = BATCH if self.batch else None
        try:
            found = price_list().calc(usage, self.model, self.provider, None, None, context)
        except (LookupError, ValueError):
            return None
        return float(found.total_price)


Price: TypeAlias = FlatPrice | ListPrice


def list_price(model: str, provider: str = "", *, url: str = "", batch: bool = False) -> ListPrice | None:
    """Look up a model of a provider, or of whoever answers at an address; None: the price is not known.

    >>> list_price("gpt-4o-2024-08-06", "openai").cost(Tokens(1000, 100)), list_price("gpt-4o", url="http://here/v1")
    (0.0035, None)
    """
    if not provider and not url.startswith("https://"):
        # A server of one's own: its price is in no list, and loading the list takes 0.2 s.
        return None
    try:
        found, _ = price_list().find_provider_model(model, None, provider or None, url or None)
    except LookupError:
        return None
    return ListPrice(found.id, model, batch)


def price_list() -> Any:
    """Return the list of genai-prices: a newer one in the user's settings, or that of the package."""
    from genai_prices.data_snapshot import get_snapshot

    newer = newer_list()
    return get_snapshot() if newer is None else _read_list(newer, newer.stat().st_mtime_ns)


def newer_list() -> Path | None:
    folder = settings_folder()
    path = None if folder is None else folder / NEWER
    return path if path is not None and is_file(path) else None


@cache
def _read_list(path: Path, _changed: int) -> Any:
    from genai_prices import types
    from genai_prices.data_snapshot import DataSnapshot

    found = read_json(path)
    try:
        # What its own update from the network uses; it has no public name.
        return DataSnapshot(types._providers_from_raw(found), from_auto_update=False)
    except (ValueError, TypeError, AttributeError) as error:
        raise BadFile(
            f"{path} is no list of genai-prices that this version reads ({shown(str(error), 120)}); remove it"
        ) from None


def price_of(model: str) -> Price | None:
    """Look up a model by its whole name, such as openai/NAME, in the user's table and in the list."""
    provider, _, name = model.removeprefix("any/").partition("/")
    return own_price(model) or (list_price(name, provider) if name else None)


def own_price(model: str) -> FlatPrice | None:
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


def _find(prices: Mapping[str, Any], model: str, source: str) -> FlatPrice | None:
    for name in sorted(map(str, prices), key=len, reverse=True):
        if model == name or (model.startswith(name) and _VERSION.fullmatch(model[len(name) :])):
            return FlatPrice(prices[name]["input"], prices[name]["output"], source)
    return None
