"""`python -m benchmarks.throughput`: are the connections kept busy, and does memory stay flat?

First a server process that answers in 100 ms: a run with 32 connections to its goal beside a bare loop of the same
SDK, in turns; then a live ranking of three models. Busy: calls a second over those of connections that never wait.
In flight: connections that wait for an answer, on average; the rest is what the run itself makes them wait. Then
100,000 calls of the in-process scripted model, through store and session, with memory watched. CPU time is shown too:
on a machine that others use, it tells more than the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.model_server import FaultyModel
from benchmarks.serving import questions, served
from cereval.datasets.base import DataSet, Item
from cereval.datasets.items import Fields
from cereval.datasets.prompts import Prompt
from cereval.datasets.read import read_dataset
from cereval.models import ModelOptions, open_model
from cereval.models.base import Messages, Model, Reply
from cereval.plan import Plan, candidate_spec
from cereval.questions.rank.goal import Order
from cereval.runner.executor import Callers
from cereval.runner.finding import planned
from cereval.runner.limits import Limits
from cereval.runner.progress import Progress, Silent
from cereval.runner.run import Outcome, run
from cereval.runner.start import start
from cereval.scorers import build_scorer
from cereval.store.base import open_store

DELAY_S = 0.1
BARE_CALLS = 3000


@dataclass(frozen=True)
class Pace:
    """Calls, the time they took by the clock and of the processor, the sum of their own times, the connections."""

    calls: int
    seconds: float
    cpu_s: float
    waiting_s: float
    connections: int

    @property
    def busy(self) -> float:
        """Calls a second over those of connections that do nothing but wait for the server."""
        return self.calls / self.seconds * DELAY_S / self.connections

    @property
    def in_flight(self) -> float:
        """The share of connections that wait for an answer, on average."""
        return self.waiting_s / self.seconds / self.connections

    def __str__(self) -> str:
        pace, cpu = self.calls / self.seconds, 1000 * self.cpu_s / self.calls
        shares = f"{self.busy:.1%} busy, {self.in_flight:.1%} in flight"
        return f"{self.calls} calls, {pace:.0f}/s, {shares}, {cpu:.2f} ms CPU a call"


class Timed:
    """Notes when the first call of one or several models went out and the last came back."""

    def __init__(self, *inner: Model) -> None:
        self.inner, self.calls, self.first, self.last = inner, 0, 0.0, 0.0
        self.cpu_first = self.waiting_s = 0.0

    def models(self) -> list[Model]:
        """Those that are asked: what each takes is noted here."""
        return [TimedModel(self, one) for one in self.inner]

    async def timed(self, model: Model, messages: Messages) -> Reply:
        if not self.first:
            self.first, self.cpu_first = time.monotonic(), time.process_time()
        started = time.monotonic()
        reply = await model.answer(messages)
        self.calls, self.last = self.calls + 1, time.monotonic()
        self.waiting_s += self.last - started
        return reply

    def pace(self, connections: int) -> Pace:
        """From the first call's start to the last one's end."""
        cpu_s = time.process_time() - self.cpu_first
        return Pace(self.calls, self.last - self.first, cpu_s, self.waiting_s, connections)

    async def close(self) -> None:
        for one in self.inner:
            await one.close()


@dataclass(frozen=True)
class TimedModel:
    """One of the models of a run."""

    book: Timed
    inner: Model

    @property
    def name(self) -> str:
        return self.inner.name

    async def answer(self, messages: Messages, *, top_logprobs: int = 0) -> Reply:  # noqa: ARG002
        return await self.book.timed(self.inner, messages)

    async def close(self) -> None:
        await self.inner.close()


class Bare:
    """The SDK as its documentation has it: nothing retried, stored or decided."""

    name = "bare"

    def __init__(self, url: str) -> None:
        import openai

        self.client = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0)

    async def answer(self, messages: Messages, *, top_logprobs: int = 0) -> Reply:  # noqa: ARG002
        await self.client.chat.completions.create(model="m", messages=messages)  # type: ignore[arg-type]
        return Reply("")

    async def close(self) -> None:
        await self.client.close()


async def bare_pace(url: str, texts: Sequence[str], connections: int) -> Pace:
    """The SDK alone: as many loops as connections."""
    bare = Bare(url)
    await bare.answer([{"role": "user", "content": "warm"}])
    book, waiting = Timed(bare), iter(texts)

    async def loop() -> None:
        for text in waiting:
            await book.timed(bare, [{"role": "user", "content": text}])

    await asyncio.gather(*(loop() for _ in range(connections)))
    pace = book.pace(connections)
    await book.close()
    return pace


async def runner_pace(url: str, data: DataSet, store: Path, eps: float, connections: int) -> Pace:
    """A run with everything on, to its goal."""
    book = Timed(open_model("openai/m", ModelOptions(base_url=url)))
    plan = plan_of(data, {"goal": "estimate", "eps": eps})
    await certified(data, book.models(), store, plan, connections, Silent())
    pace = book.pace(connections)
    await book.close()
    return pace


async def ranking_pace(urls: Sequence[str], data: DataSet, store: Path, calls: int, connections: int) -> Pace:
    """A live ranking of as many models as servers, to the end of its budget of calls."""
    names = [f"openai/{letter}" for letter, _ in zip("abcdefgh", urls, strict=False)]
    opened = zip(names, urls, strict=True)
    book = Timed(*(open_model(name, ModelOptions(base_url=url)) for name, url in opened))
    goal = Order(tie=0.001).spec()
    plan = plan_of(data, goal, *names, kind="rank", method="pairs", max_calls=calls)
    await certified(data, book.models(), store, plan, connections, Silent())
    pace = book.pace(connections)
    await book.close()
    return pace


def plan_of(data: DataSet, goal: dict[str, Any], *names: str, kind: str = "estimate", **fields: Any) -> Plan:
    candidates = tuple(map(candidate_spec, names or ("m",)))
    return Plan(kind, goal, data.content_hash, len(data.items), candidates, **fields)


async def certified(
    data: DataSet, models: Sequence[Model], store: Path, plan: Plan, connections: int, watcher: Silent
) -> Outcome:
    """A run to its goal or to the end of its budget of calls."""
    opened = open_store(f"sqlite:///{store}")
    begun = start(planned(plan, data.items, opened, history=False), data.items, opened)
    callers = Callers(data.items, [Prompt()] * len(models), models, [build_scorer("exact")] * len(models))
    outcome = await run(begun, opened, callers, Limits(connections), watcher)
    opened.close()
    return outcome


def connections_busy(eps: float, connections: int, turns: int) -> float:
    """Prints both paces in turns; returns the runner's best share of busy connections."""
    folder = Path(tempfile.mkdtemp())
    data = read_dataset(questions(folder, 12_000), Fields(input="ask", answer="gold"))
    texts = [item.text for item in data.items[:BARE_CALLS]]
    best = 0.0
    with served(folder / "key.json", "--delay", str(DELAY_S)) as url:
        for turn in range(turns):
            bare = asyncio.run(bare_pace(url, texts, connections))
            ours = asyncio.run(runner_pace(url, data, folder / f"{turn}.db", eps, connections))
            print(f"bare SDK loop  {bare}")
            print(f"cereval run    {ours}; {ours.busy / bare.busy:.1%} of the bare loop")
            best = max(best, ours.busy)
    return best


def ranking_busy(calls: int, connections: int, turns: int) -> float:
    """Prints the pace of live rankings of three models; returns the best share of busy connections."""
    folder = Path(tempfile.mkdtemp())
    data = read_dataset(questions(folder, 12_000), Fields(input="ask", answer="gold"))
    best = 0.0
    with ExitStack() as servers:
        urls = [
            servers.enter_context(
                served(folder / "key.json", "--delay", str(DELAY_S), accuracy=accuracy, seed=seed)
            )
            for seed, accuracy in enumerate((0.7, 0.69, 0.68))
        ]
        for turn in range(turns):
            pace = asyncio.run(ranking_pace(urls, data, folder / f"{turn}.db", calls, connections))
            print(f"cereval rank   {pace}")
            best = max(best, pace.busy)
    return best


def resident_mb() -> float:
    """Memory in use now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


class Memory(Silent):
    """Memory after each tenth of the calls: what grows with the calls shows."""

    def __init__(self, calls: int) -> None:
        self.calls = calls
        self.marks: list[tuple[int, float]] = []

    def on_progress(self, progress: Progress) -> None:
        if progress.answered >= len(self.marks) * self.calls / 10:
            self.marks.append((progress.answered, resident_mb()))


def many_calls(calls: int, connections: int) -> float:
    """Prints the pace and memory of an in-process run; returns calls a second.

    It ends with its budget: on which side of its own value the mean lies cannot be decided.
    """
    items = [Item(str(i), f"question {i}", (str(i),)) for i in range(4 * calls)]
    data = DataSet.of("made", items)
    model = FaultyModel({item.text: str(item.answer) for item in items})
    watcher = Memory(calls)
    started, cpu = time.monotonic(), time.process_time()
    gc.collect()
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_of(data, {"goal": "threshold", "value": model.true_accuracy()}, max_calls=calls)
        outcome = asyncio.run(certified(data, [model], Path(folder) / "runs.db", plan, connections, watcher))
    seconds, cpu = time.monotonic() - started, time.process_time() - cpu
    marks = ", ".join(f"{mb:.0f} MB at {answered:,}" for answered, mb in watcher.marks)
    cpu_ms = 1000 * cpu / calls
    print(f"in process     {outcome.calls:,} calls, {calls / seconds:.0f}/s, {cpu_ms:.2f} ms CPU a call")
    print(f"               memory {marks}")
    return calls / seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--eps", type=float, default=0.015, help="some 2,700 calls")
    parser.add_argument("--ranking", type=int, default=3000, help="calls of a ranking of three models")
    parser.add_argument("--many", type=int, default=100_000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    busy = connections_busy(options.eps, options.connections, options.turns)
    ranking = ranking_busy(options.ranking, options.connections, options.turns)
    pace = many_calls(options.many, options.connections)
    return 0 if min(busy, ranking) >= 0.85 and pace >= 1000 else 1


if __name__ == "__main__":
    sys.exit(main())
