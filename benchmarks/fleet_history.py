"""`python -m benchmarks.fleet_history`: what the runs of a fleet save by learning from one another.

Models of a recorded table answer as they did, behind a server: rightly or wrongly, item by item. Once every run knows
nothing of the others (`history: false`), once they go one after the other: in the order of the table, and, as a
fleet orders models that its store knows, those first whose scores vary most.

    python -m benchmarks.fleet_history --out benchmarks/results/fleet-history-DATE.md
    python -m benchmarks.fleet_history --sessions 3      # the sessions alone, without server and store, over 3 seeds

With `--sessions` other orders are tried, and what history could save at most: each run knows all scores of all others.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.model_server import FaultyModel, Handler, Turn, serve_locally
from cereval.datasets.tables import read_items, read_scores
from cereval.fleet.result import FleetResult
from cereval.fleet.run import run_fleet
from cereval.models.base import Messages, last_text
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session

Floats = NDArray[np.float64]

RIGHT, WRONG = "right", "wrong"


class Recorded(Handler):
    """Answers as the models of a table did: by the name of the model and the text of the question."""

    def __init__(self, answers: Mapping[str, Mapping[str, float]]) -> None:
        super().__init__(FaultyModel({"": ""}))
        self.answers = answers

    async def _turn(self, request: dict[str, Any], messages: Messages) -> Turn:
        return Turn(RIGHT if self.answers[str(request["model"])][last_text(messages)] >= 0.5 else WRONG)


@contextmanager
def server(handler: Handler) -> Iterator[str]:
    """A server in a thread of its own."""
    loop, done, address = asyncio.new_event_loop(), asyncio.Event(), []

    async def serve() -> None:
        async with serve_locally(handler) as url:
            address.append(url)
            begun.set()
            await done.wait()

    begun = threading.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    begun.wait()
    try:
        yield address[0]
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
        loop.close()


def complete_models(folder: Path, most: int) -> dict[str, dict[str, float]]:
    """The first models of a table that have a score on every item: by name, the score of each question's text."""
    scores = read_scores(str(folder / "scores.parquet"))
    texts = read_items(str(folder / "items.parquet")).aligned_to(scores.items).texts
    assert texts is not None
    asked = [f"{number}: {text}" for number, text in enumerate(texts)]
    whole = [name for name, column in scores.models.items() if not np.isnan(column).any()]
    return {name: dict(zip(asked, map(float, scores.models[name]), strict=True)) for name in whole[:most]}


def by_spread(models: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The names of the models, those first whose scores vary most."""
    means = {name: float(np.mean(list(scores.values()))) for name, scores in models.items()}
    return sorted(models, key=lambda name: -means[name] * (1 - means[name]))


def played(
    folder: Path, name: str, models: list[str], url: str, eps: float, seed: int, **more: Any
) -> FleetResult:
    """One fleet on an empty store."""
    fleet = {
        "models": [f"openai/{model}" for model in models],
        "data": str(folder / "questions.jsonl"),
        "base_url": url,
        "scorer": "exact",
        "eps": eps,
        "seed": seed,
        "workers": 2,
        **more,
    }
    done = run_fleet(fleet, store=f"sqlite:///{folder}/{name}.db")
    assert done.exit_code == 0, done.as_dict()
    return done


def misses(done: FleetResult, models: Mapping[str, Mapping[str, float]]) -> int:
    """Count the intervals that miss the truth."""
    truth = {f"openai/{name}": float(np.mean(list(scores.values()))) for name, scores in models.items()}
    return sum(not run["lower"] <= truth[run["model"]] <= run["upper"] for run in done.runs)


def measured(data: Path, most: int, eps: float, seed: int) -> list[tuple[str, int, int]]:
    """The name of each way, its calls and its misses."""
    models = complete_models(data, most)
    texts = list(next(iter(models.values())))
    os.environ.setdefault("OPENAI_API_KEY", "none")
    rows = []
    with tempfile.TemporaryDirectory() as name, server(Recorded(models)) as url:
        folder = Path(name)
        lines = [json.dumps({"question": text, "answer": RIGHT}) + "\n" for text in texts]
        (folder / "questions.jsonl").write_text("".join(lines), encoding="utf-8")
        ways: dict[str, tuple[list[str], dict[str, Any]]] = {
            "each by itself": (list(models), {"history": False}),
            "one after the other, in the order of the table": (list(models), {"together": 1}),
            "one after the other, largest variance first": (by_spread(models), {"together": 1}),
        }
        for number, (way, (order, more)) in enumerate(ways.items()):
            done = played(folder, f"w{number}", order, url, eps, seed, **more)
            rows.append((way, done.calls, misses(done, models)))
            print(f"{way}: {done.calls:,} calls", flush=True)
    return rows


def observed(scores: Floats, history: Floats | None, eps: float, seed: int) -> Floats:
    """What a run to its goal has seen of a model's scores; NaN where it did not ask."""
    session, seen = (
        Session(len(scores), goal=Estimate(eps), history=history, seed=seed),
        np.full(len(scores), np.nan),
    )
    while not session.done:
        for draw in session.ask(8):
            seen[draw.item] = scores[draw.item]
            session.tell(draw, float(scores[draw.item]))
    return seen


def one_after_the_other(table: Floats, order: Sequence[int], eps: float, seed: int) -> int:
    """Calls of runs that each know what those before them have seen."""
    seen: list[Floats] = []
    for model in order:
        seen.append(observed(table[model], np.array(seen).T if seen else None, eps, 1000 * seed + model))
    return int(np.count_nonzero(~np.isnan(seen)))


def knowing(table: Floats, eps: float, seed: int, *, others: bool) -> int:
    """Calls of runs that know all scores of all others, or nothing."""
    calls = 0
    for model, scores in enumerate(table):
        history = np.delete(table, model, axis=0).T if others else None
        calls += int(np.count_nonzero(~np.isnan(observed(scores, history, eps, 1000 * seed + model))))
    return calls


def sessions(data: Path, most: int, eps: float, seeds: int) -> list[tuple[str, list[int]]]:
    """The name of each way and its calls, seed by seed."""
    models = complete_models(data, most)
    table = np.array([list(scores.values()) for scores in models.values()])
    means = table.mean(axis=1)
    orders = {
        "one after the other, in the order of the table": list(range(len(table))),
        "one after the other, strongest first": np.argsort(-means, kind="stable").tolist(),
        "one after the other, weakest first": np.argsort(means, kind="stable").tolist(),
    }
    rows = [("each by itself", [knowing(table, eps, seed, others=False) for seed in range(seeds)])]
    for way, order in orders.items():
        rows.append((way, [one_after_the_other(table, order, eps, seed) for seed in range(seeds)]))
        print(rows[-1], flush=True)
    bound = [knowing(table, eps, seed, others=True) for seed in range(seeds)]
    return [*rows, ("knowing all scores of all others beforehand", bound)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data/zeroeval_gsm8k"))
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--eps", type=float, default=0.03)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--sessions", type=int, metavar="SEEDS", help="play the sessions alone, over so many seeds"
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.sessions is not None:
        found = sessions(options.data, options.models, options.eps, options.sessions)
        bare = np.array(found[0][1])
        print("| runs | calls, mean of the seeds | fewer | fewer, seed by seed |\n|---|---|---|---|")
        for way, calls in found:
            fewer = [f"{share:.1%}" for share in 1 - np.array(calls) / bare]
            print(
                f"| {way} | {np.mean(calls):,.0f} | {1 - np.sum(calls) / bare.sum():.1%} | {', '.join(fewer)} |"
            )
        return 0
    rows = measured(options.data, options.models, options.eps, options.seed)
    alone = rows[0][1]
    body = "".join(
        f"| {way} | {calls:,} | {1 - calls / alone:.1%} | {missed} |\n" for way, calls, missed in rows
    )
    title = (
        f"# A fleet's history\n\n`python -m benchmarks.fleet_history --eps {options.eps:g} --seed {options.seed}`: "
        f"{options.models} models of {options.data.name}, recorded scores behind a server.\n\n"
    )
    text = title + "| runs | calls | fewer | intervals that miss |\n|---|---|---|---|\n" + body
    print(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    main()
