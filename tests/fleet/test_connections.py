"""Connections of our own small servers: whatever their tasks are doing, none stays open."""

from __future__ import annotations

import asyncio

import pytest
from benchmarks.connections import Connections


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(line)


async def tidy_up_slowly(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tidying: asyncio.Event
) -> None:
    """As a fleet's keeper does: what it gave out comes back before it has done."""
    try:
        await echo(reader, writer)
    finally:
        tidying.set()
        await asyncio.sleep(600)


def visit(coroutine: object) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 120))  # type: ignore[arg-type]


def test_a_connection_is_closed_when_its_task_is_done() -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())

    async def call() -> None:
        connections = Connections(once)
        reader, writer = await asyncio.open_connection("127.0.0.1", await connections.listen("127.0.0.1"))
        writer.write(b"hello\n")
        assert await reader.read() == b"hello\n", "and then the end"
        writer.close()
        await connections.close()

    visit(call())


@pytest.mark.parametrize("hangs_up", [False, True])
def test_close_ends_what_is_being_tidied_up(hangs_up: bool) -> None:
    served: list[asyncio.StreamWriter] = []
    tidying = asyncio.Event()

    async def noted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(writer)
        await tidy_up_slowly(reader, writer, tidying)

    async def call() -> None:
        connections = Connections(noted)
        reader, writer = await asyncio.open_connection("127.0.0.1", await connections.listen("127.0.0.1"))
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"
        if hangs_up:
            writer.write_eof()
            await tidying.wait()
        # One cancels the task where it reads, and another, below, where it tidies up.
        next(iter(connections._open)).cancel()
        await asyncio.sleep(0)
        await connections.close()
        assert [one.transport.is_closing() for one in served] == [True]
        assert not connections._open
        writer.close()

    visit(call())


def test_nobody_is_left_who_was_let_in_a_moment_ago() -> None:
    """The task that serves him has not begun when it is cancelled."""

    async def call() -> None:
        for steps in range(6):
            connections = Connections(echo)
            reader, writer = await asyncio.open_connection("127.0.0.1", await connections.listen("127.0.0.1"))
            for _ in range(steps):
                await asyncio.sleep(0)
            await connections.close()
            try:
                assert await reader.read() == b""
            except ConnectionResetError:
                pass  # he was hung up on
            finally:
                writer.close()

    visit(call())
