"""Providers with OpenAI-compatible addresses, by the name in front of a model: `anthropic/NAME`, `groq/NAME`, ...

Their addresses are part of the program: a store or a task file that names a provider sends nothing elsewhere. The key
of each is read from its own environment variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Provider:
    """Say where a provider answers, and the environment variable with the key for it."""

    base_url: str
    key_variable: str


PROVIDERS: Mapping[str, Provider] = {
    "anthropic": Provider("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
    "deepseek": Provider("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "gemini": Provider("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "groq": Provider("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": Provider("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "openrouter": Provider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "together": Provider("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "xai": Provider("https://api.x.ai/v1", "XAI_API_KEY"),
}


def provider_of(model: object) -> Provider | None:
    """Return the provider that a model's name begins with.

    >>> provider_of("groq/llama-3.1-8b-instant").key_variable, provider_of("openai/gpt-4o")
    ('GROQ_API_KEY', None)
    """
    name, slash, _ = str(model).partition("/")
    return PROVIDERS.get(name) if slash else None
