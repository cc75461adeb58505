"""Rate limits are kept to and used up, whichever way a provider counts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from benchmarks.model_server import serve_locally
from benchmarks.rate_limits import Limited

from cereval.models import speed as speed_module
from cereval.models.openai_model import open_openai
from cereval.models.retries import Retries
from cereval.models.speed import Speed, seconds_until

MINUTE_S = 6.0
"""A minute of the tests' servers."""
START_S = 10 / 60 * MINUTE_S


async def ask_for(way: str, limit: int, seconds: float) -> Limited:
    """Ask a server as fast as it takes calls, by sixteen connections."""
    handler = Limited(way, MINUTE_S, limit=limit)
    async with serve_locally(handler) as url:
        model = open_openai("m", base_url=url, retries=Retries(first_s=0.05))

        async def worker() -> None:
            while time.monotonic() - handler.began < seconds:
                await model.answer([{"role": "user", "content": "1+1"}])

        await asyncio.gather(*(worker() for _ in range(16)))
        await model.close()
    return handler


@pytest.mark.slow
def test_limits_are_kept_to_and_nine_tenths_of_them_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three servers at once, each for a minute of its own; one of them says nothing and only refuses."""
    monkeypatch.setattr(speed_module, "MINUTE_S", MINUTE_S)

    async def ask_all() -> list[Limited]:
        end = START_S + MINUTE_S
        asked = ask_for("window", 150, end), ask_for("bucket", 150, end), ask_for("silent", 300, end)
        return list(await asyncio.gather(*asked))

    *telling, silent = asyncio.run(ask_all())
    for handler in telling:
        assert not [at for at in handler.refused if at > START_S], handler.way
        assert sum(at > START_S for at in handler.taken) >= 0.9 * handler.limit, handler.way
    late = sum(at > 2.0 for at in silent.taken)
    assert late >= 0.6 * silent.limit * (START_S + MINUTE_S - 2.0) / MINUTE_S
    assert sum(at > 2.0 for at in silent.refused) <= 0.2 * late, (
        "without pacing, sixteen connections are refused more often than not"
    )


def test_headers_of_every_provider() -> None:
    def rate(headers: dict[str, str], tokens: int = 0) -> float | None:
        speed = Speed()
        if tokens:
            speed.note_tokens(tokens)
        speed.note_limits(headers)
        return speed.rate

    openai: Callable[..., dict[str, str]] = lambda kind, left, full: {  # noqa: E731
        f"x-ratelimit-limit-{kind}": "600",
        f"x-ratelimit-remaining-{kind}": left,
        f"x-ratelimit-reset-{kind}": full,
    }
    assert rate(openai("requests", "300", "30s")) == 10
    assert rate(openai("requests", "0", "1m0s")) == 5, "what is left may be 0 for a moment"
    assert rate(openai("tokens", "3000", "30s")) is None, "nobody knows what a call takes"
    assert rate({**openai("requests", "300", "30s"), **openai("tokens", "3000", "30s")}, 100) == 1
    later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 31))
    anthropic = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "30",
        "anthropic-ratelimit-requests-reset": later,
    }
    assert rate(anthropic) == pytest.approx(1, rel=0.1)
    for nonsense in ("", "x", "-1", "1e400", "nan"):
        assert rate(openai("requests", nonsense, nonsense)) is None
    assert seconds_until("9" * 400 + "s") is not None


def test_turns_are_spaced() -> None:
    speed = Speed(rate=10.0)
    assert [round(speed.turn(100.0), 3) for _ in range(3)] == [0.0, 0.1, 0.2]
    assert speed.turn(101.0) == 0.0
