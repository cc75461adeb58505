"""What large pools cost: sessions of up to ten million items, files of up to a million.

    python -m benchmarks.scale [--most 10000000] [--out FILE]

Every measurement runs in a process of its own with one thread for linear algebra: its peak memory is its own. Times are
seconds of its processor (`cpu`), which other jobs on the machine hardly change, and of the clock.
"""

from __future__ import annotations

import os
import resource
import shlex
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np

from benchmarks.tables import markdown, publish
from cereval.methods.registry import MOST_FORECAST

DRAWS = 1000
EPS = 0.02
MODELS, CATEGORIES = 5, 50
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
NEW = 1_000_000
FILES = (100_000, NEW)
WHOLE_SIZE = 100_000

INTRODUCTION = f"""Sessions answer {DRAWS:,} draws towards eps {EPS}; scores are 0 or 1. `active` knows the scores of
{MODELS} past models and one of {CATEGORIES} categories for each item, up to 200,000 items, where
`auto` uses it: its cost is linear (us an item to open; a draw's share of refits grows with the items). `refit`: the
longest time between two draws, that of a new forecast."""

ON_PAPER = """## What 10^9 items would take

Extrapolated from the rows above; not run.

- `uniform`: the order of all items and the sums over them, some 60 bytes an item while a session opens: 60 GB. A lazy
  shuffle would need memory for the items drawn alone, and equal shares need none; its draws would be other draws,
  which is why pools that fit do not use it. A draw costs what it costs at 10^4.
- Files are held in memory, and one of more than 1 GiB is refused."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one measurement took: seconds of the clock and of the processor, and the peak memory of its process."""

    name: str
    size: int
    wall_s: float
    cpu_s: float
    peak_mb: float
    draw_us: float = 0.0
    refit_ms: float = 0.0


class Watch:
    """Both clocks since it was made."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self.wall, time.process_time() - self.cpu


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def side_information(size: int) -> dict[str, Any]:
    """Past scores that tell something of the new ones, and categories that do too; in float64, as sessions keep it."""
    rng = np.random.default_rng(0)
    groups = rng.integers(0, CATEGORIES, size).astype(np.int16)
    history = np.empty((size, MODELS))
    for start in range(0, size, 1_000_000):
        part = slice(start, min(start + 1_000_000, size))
        ease = rng.normal(size=part.stop - start) + (groups[part] % 7 - 3) * 0.3
        chance = 1 / (1 + np.exp(-1.5 * ease))
        history[part] = rng.random((len(ease), MODELS)) < chance[:, None]
    return {"history": history, "groups": groups}


def session_cost(name: str, size: int) -> Cost:
    """Open a session and answer its first draws."""
    from cereval.questions.mean.goal import Estimate
    from cereval.questions.mean.session import Session

    known = side_information(size) if name == "active" else {}
    opening = Watch()
    session = Session(size, goal=Estimate(EPS), method=name, seed=1, budget=DRAWS, **known)
    wall, cpu = opening.read()
    history = known.get("history")
    steps: list[float] = []
    while not session.done:
        step = Watch()
        (draw,) = session.ask()
        easy = 0.5 if history is None else float(history[draw.item].mean())
        session.tell(draw, float((draw.item * 2654435761 % 1000) / 1000 < 0.2 + 0.7 * easy))
        steps.append(step.read()[1])
    return Cost(name, size, wall, cpu, peak_mb(), 1e6 * float(np.mean(steps)), 1e3 * max(steps))


# -- files ------------------------------------------------------------------------------------------------------------


def questions(size: int, first: int = 0) -> Iterator[Any]:
    """Yield tables of a million questions with ids, answers and categories."""
    import pyarrow as pa
    import pyarrow.compute as pc

    filler = "The committee debates the merits of a proposal that nobody has read in detail. " * 2
    for start in range(first, first + size, NEW):
        numbers = pa.array(np.arange(start, min(start + NEW, first + size)))
        texts, last = pc.cast(numbers, pa.string()), pa.array(np.asarray(numbers) % CATEGORIES)
        columns = {
            "id": pc.binary_join_element_wise("q", texts, ""),
            "question": pc.binary_join_element_wise(filler, "What is 1 +", texts, "?", " "),
            "answer": pc.cast(pc.add(numbers, 1), pa.string()),
            "category": pc.binary_join_element_wise("topic", pc.cast(last, pa.string()), " "),
        }
        yield pa.table(columns)


def write_parquet(path: Path, size: int, first: int = 0) -> None:
    """Write questions in row groups of a million."""
    import pyarrow.parquet as pq

    writer = None
    for table in questions(size, first):
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=NEW)
    assert writer is not None
    writer.close()


def write_jsonl(path: Path, size: int) -> None:
    """Write questions as lines of JSON."""
    import pyarrow.compute as pc

    with path.open("wb") as file:
        for table in questions(size):
            parts = [
                pc.binary_join_element_wise(f'"{name}": "', table.column(name), '"', "")
                for name in table.column_names
            ]
            lines = pc.binary_join_element_wise("{", pc.binary_join_element_wise(*parts, ", "), "}", "")
            file.write("\n".join(lines.to_pylist()).encode() + b"\n")


def first_call_cost(path: str, size: int, store: str) -> Cost:
    """Do what `cereval run` does up to its first call."""
    from cereval.api import settings_for
    from cereval.runner.finding import planned
    from cereval.runner.prepare import prepare
    from cereval.runner.start import start
    from cereval.store.base import opened_store

    watch = Watch()
    options = {"eps": EPS, "store": store, "seed": 1}
    work = prepare(settings_for("estimate", path, ["scripted/0.7"], None, options))
    with opened_store(store, create=True) as opened:
        plan = planned(work.plan, work.items, opened, history=True)
        begun = start(plan, work.items, opened)
        (draw,) = begun.session.ask()
        work.prompts[0].messages(work.items[draw.item])
    wall, cpu = watch.read()
    return Cost(f"`run`, {Path(path).suffix[1:]}, up to the first call", size, wall, cpu, peak_mb())


def extend_cost(small: str, more: str, store: str) -> Cost:
    """Add many items to a run on a few, up to the end of the new version."""
    from cereval.cli.main import main
    from cereval.store.base import opened_store

    first = ["--model", "scripted/0.7", "--eps", "0.05", "--store", store, "--seed", "1"]
    with redirect_stdout(StringIO()):
        assert main(["extend", "--data", small, *first]) == 0
        with opened_store(store) as opened:
            run = opened.runs()[0].run_id
        watch = Watch()
        assert main(["extend", run, "--data", more, "--store", store]) == 0
    wall, cpu = watch.read()
    return Cost(f"`extend` by {WHOLE_SIZE:,} new items, whole", WHOLE_SIZE, wall, cpu, peak_mb())


WHOLE: dict[str, list[str]] = {
    "run --eps 0.1": ["--model", "scripted/0.7"],
    "run --eps 0.1 --mix 'topic 1=0.6,topic 2=0.4'": ["--model", "scripted/0.7"],
    "compare": ["--model", "scripted/0.8", "--model", "scripted/0.5"],
    "rank": [flag for share in ("0.9", "0.5", "0.1") for flag in ("--model", f"scripted/{share}")],
    "tasks --by category --eps 0.1": ["--model", "scripted/0.7"],
}
"""Commands that are run to their end, and the models that they ask."""


def whole_cost(command: str, path: str, size: int, store: str) -> Cost:
    """Carry a command out, from its first line to its certificate."""
    from cereval.cli.main import main

    name, *flags = shlex.split(command)
    more = [path, *flags, *WHOLE[command], "--store", store, "--seed", "1", "--scorer", "contains"]
    watch = Watch()
    with redirect_stdout(StringIO()):
        assert main([name, *more]) == 0, command
    return Cost(f"`{command}`, {Path(path).suffix[1:]}, whole", size, *watch.read(), peak_mb())


# -- tables -----------------------------------------------------------------------------------------------------------


def alone(function: Any, *arguments: Any) -> Any:
    """Call a function in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def session_rows(costs: list[Cost]) -> list[list[object]]:
    return [
        [
            one.name,
            f"{one.size:,}",
            f"{one.cpu_s:.2f}",
            f"{one.wall_s:.2f}",
            f"{1e6 * one.cpu_s / one.size:.2f}",
            f"{one.peak_mb:.0f}",
            f"{one.draw_us:.0f}",
            f"{one.draw_us / next(first.draw_us for first in costs if first.name == one.name):.2f}",
            f"{one.refit_ms:.0f}",
        ]
        for one in costs
    ]


def file_costs(most: int) -> list[Cost]:
    found = []
    with TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/s.db"
        small, more = (str(Path(folder) / f"{name}.parquet") for name in ("small", "more"))
        for size in (size for size in FILES if size <= most):
            for name, write in (("large.parquet", write_parquet), ("large.jsonl", write_jsonl)):
                large = Path(folder) / name
                alone(write, large, size)
                found.append(alone(first_call_cost, str(large), size, store))
                large.unlink()
        if most >= WHOLE_SIZE:
            lines = Path(folder) / "large.jsonl"
            alone(write_jsonl, lines, WHOLE_SIZE)
            for number, command in enumerate(WHOLE):
                url = f"sqlite:///{folder}/whole-{number}.db"
                found.append(alone(whole_cost, command, str(lines), WHOLE_SIZE, url))
            lines.unlink()
            alone(write_parquet, Path(small), 10_000)
            alone(write_parquet, Path(more), WHOLE_SIZE, 10_000)
            found.append(alone(extend_cost, small, more, f"sqlite:///{folder}/grown.db"))
    return found


@click.command()
@click.option("--most", default=SIZES[-1], help="Items of the largest pool.", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Write the tables to this file.")
def main(most: int, out: Path | None) -> None:
    """Print what large pools cost."""
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    sessions = [
        alone(session_cost, name, size)
        for name in ("uniform", "active")
        for size in SIZES
        if size <= min(most, MOST_FORECAST if name == "active" else most)
    ]
    files = file_costs(most)
    opened = ["opens, cpu s", "clock s", "us an item", "peak MB"]
    parts = [
        INTRODUCTION,
        markdown(["method", "items", *opened, "us a draw", "x 10^4", "refit ms"], session_rows(sessions)),
        "Files of some 200 bytes a question, Parquet in row groups of a million; the model is scripted.",
        markdown(
            ["what", "items", "cpu s", "clock s", "peak MB"],
            [
                [one.name, f"{one.size:,}", f"{one.cpu_s:.1f}", f"{one.wall_s:.1f}", f"{one.peak_mb:.0f}"]
                for one in files
            ],
        ),
        ON_PAPER,
    ]
    publish("Scale", "benchmarks.scale", "\n\n".join(parts), out)


if __name__ == "__main__":
    main()
