"""Journeys that leave the plain command line: recorded scores with texts, states of sessions, fleets, Inspect's logs.

What several processes carry out (a fleet, Ray, Inspect) runs in processes of its own, which inherit the variables of
the machine that is played.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

import yaml

from benchmarks.example_scores import ABILITIES
from benchmarks.machine_kernels import TRAVELLED, VARIABLES, Kernel, Machines, take_turns
from benchmarks.machine_kinds import KINDS, Answer, read_answer
from benchmarks.machine_travel import (
    ANSWERED,
    Arrival,
    Ended,
    Files,
    OpenStore,
    Step,
    carry_out,
    temporary_folder,
)
from benchmarks.serving import command
from cereval.datasets.bank import QUESTIONS, SCORES, example
from cereval.questions.log import Change, Log, replayed
from cereval.questions.session import AskTell
from cereval.records import Draw

TOLERANCE = 1e-6
PATIENCE_S = 600.0


# -- recorded scores --------------------------------------------------------------------------------------------------

ITEMS = ("--items", "items.jsonl")
BY_TASK = ("--by", "category")
RECORDED: dict[str, Callable[[str, str], tuple[str, ...]]] = {
    "mean with history and categories": lambda one, _: (
        *("replay", "scores.csv", *ITEMS, "--embeddings", "none", "--model", one),
        *("--history", "others", "--eps", "0.04"),
    ),
    "compare with history and texts": lambda one, two: (
        *("replay", "compare", "scores.csv", *ITEMS, "--model", one, "--model", two, "--history", "others"),
    ),
    "tasks with history": lambda one, _: (
        *(
            "replay",
            "tasks",
            "scores.csv",
            *ITEMS,
            *BY_TASK,
            "--model",
            one,
            "--history",
            "others",
            "--eps",
            "0.04",
        ),
    ),
    "rank": lambda *_: ("replay", "rank", "scores.csv", "--top", "1", "--within", "0.05"),
}


def write_example(folder: Path) -> None:
    """Write the bank's scores, and its questions under the names that recorded scores need."""
    (folder / "scores.csv").write_text(example(SCORES), encoding="utf-8")
    rows = [json.loads(line) for line in example(QUESTIONS).splitlines()]
    named = [{"item": row["id"], "text": row["question"], "category": row["category"]} for row in rows]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in named), encoding="utf-8")


def send_recorded(machines: Machines, name: str, seed: int) -> Arrival:
    """Make a certificate from recorded scores on one machine, and verify it on two others."""
    first, second, third = take_turns(seed)
    models, arrival = list(ABILITIES), Arrival()
    pair = models[seed % 12], models[(seed + 1 + seed // 12) % 12]
    with temporary_folder() as folder:
        write_example(folder)
        flags = ("--seed", str(seed), "--certificate", "certificate.json")
        made = machines.ask(first, carry_out, Step((*RECORDED[name](*pair), *flags), folder))
        if arrival.expect("begin", made, *ANSWERED, 3):
            for kernel in (second, third):
                verified = machines.ask(kernel, carry_out, Step(("verify", "certificate.json"), folder))
                arrival.expect("verify", verified, 0)
    return arrival


# -- states -----------------------------------------------------------------------------------------------------------

STATES = ("groups", "history", "texts", "history-texts", "alike-texts", "expected", "weights", "gate")
"""Kinds whose sessions are put away and restored; a mean with texts has no certificate, so its state has to travel."""


@dataclass(frozen=True, slots=True)
class Pause:
    """An evaluation that is to be begun or gone on with, and the results after which it is put away."""

    kind: str
    seed: int
    state: str | None
    until: int | None


def go_on(pause: Pause) -> tuple[str, Answer] | str:
    """Begin or restore a session, go on with it, and return its state and what it says; or why it could not."""
    try:
        return _go_on(pause)
    except Exception as error:  # whatever a session raises is to be shown, and not all of it can be pickled
        return f"{type(error).__name__}: {error}"


def _go_on(pause: Pause) -> tuple[str, Answer]:
    evaluation = KINDS[pause.kind](pause.seed)
    session: Any = evaluation.session
    if pause.state is not None:
        take_up(session, json.loads(pause.state))
    draws = [draw for draw, _ in session.log]
    while not session.done and (pause.until is None or session.n_evaluated < pause.until):
        for draw in session.ask(8):
            session.tell(draw, evaluation.scores[draw.item])
            draws.append(draw)
    return json.dumps(put_away(session)), read_answer(session.result(), draws)


def put_away(session: AskTell) -> dict[str, Any]:
    """All that a session of the same settings needs to go on elsewhere, JSON-able."""
    asked = sorted(
        {draw.index: draw for draw in (*(draw for draw, _ in session.log), *session.outstanding)}.items()
    )
    return {
        "changes": [change.as_dict() for change in session.changes],
        "draws": [[draw.item, draw.probability] for _, draw in asked],
        "results": [list(scores) for _, scores in session.log],
    }


def take_up(session: AskTell, state: dict[str, Any]) -> None:
    """Tell a fresh session what another one had been told when it was put away."""
    draws = {index: Draw(index, *draw) for index, draw in enumerate(state["draws"])}
    results = {index: tuple(scores) for index, scores in enumerate(state["results"])}
    replayed(session, Log(results, len(draws), [Change(**one) for one in state["changes"]], draws))


def send_state(machines: Machines, kind: str, seed: int) -> Arrival:
    """Begin a session in Python on one machine, end it on a second, and read it on a third."""
    arrival, state = Arrival(interrupted="state"), None
    answers = []
    for stage, kernel in zip(("begin", "resume", "verify"), take_turns(seed), strict=True):
        pause = Pause(kind, seed, state, 20 + (seed * 37) % 120 if stage == "begin" else None)
        found = machines.ask(kernel, go_on, pause)
        if isinstance(found, str):
            arrival.note(stage, found)
            return arrival
        arrival.note(stage, None)
        state, answer = found
        answers.append(answer)
    if not are_same(*answers[1:]):
        arrival.note("verify", f"another answer: {answers[1].count}, {answers[2].count} results")
    return arrival


def are_same(one: Answer, other: Answer) -> bool:
    """Tell whether two machines say the same: counts and decisions exactly, numbers to the tolerance."""
    pairs = zip(one.numbers, other.numbers, strict=True)
    near = all(abs(a - b) <= TOLERANCE for left, right in pairs for a, b in zip(left, right, strict=True))
    return near and (one.count, one.decision) == (other.count, other.decision)


# -- processes --------------------------------------------------------------------------------------------------------


def environment_of(kernel: Kernel) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return {**kept, **kernel.environment}


def run_process(kernel: Kernel, arguments: Sequence[str], folder: Path) -> Ended:
    """Run a program to its end as on another machine."""
    done = subprocess.run(
        list(arguments),
        cwd=folder,
        env=environment_of(kernel),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


# -- fleets -----------------------------------------------------------------------------------------------------------


def has_ray() -> bool:
    return find_spec("ray") is not None


def write_fleet(folder: Path, seed: int, max_calls: int | None) -> None:
    """Write a fleet of three models and a comparison; with `max_calls` it ends before its goals are reached."""
    fleet: dict[str, Any] = {
        "models": ["given/m0", "given/m1", "given/m2"],
        "data": "questions.jsonl",
        "scorer": "exact",
        "eps": 0.05,
        "seed": seed,
        "workers": 2,
        "goals": ["run", {"goal": "compare", "models": ["given/m0", "given/m1"]}],
    }
    if max_calls is not None:
        fleet["max_calls"] = max_calls
    (folder / "fleet.yaml").write_text(yaml.safe_dump(fleet), encoding="utf-8")


def send_fleet(open_store: OpenStore, seed: int, on: str = "local") -> list[Arrival]:
    """Begin a fleet on one machine, end it on a second, repeat and verify it on a third: a journey for each run."""
    first, second, third = take_turns(seed)
    whole = Arrival(interrupted="budget")
    with temporary_folder() as folder:
        url = open_store(folder, seed)
        repeat = command("fleet", "fleet.yaml", "--store", url, "--display", "none", "--json")
        fleet = [*repeat, "--on", on]
        write_fleet(folder, seed, max_calls=150 + (seed * 37) % 250)
        if not whole.expect("begin", run_process(first, fleet, folder), 0, 3):
            return [whole]
        write_fleet(folder, seed, max_calls=None)
        ended = run_process(second, fleet, folder)
        if not ended.out.startswith("{"):
            whole.expect("resume", ended, 0)
            return [whole]
        again = run_process(third, repeat, folder)
        rows = json.loads(again.out)["runs"] if again.out.startswith("{") else []
        repeated = {str(row["run_id"]): row for row in rows}
        return [
            check_run_of_fleet(row, repeated, third, folder, url) for row in json.loads(ended.out)["runs"]
        ]


def check_run_of_fleet(
    row: dict[str, Any], repeated: dict[str, dict[str, Any]], kernel: Kernel, folder: Path, url: str
) -> Arrival:
    """Verify one run of a fleet, and look whether repeating the fleet found it as it was."""
    arrival, run_id = Arrival(interrupted="budget"), str(row.get("run_id"))
    if row.get("error") or row.get("stopped") != "goal":
        arrival.note("resume", str(row.get("error") or f"ended by {row.get('stopped')}"))
        return arrival
    arrival.note("resume", None)
    arrival.expect("verify", run_process(kernel, command("verify", run_id, "--store", url), folder), 0)
    page = command("report", run_id, "--store", url, "-o", "page.html")
    arrival.expect("read", run_process(kernel, page, folder), 0)
    later = repeated.get(run_id, {})
    if later.get("error") or later.get("stopped") != "goal":
        arrival.note("read", str(later.get("error") or "not among the repeated fleet's runs"))
    return arrival


class Plain:
    """Stores without a past: a fresh SQLite file for every fleet."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def __call__(self, folder: Path, seed: int) -> str:
        data = (self._files.data(seed) / "questions.jsonl").read_bytes()
        (folder / "questions.jsonl").write_bytes(data)
        return f"sqlite:///{folder / 'fleet.db'}"


# -- Inspect ----------------------------------------------------------------------------------------------------------

INSPECT_TASK = """
import asyncio
import random

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import includes
from inspect_ai.solver import solver


@solver
def answering(slow):
    async def solve(state, generate):
        await asyncio.sleep(slow)
        ease = random.Random(state.input_text).random()
        good = ease + random.Random(f"{state.model}: {state.input_text}").random() < 1.3
        state.output = ModelOutput.from_content("none", "yes" if good else "no")
        return state

    return solve


@task
def quiz(n: int = 400, slow: float = 0.05):
    samples = [
        Sample(id=f"q{i}", input=f"question {i}", target="yes", metadata={"category": "abcdef"[i % 6]})
        for i in range(n)
    ]
    return Task(dataset=MemoryDataset(samples, name="quiz"), solver=answering(slow), scorer=includes())
"""


def has_inspect() -> bool:
    return find_spec("inspect_ai") is not None


class Inspect:
    """Evaluations by Inspect, with the log of another model as their history."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._making = folder, Lock()

    def send(self, seed: int) -> Arrival:
        """Kill an evaluation on one machine, retry it on a second, verify its log on a third."""
        first, second, third = take_turns(seed)
        arrival = Arrival()
        with temporary_folder() as folder:
            shutil.copytree(self._past(), folder, dirs_exist_ok=True)
            before = list_logs(folder)
            log = kill_inspect(first, folder, seed, samples=10 + (seed * 7) % 30)
            if log is None:
                arrival.note("begin", "no log with samples was written")
                return arrival
            arrival.interrupted = "kill -9"
            again = inspect_command("eval-retry", str(log.relative_to(folder)), "--max-samples", "64")
            if arrival.expect("resume", run_process(second, again, folder), 0):
                for found in list_logs(folder) - before - {log}:
                    verified = run_process(third, command("verify", str(found)), folder)
                    arrival.expect("verify", verified, 0)
        return arrival

    def _past(self) -> Path:
        """Evaluate another model with Inspect alone, once."""
        with self._making:
            if not self._folder.exists():
                (self._folder / "logs").mkdir(parents=True)
                (self._folder / "user.py").write_text(INSPECT_TASK, encoding="utf-8")
                past = inspect_command("eval", "user.py@quiz", "-T", "slow=0", "--model", "mockllm/past")
                done = run_process(TRAVELLED[0], past, self._folder)
                assert done.code == 0, done.error
        return self._folder


def list_logs(folder: Path) -> set[Path]:
    return set((folder / "logs").glob("*.eval"))


def inspect_command(*arguments: str) -> list[str]:
    inspect = str(Path(sys.executable).parent / "inspect")
    return [inspect, *arguments, "--display", "none", "--log-dir", "logs"]


def kill_inspect(kernel: Kernel, folder: Path, seed: int, samples: int) -> Path | None:
    """Begin an evaluation and kill it when so many samples are in its log; return the log."""
    settings = ("task=user.py@quiz", "eps=0.08", f"cereval_seed={seed}", "cereval_history=logs")
    asked = [part for one in settings for part in ("-T", one)]
    before = list_logs(folder)
    limits = ["--model", "mockllm/model", "--max-samples", "4", "--log-buffer", "1"]
    process = subprocess.Popen(
        inspect_command("eval", "cereval/certified", *asked, *limits),
        cwd=folder,
        env=environment_of(kernel),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        return wait_for_samples(process, folder, before, samples)
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()


def wait_for_samples(
    process: subprocess.Popen[bytes], folder: Path, before: set[Path], count: int
) -> Path | None:
    """Wait until a new log has so many samples; None where the process ends before."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        for log in list_logs(folder) - before:
            if count_samples(log) >= count:
                return log
        if process.poll() is not None:
            return None
        time.sleep(0.02)
    return None


def count_samples(log: Path) -> int:
    try:
        with zipfile.ZipFile(log) as archive:
            return sum(name.startswith("samples/") for name in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return 0
