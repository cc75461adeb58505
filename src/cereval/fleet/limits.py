"""Limits of servers, held by all runs of a fleet together: each run has a part of them for as long as it is under way.

The driver divides the limits, so that the parts lent are never more than the whole; no worker asks another process
before a call. Calls that are counted are spaced evenly, the first of a run too: so no more than the limit is sent in
any sixty seconds, also where one run takes over the part of another, or a worker that of one that was killed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cereval.settings import MOST_CONNECTIONS

MINUTE_S = 60.0

ALL = "*"
"""In place of a server's address: each server that has no limits of its own."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Say what one server is asked at most; None: as much as the runs like."""

    connections: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    def change(self, to: Callable[[int, int], int], other: ServerLimits) -> ServerLimits:
        """Return the limits, each with the other's taken into account; those that are not set stay so."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in self.__slots__)
        return ServerLimits(*(None if mine is None else to(mine, theirs) for mine, theirs in pairs))

    @property
    def least(self) -> int:
        return min((one for one in map(self.__getattribute__, self.__slots__) if one is not None), default=1)


class Parts:
    def __init__(self, limits: Mapping[str, ServerLimits]) -> None:
        self.limits = limits
        self._left: dict[str, ServerLimits] = {}
        self._lent: dict[int, dict[str, ServerLimits]] = {}

    def left(self, servers: Sequence[str]) -> dict[str, ServerLimits]:
        whole = {server: self.limits.get(server) or self.limits.get(ALL) for server in servers}
        return {server: self._left.get(server, one) for server, one in whole.items() if one is not None}

    def is_left(self, servers: Sequence[str]) -> bool:
        return all(one.least >= 1 for one in self.left(servers).values())

    def lend(self, number: int, servers: Sequence[str], runs: int) -> dict[str, ServerLimits]:
        """Give a run its part where so many runs want one.

        >>> parts = Parts({ALL: ServerLimits(connections=5)})
        >>> [parts.lend(number, ["s"], 3 - number)["s"].connections for number in range(3)], parts.is_left(["s"])
        ([1, 2, 2], False)
        """
        left = self.left(servers)
        self._lent[number] = {
            server: one.change(lambda mine, _: max(mine // runs, 1), one) for server, one in left.items()
        }
        for server, part in self._lent[number].items():
            self._left[server] = left[server].change(lambda mine, lent: mine - lent, part)
        return self._lent[number]

    def take_back(self, number: int) -> None:
        for server, part in self._lent.pop(number, {}).items():
            self._left[server] = self._left[server].change(lambda mine, lent: mine + lent, part)


class Lane:
    def __init__(self, limits: ServerLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits, self.clock = limits, clock
        self.room = asyncio.Semaphore(limits.connections or MOST_CONNECTIONS)
        self._turn = asyncio.Lock()
        self._free_at = clock() + self.takes(0)

    def takes(self, tokens: int) -> float:
        calls, most = self.limits.requests_per_minute, self.limits.tokens_per_minute
        # So many tokens less than the most: else the calls at both ends of a minute are one too many.
        share = 0.0 if most is None else tokens / max(most - tokens, tokens, 1)
        return MINUTE_S * max(0.0 if calls is None else 1 / calls, share)

    def pause(self) -> float:
        return max(self._free_at - self.clock(), 0.0)

    def use(self, tokens: int, instead_of: int | None = None) -> None:
        """Count a call; instead_of: the tokens that it was counted with before it was made."""
        if instead_of is None:
            self._free_at = max(self._free_at, self.clock()) + self.takes(tokens)
        else:
            self._free_at += self.takes(tokens) - self.takes(instead_of)

    async def enter(self, tokens: int) -> None:
        await self.room.acquire()
        try:
            async with self._turn:
                while pause := self.pause():
                    await asyncio.sleep(pause)
                self.use(tokens)
        except BaseException:
            self.room.release()
            raise


class PartGate:
    def __init__(self, limits: Mapping[str, ServerLimits]) -> None:
        self.limits = limits
        self._lanes: dict[str, Lane] = {}
        self._inside: dict[int, tuple[Lane, int]] = {}
        self._next = 0

    async def enter(self, server: str, tokens: int) -> int | None:
        server = server.rstrip("/")
        if server not in self.limits:
            return None
        if server not in self._lanes:
            self._lanes[server] = Lane(self.limits[server])
        await self._lanes[server].enter(tokens)
        self._next += 1
        self._inside[self._next] = self._lanes[server], tokens
        return self._next

    def answered(self, leave: int) -> bool:
        room = self._inside[leave][0].room
        is_awaited = room.locked()
        room.release()
        return is_awaited

    async def leave(self, leave: int, tokens: int | None) -> None:
        lane, expected = self._inside.pop(leave)
        if tokens is not None:
            lane.use(tokens, instead_of=expected)
