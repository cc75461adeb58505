"""A hurried team: it evaluates, kills, swaps the checkpoint behind a name, repeats, and repeats again.

A day is a sequence of commands on one store, each in a process of its own. After every command the books are compared:
what the model was asked (it writes that down itself), what the command says, and what the store has.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.fuzz.drive import attempt, isolated

from cereval.cli.main import main
from cereval.fleet import workers
from cereval.questions import session as base

QUESTIONS = 80
COMMANDS = 8
"""Of one day."""
GOOD, BAD = "good", "bad"

SERVED = """\
import os, pathlib

calls = 0


def answer(messages):
    question = messages[-1]["content"]
    return said(question, pathlib.Path("checkpoint.txt").read_text() == "good")


def last_release(messages):
    question = messages[-1]["content"]
    return said(question, True)


def said(question, good):
    global calls
    calls += 1
    dies = pathlib.Path("dies.txt")
    if dies.exists():
        at, by = dies.read_text().split()
        if calls >= int(at):
            dies.unlink()
            os.kill(os.getpid(), int(by))
            if int(by) == 9:
                raise SystemExit
    reply = question.split()[0] if good else "none"
    with open("calls.txt", "a") as log:
        log.write(question + "\\n")
    return reply
"""
"""The model: it repeats the number in a question, as is right, or does not, and writes down what it answered. In the
middle of a call it may be killed, or interrupted as by Ctrl-C."""

SEEDED_WORKER = """\
import random, runpy
from cereval.questions import session

session.randbits = random.Random({seed!r}).getrandbits
runpy.run_module("cereval.fleet.workers", run_name="__main__")
"""

NOW, BEFORE = "python:served.py:answer", "python:served.py:last_release"
FLAGS = ("--scorer", "exact", "-j", "1", "--display", "none")
MODEL = ("--model", NOW, "--no-history", *FLAGS)


@dataclass(frozen=True, slots=True)
class Done:
    """What a command came to. asked: answers that the model gave meanwhile."""

    words: tuple[str, ...]
    code: int
    asked: int
    said: Any
    errors: str

    @property
    def survived(self) -> bool:
        return self.code >= 0


@dataclass
class Day:
    """Carries out one day, whose seed is its number, in a folder of its own; `wrong` says what did not add up."""

    folder: Path
    number: int
    wrong: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    gates: list[Done] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.number)
        self.folder.mkdir(parents=True)
        (self.folder / "served.py").write_text(SERVED)
        (self.folder / "calls.txt").write_text("")
        self.questions = QUESTIONS
        self._serve(GOOD)
        self._write_questions()

    # -- what a team does ---------------------------------------------------------------------------------------------

    def run(self) -> Day:
        """Do one thing after the other."""
        for _ in range(COMMANDS):
            if self.rng.random() < 0.4:
                self._serve(self.rng.choice((GOOD, BAD)))
            if self.rng.random() < 0.4:
                self._doom()
            if self.rng.random() < 0.1:
                self.questions += 5
                self._write_questions()
            self.rng.choice(self._habits())()
            (self.folder / "dies.txt").unlink(missing_ok=True)
            self._compare_books()
        self._verify()
        return self

    def _habits(self) -> list[Callable[[], None]]:
        runs = [self._run, self._fresh_run, self._resume, self._fleet, self._compare]
        return [self._gate, self._gate, self._kept_gate, *runs]

    def _gate(self) -> None:
        done = self._command("gate", "q.jsonl", "--min", "0.5", *MODEL)
        self.gates.append(done)
        if done.code in (0, 2):
            self._expect(done.said["kept"] == 0, done, "a gate kept answers")
            self._expect(done.code == self._right(), done, "a gate was wrong")

    def _right(self) -> int:
        """Return the exit code of a gate that tests what is served now."""
        return 0 if self.checkpoint == GOOD else 2

    def _kept_gate(self) -> None:
        done = self._command("gate", "q.jsonl", "--min", "0.5", "--max-age", "1d", *MODEL)
        last = self.gates[-1] if self.gates else None
        if (
            last is not None
            and last.code in (0, 2)
            and done.survived
            and done.said["kept"]
            and not done.asked
        ):
            self._expect(done.code == last.code, done, "an older gate was shown than the newest")
        self.gates.append(done)

    def _run(self) -> None:
        self._command("run", "q.jsonl", "--eps", "0.15", *MODEL)

    def _fresh_run(self) -> None:
        done = self._command("run", "q.jsonl", "--eps", "0.15", "--fresh", *MODEL)
        if done.code == 0:
            self._expect(done.said["kept"] == 0, done, "--fresh kept answers")
            right = 1.0 if self.checkpoint == GOOD else 0.0
            self._expect(done.said["lower"] <= right <= done.said["upper"], done, "a fresh run was wrong")

    def _compare(self) -> None:
        both = ("--model", NOW, "--model", BEFORE, "--history", "none", *FLAGS)
        done = self._command("compare", "q.jsonl", "--not-worse", "0.1", "--fresh", *both)
        if done.code in (0, 2):
            self._expect(done.said["kept"] == 0, done, "--fresh kept answers")
            self._expect(done.code == self._right(), done, "a comparison was wrong")

    def _resume(self) -> None:
        unfinished = [run for run in self._runs() if run["status"] != "finished" and run["kind"] != "part"]
        if unfinished:
            self._command("resume", self.rng.choice(unfinished)["run_id"], "--display", "none")

    def _fleet(self) -> None:
        settings = {"scorer": "exact", "history": False, "connections": 1, "workers": 1, "eps": 0.15}
        goals = ["run", {"goal": "gate", "min": 0.5}]
        fleet = {"models": NOW, "data": "q.jsonl", "goals": goals, **settings}
        (self.folder / "fleet.yaml").write_text(json.dumps({**fleet, "max_calls": 200}))
        # Its workers are processes of their own, which the fleet replaces when they are killed.
        done = self._command("fleet", "fleet.yaml", "--trust")
        if done.said is not None:
            gate = replace(done, code=done.said["runs"][1]["exit_code"], said=done.said["runs"][1])
            self._expect(
                gate.code not in (0, 2) or gate.code == self._right(), gate, "a fleet's gate was wrong"
            )
            self.gates.append(gate)

    def _serve(self, checkpoint: str) -> None:
        self.checkpoint = checkpoint
        (self.folder / "checkpoint.txt").write_text(checkpoint)
        self.story.append(f"serve {checkpoint}")

    def _doom(self) -> None:
        by = self.rng.choice((signal.SIGKILL, signal.SIGINT))
        at = self.rng.randint(1, 20)
        (self.folder / "dies.txt").write_text(f"{at} {int(by)}")
        self.story.append(f"{by.name} at call {at}")

    def _write_questions(self) -> None:
        rows = (
            {"id": f"q{n}", "question": f"{n} is which number?", "answer": str(n)}
            for n in range(self.questions)
        )
        (self.folder / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    # -- the books ----------------------------------------------------------------------------------------------------

    def _compare_books(self) -> None:
        """Hold what the model answered against what the store has: nothing is lost, nothing is invented."""
        from cereval.store.base import opened_store

        if not (self.folder / "cereval.db").exists():
            return
        with opened_store(f"sqlite:///{self.folder}/cereval.db") as store:
            paid = sum(not answer.kept for run in store.runs() for _, answer, _ in store.rows(run.run_id))
        if paid != self._answered():
            self.wrong.append(
                f"{self._answered()} answers were given, and {paid} are in the store: {self.story}"
            )

    def _verify(self) -> None:
        for path in sorted(self.folder.glob("*.certificate.json")):
            done = self._command("verify", path.name)
            self._expect(done.code == 0, done, "a certificate does not verify")

    def _runs(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = (
            self._command("runs").said if (self.folder / "cereval.db").exists() else []
        )
        return listed

    def _answered(self) -> int:
        return len((self.folder / "calls.txt").read_text().splitlines())

    def _expect(self, holds: bool, done: Done, wrong: str) -> None:
        if not holds:
            self.wrong.append(f"{wrong}: {' '.join(done.words)} -> {done.code}, {done.said}; {self.story}")

    def _command(self, *words: str) -> Done:
        """Carry a command out in a process of its own, and check what every command must keep to."""
        before = self._answered()
        for name in ("stdout", "stderr"):
            (self.folder / name).write_text("")
        process = os.fork()
        if process == 0:
            isolated(self.folder)
            # Another one for each command, and the same ones whenever the day is repeated.
            seed = f"{self.number} {len(self.story)}"
            base.randbits = random.Random(seed).getrandbits
            workers.WORKER = (sys.executable, "-P", "-c", SEEDED_WORKER.format(seed=seed))
            os._exit(attempt(lambda: main([*words, "--json"])))
        _, status = os.waitpid(process, 0)
        out, errors = ((self.folder / name).read_text() for name in ("stdout", "stderr"))
        code = os.waitstatus_to_exitcode(status)
        done = Done(words, code, self._answered() - before, _parsed(out), errors)
        self.story.append(f"{' '.join(words)} -> {code}")
        self._expect(
            "Traceback" not in errors and code in (0, 2, 3, 130, -signal.SIGKILL), done, errors[-1000:]
        )
        if done.survived and isinstance(done.said, dict) and "asked" in done.said:
            self._expect(done.said["asked"] == done.asked, done, f"the model answered {done.asked}")
        return done


def _parsed(text: str) -> Any:
    return json.loads(text) if text.strip() else None
