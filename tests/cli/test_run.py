"""`run`, `resume`, `runs`, `verify` and `gate` against a real server process on loopback."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.model_server import FaultyModel
from benchmarks.serving import command, questions, run_flags, served
from tests.cli.live import replacing, settled

from cereval.cli.main import main

RESULT = [
    "estimate",
    "lower",
    "upper",
    "half_width",
    "confidence",
    "n_evaluated",
    "n_items",
    "saved",
    "stopped",
    "method",
    "guarantee",
    "target",
    "seed",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served")
    questions(path, 600)
    return path


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with served(folder / "key.json", "--delay", "0.01") as address:
        yield address


@pytest.fixture(scope="module")
def slow_url(folder: Path) -> Iterator[str]:
    """For runs that are to be ended by hand: 600 calls of a twentieth of a second are half a minute for one."""
    with served(folder / "key.json", "--delay", "0.05") as address:
        yield address


def truth(folder: Path, accuracy: float = 0.7) -> float:
    return FaultyModel(json.loads((folder / "key.json").read_text()), accuracy).true_accuracy()


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def go(folder: Path, url: str, store: Path, **flags: Any) -> int:
    return main(["run", *run_flags(folder / "questions.jsonl", url, store, **flags)])


def test_the_names_that_scripts_rely_on(
    folder: Path, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "runs.db"
    assert go(folder, url, store, eps=0.08) == 0
    facts = printed(capsys)
    assert set(RESULT) < set(facts)
    assert facts["lower"] <= truth(folder) <= facts["upper"]
    assert facts["n_evaluated"] <= facts["calls"] <= facts["n_evaluated"] + 16
    assert facts["failures"] == 0
    assert facts["cost_usd"] is None
    assert main(["runs", "--store", f"sqlite:///{store}", "--json"]) == 0
    (run,) = printed(capsys)
    assert (run["run_id"], run["status"]) == (facts["run_id"], "finished")
    assert main(["verify", facts["certificate"]]) == 0
    assert "log in the store" in capsys.readouterr().out
    assert main(["resume", facts["run_id"], "--store", f"sqlite:///{store}", "--json"]) == 0
    again = printed(capsys)
    assert (settled(again), again["asked"]) == (settled(facts), 0)
    assert (
        main(["resume", facts["run_id"][:6], "--eps", "0.06", "--store", f"sqlite:///{store}", "--json"]) == 0
    )
    closer = printed(capsys)
    assert closer["half_width"] <= 0.06 + 1e-12
    assert closer["calls"] > facts["calls"]
    assert main(["verify", closer["certificate"]]) == 0


@pytest.mark.parametrize(
    ("minimum", "code", "decision"), [(0.5, 0, "above"), (0.9, 2, "below"), (0.7, 3, None)]
)
def test_gate_has_three_answers(
    folder: Path,
    url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    minimum: float,
    code: int,
    decision: str | None,
) -> None:
    flags = run_flags(folder / "questions.jsonl", url, tmp_path / "runs.db", eps=None, max_calls=150)
    assert main(["gate", *flags, "--min", str(minimum)]) == code
    facts = printed(capsys)
    assert facts["decision"] == decision
    assert main(["verify", facts["certificate"]]) == 0


def test_people_read_a_headline_and_progress_goes_to_stderr(
    folder: Path, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = run_flags(folder / "questions.jsonl", url, tmp_path / "runs.db", eps=0.15)
    assert main(["run", *flags[:-1]]) == 0
    shown = capsys.readouterr()
    assert "95% confidence" in shown.out.splitlines()[0]
    assert "within 15% at 95% confidence" in shown.err
    assert main(["runs", "--store", f"sqlite:///{tmp_path / 'runs.db'}"]) == 0
    told = capsys.readouterr().out
    assert "finished" in told
    assert " - " in told, "the server's price is not known"


def test_a_resumed_run_is_shown_with_its_new_goal_and_a_dry_run_in_words(
    folder: Path, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = run_flags(folder / "questions.jsonl", url, tmp_path / "runs.db", max_calls=20)
    assert main(["run", *flags[:-1], "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "within 5% at 95% confidence" in told
    assert "{" not in told
    assert main(["run", *flags]) == 3
    resumed = ["resume", printed(capsys)["run_id"], "--store", f"sqlite:///{tmp_path / 'runs.db'}"]
    assert main([*resumed, "--max-calls", "0"]) == 1
    assert "--max-calls must be a whole number >= 1, got 0" in capsys.readouterr().err
    assert main([*resumed, "--eps", "0.2", "--max-calls", "90"]) == 0
    assert "within 20% at 95% confidence" in capsys.readouterr().err.splitlines()[0]


def test_a_task_file_and_flags_that_win_over_it(
    folder: Path, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = folder / "task.yaml"
    task.write_text(
        f"data: questions.jsonl\nmodel: openai/m\nbase-url: {url}\nscorer: exact\ninput: ask\nanswer: gold\n"
        f"eps: 0.02\nstore: sqlite:///{tmp_path / 'runs.db'}\n-j: 4\n".replace("-j", "j")
    )
    assert main(["run", str(task), "--eps", "0.2", "--json", "--trust"]) == 0
    assert printed(capsys)["half_width"] <= 0.2
    assert main(["run", "--config", str(task), "--dry-run", "--json"]) == 0
    assert printed(capsys)["plan"]["goal"]["eps"] == 0.02


def test_a_dry_run_asks_nothing_and_leaves_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "runs.db"
    flags = run_flags(folder / "questions.jsonl", "http://127.0.0.1:9/v1", store)
    assert main(["run", *flags[:-1], "--dry-run", "--system", "Be brief."]) == 0
    assert "Be brief." in capsys.readouterr().out
    assert not store.exists()


def test_a_dry_run_keeps_to_the_limit_and_knows_when_all_are_asked(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = run_flags(folder / "questions.jsonl", "http://127.0.0.1:9/v1", tmp_path / "runs.db")[:-1]
    found = []
    for more in (["--max-calls", "12"], ["--method", "all"]):
        assert main(["run", *flags, "--dry-run", "--json", *more]) == 0
        found.append(printed(capsys)["expected_calls"])
    assert found == [12, 600]


def test_few_shot_examples_leave_the_pool(
    folder: Path, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert go(folder, url, tmp_path / "runs.db", eps=0.2, few_shot=3, template="Q: {{ question }}") == 0
    facts = printed(capsys)
    certificate = json.loads(Path(facts["certificate"]).read_text())
    assert facts["n_items"] == 597
    assert len(certificate["plan"]["candidates"][0]["prompt"]["examples"]) == 3


def test_a_spent_budget_is_exit_code_3(
    folder: Path, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "runs.db"
    assert go(folder, url, store, max_calls=40) == 3
    facts = printed(capsys)
    assert (facts["stopped"], facts["calls"]) == ("budget", 40)
    assert (
        main(["resume", facts["run_id"], "--max-calls", "70", "--store", f"sqlite:///{store}", "--json"]) == 3
    )
    facts = printed(capsys)
    assert facts["calls"] == 70
    assert main(["verify", facts["certificate"]]) == 0
    capsys.readouterr()
    assert go(folder, url, store, seed=2, max_usd=0.0001, price_in=1.0, price_out=2.0) == 3
    facts = printed(capsys)
    assert facts["stopped"] == "budget"
    assert 0 < facts["cost_usd"] <= 0.00012, "prices of calls in flight are not known in advance"


# -- crashes ---------------------------------------------------------


def test_the_first_ctrl_c_prints_the_interval_reached(folder: Path, slow_url: str, tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    flags = run_flags(folder / "questions.jsonl", slow_url, store, eps=0.01, max_connections=2)
    process = subprocess.Popen(
        command("run", *flags), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and not (store.exists() and _answers(store) > 20):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    facts = json.loads(out)
    assert process.returncode == 3
    assert facts["interrupted"]
    assert facts["n_evaluated"] > 0
    assert "Ctrl-C again" in err
    assert facts["calls"] == _answers(store)


def test_a_killed_run_is_shown_as_interrupted(
    folder: Path, slow_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "runs.db"
    flags = run_flags(folder / "questions.jsonl", slow_url, store, eps=0.01, max_connections=1)

    def status() -> str:
        assert main(["runs", "--store", f"sqlite:///{store}", "--json"]) == 0
        return str(printed(capsys)[0]["status"])

    process = subprocess.Popen(command("run", *flags), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not (store.exists() and _answers(store) > 5):
        time.sleep(0.05)
    assert status() == "running"
    assert main(["run", *flags]) == 1
    assert "another process works on the same command" in capsys.readouterr().err
    process.kill()
    process.wait()
    assert status() == "interrupted"
    assert main(["run", *replacing(flags, "--eps", "0.2")]) == 0


def _answers(store: Path) -> int:
    connection = sqlite3.connect(store)
    try:
        return int(connection.execute("select count(*) from answers").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()


# -- tampering, secrets, hostile answers ---------------------------------------------------------


def test_a_changed_log_in_the_store_is_found(
    folder: Path, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "runs.db"
    assert go(folder, url, store, eps=0.2) == 0
    path = printed(capsys)["certificate"]
    for change in (
        "update answers set score = 1 - score where draw = 3",
        "update draws set item = item + 1 where draw = 2",
        "update draws set probability = probability * 1.01 where draw = 4",
        "update items set content = replace(content, 'no. 5)', 'no. 6)') where item = 5",
        "delete from answers where draw = 1",
    ):
        saved = store.read_bytes()
        connection = sqlite3.connect(store)
        connection.execute("pragma foreign_keys = off")
        connection.execute(change)
        connection.commit()
        connection.execute("pragma wal_checkpoint(truncate)")
        connection.close()
        assert main(["verify", path]) == 2, change
        assert capsys.readouterr().out.startswith("invalid: ")
        store.write_bytes(saved)
    assert main(["verify", path]) == 0


def test_verify_says_when_it_cannot_check(
    folder: Path, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(tmp_path / "none.json")]) == 1
    assert go(folder, url, tmp_path / "runs.db", eps=0.2) == 0
    path = printed(capsys)["certificate"]
    assert main(["verify", path, "--store", f"sqlite:///{tmp_path / 'other.db'}"]) == 1
    assert "--store" in capsys.readouterr().err
    text = Path(path).read_text()
    for bad in ("{", text.replace('"lower"', '"lower": 0.1, "lower"', 1), text.replace("null", "NaN", 1)):
        Path(path).write_text(bad)
        assert main(["verify", path, "--json"]) == 2


@pytest.mark.parametrize(
    ("content", "code", "says"),
    [
        ("hello", 2, "c.json: broken JSON"),
        ("[1]", 2, "invalid: this is no certificate of cereval: it names no format"),
        ('{"format": ["x"]}', 2, "invalid: this is no certificate of cereval: its format is ['x']"),
        ('{"format": "other/1"}', 2, "invalid: this is no certificate of cereval: its format is 'other/1'"),
        ('{"format": "cereval-certificate/9"}', 1, "does not know the format 'cereval-certificate/9'"),
        ('{"format": "cereval-certificate/1"}', 2, "invalid: engine of the certificate must be given"),
    ],
)
def test_verify_says_what_is_no_certificate(
    content: str, code: int, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.json"
    path.write_text(content)
    assert main(["verify", str(path)]) == code
    told = capsys.readouterr().out
    assert says in told
    assert told.startswith("invalid: ") == (code == 2)


SECRET = "sk-verysecret-0123456789abcdef"


def test_the_key_is_nowhere(
    folder: Path,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert go(folder, url, tmp_path / "runs.db", eps=0.2) == 0
    assert go(folder, url + "/nowhere", tmp_path / "b.db") == 1
    told = capfd.readouterr()
    assert "nowhere" in told.err
    assert SECRET not in told.out + told.err
    assert not any(SECRET.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


def test_hostile_answers_break_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hostile.py").write_text(
        "ANSWERS = ['<script>alert(1)</script>', '\\x1b[2J\\x1b]0;owned\\x07', 'x' * 10_000_000, "
        "'a\\ud800b\\0c', '']\n"
        "def answer(messages):\n    return ANSWERS[int(messages[-1]['content'].split()[0]) % 5]\n"
    )
    questions = tmp_path / "q.csv"
    questions.write_text("question,answer\n" + "".join(f"{i} ?,a\ufffdb\ufffdc\n" for i in range(40)))
    model = f"python:{tmp_path / 'hostile.py'}:answer"
    flags = [
        "run",
        str(questions),
        "--model",
        model,
        "--eps",
        "0.3",
        "--store",
        f"sqlite:///{tmp_path / 'runs.db'}",
    ]
    assert main([*flags, "--max-calls", "20"]) in (0, 3)
    shown = capsys.readouterr()
    assert "\x1b]" not in shown.out + shown.err
    (path,) = tmp_path.glob("*.certificate.json")
    assert main(["verify", str(path)]) == 0
