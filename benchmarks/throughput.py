"""`python -m benchmarks.throughput`: are the connections kept busy, and does memory stay flat?

First a server process that answers in 100 ms: a run with 32 connections beside a bare loop of the same SDK,
in turns. Then 100,000 calls of the in-process scripted model, through store and session, with memory watched.
CPU time is shown too: on a machine that others use, it tells more than the clock.
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
from dataclasses import dataclass
from pathlib import Path

from benchmarks.serving import questions, served
from cereval.datasets.base import DataSet, Item
from cereval.datasets.fields import Fields
from cereval.datasets.prompts import Prompt
from cereval.datasets.read import read_dataset
from cereval.models.base import Messages, Model, Reply
from cereval.models.build import ModelOptions, open_model
from cereval.models.scripted import ScriptedModel
from cereval.plan import Plan
from cereval.progress import Progress, Silent
from cereval.runner.caller import Caller
from cereval.runner.limits import Limits
from cereval.runner.run import Outcome, run
from cereval.runner.start import planned, start
from cereval.scorers.build import build_scorer
from cereval.store.base import open_store

DELAY_S = 0.1


@dataclass(frozen=True)
class Pace:
    """Calls, the time they took by the clock and of the processor, and the calls a second of perfect use."""

    calls: int
    seconds: float
    cpu_s: float
    ideal: float

    @property
    def busy(self) -> float:
        return self.calls / self.seconds / self.ideal

    def __str__(self) -> str:
        pace, cpu = self.calls / self.seconds, 1000 * self.cpu_s / self.calls
        return f"{self.calls} calls, {pace:.0f}/s, {self.busy:.1%} busy, {cpu:.2f} ms CPU a call"


class Timed:
    """Notes when the first call went out and the last came back."""

    def __init__(self, inner: Model) -> None:
        self.inner, self.calls, self.first, self.last = inner, 0, 0.0, 0.0
        self.cpu_first = 0.0

    @property
    def name(self) -> str:
        return self.inner.name

    async def answer(self, messages: Messages, *, top_logprobs: int = 0) -> Reply:
        if not self.first:
            self.first, self.cpu_first = time.monotonic(), time.process_time()
        reply = await self.inner.answer(messages, top_logprobs=top_logprobs)
        self.calls, self.last = self.calls + 1, time.monotonic()
        return reply

    async def close(self) -> None:
        await self.inner.close()


async def bare_pace(url: str, texts: Sequence[str], connections: int) -> Pace:
    """The SDK alone: as many loops as connections, nothing stored, nothing decided."""
    import openai

    client = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    waiting = iter(texts)

    async def loop() -> None:
        for text in waiting:
            await client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])

    await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "warm"}])
    started, cpu = time.monotonic(), time.process_time()
    await asyncio.gather(*(loop() for _ in range(connections)))
    pace = Pace(len(texts), time.monotonic() - started, time.process_time() - cpu, connections / DELAY_S)
    await client.close()
    return pace


async def runner_pace(url: str, data: DataSet, store: Path, calls: int, connections: int) -> Pace:
    """A run with everything on, until its budget of calls is spent."""
    model = Timed(open_model("openai/m", ModelOptions(base_url=url)))
    await certified(data, model, store, calls, connections, 0.7, Silent())
    await model.close()
    return Pace(
        model.calls, model.last - model.first, time.process_time() - model.cpu_first, connections / DELAY_S
    )


async def certified(
    data: DataSet, model: Model, store: Path, calls: int, connections: int, value: float, watcher: Silent
) -> Outcome:
    """A run that ends with its budget: on which side of its own value the mean lies cannot be decided."""
    plan = Plan(
        goal={"goal": "threshold", "value": value},
        data_hash=data.content_hash,
        n_items=len(data.items),
        model={"name": "m"},
        max_calls=calls,
    )
    opened = open_store(f"sqlite:///{store}")
    begun = start(planned(plan, data.items, opened, history=False), data.items, opened)
    caller = Caller(data.items, Prompt(), model, build_scorer("exact"))
    outcome = await run(begun, opened, caller, Limits(connections), watcher)
    opened.close()
    return outcome


def connections_busy(calls: int, connections: int, turns: int) -> float:
    """Prints both paces in turns; returns the runner's best share of busy connections."""
    folder = Path(tempfile.mkdtemp())
    data = read_dataset(questions(folder, 4 * calls), Fields(input="ask", answer="gold"))
    texts = [item.text for item in data.items[:calls]]
    best = 0.0
    with served(folder / "key.json", "--delay", str(DELAY_S)) as url:
        for turn in range(turns):
            bare = asyncio.run(bare_pace(url, texts, connections))
            ours = asyncio.run(runner_pace(url, data, folder / f"{turn}.db", calls, connections))
            print(f"bare SDK loop  {bare}")
            print(f"cereval run    {ours}; {ours.busy / bare.busy:.1%} of the bare loop")
            best = max(best, ours.busy)
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
    """Prints the pace and memory of an in-process run; returns calls a second."""
    items = [Item(str(i), f"question {i}", (str(i),)) for i in range(4 * calls)]
    data = DataSet.of("made", items)
    model = ScriptedModel({item.text: str(item.answer) for item in items})
    watcher = Memory(calls)
    started, cpu = time.monotonic(), time.process_time()
    gc.collect()
    with tempfile.TemporaryDirectory() as folder:
        database, value = Path(folder) / "runs.db", model.true_accuracy()
        outcome = asyncio.run(certified(data, model, database, calls, connections, value, watcher))
    seconds, cpu = time.monotonic() - started, time.process_time() - cpu
    marks = ", ".join(f"{mb:.0f} MB at {answered:,}" for answered, mb in watcher.marks)
    cpu_ms = 1000 * cpu / calls
    print(f"in process     {outcome.calls:,} calls, {calls / seconds:.0f}/s, {cpu_ms:.2f} ms CPU a call")
    print(f"               memory {marks}")
    return calls / seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--many", type=int, default=100_000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    busy = connections_busy(options.calls, options.connections, options.turns)
    pace = many_calls(options.many, options.connections)
    return 0 if busy >= 0.85 and pace >= 1000 else 1


if __name__ == "__main__":
    sys.exit(main())
