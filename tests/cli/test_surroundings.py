"""What surrounds a command must not spoil it: planted files, a closed terminal, a full disk."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.live import QUIET, run, write
from tests.planted import plant

from cereval.cli.main import main
from cereval.store.sql import SqlStore
from cereval.view.app import Actions

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and devices of POSIX")
RUN = ("run", "q.jsonl", "--model", "scripted/0.9", "--seed", "1", "--eps", "0.2", *QUIET)
SLOW = "import time\n\ndef answer(messages):\n    time.sleep(0.05)\n    return 'x'\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "q.jsonl", [{"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(400)])
    return tmp_path


def start(*arguments: str, **more: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "cereval", *arguments]
    return subprocess.Popen(command, text=True, stderr=subprocess.PIPE, **more)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("script", [True, False])
def test_no_file_of_the_folder_stands_in_for_a_module(folder: Path, *, script: bool) -> None:
    planted = plant(folder, standard=script)
    command = (
        [str(Path(sys.executable).with_name("cereval"))] if script else [sys.executable, "-m", "cereval"]
    )
    fleet = {"models": ["scripted/0.9"], "data": "q.jsonl", "eps": 0.2, "seed": 1, "scorer": "exact"}
    (folder / "fleet.yaml").write_text(json.dumps(fleet))
    asked = (*RUN, "--max-calls", "5")
    others = ((0, ("runs",)), (0, ("fleet", "fleet.yaml", "--display", "none"))) if script else ()
    for code, arguments in ((3, asked), *others):
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == code, done.stderr
    assert not planted.exists()


def test_nor_where_the_view_goes_on_with_a_run(folder: Path) -> None:
    url = f"sqlite:///{folder / 'cereval.db'}"
    assert main([*RUN, "--max-calls", "5"]) == 3
    planted = plant(folder)
    store = SqlStore.open(url)
    (run,) = store.runs()
    actions = Actions(store, url)
    actions.resume(run, eps="0.2", max_calls="100")
    until = time.monotonic() + 120
    while (
        (now := store.runs()[0]).answers <= 5 and not actions.error(run.run_id) and time.monotonic() < until
    ):
        time.sleep(0.1)
    assert now.answers > 5
    assert (actions.error(run.run_id), planted.exists()) == ("", False)


def test_a_full_disk_behind_stdout_is_one_line(folder: Path) -> None:
    with Path("/dev/full").open("w") as full:
        process = start(*RUN, stdout=full)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    assert errors.startswith("error: the output could not be written")
    assert errors.count("\n") == 1
    assert main(["runs", "--store", f"sqlite:///{folder / 'cereval.db'}"]) == 0


def test_a_closed_stdout_is_no_error(folder: Path) -> None:
    line = f"{sys.executable} -m cereval {' '.join(RUN)} >&-"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_that_is_closed_leaves_a_certificate(folder: Path) -> None:
    (folder / "slow.py").write_text(SLOW)
    flags = ("--eps", "0.01", "--seed", "1", "-j", "1", "-o", "certificate.json", *QUIET)
    process = start("run", "q.jsonl", "--model", "python:slow.py:answer", *flags, stdout=subprocess.PIPE)
    while process.poll() is None and count_answers(folder / "cereval.db") < 5:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGHUP)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 3, errors
    assert json.loads(out)["interrupted"] is True
    assert main(["verify", "certificate.json"]) == 0


def count_answers(store: Path) -> int:
    if not store.exists():
        return 0
    connection = sqlite3.connect(store)
    try:
        return int(connection.execute("select count(*) from answers").fetchone()[0])
    except sqlite3.Error:
        return 0
    finally:
        connection.close()


@pytest.mark.usefixtures("folder")
def test_a_new_run_of_the_same_question_is_cheaper_than_going_on(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["run", "q.jsonl", "--model", "scripted/0.8", "--eps", "0.05", "--seed", "3", "--max-calls", "30"]
    assert main([*asked, "--display", "none"]) == 3
    errors = capsys.readouterr().err
    command = next(line for line in errors.splitlines() if "--new" in line)
    assert "takes fewer calls" in command
    code, first = run(capsys, *asked)
    assert code == 3
    code, new = run(capsys, "resume", first["run_id"], "--new")
    assert code == 0
    assert new["run_id"] != first["run_id"]
    assert new["kept"] > 0
    assert main(["resume", first["run_id"], "--max-calls", "400", "--display", "plain"]) == 0
    first_line = capsys.readouterr().err.splitlines()[1]
    assert "a new run takes about" in first_line
    assert f"cereval resume {first['run_id']} --new" in first_line
