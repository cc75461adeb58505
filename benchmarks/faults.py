"""`python -m benchmarks.faults`: 30% of calls fail on the wire and wrong answers come late; is there a bias?

A server on loopback answers 30% of the requests with 429, 500, silence, half an answer or a broken
connection, and takes longer over wrong answers. Each run has its own seed; the interval must hold the model's
full-run mean in all but about one run in twenty, and every answer that reached the client must be stored. The
server may send more: an answer that comes after the client's timeout is asked for again, as any client would.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.model_server import Faults, FaultyModel, Handler, serve_locally
from cereval.datasets.base import DataSet, Item
from cereval.datasets.prompts import Prompt
from cereval.models import ModelOptions, open_model
from cereval.models.base import Messages, Model, Reply
from cereval.models.retries import Retries
from cereval.plan import Plan, candidate_spec
from cereval.records import Result
from cereval.runner.executor import Callers
from cereval.runner.finding import planned
from cereval.runner.limits import Limits
from cereval.runner.run import Outcome, run
from cereval.runner.start import start
from cereval.scorers import build_scorer
from cereval.store.base import open_store

CONNECTIONS = 16


@dataclass
class Received:
    """A model that counts the answers that reached the client."""

    inner: Model
    answers: int = 0

    @property
    def name(self) -> str:
        return self.inner.name

    async def answer(self, messages: Messages, *, top_logprobs: int = 0) -> Reply:
        reply = await self.inner.answer(messages, top_logprobs=top_logprobs)
        self.answers += 1
        return reply

    async def close(self) -> None:
        await self.inner.close()


@dataclass(frozen=True)
class Kept:
    """Answers that reached the client, and those in its store."""

    received: int
    stored: int


@dataclass
class Tally:
    """What many runs came to."""

    runs: int = 0
    misses: int = 0
    received: int = 0
    stored: int = 0
    failures: int = 0
    consumed: int = 0
    most_surplus: int = 0

    def add(self, outcome: Outcome, kept: Kept, truth: float) -> None:
        result = outcome.result
        assert isinstance(result, Result)
        self.received += kept.received
        self.stored += kept.stored
        self.runs += 1
        self.misses += not result.lower <= truth <= result.upper
        self.failures += result.failures
        self.consumed += result.n_evaluated
        self.most_surplus = max(self.most_surplus, outcome.surplus)

    def __str__(self) -> str:
        missed = f"{self.runs} runs, {self.misses} misses ({self.misses / self.runs:.1%})"
        used = f"{self.consumed} results, {self.failures} failed for good"
        return f"{missed}, {used}, at most {self.most_surplus} calls too many (-j {CONNECTIONS})"


def pool(size: int) -> DataSet:
    return DataSet.of("made", [Item(str(i), f"{i} * 3 =", (str(3 * i),)) for i in range(size)])


async def one_run(
    data: DataSet, url: str, folder: Path, seed: int, eps: float, timeout_s: float
) -> tuple[Outcome, Kept]:
    """A run with a store of its own."""
    retries = Retries(attempts=8, first_s=0.01, longest_s=0.1)
    model = Received(open_model("openai/m", ModelOptions(base_url=url, retries=retries, timeout_s=timeout_s)))
    plan = Plan(
        kind="estimate",
        goal={"goal": "estimate", "eps": eps},
        data_hash=data.content_hash,
        n_items=len(data.items),
        candidates=(candidate_spec("m"),),
        seed=seed,
    )
    store = open_store(f"sqlite:///{folder / str(seed)}.db")
    begun = start(planned(plan, data.items, store, history=False), data.items, store)
    callers = Callers(data.items, [Prompt()], [model], [build_scorer("exact")])
    outcome = await run(begun, store, callers, Limits(CONNECTIONS))
    await model.close()
    stored = store.run(outcome.run_id)
    store.close()
    return outcome, Kept(model.answers, stored.answers - stored.failures)


async def many_runs(runs: int, size: int, eps: float, faults: Faults, timeout_s: float) -> tuple[Tally, int]:
    """The tally, and the answers that the server sent whole."""
    data, tally = pool(size), Tally()
    key = {item.text: str(item.answer) for item in data.items}
    scripted = FaultyModel(key, 0.7, faults=faults, delay_s=0.002, slow_when_wrong_s=0.02)
    handler, truth = Handler(scripted), scripted.true_accuracy()
    with tempfile.TemporaryDirectory() as folder:
        async with serve_locally(handler) as url:
            for seed in range(runs):
                tally.add(*await one_run(data, url, Path(folder), seed, eps, timeout_s), truth=truth)
                if seed % 20 == 19:
                    print(tally, flush=True)
    return tally, handler.answered


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--size", type=int, default=500)
    parser.add_argument("--eps", type=float, default=0.1)
    parser.add_argument("--timeout", type=float, default=1.0, help="the client's: what silence costs")
    options = parser.parse_args()
    tally, answered = asyncio.run(
        many_runs(options.runs, options.size, options.eps, Faults(0.3), options.timeout)
    )
    late, lost = answered - tally.received, tally.received - tally.stored
    print(f"answers received {tally.received}, stored {tally.stored}: {lost} lost")
    print(
        f"answers sent {answered}: {late} came after the client had given up waiting, and were asked for again"
    )
    allowed = 0.05 * tally.runs + 2 * (0.0475 * tally.runs) ** 0.5
    return 0 if tally.misses <= allowed and not lost else 1


if __name__ == "__main__":
    sys.exit(main())
