"""Send evaluations on a journey: begun on one machine, interrupted, resumed on a second, checked on a third.

Every kind of evaluation is carried out by the command line, as users do, with answers that are in the data
(`given/FIELD`). Odd seeds are interrupted by `kill -9`, even ones by a spent budget. Then the certificate is verified,
and whatever reads a run (report, show, export, and resume of what is finished) has to work elsewhere too.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from benchmarks.machine_kernels import Kernel, Machines, take_turns
from benchmarks.machine_kinds import simulate, throw
from benchmarks.postgres import Cluster

ITEMS, TASKS, MODELS, PAST = 1500, 12, 10, 5
"""The worst case of the issue: 1,500 items, 12 tasks, five past runs. The first models are those evaluated now."""
VARIANTS = 3
"""Data sets with a past of their own; seeds take them in turn."""
KILLED = -signal.SIGKILL
COULD_NOT_RUN = 1
PLENTY = 100_000


# -- one command on one machine ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """A command line of cereval; kill_after: the process is killed when so many questions have been asked."""

    arguments: tuple[str, ...]
    folder: Path
    kill_after: int | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The exit code (negative: the signal that ended it) and what was written."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        lines = [line for line in (self.err or self.out).strip().splitlines() if line.strip()]
        return lines[-1] if lines else f"exit code {self.code}"


def carry_out(step: Step) -> Ended:
    """Run a command in a fork of this worker, which has everything imported already."""
    with tempfile.TemporaryDirectory() as name:
        out, err = Path(name) / "out", Path(name) / "err"
        child = os.fork()
        if child == 0:
            os._exit(_run_here(step, out, err))
        _, status = os.waitpid(child, 0)
        return Ended(os.waitstatus_to_exitcode(status), _text_of(out), _text_of(err))


def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _run_here(step: Step, out: Path, err: Path) -> int:
    from cereval.cli.main import main

    os.chdir(step.folder)
    with (
        out.open("w") as said,
        err.open("w") as complained,
        redirect_stdout(said),
        redirect_stderr(complained),
    ):
        try:
            if step.kill_after is not None:
                die_after(step.kill_after)
            return main(list(step.arguments))
        except BaseException as error:  # a bug of the program: to be shown as such
            complained.write(f"\n{type(error).__name__}: {error}\n")
            return 70


def die_after(questions: int) -> None:
    """Have this process killed, as by `kill -9`, when a model is asked one question more than these."""
    from cereval.models.scripted import GivenModel

    answer, asked = GivenModel.answer, [0]

    async def answer_or_die(self: GivenModel, *messages: Any, **options: Any) -> Any:
        asked[0] += 1
        if asked[0] > questions:
            os.kill(os.getpid(), signal.SIGKILL)
        return await answer(self, *messages, **options)

    GivenModel.answer = answer_or_die  # type: ignore[method-assign]


# -- the data and the past --------------------------------------------------------------------------------------------


def write_data(folder: Path, variant: int) -> None:
    """Write the questions with the answers of all models, and the first part of them for a data set that grows."""
    _, chances = simulate(1000 + variant, ITEMS, MODELS)
    right = throw(1000 + variant, chances)
    rows = [
        {
            "id": f"q{item}",
            "question": f"What is the answer to question {item}?",
            "answer": "right",
            "category": f"task {item % TASKS:02}",
            **{f"m{model}": "right" if right[item, model] else "wrong" for model in range(MODELS)},
        }
        for item in range(ITEMS)
    ]
    lines = [json.dumps(row) + "\n" for row in rows]
    (folder / "questions.jsonl").write_text("".join(lines), encoding="utf-8")
    (folder / "first.jsonl").write_text("".join(lines[:1200]), encoding="utf-8")


COMMON = ("--scorer", "exact", "--display", "none")


def past_commands(store: str) -> Iterator[tuple[str, ...]]:
    """List the commands that fill a store with runs of other models on the same questions."""
    for model in range(MODELS - PAST, MODELS):
        flags = ("--model", f"given/m{model}", "--eps", "0.05", "--seed", str(100 + model))
        yield ("run", "questions.jsonl", *flags, *COMMON, "--store", store)


# -- kinds ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Journey:
    """What a kind begins with, how early it is interrupted, and what is done once it has ended."""

    begin: tuple[str, ...]
    least: int
    most: int
    """Questions asked before the interruption, by the seed."""
    then: Callable[[str], tuple[str, ...]] | None = None
    """A further command, given the run's id."""

    def interrupt(self, seed: int) -> tuple[tuple[str, ...], int | None]:
        """Choose how a seed is interrupted: flags for the command, and the questions after which it is killed."""
        early = self.least + (seed * 37) % (self.most - self.least)
        return ((), early) if seed % 2 else (("--max-calls", str(early)), None)


def ask_one(*flags: str) -> tuple[str, ...]:
    return ("questions.jsonl", "--model", "given/m0", *flags)


JOURNEYS: dict[str, Journey] = {
    "mean with categories": Journey(("run", *ask_one("--eps", "0.05", "--no-history")), 20, 200),
    "mean with history": Journey(("run", *ask_one("--eps", "0.04")), 20, 200),
    "gate": Journey(("gate", *ask_one("--min", "0.62")), 10, 80),
    "compare with history": Journey(
        ("compare", "questions.jsonl", "--model", "given/m0", "--model", "given/m1"), 20, 120
    ),
    "rank with history": Journey(
        ("rank", "questions.jsonl", *(f for m in range(4) for f in ("--model", f"given/m{m}"))), 50, 400
    ),
    "tasks with history": Journey(("tasks", *ask_one("--eps", "0.04", "--each-eps", "0.12")), 50, 400),
    "growing": Journey(
        ("extend", "first.jsonl", "--model", "given/m0", "--eps", "0.05"),
        20,
        200,
        lambda run: ("extend", run, "--data", "questions.jsonl", "--max-calls", str(PLENTY)),
    ),
}


@dataclass(slots=True)
class Arrival:
    """What became of one journey: for every stage that it came to, the error; None where there was none."""

    errors: dict[str, str | None] = field(default_factory=dict)
    interrupted: str = ""

    def note(self, stage: str, error: str | None) -> bool:
        """Note how a stage ended, unless it has failed before; tell whether it went well."""
        if self.errors.get(stage) is None:
            self.errors[stage] = error
        return error is None

    def expect(self, stage: str, ended: Ended, *codes: int) -> bool:
        """Note a command that belongs to a stage: it went well if its exit code is one of these."""
        return self.note(stage, None if ended.code in codes else ended.error)

    @property
    def first_error(self) -> str:
        return next((f"{stage}: {error}" for stage, error in self.errors.items() if error is not None), "")

    def has_passed(self, *stages: str) -> bool:
        """Tell whether it came through all of these stages."""
        return all(self.errors.get(stage, "never reached") is None for stage in stages)


OpenStore = Callable[[Path, int], str]
"""Writes the data of a seed into a folder, and returns the URL of a store for it."""
ANSWERED = (0, 2)
"""Exit codes of a run that has its answer; 2 is a certified fail."""


class Traveller:
    """Sends evaluations from machine to machine."""

    def __init__(self, machines: Machines, open_store: OpenStore) -> None:
        self.machines, self.open_store = machines, open_store

    def travel(self, name: str, seed: int) -> Arrival:
        """Begin on one machine, resume on the next, check on the third."""
        journey, arrival = JOURNEYS[name], Arrival()
        first, second, third = take_turns(seed)
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            store = ("--store", self.open_store(folder, seed))

            def run(kernel: Kernel, *arguments: str, kill_after: int | None = None) -> Ended:
                return self.machines.ask(kernel, carry_out, Step((*arguments, *store), folder, kill_after))

            before = {row["run_id"] for row in list_runs(run(first, "runs", "--json"))}
            flags, kill_after = journey.interrupt(seed)
            begin = (*journey.begin, "--seed", str(seed), *COMMON, *flags)
            begun = run(first, *begin, kill_after=kill_after)
            arrival.interrupted = {KILLED: "kill -9", 3: "budget"}.get(begun.code, "")
            arrival.expect("begin", begun, KILLED, 3, *ANSWERED)
            found = [row for row in list_runs(run(first, "runs", "--json")) if row["run_id"] not in before]
            if not found:
                arrival.note("begin", f"no run in the store: {begun.error}")
                return arrival
            self._check(journey, arrival, run, str(found[-1]["run_id"]), second, third)
        return arrival

    def _check(
        self,
        journey: Journey,
        arrival: Arrival,
        run: Callable[..., Ended],
        run_id: str,
        second: Kernel,
        third: Kernel,
    ) -> None:
        save = ("-o", "certificate.json", "--display", "none")
        resumed = run(second, "resume", run_id, "--max-calls", str(PLENTY), *save)
        if not arrival.expect("resume", resumed, *ANSWERED):
            return
        if journey.then is not None:
            extended = run(second, *journey.then(run_id), *save, "--json")
            if not arrival.expect("resume", extended, *ANSWERED):
                return
            run_id = json.loads(extended.out)["run_id"]
        arrival.expect("verify", run(third, "verify", "certificate.json"), 0)
        arrival.expect("read", run(third, "report", run_id, "-o", "page.html"), 0)
        arrival.expect("read", run(third, "show", run_id, "--json"), 0)
        arrival.expect("read", run(third, "export", run_id, "--format", "markdown", "-o", "run.md"), 0)
        again = run(third, "resume", run_id, "-o", "again.json", "--display", "none")
        arrival.expect("read", again, *ANSWERED)


def list_runs(ended: Ended) -> list[dict[str, Any]]:
    """Read what `cereval runs --json` says, the oldest run first; nothing where there is no store yet."""
    with suppress(json.JSONDecodeError):
        rows = [row for row in json.loads(ended.out) if row["kind"] != "part"]
        return sorted(rows, key=lambda row: str(row["created_at"]))
    return []


# -- stores -----------------------------------------------------------------------------------------------------------


def fill_store(machines: Machines, folder: Path, store: str) -> None:
    """Carry out the past runs, on the first machine."""
    for command in past_commands(store):
        ended = machines.ask(machines.kernels[0], carry_out, Step(command, folder))
        assert ended.code == 0, ended.error


class Files:
    """SQLite files with a past, made when first needed and copied for every journey."""

    def __init__(self, machines: Machines, folder: Path) -> None:
        self._machines, self._folder = machines, folder
        self._making = Lock()

    def data(self, seed: int) -> Path:
        """Return the folder with the questions and the past of a seed."""
        variant = seed % VARIANTS
        folder = self._folder / f"data{variant}"
        with self._making:
            if not folder.exists():
                folder.mkdir()
                write_data(folder, variant)
                fill_store(self._machines, folder, "sqlite:///past.db")
        return folder

    def __call__(self, folder: Path, seed: int) -> str:
        shutil.copytree(self.data(seed), folder, dirs_exist_ok=True)
        return f"sqlite:///{folder / 'past.db'}"


class Databases:
    """PostgreSQL databases with a past, each a copy of one that was filled when first needed."""

    def __init__(self, machines: Machines, files: Files, server: Cluster) -> None:
        self._machines, self._files, self._server = machines, files, server
        self._filled: dict[int, str] = {}
        self._making = Lock()

    def __call__(self, folder: Path, seed: int) -> str:
        shutil.copytree(self._files.data(seed), folder, dirs_exist_ok=True)
        with self._making:
            if seed % VARIANTS not in self._filled:
                url = self._server.database()
                fill_store(self._machines, self._files.data(seed), url)
                self._filled[seed % VARIANTS] = url
            return copy_database(self._server.url, self._filled[seed % VARIANTS])


def copy_database(server: str, url: str) -> str:
    """Copy a database on its own server; return the URL of the copy."""
    import psycopg

    name, copied = url.rpartition("?")[0].rpartition("/")[2], f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {copied} TEMPLATE {name}".encode())
    return url.replace(f"/{name}?", f"/{copied}?")


@contextmanager
def temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)
