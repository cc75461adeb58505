"""Limits of a server, held across all processes of a fleet: connections, requests and tokens a minute.

The driver keeps one turnstile for each server, and every run asks there before each attempt at a call. Leaves belong to
the connection over which they were given: a worker that is killed gives them back with its last breath. No more than
the limit is sent in any sixty seconds, whatever has been saved up before.
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
from dataclasses import dataclass, fields
from threading import Thread
from typing import Any

from cereval.errors import InvalidInput
from cereval.models.retries import Fault, FaultError
from cereval.text import did_you_mean

MINUTE_S = 60.0
ALL = "*"
"""In place of a server's address: each server that has no limits of its own."""

GONE = Fault("the fleet that this run belongs to has ended; the next one goes on with it", everywhere=True)


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Say what one server is asked at most, by all runs together; None: as much as they like."""

    connections: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    @classmethod
    def of(cls, values: Any, source: str) -> ServerLimits:
        """Return the limits in a part of a file."""
        names = [one.name for one in fields(cls)]
        if not isinstance(values, Mapping):
            raise InvalidInput(source, f"some of {', '.join(names)}", values)
        for name, value in values.items():
            if name not in names:
                raise InvalidInput(
                    source, f"some of {', '.join(names)} ({did_you_mean(str(name), names)})", name
                )
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidInput(f"{name} of {source}", "a whole number >= 1", value)
        return cls(**values)


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
        """Let a call pass now; return its record, for `leave`."""
        record = [self.clock(), tokens]
        self.inside += 1
        self._passed.append(record)
        self._tokens += tokens
        return record

    def leave(self, record: list[float], tokens: float | None) -> None:
        """Let a call leave; what it took in truth replaces what was expected."""
        self.inside -= 1
        if tokens is not None and record[0] > self.clock() - MINUTE_S:
            self._tokens += tokens - record[1]
            record[1] = tokens


class Queue:
    """First come, first served before one turnstile."""

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
    """Keeps the turnstiles of all servers, for whoever knows the key."""

    def __init__(self, limits: Mapping[str, ServerLimits], key: str) -> None:
        self.limits, self.key = limits, key
        self._queues: dict[str, Queue] = {}

    def queue(self, server: str) -> Queue:
        if server not in self._queues:
            limits = self.limits.get(server) or self.limits.get(ALL) or ServerLimits()
            self._queues[server] = Queue(Turnstile(limits))
        return self._queues[server]

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one run, until it hangs up or is killed."""
        given: dict[int, tuple[Queue, list[float]]] = {}
        waiting: set[asyncio.Task[None]] = set()
        try:
            hello = (await reader.readline()).decode().strip()
            while hmac.compare_digest(hello, self.key) and (line := await reader.readline()):
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
            writer.close()

    async def _admit(
        self,
        asked: Mapping[str, Any],
        given: dict[int, tuple[Queue, list[float]]],
        writer: asyncio.StreamWriter,
    ) -> None:
        queue = self.queue(str(asked["server"]))
        record = await queue.enter(float(asked["tokens"]))
        given[asked["enter"]] = queue, record
        writer.write(b"%d\n" % asked["enter"])


@contextmanager
def kept(limits: Mapping[str, ServerLimits], host: str = "127.0.0.1") -> Iterator[Door | None]:
    """Keep the turnstiles while the context is open, in a thread of their own; None where there are no limits."""
    if not limits:
        yield None
        return
    keeper, loop = Keeper(limits, secrets.token_hex(16)), asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(keeper.connected, host, 0))
    thread = Thread(target=loop.run_forever, name="cereval-limits", daemon=True)
    thread.start()
    try:
        yield Door(host, server.sockets[0].getsockname()[1], keeper.key, tuple(limits))
    finally:
        asyncio.run_coroutine_threadsafe(_closed(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _closed(server: asyncio.Server) -> None:
    server.close()
    mine = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not mine]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


# -- a run's side -----------------------------------------------------------------------------------------------------


class Visitor:
    """Ask at the driver's door: a `Gate`."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self._next = 0
        self._awaited: dict[int, asyncio.Future[None]] = {}
        self._streams: asyncio.Future[asyncio.StreamWriter] | None = None
        self._reading: asyncio.Task[None] | None = None

    async def enter(self, server: str, tokens: int) -> int | None:
        server = server.rstrip("/")
        if server not in self.door.servers and ALL not in self.door.servers:
            return None
        writer = await self._writer()
        self._next += 1
        number, told = self._next, asyncio.get_running_loop().create_future()
        self._awaited[number] = told
        self._send(writer, {"enter": number, "server": server, "tokens": tokens})
        try:
            await told
        except asyncio.CancelledError:
            # It may have been given in this very moment.
            self._awaited.pop(number, None)
            told.cancel()
            raise
        return number

    async def leave(self, leave: int, tokens: int | None) -> None:
        self._send(await self._writer(), {"leave": leave, "tokens": tokens})

    async def _writer(self) -> asyncio.StreamWriter:
        """Return the connection of this run, made once."""
        if self._streams is None:
            self._streams = asyncio.get_running_loop().create_future()
            try:
                reader, writer = await asyncio.open_connection(self.door.host, self.door.port)
            except OSError:
                self._streams.set_exception(FaultError(GONE))
            else:
                writer.write(f"{self.door.key}\n".encode())
                self._reading = asyncio.create_task(self._read(reader, writer))
                self._streams.set_result(writer)
        return await asyncio.shield(self._streams)

    def _send(self, writer: asyncio.StreamWriter, message: Mapping[str, Any]) -> None:
        if writer.is_closing():
            raise FaultError(GONE)
        writer.write(json.dumps(message).encode() + b"\n")

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hear which calls may pass, until the driver hangs up or the run's event loop ends."""
        try:
            while line := await reader.readline():
                self._told(int(line), writer)
        except ConnectionError:
            pass  # the driver is gone, as below
        finally:
            writer.close()
            for told in self._awaited.values():
                if not told.done():
                    told.set_exception(FaultError(GONE))
            self._awaited.clear()

    def _told(self, number: int, writer: asyncio.StreamWriter) -> None:
        told = self._awaited.pop(number, None)
        if told is not None and not told.done():
            told.set_result(None)
        else:  # whoever asked has been cancelled
            self._send(writer, {"leave": number, "tokens": 0})
