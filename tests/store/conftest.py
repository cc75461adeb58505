"""Every store the suite must pass on: SQLite always, PostgreSQL where its server is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from cereval.store.base import Store, open_store


def _server_binaries() -> Path | None:
    found = shutil.which("pg_ctl")
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    return Path(found).parent if found else (places[-1].parent if places else None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a server of our own, on a socket in a temporary directory, or of `CEREVAL_TEST_POSTGRES`."""
    pytest.importorskip("psycopg", reason="pip install 'cereval[postgres]'")
    if given := os.environ.get("CEREVAL_TEST_POSTGRES"):
        yield given
        return
    binaries = _server_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server is installed (pg_ctl not found)")
    # PostgreSQL refuses to run as root, so that its directory must lie where its own user can go.
    folder = Path("/tmp") / f"cereval-pg-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if as_user:
        shutil.chown(folder, "postgres")
    control = [*as_user, str(binaries / "pg_ctl"), "-D", str(folder / "data"), "-s", "-w"]
    quick = "-A trust -U tester --no-sync --no-instructions"
    try:
        subprocess.run([*control, "initdb", "-o", quick], check=True, stdout=subprocess.DEVNULL, cwd="/tmp")
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        subprocess.run([*control, "-l", str(folder / "log"), "-o", options, "start"], check=True, cwd="/tmp")
        yield f"postgresql://tester@/postgres?host={folder}"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=False, cwd="/tmp")
        shutil.rmtree(folder, ignore_errors=True)


def _fresh_database(url: str) -> str:
    import psycopg

    name = f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return url.replace("/postgres?", f"/{name}?")


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return _fresh_database(request.getfixturevalue("postgres"))
    return "sqlite://" if request.param == "memory" else f"sqlite:///{tmp_path}/runs.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = open_store(url)
    yield opened
    opened.close()
