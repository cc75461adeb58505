"""`python -m benchmarks.hosts`: what certifying costs in each host, per sample, beside the host alone.

The same instant model answers the same number of samples: once in the host alone, once certified with a budget of as
many (eps so small that it does not stop before). Processor time, which other work on the machine distorts little; the
median of a few runs each, in turn. The last column is measured inside: what the host calls of cereval for the samples
(for lm-eval with the model's own answers, and the task's metrics, which are computed once more).
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("TQDM_DISABLE", "1")
TINY = 0.001


class Inside:
    """Adds up the processor time spent in functions that the host calls."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            started = time.process_time()
            try:
                return function(*given, **named)
            finally:
                self.seconds += time.process_time() - started

        return called


def inspect_alone(count: int) -> float:
    """Run plain samples; return seconds of processor time."""
    return _inspect(_quiz(count), count)[0]


def inspect_fed(count: int) -> float:
    """Run samples that a source of Inspect's own hands out ten at a time, deciding nothing."""
    from inspect_ai import SampleSource, task_with

    task = _quiz(count)
    left = list(task.dataset)

    async def more(sample: Any = None) -> list[Any] | None:
        taken = [left.pop(0) for _ in range(1 if sample else 10) if left]
        return taken or None

    return _inspect(
        task_with(task, dataset=SampleSource.from_samples([], next_samples=more, sample_complete=more)), count
    )[0]


def inspect_certified(count: int) -> tuple[float, float]:
    """Run the same certified; return all seconds and those inside cereval."""
    from cereval.integrations.inspect import certify
    from cereval.integrations.inspect.source import CertifiedSource

    inside, names = Inside(), ("_settled", "begin")
    kept = {name: getattr(CertifiedSource, name) for name in names}
    try:
        for name in names:
            setattr(CertifiedSource, name, inside.timed(kept[name]))
        seconds, ran = _inspect(certify(_quiz(count), eps=TINY, seed=1), count)
    finally:
        for name in names:
            setattr(CertifiedSource, name, kept[name])
    assert ran == count
    return seconds, inside.seconds


def _quiz(count: int) -> Any:
    from inspect_ai import Task
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import includes
    from inspect_ai.solver import solver

    @solver
    def instant() -> Any:
        async def solve(state: Any, generate: Any) -> Any:  # noqa: ARG001
            state.output = ModelOutput.from_content("none", "yes" if int(state.sample_id) % 3 else "no")
            return state

        return solve

    samples = [Sample(id=number, input=f"question {number}", target="yes") for number in range(1, count + 1)]
    return Task(dataset=samples, solver=instant(), scorer=includes())


def _inspect(task: Any, count: int) -> tuple[float, int]:
    from inspect_ai import eval as run

    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        (log,) = run(task, model="mockllm/model", display="none", log_dir=folder, limit=count, max_samples=10)
        # The log's samples are read when they are first looked at, while the folder is there.
        return time.process_time() - started, len(log.samples or [])


class Harness:
    """lm-evaluation-harness on a task of `count` documents with three choices, two shots."""

    def __init__(self, folder: Path, count: int) -> None:
        from lm_eval.tasks import TaskManager

        from benchmarks.harness_tasks import write_tasks

        write_tasks(folder, {"sums": count, "facts": 1, "words": 1})
        self.manager, self.count = TaskManager(include_path=str(folder), include_defaults=False), count

    def alone(self) -> float:
        from lm_eval import evaluator

        from benchmarks.harness_tasks import Hashing

        loaded = self.manager.load(["sums"])
        started = time.process_time()
        evaluator.evaluate(Hashing(), loaded, bootstrap_iters=0)
        return time.process_time() - started

    def certified(self) -> tuple[float, float]:
        from lm_eval import evaluator

        from benchmarks.harness_tasks import Hashing
        from cereval.integrations.lm_eval import CertifiedLM

        loaded, inside = self.manager.load(["sums"]), Inside()
        started = time.process_time()
        model = CertifiedLM(Hashing(), loaded, eps=TINY, seed=1, budget=self.count)
        model._certify = inside.timed(model._certify)  # type: ignore[method-assign]
        evaluator.evaluate(model, loaded, bootstrap_iters=0)
        seconds = time.process_time() - started
        assert model.certifications[0].ran == self.count
        return seconds, inside.seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    flags = parser.parse_args()
    logging.disable(logging.WARNING)
    count = flags.samples
    with tempfile.TemporaryDirectory() as folder:
        harness = Harness(Path(folder), count)
        hosts: dict[str, tuple[Callable[[], float], Callable[[], tuple[float, float]]]] = {
            "inspect, a fixed data set": (lambda: inspect_alone(count), lambda: inspect_certified(count)),
            "inspect, a source of samples": (lambda: inspect_fed(count), lambda: inspect_certified(count)),
            "lm-eval": (harness.alone, harness.certified),
        }
        print(f"milliseconds of processor time per sample, {count:,} samples, median of {flags.rounds}\n")
        print("| host | alone | certified | difference | inside cereval |\n|---|---|---|---|---|")
        for name, (alone, certified) in hosts.items():
            alone(), certified()  # imports and caches
            rounds = [(alone(), *certified()) for _ in range(flags.rounds)]
            plain, ours, inside = (1000 * median(column) / count for column in zip(*rounds, strict=True))
            print(f"| {name} | {plain:.2f} | {ours:.2f} | {ours - plain:+.2f} | {inside:.2f} |", flush=True)


if __name__ == "__main__":
    main()
