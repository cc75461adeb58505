"""List what tokens cost: a small table of list prices, overridden by flags."""

from __future__ import annotations

from dataclasses import dataclass

from cereval.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Price:
    """Hold prices in USD per million tokens.

    >>> Price(input=2.5, output=10.0).cost(1000, 100)
    0.0035
    """

    input: float
    output: float

    def __post_init__(self) -> None:
        for name, value in (("price_in", self.input), ("price_out", self.output)):
            if not 0 <= value < float("inf"):
                raise InvalidInput(name, "USD per million tokens, finite and >= 0", value)

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        return (input_tokens * self.input + output_tokens * self.output) / 1e6


FREE = Price(0.0, 0.0)

# List prices change: a flag always wins, and an unknown model costs "unknown", never zero.
PRICES = {
    "gpt-4o": Price(2.50, 10.00),
    "gpt-4o-mini": Price(0.15, 0.60),
    "gpt-4.1": Price(2.00, 8.00),
    "gpt-4.1-mini": Price(0.40, 1.60),
    "gpt-4.1-nano": Price(0.10, 0.40),
    "gpt-4-turbo": Price(10.00, 30.00),
    "gpt-3.5-turbo": Price(0.50, 1.50),
    "o3": Price(2.00, 8.00),
    "o3-mini": Price(1.10, 4.40),
    "o4-mini": Price(1.10, 4.40),
    "gpt-5": Price(1.25, 10.00),
    "gpt-5-mini": Price(0.25, 2.00),
    "gpt-5-nano": Price(0.05, 0.40),
}


def list_price(model: str) -> Price | None:
    """Look up the price of a model or of the family that a dated version belongs to.

    >>> list_price("gpt-4o-2024-08-06") == list_price("gpt-4o")
    True
    >>> list_price("llama-3") is None
    True
    """
    family = [name for name in PRICES if model == name or model.startswith(f"{name}-20")]
    return PRICES[max(family, key=len)] if family else None
