"""`python -m benchmarks.inspect_live certified late full`: an unedited Inspect task on SmolLM2, and the whole of it.

Serves the local model (`make demo` installs it), writes a user's task and the question bank into out/inspect, and runs
there what is named: `inspect eval cereval/certified`; the same with wrong answers a second late; `inspect eval` on
all 1,990 questions, whose score the interval should cover.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from cereval.datasets.bank import as_jsonl
from cereval.models.local import local_gguf, open_gguf

FOLDER = Path("out") / "inspect"
TASK = """
import asyncio

from inspect_ai import Task, task
from inspect_ai.dataset import Sample, json_dataset
from inspect_ai.model import GenerateConfig
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, solver, system_message


def record(row):
    answer = row["answer"] if isinstance(row["answer"], list) else [row["answer"]]
    return Sample(id=row["id"], input=row["question"], target=answer, metadata={"category": row["category"]})


@solver
def late(seconds):
    async def solve(state, generate):
        right = any(one.lower() in state.output.completion.lower() for one in state.target)
        await asyncio.sleep(0 if right else seconds)
        return state

    return solve


@task
def quiz(delay: float = 0.0):
    return Task(
        dataset=json_dataset("bank.jsonl", record),
        solver=[system_message("Answer briefly."), generate(), late(delay)],
        scorer=includes(),
        config=GenerateConfig(max_tokens=12, temperature=0, extra_body={"cache_prompt": False}),
    )
"""


def main() -> None:
    """Serve, run, and print one line for each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", choices=["certified", "late", "full"])
    parser.add_argument("--eps", type=float, default=0.08)
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "bank.jsonl").write_text("\n".join(as_jsonl()) + "\n", encoding="utf-8")
    (FOLDER / "quiz.py").write_text(TASK, encoding="utf-8")
    model = open_gguf(local_gguf("smollm2"), name="local/smollm2", slots=2)
    ours = [
        "cereval/certified",
        "-T",
        "task=quiz.py@quiz",
        "-T",
        f"eps={flags.eps}",
        "-T",
        f"cereval_seed={flags.seed}",
    ]
    arguments = {"certified": ours, "late": [*ours, "-T", "delay=1"], "full": ["quiz.py@quiz"]}
    for name in flags.runs:
        told(name, run(model.client.url, name, *arguments[name]))


def run(url: str, name: str, *arguments: str) -> Path:
    """Run `inspect eval` as a user does; return its log."""
    logs = FOLDER / name
    before = set(logs.glob("*.eval"))
    inspect = str(Path(sys.executable).parent / "inspect")
    where = [
        "--model",
        "openai-api/local/smollm2",
        "--log-dir",
        name,
        "--display",
        "none",
        "--max-connections",
        "2",
    ]
    keys = {"LOCAL_BASE_URL": url, "LOCAL_API_KEY": "none"}
    started = time.monotonic()
    subprocess.run([inspect, "eval", *arguments, *where], cwd=FOLDER, env={**os.environ, **keys}, check=True)
    print(f"({time.monotonic() - started:.0f} s)", flush=True)
    (log,) = set(logs.glob("*.eval")) - before
    return log


def told(label: str, log: Path) -> None:
    """Print what a log's headline says."""
    from inspect_ai.log import read_eval_log

    found: Any = read_eval_log(str(log), header_only=True)
    figures = {name: float(metric.value) for name, metric in found.results.scores[0].metrics.items()}
    shown = (
        found.metadata.get("cereval_headline")
        or f"{figures['accuracy']:.2%} of {found.results.total_samples:,}"
    )
    print(f"{label}: {shown}", flush=True)


if __name__ == "__main__":
    main()
