"""Runs by batch whose process is killed between any two steps: every certificate holds, and nothing is paid twice.

    python -m benchmarks.batch_kills --runs 200 --out benchmarks/results/batch-kills-YYYY-MM-DD.md

A step is a request to the provider or a write to the store; a process is killed (SIGKILL) before or after one. A run is
killed at a step of its own, and again at random steps. Batches complete, expire, are cancelled, meet servers that are
down, or are ordered although the client hears of an error. Processes are forked from one that has everything loaded.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any
from urllib.request import Request, urlopen

import click

from benchmarks.parallel import CORES, run_all
from benchmarks.tables import markdown, publish
from cereval import models
from cereval.certificate.verify import verify
from cereval.cli.main import main as cereval
from cereval.models import openai_model
from cereval.models.client import Client
from cereval.runner import batches, loop
from cereval.store.sql import SqlStore

MODELS = {
    "anthropic": "anthropic/claude-sonnet-4-5",
    "mistral": "mistral/mistral-large-latest",
    "together": "together/meta-llama/Llama-3.3-70B-Instruct-Turbo",
}
ITEMS, EPS = 600, 0.1
TRUTH_SEED = 0
FATES = ("completed", "completed", "expired", "cancelled", "errors", "lost")
KINDS = ("openai", "anthropic", "mistral", "together")
WRITES = ("mark", "add_answers", "add_draws")
AGAIN = 0.5
"""Chance that a process is killed once more."""
MOST_STEPS = 120
"""A run takes about so many."""


@dataclass(frozen=True, slots=True)
class Killed:
    """One run: the kills that it took, whether its certificate holds, and what was paid for twice."""

    kind: str
    kills: int
    valid: bool
    covered: bool
    paid_twice: int
    paid: int
    needed: int
    rounds: int


@contextmanager
def provider() -> Iterator[str]:
    """Start the stand-in in a process of its own; give its address."""
    process = Popen([sys.executable, "-m", "benchmarks.batch_server"], stdout=PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def ask(url: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url + path, data=data)) as answer:
        return json.load(answer)


def write_questions(folder: Path, count: int = ITEMS) -> None:
    rows = [json.dumps({"question": f"{n} + 1?", "answer": str(n + 1)}) for n in range(count)]
    (folder / "q.jsonl").write_text("\n".join(rows))


def hurry() -> None:
    """Have the provider answer at once, so to speak."""
    batches.LOOK_S, batches.SETTLE_S, loop.TICK_S = (0.005, 0.02), 0.05, 0.01


def place(kind: str, url: str) -> list[str]:
    """Return the model of a kind of provider, and have it be asked at an address."""
    variable = f"{kind.upper()}_API_KEY"
    os.environ[variable] = "sk-test"
    if kind == "openai":
        return ["--model", "openai/m", "--base-url", url]
    moved = {**openai_model.PROVIDERS, kind: openai_model.Provider(url, variable)}
    openai_model.PROVIDERS = models.PROVIDERS = moved  # type: ignore[attr-defined]
    return ["--model", MODELS[kind]]


def die_at(step: int) -> None:
    """Kill this process before or after one of its steps, counted from 0."""
    left = [step]

    def count() -> None:
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1

    exchange = Client._exchange

    async def counted(self: Client, *given: Any, **named: Any) -> Any:
        count()
        found = await exchange(self, *given, **named)
        count()
        return found

    Client._exchange = counted  # type: ignore[method-assign]
    for name in WRITES:
        setattr(SqlStore, name, _counted(getattr(SqlStore, name), count))


def _counted(write: Callable[..., Any], count: Callable[[], None]) -> Callable[..., Any]:
    def written(*given: Any, **named: Any) -> Any:
        count()
        found = write(*given, **named)
        count()
        return found

    return written


def forked(work: Callable[[], int]) -> int:
    """Do some work in a process of its own; return its exit code, negative for a signal."""
    child = os.fork()
    if not child:
        code = 99
        try:
            with Path(os.devnull).open("w") as silent, contextlib.redirect_stdout(silent):
                code = work()
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_run(folder: Path, url: str, kind: str, first: int, seed: int, eps: float = EPS) -> Killed:
    """Run, kill and go on until the run is done. first: the step at which the first process dies."""
    rng, kills = random.Random(seed), 0
    write_questions(folder)
    os.environ["XDG_CONFIG_HOME"] = str(folder / "settings")
    ask(url, "/fates", [rng.choice(FATES) for _ in range(40)])
    line = ["run", "q.jsonl", *place(kind, url), "--batch", "--seed", str(seed), "--eps", str(eps)]
    steps: int | None = first
    while True:

        def work(step: int | None = steps) -> int:
            os.chdir(folder)
            if step is not None:
                die_at(step)
            return cereval([*line, "--display", "none"])

        code = forked(work)
        if code == 0:
            break
        kills += code == -signal.SIGKILL
        assert code in (-signal.SIGKILL, 1), code  # 1: a batch was cancelled while it was waited for
        steps = rng.randrange(MOST_STEPS) if rng.random() < AGAIN else None
    ledger = ask(url, "/ledger")
    certificate = json.loads(next(folder.glob("*.certificate.json")).read_text())
    result = certificate["result"]
    truth = sum(random.Random(n).random() < 0.7 for n in range(ITEMS)) / ITEMS
    return Killed(
        kind,
        kills,
        verify(certificate).valid,
        result["lower"] <= truth <= result["upper"],
        sum(count - 1 for count in ledger["paid"].values()),
        sum(ledger["paid"].values()),
        result["n_evaluated"],
        len(ledger["sizes"]),
    )


@dataclass(frozen=True, slots=True)
class Share:
    """The runs of one process, and when it begins no more."""

    numbers: range
    minutes: float


def play(share: Share) -> list[Killed]:
    """Play runs one after the other, against a provider of their own."""
    hurry()
    found: list[Killed] = []
    started = time.monotonic()
    with provider() as url:
        for number in share.numbers:
            if time.monotonic() - started > 60 * share.minutes:
                break
            # Strides of 7 meet early and late steps alike, and each of the first 120 once in 120 runs of a kind.
            step = 7 * (number // len(KINDS)) % MOST_STEPS
            with tempfile.TemporaryDirectory() as folder:
                found.append(kill_run(Path(folder), url, KINDS[number % len(KINDS)], step, number))
    return found


@click.command(help=__doc__)
@click.option("--runs", default=200)
@click.option("--first", default=0, help="Number of the first run: the runs can be played in pieces.")
@click.option("--minutes", default=60.0, help="Begin no run after so many.")
@click.option("--cores", default=CORES)
@click.option("--out", type=click.Path(path_type=Path))
def main(runs: int, first: int, minutes: float, cores: int, out: Path | None) -> None:
    started = time.monotonic()
    shares = [Share(range(first + core, first + runs, cores), minutes) for core in range(cores)]
    found = [one for part in run_all(play, shares, "processes", cores) for one in part]
    rows = []
    for kind in KINDS:
        own = [one for one in found if one.kind == kind]
        rows.append(
            [
                kind,
                len(own),
                sum(one.kills for one in own),
                sum(one.valid for one in own),
                sum(one.covered for one in own),
                sum(one.paid for one in own),
                sum(one.paid_twice for one in own),
            ]
        )
    header = ("format", "runs", "kills", "valid certificates", "truth inside", "answers paid", "paid twice")
    body = markdown(header, rows) + f"\n\n{time.monotonic() - started:,.0f} s, {cores} processes."
    publish("Runs by batch, killed between any two steps", "benchmarks.batch_kills", body, out)
    sys.exit(not all(one.valid and not one.paid_twice for one in found))


if __name__ == "__main__":
    main()
