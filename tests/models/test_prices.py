"""The price of a run is the figure of genai-prices for the tokens that the server says it used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from genai_prices import Usage, calc_price

from cereval.errors import BadFile
from cereval.models.openai_model import PROVIDERS, reply_from
from cereval.models.prices import FlatPrice, ListPrice, Tokens, list_price

OPENAI = "https://api.openai.com/v1"
MODELS = (
    ("openai", "gpt-4o-2024-08-06"),
    ("openai", "gpt-5"),
    ("openai", "o3"),
    ("anthropic", "claude-sonnet-4-5"),
    ("anthropic", "claude-haiku-4-5-20251001"),
    ("gemini", "gemini-2.5-pro"),
    ("groq", "llama-3.1-8b-instant"),
    ("mistral", "mistral-large-latest"),
    ("xai", "grok-4"),
    ("deepseek", "deepseek-chat"),
)


def body(usage: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"message": {"content": "4"}, "finish_reason": "stop"}], "usage": usage}


USAGE = {
    "prompt_tokens": 300_000,  # beyond the first tier of some models
    "completion_tokens": 1000,
    "total_tokens": 301_000,
    "prompt_tokens_details": {"cached_tokens": 2000},
    "completion_tokens_details": {"reasoning_tokens": 600},
}


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(("provider", "model"), MODELS)
def test_costs_are_those_of_genai_prices(provider: str, model: str, batch: bool) -> None:
    url = PROVIDERS[provider].base_url if provider in PROVIDERS else OPENAI
    price = list_price(model, url=url, batch=batch)
    assert price == list_price(model, provider, batch=batch)
    usage = Usage(
        input_tokens=300_000, output_tokens=1000, cache_read_tokens=2000, output_reasoning_tokens=600
    )
    context = {"processing": "batch"} if batch else None
    theirs = calc_price(usage, model, provider_api_url=url, price_context=context).total_price
    assert reply_from(body(USAGE), price).cost_usd == pytest.approx(float(theirs), rel=1e-12)
    assert float(theirs) > 0


def test_a_batch_costs_half_where_the_list_knows_it_and_says_so_where_it_does_not() -> None:
    tokens = Tokens(1000, 100)
    live, batch = (list_price("gpt-5", "openai", batch=batch) for batch in (False, True))
    assert live is not None
    assert batch is not None
    assert batch.cost(tokens) == pytest.approx(live.cost(tokens) / 2)  # type: ignore[operator]
    assert batch.source.endswith(", batch")
    unknown = list_price("deepseek-chat", "deepseek", batch=True)
    assert unknown is not None
    assert "no batch price of deepseek-chat known: live price" in unknown.source


@pytest.mark.parametrize(
    ("model", "provider", "url"),
    [
        ("unheard-of", "openai", ""),
        ("unheard-of", "", OPENAI),
        ("gpt-4o", "", "http://localhost:8000/v1"),
        ("gpt-4o", "", "https://models.example.org/v1"),
        ("gpt-4o", "nobody", ""),
    ],
)
def test_what_is_not_known_stays_unknown(model: str, provider: str, url: str) -> None:
    assert list_price(model, provider, url=url) is None
    assert reply_from(body(USAGE), None).cost_usd is None


def test_usage_that_cannot_be_is_clamped_or_leaves_the_cost_unknown() -> None:
    price = ListPrice("openai", "gpt-4o")
    more_cached_than_asked = {**USAGE, "prompt_tokens": 10, "total_tokens": 0}
    assert reply_from(body(more_cached_than_asked), price).cost_usd == price.cost(Tokens(10, 1000, cached=10))
    assert reply_from(body({"prompt_tokens": 10}), price).cost_usd is None
    assert price.cost(Tokens(10, 1, cached=11)) is None


def test_reasoning_that_only_the_total_counts_is_paid_for() -> None:
    hidden = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 115}
    assert reply_from(body(hidden), FlatPrice(0.0, 1.0)).cost_usd == pytest.approx(105 / 1e6)


def test_a_newer_list_is_read_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    newer = tmp_path / "cereval" / "genai-prices.json"
    newer.parent.mkdir()
    model = {
        "id": "gpt-9",
        "match": {"starts_with": "gpt-9"},
        "prices": {"input_mtok": 2, "output_mtok": 8},
        "price_variants": [{"when": {"processing": "batch"}, "prices": {"input_mtok": 1, "output_mtok": 4}}],
    }
    provider = {
        "id": "openai",
        "name": "OpenAI",
        "api_pattern": "https://api\\.openai\\.com",
        "models": [model],
    }
    assert list_price("gpt-9-mini", "openai") is None
    newer.write_text(json.dumps([provider]))
    price = list_price("gpt-9-mini", url=OPENAI)
    assert price is not None
    assert price.cost(Tokens(1000, 100)) == pytest.approx(0.0028)
    assert price.source.startswith("genai-prices.json of 20")
    batch = list_price("gpt-9-mini", "openai", batch=True)
    assert batch is not None
    assert (batch.cost(Tokens(1000, 100)), batch.has_batch_price) == (pytest.approx(0.0014), True)
    assert list_price("gpt-4o", "openai") is None, "the newer list is the whole list"
    newer.write_text('{"openai": 1}')
    with pytest.raises(BadFile, match="no list of genai-prices"):
        list_price("gpt-9-mini", "openai")
