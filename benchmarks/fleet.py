"""`python -m benchmarks.fleet`: a fleet on Ray whose workers are killed and whose database restarts.

8 models x 5 data sets behind a scripted server of 20 ms, limited to a few connections. Once undisturbed, one run after
the other; once on a local Ray cluster with a worker killed every 5 s and PostgreSQL restarted once. The certificates
must be the same, no answer that was stored may be asked for again, and the server must be busy.

    python -m benchmarks.fleet --out benchmarks/results/fleet-DATE.md
    python -m benchmarks.fleet --slots 2 --connections 6    # a server that works on two at a time and has others wait
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from benchmarks.model_server import FaultyModel, Handler, Turn, serve_locally
from benchmarks.postgres import Cluster, cluster, server_binaries
from cereval.certificate.verify import verify
from cereval.fleet.run import run_fleet
from cereval.fleet.workers import cluster as started
from cereval.models.base import Messages, last_text
from cereval.runner.start import evidence
from cereval.store.base import opened_store

DELAY_S = 0.02
BARE_S = 15.0
SLACK_S = 0.05
"""Between the moment that an answer is stamped with and its commit."""


# -- the server -------------------------------------------------------------------------------------------------------


class Logging(Handler):
    """Plays several models, by the names that are asked for, and keeps a log of all requests."""

    def __init__(self, models: Mapping[str, FaultyModel], slots: int) -> None:
        super().__init__(next(iter(models.values())))
        self.models = models
        self.log: list[list[Any]] = []
        self._slots = asyncio.Semaphore(slots)

    async def _completion(self, request: dict[str, Any], messages: Messages) -> bytes | None:
        async with self._slots:
            came = time.time()
            entry = [came, came, str(request["model"]), last_text(messages)]
            self.log.append(entry)
            answer = await super()._completion(request, messages)
            entry[1] = time.time()
            return answer

    async def _turn(self, request: dict[str, Any], messages: Messages) -> Turn:
        return self.models[str(request["model"])].turn(messages)


def serve(folder: Path, port: int, slots: int) -> None:
    """Serve until SIGTERM, then write the log."""
    key = json.loads((folder / "key.json").read_text(encoding="utf-8"))
    accuracies = json.loads((folder / "models.json").read_text(encoding="utf-8"))
    handler = Logging(
        {
            name: FaultyModel(key, accuracy, seed=number, delay_s=DELAY_S)
            for number, (name, accuracy) in enumerate(accuracies.items())
        },
        slots,
    )

    async def until_told() -> None:
        told = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
        async with serve_locally(handler, port) as url:
            print(url, flush=True)
            await told.wait()

    asyncio.run(until_told())
    (folder / "log.json").write_text(json.dumps(handler.log), encoding="utf-8")


@contextmanager
def server(folder: Path, port: int, slots: int) -> Iterator[str]:
    """The server in a process of its own; its log is in `folder`/log.json once the context is left."""
    own = ["--serve", str(folder), "--port", str(port), "--slots", str(slots)]
    command = [sys.executable, "-m", "benchmarks.fleet", *own]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def bare_share(folder: Path, port: int, slots: int) -> float:
    """Share of the limit that a client reaches which does nothing but ask, one after the other on each connection.

    What keeps it from all of it is the machine: other jobs, and the way between two processes.
    """

    async def ask(address: SplitResult, until: float) -> None:
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        body = json.dumps({"model": "m0", "messages": [{"role": "user", "content": "0: 1 + 1 ="}]}).encode()
        head = f"POST {address.path}/chat/completions HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n"
        while time.monotonic() < until:
            writer.write(head.encode() + body)
            fields = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(fields.partition(b"content-length:")[2].split(b"\r\n")[0]))
        writer.close()

    async def all_connections(url: str) -> None:
        until = time.monotonic() + BARE_S
        await asyncio.gather(*(ask(urlsplit(url), until) for _ in range(slots)))

    with server(folder, port, slots) as url:
        asyncio.run(all_connections(url))
    return Played({}, {}, 0, logged(folder), BARE_S).busy(slots)


# -- what is played ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """How large a fleet is played. connections: of the fleet's limit. slots: requests that the server works on."""

    models: int = 8
    sets: int = 5
    items: int = 1000
    eps: float = 0.05
    connections: int = 2
    slots: int = 2
    workers: int = 5


def written(folder: Path, size: Size) -> dict[str, Any]:
    """Write the questions, the answer key and the models' accuracies; return the fleet."""
    key: dict[str, str] = {}
    paths = []
    for number in range(size.sets):
        rows = [
            {"question": f"{number}: {n} + {n % 7} =", "answer": str(n + n % 7)} for n in range(size.items)
        ]
        key |= {row["question"]: row["answer"] for row in rows}
        paths.append(folder / f"set-{number}.jsonl")
        paths[-1].write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    accuracies = {f"m{number}": 0.55 + 0.4 * number / size.models for number in range(size.models)}
    (folder / "key.json").write_text(json.dumps(key), encoding="utf-8")
    (folder / "models.json").write_text(json.dumps(accuracies), encoding="utf-8")
    return {
        "models": [f"openai/{name}" for name in accuracies],
        "data": [str(path) for path in paths],
        "scorer": "exact",
        "eps": size.eps,
        "seed": 1,
        "limits": {"connections": size.connections},
    }


class Asked(NamedTuple):
    """One request: when it came to a slot, when it was answered, which model was asked what."""

    came: float
    answered: float
    model: str
    text: str


@dataclass(frozen=True)
class Played:
    """What came of one fleet: certificates by run, when each answer was stored, and what the server saw."""

    certificates: Mapping[str, Any]
    stored: Mapping[tuple[str, str], float]
    invalid: int
    log: tuple[Asked, ...]
    wall_s: float
    kills: int = 0
    restarts: int = 0

    @property
    def asked_again(self) -> int:
        """Requests for answers that were in the store already."""
        never = float("inf")
        return sum(one.came > self.stored.get((one.model, one.text), never) + SLACK_S for one in self.log)

    @property
    def lost(self) -> int:
        """Requests beyond one for each answer: in flight when their worker was killed."""
        return len(self.log) - len(self.stored)

    @property
    def span_s(self) -> float:
        """Seconds from the first request to the last answer."""
        return max(one.answered for one in self.log) - self.log[0].came

    @property
    def service_s(self) -> float:
        """Seconds that the server itself took for a request, on average: its delay and its own work."""
        return fmean(one.answered - one.came for one in self.log)

    def busy(self, slots: int) -> float:
        """Share of the slots' time that the server was at work, from the first request to the last answer."""
        return len(self.log) * self.service_s / (slots * self.span_s)

    def nominal(self, slots: int) -> float:
        """The same, of a server that takes no time beyond its delay."""
        return len(self.log) * DELAY_S / (slots * self.span_s)


def logged(folder: Path) -> tuple[Asked, ...]:
    """The requests that a server has logged."""
    return tuple(Asked(*entry) for entry in json.loads((folder / "log.json").read_text(encoding="utf-8")))


def free_port() -> int:
    """A port that nobody listens at: both servers use it, for the address is part of every plan."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def played(
    folder: Path,
    port: int,
    slots: int,
    fleet: dict[str, Any],
    on: str,
    url: str,
    trouble: Trouble | None = None,
) -> Played:
    """Carry out a fleet, with trouble or without."""
    began = time.monotonic()
    with server(folder, port, slots) as address:
        if trouble is not None:
            trouble.start()
        try:
            done = run_fleet({**fleet, "base_url": address}, on=on, store=url, tell=_say)
        finally:
            if trouble is not None:
                trouble.end()
    wall = time.monotonic() - began
    assert done.exit_code == 0, done.as_dict()
    log = logged(folder)
    stored: dict[tuple[str, str], float] = {}
    invalid = 0
    with opened_store(url) as store:
        certificates = {}
        for row in done.runs:
            run = str(row["run_id"])
            certificate = dict(store.certificates(run)[-1])
            certificates[run] = certificate
            invalid += verify(certificate, evidence(certificate, store)).status != "valid"
            texts = [str(item["input"]) for item in store.items(store.run(run).data_hash)]
            name = str(row["model"]).removeprefix("openai/")
            stored |= {(name, texts[draw.item]): at for draw, _, at in store.rows(run)}
    kills, restarts = (trouble.kills, trouble.restarts) if trouble else (0, 0)
    return Played(certificates, stored, invalid, log, wall, kills, restarts)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Trouble(threading.Thread):
    """Kills the Ray worker that has been at work longest every few seconds, and restarts the database once.

    Where no answer has come since the last kill it waits: on a busy machine workers need longer to begin than to live.
    """

    def __init__(self, database: Cluster, url: str, every_s: float, restart_after_s: float) -> None:
        super().__init__(daemon=True)
        self.database, self.url = database, url
        self.every_s, self.restart_after_s = every_s, restart_after_s
        self.kills = self.restarts = 0
        self._over = threading.Event()

    def run(self) -> None:
        began, before = time.monotonic(), 0
        while not self._over.wait(self.every_s):
            answers, pids = self._answers(), busy_workers()
            if pids and answers > before:
                before = answers
                with suppress(ProcessLookupError):
                    os.kill(pids[0], signal.SIGKILL)
                    self.kills += 1
            if not self.restarts and time.monotonic() - began > self.restart_after_s:
                self.database.stop("fast")
                self.database.start()
                self.restarts += 1

    def _answers(self) -> int:
        import psycopg

        with suppress(psycopg.Error), psycopg.connect(self.url) as connection:
            found = connection.execute("SELECT count(*) FROM answers").fetchone()
            return int(found[0]) if found else 0
        return 0

    def end(self) -> None:
        self._over.set()
        self.join()


def busy_workers() -> list[int]:
    """The processes of Ray that carry out runs, the oldest first."""
    ages: dict[int, float] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            title = (folder / "cmdline").read_bytes()
            if title.startswith(b"ray::") and b" on " in title:
                # Field 22, counted behind the name, which may hold blanks.
                ticks = int((folder / "stat").read_text().rpartition(")")[2].split()[19])
                ages[int(folder.name)] = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf(
                    "SC_CLK_TCK"
                )
    return sorted(ages, key=lambda pid: -ages[pid])


def measured(size: Size, every_s: float, restart_after_s: float) -> tuple[Played, Played, list[float]]:
    """The undisturbed fleet, the disturbed one, and what a bare client reached before and after that."""
    binaries = server_binaries()
    if binaries is None:
        raise SystemExit("no PostgreSQL server is installed (pg_ctl not found)")
    os.environ.setdefault("OPENAI_API_KEY", "none")
    # A worker that compiles all that it imports takes seconds to begin, every time that one was killed.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as name, cluster(binaries) as database:
        folder = Path(name)
        fleet, port = written(folder, size), free_port()
        with started(2):
            calm = played(folder, port, size.slots, {**fleet, "workers": 1}, "local", database.database())
            url = database.database()
            trouble = Trouble(database, url, every_s, restart_after_s)
            many = {**fleet, "workers": size.workers}
            bare = [bare_share(folder, port, size.slots)]
            storm = played(folder, port, size.slots, many, "ray", url, trouble)
            bare.append(bare_share(folder, port, size.slots))
    return calm, storm, bare


def table(size: Size, calm: Played, storm: Played, bare: list[float]) -> str:
    """The figures as markdown."""
    same = sum(calm.certificates.get(name) == one for name, one in storm.certificates.items())
    rows = [
        ("certificates", len(calm.certificates), len(storm.certificates)),
        ("of these invalid", calm.invalid, storm.invalid),
        ("equal to the undisturbed", "", same),
        ("workers killed, restarts of PostgreSQL", "0, 0", f"{storm.kills}, {storm.restarts}"),
        ("answers stored", f"{len(calm.stored):,}", f"{len(storm.stored):,}"),
        ("requests beyond one for each answer", calm.lost, storm.lost),
        ("requests for answers that were stored", calm.asked_again, storm.asked_again),
        ("seconds", f"{calm.wall_s:.0f}", f"{storm.wall_s:.0f}"),
        ("ms that a request took the server", f"{calm.service_s * 1e3:.1f}", f"{storm.service_s * 1e3:.1f}"),
        (
            "share of the server's limit",
            f"{calm.busy(size.slots):.1%}",
            f"{storm.busy(size.slots):.1%}",
        ),
        (
            "the same, had it taken 20.0 ms",
            f"{calm.nominal(size.slots):.1%}",
            f"{storm.nominal(size.slots):.1%}",
        ),
        ("share that a bare client reached before, after", "", ", ".join(f"{one:.1%}" for one in bare)),
        ("share of what a bare client reached", "", f"{storm.busy(size.slots) / fmean(bare):.1%}"),
    ]
    head = "| | undisturbed, one after the other | Ray, disturbed |\n|---|---|---|\n"
    return head + "".join(f"| {name} | {left} | {right} |\n" for name, left, right in rows)


def met(size: Size, calm: Played, storm: Played) -> bool:
    """Whether all that the benchmark demands holds."""
    same = storm.certificates == calm.certificates and not storm.invalid
    return same and not storm.asked_again and storm.busy(size.slots) >= 0.9


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two kills")
    parser.add_argument(
        "--restart-after", type=float, default=20.0, help="seconds to the restart of the database"
    )
    parser.add_argument("--models", type=int, default=8)
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument("--items", type=int, default=1000, help="questions of a data set")
    parser.add_argument("--eps", type=float, default=0.05)
    parser.add_argument("--connections", type=int, default=2, help="the fleet's limit for the server")
    parser.add_argument(
        "--slots", type=int, help="requests that the server works on at a time; by default as many"
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve, options.port, options.slots)
        return 0
    slots = options.slots or options.connections
    size = Size(options.models, options.sets, options.items, options.eps, options.connections, slots)
    calm, storm, bare = measured(size, options.every, options.restart_after)
    text = table(size, calm, storm, bare)
    print(text)
    if options.out is not None:
        title = (
            "# A fleet on Ray, disturbed\n\n"
            f"`python -m benchmarks.fleet --connections {size.connections} --slots {size.slots}`: {size.models} models "
            f"x {size.sets} data sets of {size.items:,} questions, eps {size.eps:g}; a server of 20 ms that works on "
            f"{size.slots} at a time, and a fleet limited to {size.connections} connections; a worker killed every "
            f"{options.every:g} s.\n\n"
        )
        options.out.write_text(title + text, encoding="utf-8")
    return 0 if met(size, calm, storm) else 1


if __name__ == "__main__":
    sys.exit(main())
