"""Every store the suite must pass on: SQLite always, PostgreSQL where its server is installed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.postgres import Cluster, cluster, fresh_database, server_binaries

from cereval.store.base import Store, open_store


def started() -> Iterator[Cluster]:
    """A server of our own; skip, and say so, where none is installed."""
    pytest.importorskip("psycopg", reason="pip install 'cereval[postgres]'")
    binaries = server_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server is installed (pg_ctl not found)")
    with cluster(binaries) as server:
        yield server


@pytest.fixture(scope="session")
def own_server() -> Iterator[Cluster]:
    """A server that all tests share, and that none of them stops."""
    yield from started()


@pytest.fixture(scope="module")
def frail_server() -> Iterator[Cluster]:
    """A server that the tests of a module stop and start."""
    yield from started()


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> str:
    """The URL of a server of our own, or of `CEREVAL_TEST_POSTGRES`."""
    pytest.importorskip("psycopg", reason="pip install 'cereval[postgres]'")
    given = os.environ.get("CEREVAL_TEST_POSTGRES")
    return given if given is not None else str(request.getfixturevalue("own_server").url)


@pytest.fixture
def database(postgres: str) -> str:
    """The URL of a fresh database."""
    return fresh_database(postgres)


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("database"))
    return "sqlite://" if request.param == "memory" else f"sqlite:///{tmp_path}/runs.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = open_store(url)
    yield opened
    opened.close()
