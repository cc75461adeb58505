"""Limits of a server, held across all processes of a fleet: connections, requests and tokens a minute.

The driver keeps one turnstile for each server, and every run asks there before each attempt at a call. Leaves belong to
the connection over which they were given: a worker that is killed gives them back with its last breath. No more than
the limit is sent in any sixty seconds, whatever has been saved up before. Where only connections are limited a leave is
good for a turn: the run makes one call after the other with it, without asking between them, as long as it has any.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Thread
from typing import Any

from cereval.fleet.connections import Connections
from cereval.models.retries import Fault, FaultError

MINUTE_S = 60.0
TURN_S = 0.25
"""How long a leave may be passed on from call to call within a run, while other runs wait for theirs."""

ALL = "*"
"""In place of a server's address: each server that has no limits of its own."""

GONE = Fault("the fleet that this run belongs to has ended; the next one goes on with it", everywhere=True)


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Say what one server is asked at most, by all runs together; None: as much as they like."""

    connections: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    @property
    def turn_s(self) -> float:
        """Return how long a leave is good for: for one call where calls are counted."""
        counted = self.requests_per_minute is not None or self.tokens_per_minute is not None
        return 0.0 if counted else TURN_S


class Turnstile:
    """Counts who passes: `pause` says how long the next must wait. Pure but for the clock that it is given."""

    def __init__(self, limits: ServerLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits, self.clock = limits, clock
        self.inside = 0
        self._passed: deque[list[float]] = deque()
        self._tokens = 0.0

    def pause(self, tokens: float) -> float | None:
        """Seconds to wait before a call of so many tokens may pass; None: until one that is inside has left."""
        limits, now = self.limits, self.clock()
        while self._passed and self._passed[0][0] <= now - MINUTE_S:
            self._tokens -= self._passed.popleft()[1]
        if limits.connections is not None and self.inside >= limits.connections:
            return None
        pause = 0.0
        if limits.requests_per_minute is not None and len(self._passed) >= limits.requests_per_minute:
            pause = self._passed[-limits.requests_per_minute][0] + MINUTE_S - now
        if limits.tokens_per_minute is not None:
            pause = max(pause, self._until(limits.tokens_per_minute - tokens, now))
        return pause

    def _until(self, most: float, now: float) -> float:
        """Seconds until the tokens of the last minute are no more than `most`; a call larger than all goes alone."""
        left, pause = self._tokens, 0.0
        for at, tokens in self._passed:
            if left <= max(most, 0.0):
                break
            left, pause = left - tokens, at + MINUTE_S - now
        return pause

    def enter(self, tokens: float) -> list[float]:
        record = [self.clock(), tokens]
        self.inside += 1
        self._passed.append(record)
        self._tokens += tokens
        return record

    def leave(self, record: list[float], tokens: float | None) -> None:
        self.inside -= 1
        if tokens is not None and record[0] > self.clock() - MINUTE_S:
            self._tokens += tokens - record[1]
            record[1] = tokens


class Queue:
    def __init__(self, turnstile: Turnstile) -> None:
        self.turnstile = turnstile
        self._turn, self._left = asyncio.Lock(), asyncio.Event()

    async def enter(self, tokens: float) -> list[float]:
        async with self._turn:
            while (pause := self.turnstile.pause(tokens)) != 0:
                self._left.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._left.wait(), pause)
            return self.turnstile.enter(tokens)

    def leave(self, record: list[float], tokens: float | None) -> None:
        self.turnstile.leave(record, tokens)
        self._left.set()


# -- the driver's side ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Door:
    """Say where a run asks for leave, and for which servers. key: proves that it belongs to the fleet."""

    host: str
    port: int
    key: str
    servers: tuple[str, ...]


class Keeper:
    def __init__(self, limits: Mapping[str, ServerLimits], key: str) -> None:
        self.limits, self.key = limits, key
        self._queues: dict[str, Queue] = {}

    def queue(self, server: str) -> Queue:
        if server not in self._queues:
            limits = self.limits.get(server) or self.limits.get(ALL) or ServerLimits()
            self._queues[server] = Queue(Turnstile(limits))
        return self._queues[server]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        given: dict[int, tuple[Queue, list[float]]] = {}
        waiting: set[asyncio.Task[None]] = set()
        try:
            hello = (await reader.readline()).strip()
            while hmac.compare_digest(hello, self.key.encode()) and (line := await reader.readline()):
                asked = json.loads(line)
                if "leave" in asked:
                    queue, record = given.pop(asked["leave"])
                    queue.leave(record, asked["tokens"])
                    continue
                task = asyncio.create_task(self._admit(asked, given, writer))
                waiting.add(task)
                task.add_done_callback(waiting.discard)
        except (ConnectionError, ValueError, KeyError, UnicodeDecodeError):
            pass  # a stranger, or a worker that was killed in the middle of a line
        finally:
            for task in tuple(waiting):
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            for queue, record in given.values():
                queue.leave(record, None)

    async def _admit(
        self,
        asked: Mapping[str, Any],
        given: dict[int, tuple[Queue, list[float]]],
        writer: asyncio.StreamWriter,
    ) -> None:
        queue = self.queue(str(asked["server"]))
        record = await queue.enter(float(asked["tokens"]))
        given[asked["enter"]] = queue, record
        writer.write(json.dumps([asked["enter"], queue.turnstile.limits.turn_s]).encode() + b"\n")


@contextmanager
def kept(limits: Mapping[str, ServerLimits], host: str = "127.0.0.1") -> Iterator[Door | None]:
    """Keep the turnstiles while the context is open, in a thread of their own; None where there are no limits."""
    if not limits:
        yield None
        return
    keeper, loop = Keeper(limits, secrets.token_hex(16)), asyncio.new_event_loop()
    connections = Connections(keeper.serve)
    port = loop.run_until_complete(connections.listen(host))
    thread = Thread(target=loop.run_forever, name="cereval-limits", daemon=True)
    thread.start()
    try:
        yield Door(host, port, keeper.key, tuple(limits))
    finally:
        asyncio.run_coroutine_threadsafe(connections.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


# -- a run's side -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Leave:
    """Hold one leave of the driver: its number there, and until when it may be passed on."""

    number: int
    until: float


class Desk:
    """Hand the leaves for one server to the calls of a run, first come, first served."""

    def __init__(self, ask: Callable[[int], None], give_back: Callable[[int, int | None], None]) -> None:
        self._ask, self._give_back = ask, give_back
        self._waiting: deque[asyncio.Future[Leave]] = deque()
        self._asked = 0

    async def enter(self, tokens: int) -> Leave:
        """Wait for a leave, of the driver or of a call that has ended."""
        told: asyncio.Future[Leave] = asyncio.get_running_loop().create_future()
        self._waiting.append(told)
        if self._asked < len(self._waiting):
            self._asked += 1
            self._ask(tokens)
        try:
            return await told
        except asyncio.CancelledError:
            # It may have been given in this very moment.
            if told.done() and not told.cancelled() and told.exception() is None:
                self.passed_on(told.result(), tokens=0)
            raise

    def given(self, leave: Leave) -> None:
        self._asked -= 1
        self._use(leave, tokens=0)

    def passed_on(self, leave: Leave, tokens: int | None) -> bool:
        """Take a leave back from a call: for the next one, as long as its turn lasts, else for the driver.

        Return whether there was a next one.
        """
        if time.monotonic() < leave.until:
            return self._use(leave, tokens)
        self._give_back(leave.number, tokens)
        return False

    def _use(self, leave: Leave, tokens: int | None) -> bool:
        while self._waiting:
            told = self._waiting.popleft()
            if not told.done():
                told.set_result(leave)
                return True
        self._give_back(leave.number, tokens)
        return False

    def close(self) -> None:
        """Tell all who wait that the fleet has ended; nothing that was asked for will come."""
        self._asked = 0
        while self._waiting:
            told = self._waiting.popleft()
            if not told.done():
                told.set_exception(FaultError(GONE))


class Visitor:
    """Ask at the driver's door: a `Gate`."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self._next = 0
        self._desks: dict[str, Desk] = {}
        self._asked: dict[int, Desk] = {}
        self._inside: dict[int, tuple[Desk, Leave]] = {}
        self._streams: asyncio.Task[asyncio.StreamWriter] | None = None
        self._reading: asyncio.Task[None] | None = None

    async def enter(self, server: str, tokens: int) -> int | None:
        server = server.rstrip("/")
        if server not in self.door.servers and ALL not in self.door.servers:
            return None
        desk = self._desk(server, await self._writer())
        leave = await desk.enter(tokens)
        self._next += 1
        self._inside[self._next] = desk, leave
        return self._next

    def answered(self, leave: int) -> bool:
        return bool(self._inside[leave][1].until) and self._passed_on(leave, None)

    async def leave(self, leave: int, tokens: int | None) -> None:
        if leave in self._inside:
            self._passed_on(leave, tokens)

    def _passed_on(self, leave: int, tokens: int | None) -> bool:
        desk, held = self._inside.pop(leave)
        return desk.passed_on(held, tokens)

    def _desk(self, server: str, writer: asyncio.StreamWriter) -> Desk:
        if server not in self._desks:

            def ask(tokens: int) -> None:
                self._next += 1
                self._asked[self._next] = desk
                if writer.is_closing():
                    raise FaultError(GONE)
                _send(writer, {"enter": self._next, "server": server, "tokens": tokens})

            def give_back(number: int, tokens: int | None) -> None:
                # Where the driver is gone its leaves are, and an answer that has come must not be lost.
                if not writer.is_closing():
                    _send(writer, {"leave": number, "tokens": tokens})

            desk = self._desks[server] = Desk(ask, give_back)
        return self._desks[server]

    async def _writer(self) -> asyncio.StreamWriter:
        if self._streams is None:
            # A task of its own: whoever came first may be cancelled, and the others wait for it too.
            self._streams = asyncio.create_task(self._connected())
        return await asyncio.shield(self._streams)

    async def _connected(self) -> asyncio.StreamWriter:
        try:
            reader, writer = await asyncio.open_connection(self.door.host, self.door.port)
        except OSError:
            raise FaultError(GONE) from None
        writer.write(f"{self.door.key}\n".encode())
        self._reading = asyncio.create_task(self._read(reader))
        # Not by the task itself, which may be cancelled before it begins.
        self._reading.add_done_callback(lambda _: self._hang_up(writer))
        return writer

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Hear which calls may pass, until the driver hangs up or the run's event loop ends."""
        with suppress(ConnectionError):
            while line := await reader.readline():
                number, turn_s = json.loads(line)
                until = time.monotonic() + turn_s if turn_s else 0.0
                self._asked.pop(number).given(Leave(number, until))

    def _hang_up(self, writer: asyncio.StreamWriter) -> None:
        writer.close()
        for desk in self._desks.values():
            desk.close()


def _send(writer: asyncio.StreamWriter, message: Mapping[str, Any]) -> None:
    writer.write(json.dumps(message).encode() + b"\n")
