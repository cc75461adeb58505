from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cereval.errors import CallError
from cereval.models.base import clean_text
from cereval.models.retries import (
    Fault,
    FaultError,
    Retries,
    fault_of,
    retry_after,
    retrying,
    scrubbed,
)


@given(st.integers(0, 10_000), st.floats(0, 1), st.one_of(st.none(), st.floats(0, 1000)))
def test_pauses_are_bounded_and_never_shorter_than_asked(
    failed: int, jitter: float, asked: float | None
) -> None:
    pause = Retries().pause(failed, jitter, asked)
    assert (asked or 0.0) <= pause <= max(30.0, asked or 0.0)


def run(faults: list[Fault], policy: Retries) -> tuple[list[float], object]:
    left, slept = list(faults), []

    async def call() -> str:
        if left:
            raise FaultError(left.pop(0))
        return "yes"

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    return slept, asyncio.run(retrying(call, fault_of, policy, sleep=sleep, jitter=lambda: 1.0))


def test_waits_double_and_honour_the_server() -> None:
    busy = Fault("busy", retryable=True)
    asked = Fault("busy", retryable=True, retry_after_s=7.0)
    slept, tried = run([busy, busy, asked, busy], Retries(first_s=1, longest_s=30))
    assert slept == [1, 2, 7, 8]
    assert tried.attempts == 5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("fault", "attempts"),
    [(Fault("no"), 1), (Fault("no", retryable=True, retry_after_s=1e4), 1), (Fault("no", retryable=True), 6)],
)
def test_when_to_give_up(fault: Fault, attempts: int) -> None:
    with pytest.raises(CallError) as caught:
        run([fault] * 9, Retries())
    assert ("after" in str(caught.value)) == (attempts > 1)


def test_retry_after_in_every_form() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    assert retry_after({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    assert 3000 < (retry_after({"retry-after": later}) or 0) <= 3600
    assert retry_after({"retry-after": "soon"}) is None
    assert retry_after({}) is None


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1), st.text(), st.text())
def test_a_key_never_survives_scrubbing(key: str, before: str, after: str) -> None:
    from cereval.models.retries import HIDDEN

    assert key in HIDDEN or key not in scrubbed(before + key + after, key).replace(HIDDEN, "")


@given(st.text(st.characters()))
def test_clean_text_can_always_be_encoded(text: str) -> None:
    clean = clean_text(text + "\udcff")
    assert clean.encode()
    assert len(clean) == len(text) + 1
