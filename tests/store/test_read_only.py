"""Stores that may only be read, files that only their owner reads, ids that would lead elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from cereval.cli.main import main
from cereval.errors import StoreError
from cereval.files import write_whole
from cereval.store.base import open_store
from cereval.store.database import explain

QUIET = ("--display", "none", "--json")


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that may only be read, once `close` was called on it; to root too, as far as the mode goes."""
    folder = tmp_path / "fixed"
    folder.mkdir()

    def access(path: os.PathLike[str] | str, mode: int) -> bool:
        return Path(path).exists() and not (mode & os.W_OK and not Path(path).stat().st_mode & stat.S_IWUSR)

    if os.geteuid() == 0:
        monkeypatch.setattr(os, "access", access)
    yield folder
    folder.chmod(0o755)


def close(folder: Path, *, files: bool = True) -> dict[str, bytes]:
    """Take the permission to write away; return what the folder holds."""
    held = content(folder)
    for file in folder.iterdir() if files else ():
        file.chmod(0o444)
    folder.chmod(0o555)
    return held


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def begun(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    rows = [{"question": f"{n} + 1", "answer": str(n + 1)} for n in range(90)]
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    flags = ["--model", "scripted/0.7", "--eps", "0.2", "--store", f"sqlite:///{folder / 'runs.db'}"]
    assert main(["run", str(folder / "data.jsonl"), *flags, *QUIET]) == 0
    return str(json.loads(capsys.readouterr().out)["run_id"])


@pytest.mark.parametrize("files", [True, False])
def test_a_store_that_may_only_be_read_is_listed_reported_and_verified(
    files: bool, locked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begun(locked, capsys)
    before = close(locked, files=files)
    store = ("--store", f"sqlite:///{locked / 'runs.db'}")
    assert main(["runs", *store, "--json"]) == 0
    assert [one["run_id"] for one in json.loads(capsys.readouterr().out)] == [run]
    assert main(["report", run, *store, "-o", str(tmp_path / "page.html")]) == 0
    assert main(["show", run, *store]) == 0
    certificate = str(locked / f"{run}.certificate.json")
    capsys.readouterr()
    for given in (store, ()):
        assert main(["verify", certificate, *given]) == 0
        assert "store" in capsys.readouterr().out
    assert content(locked) == before


def test_what_is_still_in_the_log_is_read_or_missed_aloud(locked: Path) -> None:
    url = f"sqlite:///{locked / 'runs.db'}"
    writer = open_store(url)
    writer.create_run("a" * 12, {"format": 1}, "d", "m")
    assert (locked / "runs.db-wal").stat().st_size > 0
    shutil.copytree(locked, locked.parent / "torn")
    close(locked)
    reader = open_store(url)
    assert [run for run, _ in reader.plans()] == ["a" * 12]
    reader.close()
    locked.chmod(0o755)
    writer.close()
    torn = locked.parent / "torn"
    (torn / "runs.db-shm").unlink()
    close(torn)
    with pytest.raises(StoreError, match=r"runs\.db-wal; copy both"):
        open_store(f"sqlite:///{torn / 'runs.db'}")
    torn.chmod(0o755)


def test_going_on_in_it_is_refused_before_anybody_is_asked(
    locked: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begun(locked, capsys)
    before = close(locked)
    if os.geteuid() == 0:  # who may make a lock anywhere
        monkeypatch.setattr("cereval.store.locks._lock", _forbidden)
    flags = [
        "--store",
        f"sqlite:///{locked / 'runs.db'}",
        "--eps",
        "0.05",
        "-o",
        str(locked.parent / "c.json"),
    ]
    assert main(["resume", run, *flags, *QUIET]) == 1
    assert "may not be written to" in capsys.readouterr().err
    assert content(locked) == before


def _forbidden(path: Path) -> int:
    raise PermissionError(13, "Permission denied", str(path))


def test_another_programs_or_an_empty_file_is_refused(locked: Path) -> None:
    (locked / "empty.db").touch()
    with sqlite3.connect(locked / "other.db") as connection:
        connection.execute("create table others (name text)")
    connection.close()
    (locked / "text.db").write_text("no database, " * 100)
    close(locked)
    for name, line in {
        "empty": "another program, or empty",
        "other": "another program",
        "text": "not a",
    }.items():
        with pytest.raises(StoreError, match=line):
            open_store(f"sqlite:///{locked / name}.db")


# -- who may read, and where files go ---------------------------------------------------------------------------------


def test_stores_certificates_and_locks_are_their_owners(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begun(tmp_path, capsys)
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    assert main(["report", run, "--store", url, "-o", str(tmp_path / "page.html")]) == 0
    for ending in ("csv", "jsonl", "parquet"):
        assert main(["export", run, "--store", url, "-o", str(tmp_path / f"answers.{ending}")]) == 0
    flags = ["--model", "external/people", "--store", url, "--report", str(tmp_path / "asked.html")]
    assert main(["run", str(tmp_path / "data.jsonl"), *flags, *QUIET]) == 3
    asked = json.loads(capsys.readouterr().out.splitlines()[-1])["run_id"]
    for ending in ("csv", "jsonl"):
        assert main(["ask", asked, "--store", url, "-n", "2", "-o", str(tmp_path / f"batch.{ending}")]) == 0
    store = open_store(url)
    with store.hold(run):
        store.mark(run, "noted")
        made = [file for file in tmp_path.iterdir() if file.name != "data.jsonl"]
        names = {"runs", "page", "answers", "asked", "batch", asked, run}
        assert {file.name.partition(".")[0] for file in made} == names
        assert any("-held-" in file.name for file in made)
        assert {oct(file.stat().st_mode & 0o777) for file in made} == {"0o600"}
    store.close()


def test_a_store_that_was_opened_to_a_group_stays_so(tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path / 'runs.db'}").close()
    (tmp_path / "runs.db").chmod(0o640)
    store = open_store(f"sqlite:///{tmp_path / 'runs.db'}")
    with store.hold("a"):
        (lock,) = tmp_path.glob("*-held-*")
        assert lock.stat().st_mode & 0o777 == 0o640
    store.close()
    assert (tmp_path / "runs.db").stat().st_mode & 0o777 == 0o640


def test_no_link_is_followed_when_a_file_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr("cereval.files.secrets.token_hex", lambda _: "00")
    (tmp_path / "c.json.partial").symlink_to(victim)  # as it was named before
    (tmp_path / "d.json.00.partial").symlink_to(victim)
    write_whole(tmp_path / "c.json", "new")
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "d.json", "new")
    assert victim.read_text() == "precious"
    assert (tmp_path / "c.json").read_text() == "new"
    assert not list(tmp_path.glob("c.json.0*"))


@pytest.mark.parametrize("evil", ["../../outside", "/tmp/outside", "..", "a/b", "con", "0" * 65, "abc\n"])
def test_a_run_id_from_a_store_names_no_file_elsewhere(
    evil: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    run = begun(inner, capsys)
    with sqlite3.connect(inner / "runs.db") as connection:
        for table in ("runs", "events", "draws", "answers", "certificates"):
            connection.execute(f"update {table} set run_id = ? where run_id = ?", (evil, run))
    connection.close()
    monkeypatch.chdir(inner)
    before = {file for file in tmp_path.rglob("*") if "runs.db" not in file.name}
    assert main(["report", evil, "--store", "sqlite:///runs.db"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert {file for file in tmp_path.rglob("*") if "runs.db" not in file.name} == before


# -- servers ----------------------------------------------------------------------------------------------------------

SAID = {
    'connection failed: FATAL: password authentication failed for user "me"': "refuses the user or the password",
    "connection failed: fe_sendauth: no password supplied": "refuses the user or the password",
    'connection failed: FATAL: no pg_hba.conf entry for host "1.2.3.4"': "refuses the user or the password",
    'connection failed: FATAL: role "me" does not exist': "refuses the user or the password",
    'connection failed: FATAL: database "runs" does not exist': "does not exist; create the database first",
    "connection failed: Connection refused Is the server running?": "cannot be reached",
    "failed to resolve host 'nowhere': Name or service not known": "cannot be reached",
}


@pytest.mark.parametrize("said", SAID)
def test_what_a_server_refuses_is_told_apart(said: str) -> None:
    line = str(explain(make_url("postgresql+psycopg://me:pw@host/runs"), OSError(said)))
    assert SAID[said] in line
    assert "pw@" not in line


def test_a_missing_database_is_not_an_unreachable_one(postgres: str) -> None:
    with pytest.raises(StoreError, match="does not exist; create the database first"):
        open_store(postgres.replace("/postgres?", "/nowhere?"))
    with pytest.raises(StoreError, match="refuses the user"):
        open_store(postgres.replace("//tester@", "//nobody_here@"))
