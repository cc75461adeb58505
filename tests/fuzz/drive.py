"""Carry out one input in a process of its own, and judge what came of it."""

from __future__ import annotations

import gc
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

from tests.fuzz.commands import KINDS, LOGS, SCENES, argument
from tests.fuzz.files import spoil
from tests.fuzz.workshop import build

SECONDS = 20
"""Of the processor, for one input."""
WAIT = 10
"""The clock on the wall may show so many times as many before an input counts as one without an answer: other
programs are at work, and this one may be the last in the queue."""
MEMORY = 2**30
HEADROOM = 3 * 2**29
"""Of address space, over what the program has when it starts: libraries reserve what they never use."""
ALLOWED = (0, 1, 2, 3)
SLOW_TO_IMPORT = (
    "openai",
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.parquet",
    "scipy.special",
    "scipy.stats",
    "jinja2.sandbox",
    "rich.progress",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.dialects.sqlite",
    "yaml",
    "math_verify",
)
BROKEN, NO_INPUT = 70, 71
"""Exit codes of this driver: an exception that nobody caught; the fuzzer itself could not make its input."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one input came to, with the seconds of the processor and those by the clock; `wrong` is empty where it is as
    it should be."""

    number: int
    words: tuple[str, ...]
    spoilt: str
    code: int
    seconds: float
    clock: float
    megabytes: float
    wrong: str
    errors: str

    @property
    def command(self) -> str:
        return self.words[0]


class Fuzzer:
    """Makes inputs from a seed and their number, and runs them; what is imported and built is shared by all."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.folder, self.seed = folder, seed
        self.workshop = folder / "workshop"
        self.workshop.mkdir(parents=True)
        preload()
        process = os.fork()
        if process == 0:
            isolated(folder)
            os._exit(attempt(lambda: build(self.workshop) or 0))
        _, status = os.waitpid(process, 0)
        assert status == 0, "the workshop could not be built"
        self.ids: dict[str, str] = json.loads((self.workshop / "ids.json").read_text())

    def outcomes(self, numbers: Iterator[int] | range) -> Iterator[Outcome]:
        """Run inputs one after the other; folders of those that went well are removed."""
        for number in numbers:
            outcome = self.run(number)
            if not outcome.wrong:
                shutil.rmtree(self.folder / str(number), ignore_errors=True)
            yield outcome

    def run(self, number: int) -> Outcome:
        """Make one input, run it, and say what is wrong with what came of it."""
        place = self.folder / str(number)
        place.mkdir()
        started = time.monotonic()
        process = os.fork()
        if process == 0:
            os.setpgid(0, 0)
            isolated(place)
            os._exit(attempt(lambda: self._child(number, place)))
        timed_out = not _ended(process, WAIT * SECONDS)
        if timed_out:
            _kill(process)
        _, status, used = os.wait4(process, 0)
        _kill(process)
        facts = json.loads((place / "input.json").read_text()) if (place / "input.json").exists() else {}
        code = os.waitstatus_to_exitcode(status)
        errors = (place / "stderr").read_text(errors="replace")
        wrong = f"no answer in {WAIT * SECONDS} s" if timed_out else _wrong(code, facts, place, errors)
        if not wrong and used.ru_maxrss * 1024 > MEMORY:
            wrong = f"{used.ru_maxrss / 1024:,.0f} MB"
        return Outcome(
            number,
            tuple(facts.get("words", ["?"])),
            facts.get("spoilt", ""),
            code,
            used.ru_utime + used.ru_stime,
            time.monotonic() - started,
            used.ru_maxrss / 1024,
            wrong,
            errors[-3000:],
        )

    def _child(self, number: int, place: Path) -> int:
        try:
            rng = random.Random(f"{self.seed}-{number}")
            words, spoilt = self._input(place, rng)
            (place / "input.json").write_text(json.dumps({"words": words, "spoilt": spoilt}))
        except Exception:
            traceback.print_exc()
            return NO_INPUT
        if words[0] == "view":
            _without_waiting_for_browsers()
        if any(":PORT" in word for word in words):
            port = _served_badly(rng)
            words = [word.replace(":PORT", f":{port}") for word in words]
        _limited()
        from cereval.cli.main import main

        return main(words)

    def _input(self, place: Path, rng: random.Random) -> tuple[list[str], str]:
        """Choose a command line, copy what it reads, and spoil a file of it, mostly."""
        scene = rng.choices([line for _, line in SCENES], [weight for weight, _ in SCENES])[0]
        scene = self._named(scene, place, rng)
        for name in scene.replace("sqlite:///", "").replace("@", "").split():
            self._copy(name, place)
        self._copy("golden_models.py", place)
        os.mkfifo(place / "fifo")
        if scene.startswith("run") and "plan.seal.json" in scene:
            shutil.copy(self.workshop / "before.db", place / "store.db")
        files = sorted(path for path in place.rglob("*.*") if path.is_file() and path.suffix != ".py")
        files = [path for path in files if not path.is_fifo()]
        spoilt = ""
        if files and rng.random() < (0.1 if "PORT" in scene else 0.65):
            path = rng.choice(files)
            spoilt = path.name
            spoil(path, rng)
        # What was spoilt, be it a file or the server, is mostly reached by a line that works.
        changes = (0, 0, 0, 1) if spoilt or "PORT" in scene else (0, 1, 1, 1, 2, 3)
        return argument(scene, rng, changes), spoilt

    def _named(self, scene: str, place: Path, rng: random.Random) -> str:
        for name in (*self.ids, "ANY"):
            scene = scene.replace(f"RUN:{name}", str(self.ids[rng.choice(KINDS) if name == "ANY" else name]))
        if "CERTIFICATE" in scene:
            path = self.workshop / f"{rng.choice(KINDS)}.json"
            shutil.copy(path, place / path.name)
            scene = scene.replace("CERTIFICATE", path.name)
        while "LOG" in scene:
            scene = scene.replace("LOG", rng.choice(list(LOGS)), 1)
        return scene.replace("RUN.json", f"{rng.choice(KINDS)}.json")

    def _copy(self, name: str, place: Path) -> None:
        source = self.workshop / name
        if source.is_dir() and name not in (".", "/", ""):
            shutil.copytree(source, place / name, dirs_exist_ok=True)
        elif source.is_file():
            shutil.copy(source, place / name)
            if name in ("task.yaml", "fleet.yaml"):
                self._copy("questions.jsonl", place)
            if name == "candidates.yaml":
                self._copy("template.txt", place)


class _WithoutPandas:
    """Has pandas be missing."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def preload() -> None:
    """Import what commands import, so that a process takes milliseconds to start."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    # Optional, and pyarrow imports it where it is there: a second and 60 MB for each process.
    hidden = _WithoutPandas()
    sys.meta_path.insert(0, hidden)
    import cereval

    # Other people's runners are heavy, and may need pandas.
    heavy = ("integrations.inspect", "integrations.lm_eval", "integrations.pytest_plugin")
    for module in walk_packages(cereval.__path__, "cereval.", onerror=lambda _: None):
        if not module.name.endswith("__main__") and not any(name in module.name for name in heavy):
            import_module(module.name)
    for name in SLOW_TO_IMPORT:
        with suppress(ImportError):
            import_module(name)
    sys.meta_path.remove(hidden)
    # What a child does not touch it shares with this process: its collector would touch everything.
    gc.collect()
    gc.freeze()


def isolated(place: Path) -> None:
    """Turn this process into a user of its own: own folder, own settings, nothing to type, no network to speak of."""
    sys.meta_path.insert(0, _WithoutPandas())
    os.chdir(place)
    for name in ("HOME", "XDG_CONFIG_HOME", "TMPDIR"):
        os.environ[name] = str(place)
    # One list of fonts for all: to make it takes half a minute.
    os.environ.setdefault("MPLCONFIGDIR", str(place.parent))
    os.environ.update(OPENAI_BASE_URL="http://127.0.0.1:9/v1", OPENAI_API_KEY="none", COLUMNS="100")
    sys.path.insert(0, str(place))
    for number, name in ((0, os.devnull), (1, "stdout"), (2, "stderr")):
        handle = os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(handle, number)
        os.close(handle)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _limited() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * resource.getpagesize() + HEADROOM
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    used = int(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (used + SECONDS, used + SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _without_waiting_for_browsers() -> None:
    from tests.fuzz.pages import visit

    import cereval.view.app

    cereval.view.app.serve = visit


def _served_badly(rng: random.Random) -> int:
    from tests.fuzz.servers import answering, impatient

    impatient()
    return answering(rng)


def attempt(work: object) -> int:
    try:
        code = work()  # type: ignore[operator]
    except BaseException:
        traceback.print_exc()
        code = BROKEN
    with suppress(Exception):
        sys.stdout.flush()
    with suppress(Exception):
        sys.stderr.flush()
    return int(code)


def _ended(process: int, seconds: float) -> bool:
    handle = os.pidfd_open(process)
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _wrong(code: int, facts: dict[str, object], place: Path, errors: str) -> str:
    """Say what an honest program would not do; empty: nothing."""
    if code == NO_INPUT:
        return "the fuzzer could not make this input"
    if "Traceback (most recent call last)" in errors:
        lines = [line for line in errors.strip().splitlines() if re.match(r"[A-Za-z_][\w.]*(:|$)", line)]
        return "traceback: " + (lines[-1][:150] if lines else "?")
    if code == -signal.SIGXCPU or code == -signal.SIGKILL:
        return f"over {SECONDS} s of the processor"
    if code not in ALLOWED:
        return f"exit code {code}"
    # Processes that the driver kills leave their semaphores to Python's tracker, which says so.
    warned = re.search(r"\b\w*Warning: (?!resource_tracker).*", errors)
    if warned:
        return f"warning: {warned[0][:150]}"
    return _badly_said(code, facts, place, errors)


def _badly_said(code: int, facts: dict[str, object], place: Path, errors: str) -> str:
    words = facts["words"]
    assert isinstance(words, list)
    said = (place / "stdout").read_text(errors="replace")
    told = [line for line in errors.splitlines() if line.startswith("error: ")]
    helped = {"-h", "--help", "--version"} & set(words)
    if "\x1b" in errors + said and not helped:
        return "an escape sequence reached the terminal"
    # Verdicts, and the table of a fleet with a run that could not run, have their place on stdout.
    answered = bool(said) and words[0] in ("verify", "fleet") and not told
    if code == 1 and not answered and len(told) != 1 and "Usage:" not in errors:
        return f"{len(told)} lines of error"
    if code != 1 and told:
        return f"an error line with exit code {code}"
    if "--json" in words and code != 1 and not helped:
        try:
            json.loads(said)
        except ValueError:
            return "stdout is not one JSON value"
    return ""
