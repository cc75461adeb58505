"""Rate limits are kept to and used up, whichever way a provider counts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from benchmarks.model_server import serve_locally
from benchmarks.rate_limits import LIMIT, Limited

from cereval.models import speed as speed_module
from cereval.models.openai_model import open_openai
from cereval.models.retries import Retries
from cereval.models.speed import Speed, seconds_until

MINUTE_S = 12.0
"""A minute of the test's server: 50 calls a second."""
START_S = 10 / 60 * MINUTE_S
TEST_S = MINUTE_S


@pytest.fixture(autouse=True)
def short_minutes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("slow"):
        monkeypatch.setattr(speed_module, "MINUTE_S", MINUTE_S)


def ask_for(way: str, seconds: float, connections: int = 16) -> Limited:
    handler = Limited(way, MINUTE_S)

    async def ask() -> None:
        async with serve_locally(handler) as url:
            model = open_openai("m", base_url=url, retries=Retries(first_s=0.05))

            async def worker() -> None:
                while time.monotonic() - handler.began < seconds:
                    await model.answer([{"role": "user", "content": "1+1"}])

            await asyncio.gather(*(worker() for _ in range(connections)))
            await model.close()

    asyncio.run(ask())
    return handler


@pytest.mark.slow
@pytest.mark.parametrize("way", ["window", "bucket"])
def test_a_limit_is_kept_to_and_nine_tenths_of_it_are_used(way: str) -> None:
    handler = ask_for(way, START_S + TEST_S)
    assert not [at for at in handler.refused if at > START_S]
    used = sum(at > START_S for at in handler.taken)
    assert used >= 0.9 * LIMIT * TEST_S / MINUTE_S


@pytest.mark.slow
def test_a_server_that_only_refuses_is_asked_at_about_its_speed() -> None:
    handler = ask_for("silent", 6.0)
    late = [at for at in handler.taken if at > 2.0]
    refused = [at for at in handler.refused if at > 2.0]
    assert len(late) >= 0.6 * 4.0 * LIMIT / MINUTE_S
    assert len(refused) <= 0.2 * len(late), (
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
