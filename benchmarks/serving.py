"""Real server processes on loopback, question files, and the command line: for tests end to end too."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CATEGORIES = ("sums", "dates", "units", "words")


def questions(folder: Path, count: int = 1000, *, seed: int = 0, categories: bool = False) -> Path:
    """A file of `count` questions with unusual field names; its answer key lies beside it."""
    rng = random.Random(seed)
    rows, key = [], {}
    for number in range(count):
        left, right = rng.randrange(10, 9999), rng.randrange(10, 9999)
        question = f"{left} + {right} = (no. {number})"
        key[question] = str(left + right)
        row = {"ask": question, "gold": key[question]}
        rows.append(row | {"subject": CATEGORIES[number % 4]} if categories else row)
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "key.json").write_text(json.dumps(key), encoding="utf-8")
    return path


@contextmanager
def served(key: Path, *flags: str, accuracy: float = 0.7, seed: int = 0) -> Iterator[str]:
    """A scripted model in a process of its own; yields its URL."""
    command = [
        sys.executable,
        *("-m", "benchmarks.model_server"),
        "--answers",
        str(key),
        "--accuracy",
        str(accuracy),
    ]
    process = subprocess.Popen(
        [*command, "--seed", str(seed), *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def command(*arguments: str | Path) -> list[str]:
    """A command line of cereval in a fresh interpreter."""
    code = "import sys; from cereval.cli.main import main; sys.exit(main(sys.argv[1:]))"
    return [sys.executable, "-c", code, *map(str, arguments)]


def run_flags(data: Path, url: str, database: Path, /, **flags: Any) -> list[str]:
    """The flags that scripts rely on; `flags` replace or add to them."""
    named = {
        "model": "openai/m",
        "base-url": url,
        "scorer": "exact",
        "input": "ask",
        "answer": "gold",
        "eps": 0.05,
        "store": f"sqlite:///{database}",
        "seed": 0,
        "max-connections": 16,
    } | {name.replace("_", "-"): value for name, value in flags.items()}
    listed = [
        part for name, value in named.items() if value is not None for part in (f"--{name}", str(value))
    ]
    return [str(data), *listed, "--json"]


def call(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command line to its end."""
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
        timeout=600,
    )
