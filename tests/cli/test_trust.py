"""Code and addresses in somebody else's store or task file are not used before this user has confirmed them."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.cli.live import write

import cereval
from cereval.cli.main import main
from cereval.datasets.base import Item, content_hash
from cereval.errors import Untrusted
from cereval.plan import Plan, candidate_spec
from cereval.runner.loop import GRACE_S
from cereval.runner.trust import Named, named_by_model, remember, require, trusted_file
from cereval.store.base import open_store

KEY = "sk-of-the-victim"
EVIL = """
from pathlib import Path
Path({marker!r}).touch()

def answer(messages):
    return messages[-1]["content"]

def score(output, item):
    return 1.0
"""
OWN = """
def answer(messages):
    return str(int(messages[-1]["content"].split()[0]) + 1)

def score(output, item):
    return output == item.answer
"""


class Receiver:
    """A server that notes the key of every request, and answers none."""

    def __init__(self) -> None:
        self.keys: list[str | None] = []
        receiver = self

        class Noting(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.keys.append(self.headers.get("Authorization"))
                self.send_error(500)

            def log_message(self, *_: object) -> None:  # type: ignore[override]
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Noting)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    found = Receiver()
    thread = threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join()


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that only the hostile code makes; its module lies in the working folder."""
    monkeypatch.chdir(tmp_path)
    found = tmp_path / "ran"
    (tmp_path / "evil_trust.py").write_text(EVIL.format(marker=str(found)))
    (tmp_path / "evil.gguf").write_bytes(b"GGUF")
    return found


def planted(
    *candidates: Any, scorer: Any = None, moved: str | None = None, kind: str = "estimate", **fields: Any
) -> str:
    """Write a run, interrupted before its first call, to a store as an attacker would; return its id."""
    items = tuple(Item(str(n), f"touch ran # {n}", answers=("x",)) for n in range(60))
    plan = Plan(
        kind=kind,
        goal={"goal": "estimate", "eps": 0.1},
        data_hash=content_hash(items),
        n_items=len(items),
        candidates=tuple(candidate_spec(one) if isinstance(one, str) else one for one in candidates),
        scorer=scorer or {"spec": {"name": "exact"}, "judge": None, "judge_base_url": None},
        **fields,
    )
    store = open_store("sqlite:///cereval.db")
    store.add_items(plan.data_hash, (item.as_dict() for item in items))
    store.create_run(plan.run_id, plan.as_dict(), plan.data_hash, plan.name, cereval.ENGINE)
    store.mark(plan.run_id, "running", {} if moved is None else {"base_url": moved})
    store.close()
    return plan.run_id


def asked(url: str | None = None, name: str = "openai/m") -> Any:
    return candidate_spec(name, base_url=url)


def judged(judge: str, url: str | None = None) -> dict[str, Any]:
    return {"spec": {"name": "grade"}, "judge": [judge], "judge_base_url": url}


SPEC = {"goal": "estimate", "eps": 0.1}
EXACT = "scripted/0.5"
GROWTH = {"kind": "growing", "method": "growing", "growth": {"sizes": [60], "after": None}}
ATTACKS: dict[str, Callable[[str], str]] = {
    "a function of Python's": lambda _: planted("python:subprocess:getoutput"),
    "a module": lambda _: planted("python:evil_trust:answer"),
    "a file": lambda _: planted("python:evil_trust.py:answer"),
    "a model file": lambda _: planted("gguf:evil.gguf"),
    "a scorer": lambda _: planted(EXACT, scorer={"spec": {"name": "python", "function": "evil_trust:score"}}),
    "a scorer in words": lambda _: planted(EXACT, scorer={"spec": "python:evil_trust.py:score"}),
    "a judge": lambda _: planted(EXACT, scorer=judged("python:evil_trust:answer")),
    "an unwanted judge": lambda _: planted(
        EXACT, scorer=judged("python:evil_trust:answer") | {"spec": {"name": "exact"}}
    ),
    "an address": lambda url: planted(asked(url)),
    "an address that moved": lambda url: planted(asked(), moved=url),
    "a judge's address": lambda url: planted(EXACT, scorer=judged("openai/j", url)),
    "the judge at the model's": lambda url: planted(asked(url), scorer=judged("openai/j")),
    "the second of two": lambda url: planted(EXACT, asked(url), kind="compare", method="auto"),
    "one of many": lambda _: planted(EXACT, "python:evil_trust:answer", kind="rank"),
    "growing data": lambda _: planted("python:evil_trust:answer", **GROWTH),
    "letters for a terminal": lambda _: planted("python:evil_trust\x1b[31m\n:answer"),
}


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that must end in one line; return it."""
    capsys.readouterr()
    assert main([*arguments, "--display", "none"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1, told.err
    assert told.err.rstrip("\n").isprintable()
    assert KEY not in told.err
    return told.err


@pytest.mark.parametrize("attack", ATTACKS)
def test_resuming_a_store_from_elsewhere_runs_and_sends_nothing(
    attack: str, marker: Path, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(capsys, "resume", ATTACKS[attack](receiver.url))
    assert "--trust" in line
    assert any(sign in line for sign in ("evil", "getoutput", receiver.url))
    assert not marker.exists()
    assert receiver.keys == []


def test_extending_and_rescoring_are_no_way_around(
    marker: Path, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    growing = planted("python:evil_trust:answer", max_calls=1, **GROWTH)
    write(Path("more.jsonl"), [{"id": "new", "question": "2 + 2", "answer": "4"}])
    refused(capsys, "extend", growing, "--data", "more.jsonl")
    scorer = planted(EXACT, scorer={"spec": {"name": "python", "function": "evil_trust:score"}})
    assert "--trust" in refused(capsys, "rescore", scorer)
    judge = planted(EXACT, scorer=judged("openai/j", receiver.url))
    assert "judge" in refused(
        capsys, "rescore", judge
    )  # without one typed, the stored judge is not asked at all
    assert not marker.exists()
    assert receiver.keys == []


def test_a_plan_that_was_changed_is_another(
    marker: Path, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    import sqlite3

    run = planted(EXACT)
    with sqlite3.connect("cereval.db") as connection:
        (text,) = connection.execute("select plan from runs").fetchone()
        text = text.replace("scripted/0.5", "python:evil_trust:answer")
        connection.execute("update runs set plan = ?", (text,))
    connection.close()
    assert "was changed" in refused(capsys, "resume", run, "--trust")
    assert not marker.exists()
    assert receiver.keys == []


@pytest.mark.parametrize(
    "part", [{}, {"model": 3}, {"model": ["python:x:y"]}, {"prompt": 1}, {"settings": 2}]
)
@pytest.mark.usefixtures("marker")
def test_a_plan_that_makes_no_sense_ends_in_one_line(
    part: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    refused(capsys, "resume", planted({**candidate_spec("x"), **part}))


@pytest.mark.parametrize(
    "setting",
    [
        "model: python:evil_trust:answer",
        "model: python:evil_trust.py:answer",
        "model: scripted/0.5\nscorer: python:evil_trust:score",
        "model: scripted/0.5\nscorer: grade\njudge: python:evil_trust:answer",
        "model: openai/m\nbase_url: {url}",
        "model: scripted/0.5\nscorer: grade\njudge: openai/j\njudge_base_url: {url}",
    ],
)
@pytest.mark.parametrize("how", ["run", "gate", "config", "python", "dry"])
def test_a_task_file_is_a_file_too(
    setting: str, how: str, marker: Path, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    write(Path("data.jsonl"), [{"question": f"touch ran # {n}", "answer": "x"} for n in range(40)])
    Path("task.yaml").write_text("data: data.jsonl\n" + setting.format(url=receiver.url))
    commands = {
        "run": ["run", "task.yaml"],
        "gate": ["gate", "task.yaml", "--min", "0.5"],
        "config": ["run", "data.jsonl", "--config", "task.yaml"],
        "dry": ["run", "task.yaml", "--dry-run"],
    }
    if how == "python":
        with pytest.raises(Untrusted, match="trust=True"):
            cereval.evaluate("task.yaml")
    else:
        assert "--trust" in refused(capsys, *commands[how])
    assert not marker.exists()
    assert receiver.keys == []
    assert not Path("cereval.db").exists()


def test_trust_cannot_be_given_by_the_file_itself(marker: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("task.yaml").write_text("data: d.jsonl\nmodel: python:evil_trust:answer\ntrust: true")
    assert "trust in task.yaml must be" in refused(capsys, "run", "task.yaml")
    assert not marker.exists()


def test_a_task_file_reads_data_elsewhere_only_where_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("mine", "theirs", "here"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "data.jsonl", [{"question": f"q {n}", "answer": "a"} for n in range(60)])
    monkeypatch.chdir(tmp_path / "here")
    task = tmp_path / "theirs" / "task.yaml"
    for data in (f"{tmp_path}/mine/data.jsonl", "../mine/data.jsonl"):
        task.write_text(f"data: {data}\nmodel: scripted/0.9\n")
        assert "read and send" in refused(capsys, "run", str(task))
    for data in ("data.jsonl", f"{tmp_path}/here/data.jsonl"):
        task.write_text(f"data: {data}\nmodel: scripted/0.9\n")
        assert main(["run", str(task), "--eps", "0.2", *FLAGS[4:]]) == 0


def test_a_file_cannot_give_a_models_name_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who types openai/gpt-4o must not certify what a file in the folder calls so."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "data.jsonl", [{"question": f"q {n}", "answer": "a"} for n in range(60)])
    Path("candidates.yaml").write_text("openai/gpt-4o: scripted/0.99\nmine: scripted/0.5\n")
    line = ["compare", "data.jsonl", "--model", "openai/gpt-4o", "--model", "mine"]
    assert main(line) == 1
    assert "must be no model's, but for its own, got 'openai/gpt-4o'" in capsys.readouterr().err
    Path("task.yaml").write_text("data: data.jsonl\ncandidates: {openai/gpt-4o: scripted/0.99}\n")
    assert main(["run", "task.yaml", "--model", "openai/gpt-4o"]) == 1
    Path("candidates.yaml").write_text("scripted/0.9: scripted/0.9\nmine: scripted/0.5\n")
    assert main([*line[:3], "scripted/0.9", *line[4:], "--within", "0.3", *FLAGS[4:]]) == 0


# -- what is one's own ------------------------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_trust.py").write_text(OWN)
    write(tmp_path / "data.jsonl", [{"question": f"{n} + 1", "answer": str(n + 1)} for n in range(90)])
    return tmp_path


FLAGS = ("--eps", "0.1", "--max-calls", "5", "--display", "none", "--json")


def run_id(capsys: pytest.CaptureFixture[str]) -> str:
    return str(json.loads(capsys.readouterr().out)["run_id"])


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("scorer", ["exact", "python:own_trust.py:score"])
def test_what_was_typed_is_resumed_without_a_word(scorer: str, capsys: pytest.CaptureFixture[str]) -> None:
    model = "python:own_trust.py:answer"
    assert main(["run", "data.jsonl", "--model", model, "--scorer", scorer, *FLAGS]) == 3
    assert main(["resume", run_id(capsys), "--max-calls", "60", "--display", "none", "--json"]) == 0
    path = trusted_file()
    assert path is not None
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert {one["what"] for one in json.loads(path.read_text())["trusted"].values()} >= {model}


def test_code_may_be_edited_but_not_moved(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "data.jsonl", "--model", "python:own_trust.py:answer", *FLAGS]) == 3
    run = run_id(capsys)
    with Path("own_trust.py").open("a") as file:
        file.write("\n# one more line\n")
    store = f"sqlite:///{own / 'cereval.db'}"
    assert main(["resume", run, "--max-calls", "9", "--store", store, "--display", "none", "--json"]) == 3
    (own / "elsewhere").mkdir()
    (own / "elsewhere" / "own_trust.py").write_text(OWN)
    os.chdir(own / "elsewhere")
    assert "elsewhere" in refused(capsys, "resume", run, "--store", store, "--max-calls", "12")


def test_what_is_confirmed_once_is_remembered(
    marker: Path, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    run = planted("python:evil_trust:answer")
    told = refused(capsys, "resume", run)
    assert str(marker.parent / "evil_trust.py") in told
    assert main(["resume", run, "--trust", "--max-calls", "3", "--display", "none"]) in (0, 3)
    assert marker.exists()
    assert main(["resume", run, "--max-calls", "6", "--display", "none"]) in (0, 3)
    # The address is another matter, and what was confirmed for one is not for the other.
    assert receiver.url in refused(capsys, "resume", planted(asked(receiver.url)))


def test_an_address_that_was_typed_or_is_in_the_environment_is_ones_own(
    own: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert own.exists()
    # The receiver answers nothing of use: its retries are not worth waiting for.
    monkeypatch.setitem(GRACE_S, "minutes", 0.1)
    run = planted(asked(receiver.url))
    monkeypatch.setenv("OPENAI_BASE_URL", receiver.url + "/")
    assert main(["resume", run, "--timeout", "2", "--display", "none", "--max-minutes", "0.001"]) in (1, 3)
    assert "--trust" not in capsys.readouterr().err
    monkeypatch.delenv("OPENAI_BASE_URL")
    refused(capsys, "resume", run)
    moved = ["resume", run, "--base-url", receiver.url, "--max-minutes", "0.001", "--display", "none"]
    assert main(moved) in (1, 3)
    assert "--trust" not in capsys.readouterr().err


def test_no_reader_opens_a_model_or_a_scorer(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--model", "python:own_trust.py:answer", "--scorer", "python:own_trust.py:score", *FLAGS)
    assert main(["run", "data.jsonl", *flags]) == 3
    run = run_id(capsys)
    (own / "own_trust.py").unlink()

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a reader opened what a store names")

    for place in ("runner.candidates.open_model", "runner.scoring.build_scorer", "imports.load_function"):
        monkeypatch.setattr(f"cereval.{place}", never)
    assert main(["runs", "--json"]) == 0
    assert main(["report", run]) == 0
    assert main(["show", run]) == 0
    assert main(["export", run, "-o", "answers.jsonl"]) == 0
    assert main(["verify", f"{run}.certificate.json"]) == 0


# -- the file ---------------------------------------------------------------------------------------------------------

CODE = named_by_model("python:json:loads")


def test_a_file_of_others_or_a_broken_one_is_not_believed() -> None:
    remember(CODE)
    require(CODE, "it")
    path = trusted_file()
    assert path is not None
    path.chmod(0o666)
    with pytest.raises(Untrusted):
        require(CODE, "it")
    path.chmod(0o600)
    path.write_text("[" * 100_000)
    with pytest.raises(Untrusted):
        require(CODE, "it")
    remember(CODE)
    require(CODE, "it")


def test_without_a_place_to_write_it_holds_while_the_process_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "a file"))
    monkeypatch.setattr("cereval.runner.trust._unwritten", set())
    with pytest.raises(Untrusted):
        require(CODE, "it")
    remember(CODE)
    require(CODE, "it")


def test_many_are_told_in_one_line_and_none_is_confused_with_another() -> None:
    names = [Named("address", f"http://host-{n}/v1") for n in range(9)]
    with pytest.raises(Untrusted, match="5 more") as caught:
        require(names, "it")
    assert "\n" not in str(caught.value)
    assert len({one.digest for one in [*names, Named("code", "http://host-1/v1"), *CODE]}) == 11


def test_openai_itself_needs_no_word() -> None:
    assert (
        named_by_model("openai/gpt-4o") == named_by_model("openai/gpt-4o", "https://API.openai.com/v1/") == ()
    )
    assert named_by_model("openai/gpt-4o", "http://api.openai.com/v1") != ()
