"""`python -m benchmarks.end_to_end`: a real model behind a real server process; does the interval hold the full mean?

SmolLM2-135M is served on loopback by llama.cpp (xllamacpp) and asked the project's question bank twice over HTTP:
once until the mean is certified within .05 at 95%, as `make demo` does, and once in full. The certified interval
must hold the full run's mean. Then the certified run is replayed on the full run's scores with other seeds: how
often would it have missed? An interrupted full run goes on where it ended: it takes 7 minutes on 2 quiet cores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.serving import command
from benchmarks.tables import markdown, publish
from cereval.datasets.bank import SCORER, as_jsonl
from cereval.plan import groups_of
from cereval.questions.mean.goal import Estimate
from cereval.questions.replay import replay
from cereval.store.base import open_store

EPS = 0.05
ASKED = ["--scorer", SCORER, "--system", "Answer briefly.", "--max-tokens", "12", "-j", "2", "--no-history"]
"""The settings of `examples/demo.py`."""


@dataclass(frozen=True)
class FullRun:
    """Every item's score, in the bank's order."""

    items: tuple[str, ...]
    categories: tuple[str, ...]
    scores: tuple[float, ...]

    @property
    def mean(self) -> float:
        return fmean(self.scores)

    def write(self, path: Path) -> None:
        rows = zip(self.items, self.categories, self.scores, strict=True)
        lines = ["item,category,score", *(f'{item},"{category}",{score:g}' for item, category, score in rows)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@contextmanager
def served_model(name: str) -> Iterator[str]:
    """The model in a process of its own; yields its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.model_server", "--model", name],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


def cereval(*arguments: str | Path) -> dict[str, Any]:
    """A command line of cereval, its progress shown, its JSON read."""
    done = subprocess.run(command(*arguments, "--json"), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 3):
        raise SystemExit(done.returncode)
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def certified_run(bank: Path, url: str, folder: Path, seed: int) -> dict[str, Any]:
    """Until the goal, as in the demo."""
    model = ["--model", "openai/smollm2", "--base-url", url]
    store = f"sqlite:///{folder / 'certified.db'}"
    return cereval("run", bank, *model, *ASKED, "--eps", str(EPS), "--seed", str(seed), "--store", store)


def full_run(bank: Path, url: str, folder: Path) -> FullRun:
    """All items; a run that was begun before goes on."""
    file = folder / "full.db"
    store = f"sqlite:///{file}"
    begun = _only_run(store) if file.exists() else None
    if begun is None:
        model = ["--model", "openai/smollm2", "--base-url", url]
        facts = cereval("run", bank, *model, *ASKED, "--method", "uniform", "--eps", "1e-6", "--store", store)
    else:
        facts = cereval("resume", begun, "--base-url", url, "--store", store)
    if facts["failures"]:
        raise SystemExit(f"{facts['failures']} calls failed: the full run's mean is not known")
    return read_full_run(store, facts["run_id"])


def _only_run(store: str) -> str | None:
    opened = open_store(store)
    runs = opened.runs()
    opened.close()
    return runs[0].run_id if runs else None


def read_full_run(store: str, run_id: str) -> FullRun:
    opened = open_store(store)
    items = opened.items(opened.run(run_id).data_hash)
    scores = {answer.draw: answer.score for answer in opened.answers(run_id, texts=False)}
    by_item = {draw.item: scores[draw.index] for draw in opened.draws(run_id)}
    opened.close()
    found = [by_item[number] for number in range(len(items))]
    return FullRun(
        tuple(str(item["id"]) for item in items),
        tuple(str(item["category"]) for item in items),
        tuple(float(score) for score in found if score is not None),
    )


@dataclass(frozen=True)
class Replays:
    """What other seeds would have come to."""

    runs: int
    misses: int
    calls: float


def replays(full: FullRun, seeds: Sequence[int]) -> Replays:
    groups = groups_of(list(full.categories))
    results = [replay(full.scores, goal=Estimate(EPS), groups=groups, seed=seed) for seed in seeds]
    misses = sum(not one.lower <= full.mean <= one.upper for one in results)
    return Replays(len(results), misses, fmean(one.n_evaluated for one in results))


def differing(full: FullRun, store: str, run_id: str) -> tuple[int, int]:
    """Items of the certified run whose score was another in the full run, and all its items."""
    opened = open_store(store)
    scores = {answer.draw: answer.score for answer in opened.answers(run_id, texts=False)}
    pairs = [(scores.get(draw.index), full.scores[draw.item]) for draw in opened.draws(run_id)]
    opened.close()
    answered = [(one, other) for one, other in pairs if one is not None]
    return sum(one != other for one, other in answered), len(answered)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("out/end-to-end"))
    parser.add_argument("--model", default="local/smollm2")
    parser.add_argument("--seed", type=int, default=0, help="the demo's is 0")
    parser.add_argument("--replays", type=int, default=300)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    bank = options.folder / "bank.jsonl"
    bank.write_text("\n".join(as_jsonl()) + "\n", encoding="utf-8")
    started = time.monotonic()
    with served_model(options.model) as url:
        facts = certified_run(bank, url, options.folder, options.seed)
        certified_s = time.monotonic() - started
        full = full_run(bank, url, options.folder)
    full.write(options.folder / "scores.csv")
    again = replays(full, range(1000, 1000 + options.replays))
    changed, asked = differing(full, f"sqlite:///{options.folder / 'certified.db'}", facts["run_id"])
    inside = facts["lower"] <= full.mean <= facts["upper"]
    rows = [
        ("certified interval", f"[{facts['lower']:.4f}, {facts['upper']:.4f}] at {facts['confidence']:.0%}"),
        (
            "calls",
            f"{facts['n_evaluated']} of {facts['n_items']}, {facts['surplus']} not needed, {certified_s:.0f} s",
        ),
        ("full run's mean", f"{full.mean:.4f} ({len(full.scores)} items)"),
        ("inside", "yes" if inside else "NO"),
        ("answers scored otherwise in the full run", f"{changed} of {asked}"),
        (
            "replays with other seeds",
            f"{again.misses} misses in {again.runs}, {again.calls:.0f} calls on average",
        ),
    ]
    publish("End to end with SmolLM2-135M", "benchmarks.end_to_end", markdown(["", ""], rows), options.out)
    return 0 if inside else 1


if __name__ == "__main__":
    sys.exit(main())
