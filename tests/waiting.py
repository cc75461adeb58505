"""Waiting without a clock, so that the order of events is the same on every machine."""

from __future__ import annotations

import asyncio


async def turns(count: int) -> None:
    """Let whatever else is ready go on, so many times."""
    for _ in range(count):
        await asyncio.sleep(0)
