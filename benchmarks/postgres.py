"""A PostgreSQL server of one's own in a temporary folder, to be stopped and started: for tests and benchmarks."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path


def server_binaries() -> Path | None:
    """Where `pg_ctl` lies; None where no server is installed."""
    found = shutil.which("pg_ctl")
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    return Path(found).parent if found else (places[-1].parent if places else None)


def fresh_database(url: str) -> str:
    """Make a new, empty database on the server of a URL that names the database `postgres`; return its URL."""
    import psycopg

    name = f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return url.replace("/postgres?", f"/{name}?")


@dataclass(frozen=True)
class Cluster:
    """A server on a socket in its own folder: nobody elsewhere can reach it, and who is here needs no password."""

    folder: Path
    binaries: Path

    @property
    def url(self) -> str:
        return f"postgresql://tester@/postgres?host={self.folder}"

    def database(self) -> str:
        """Make a new, empty database; return its URL."""
        return fresh_database(self.url)

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off -c max_connections=200"
        self._control("-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self, how: str = "immediate") -> None:
        """Stop the server: `immediate` as in a crash, `fast` as an administrator does."""
        self._control("-m", how, "stop")

    def create(self) -> None:
        quick = "-A trust -U tester --no-sync --no-instructions"
        self._control("initdb", "-o", quick)

    def _control(self, *arguments: str) -> None:
        # PostgreSQL refuses to run as root.
        as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        command = [*as_user, str(self.binaries / "pg_ctl"), "-D", str(self.folder / "data"), "-s", "-w"]
        subprocess.run([*command, *arguments], check=True, stdout=subprocess.DEVNULL, cwd="/tmp")


@contextmanager
def cluster(binaries: Path) -> Iterator[Cluster]:
    """A running server, gone with the context."""
    # As root the server's directory must lie where its own user can go.
    folder = Path("/tmp") / f"cereval-pg-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    server = Cluster(folder, binaries)
    try:
        server.create()
        server.start()
        yield server
    finally:
        with suppress(subprocess.CalledProcessError):  # a test may have stopped it
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
