from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cereval.errors import CallError
from cereval.models.base import EndpointError
from cereval.models.retries import (
    Fault,
    FaultError,
    Pace,
    Retries,
    fault_of,
    hide_secrets,
    retry,
    retry_after,
)
from cereval.text import storable


@given(st.integers(0, 10_000), st.floats(0, 1))
def test_pauses_are_bounded(failed: int, jitter: float) -> None:
    assert 0.25 <= Retries().pause(failed, jitter) <= 30.0


def run(faults: list[Fault], policy: Retries, pace: Pace | None = None) -> tuple[list[float], int]:
    left, slept = list(faults), []

    async def call() -> str:
        if left:
            raise FaultError(left.pop(0))
        return "yes"

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    found = retry(call, fault_of, policy, pace, sleep=sleep, jitter=lambda: 1.0, clock=lambda: sum(slept))
    return slept, asyncio.run(found)[1]


BUSY = Fault("busy", retryable=True, busy=True)
FAILED = Fault("no", retryable=True)


def test_waits_double_and_honour_the_server() -> None:
    asked = replace(BUSY, retry_after_s=7.0)
    assert run([FAILED, FAILED, FAILED], Retries(first_s=1)) == ([1, 2, 4], 4)
    assert run([BUSY, BUSY, asked, FAILED], Retries(first_s=1)) == ([1, 2, 7, 1], 5)


def test_a_busy_server_is_no_failed_attempt() -> None:
    slept, attempts = run([BUSY] * 15, Retries(attempts=2))
    assert attempts == 16
    assert max(slept) == 30


def test_calls_that_are_refused_together_wait_together() -> None:
    pace, policy = Pace(), Retries(first_s=1)
    for _ in range(32):
        assert pace.slow_down(BUSY, policy, 100.0, 1.0) is None
    assert (pace.until, pace.rounds) == (102.0, 1)
    pace.note_answer(101.0)
    assert pace.slow_down(BUSY, policy, 102.0, 1.0) is None
    assert pace.until == 103.0


@pytest.mark.parametrize(
    ("fault", "attempts", "says"),
    [
        (Fault("no"), 1, "^no$"),
        (FAILED, 6, "^no .after 6 attempts.$"),
        (replace(BUSY, retry_after_s=1e4), 1, "it asks to wait 10,000 s: lower -j, or resume later$"),
        (replace(BUSY, retry_after_s=500.0), 3, "it has answered no call for 1,000 s"),
    ],
)
def test_when_to_give_up(fault: Fault, attempts: int, says: str) -> None:
    with pytest.raises(CallError, match=says) as caught:
        run([fault] * 99, Retries())
    assert isinstance(caught.value, EndpointError) == fault.busy
    assert attempts == 1 or f"after {attempts} attempts" in str(caught.value)


def test_a_call_that_is_refused_while_others_are_answered_fails_alone() -> None:
    """It may be too large for the server's limit of tokens."""

    class Answered(Pace):
        def slow_down(self, *arguments: Any) -> Fault | None:
            self.note_answer(0.0)
            return super().slow_down(*arguments)

    with pytest.raises(CallError) as caught:
        run([BUSY] * 10_000, Retries(), Answered())
    assert not isinstance(caught.value, EndpointError)


def test_retry_after_in_every_form() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    assert retry_after({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    assert 3000 < (retry_after({"retry-after": later}) or 0) <= 3600
    assert retry_after({"retry-after": "soon"}) is None
    assert retry_after({}) is None


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1), st.text(), st.text())
def test_a_key_never_survives_scrubbing(key: str, before: str, after: str) -> None:
    from cereval.models.retries import HIDDEN

    assert key in HIDDEN or key not in hide_secrets(before + key + after, key).replace(HIDDEN, "")


@given(st.text(st.characters()))
def test_clean_text_can_always_be_encoded(text: str) -> None:
    clean = storable(text + "\udcff")
    assert clean.encode()
    assert len(clean) == len(text) + 1
