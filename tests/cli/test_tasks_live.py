"""`cereval tasks` with a model that is asked: the same answer as a replay, kept through kills, budgets and failures."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.certificate.test_audit import forge
from tests.cli.live import answered, content, process, run, slow_model, write

from cereval.certificate.base import chained, digest
from cereval.certificate.tasks import verify
from cereval.cli.main import main
from cereval.datasets.read import read_dataset
from cereval.goals.tasks import Macro
from cereval.models.scripted import ScriptedModel
from cereval.plan import digest_of
from cereval.sessions.tasks import tasks

__all__ = ["slow_model"]

SIZE = 300
MODEL = ("--model", "scripted/0.7")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [
        {"question": f"{n} + 4?", "answer": str(n + 4), "category": "abc"[n % 3], "level": n % 2}
        for n in range(SIZE)
    ]
    write(tmp_path / "sums.jsonl", rows)
    write(tmp_path / "even.jsonl", rows[::2])
    write(tmp_path / "odd.jsonl", rows[1::2])
    return tmp_path / "sums.jsonl"


def test_a_run_is_what_a_replay_of_the_models_scores_is(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, facts = run(capsys, "tasks", "--data", data, *MODEL, "--eps", "0.08", "--report", "page.html")
    pool = read_dataset(data)
    model = ScriptedModel({item.text: str(item.answer) for item in pool.items}, 0.7)
    scores = [float(model.is_right(item.text)) for item in pool.items]
    expected = tasks(scores, [item.category for item in pool.items], goal=Macro(0.08)).as_dict()
    assert (code, facts["stopped"]) == (0, "goal")
    assert {name: facts[name] for name in expected} == json.loads(json.dumps(expected))
    assert (facts["model"], facts["goal"], facts["eps"]) == ("scripted/0.7", "macro", 0.08)
    assert 0 <= facts["surplus"] <= 8
    assert main(["verify", facts["certificate"]]) == 0
    assert "log in the store" in capsys.readouterr().out
    assert main(["report", facts["run_id"], "-o", "again.html"]) == 0
    assert Path("again.html").read_text() == Path("page.html").read_text()
    assert "Every task" in Path("page.html").read_text()


def test_several_files_are_several_tasks_and_by_names_the_field(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, facts = run(capsys, "tasks", "even.jsonl", "odd.jsonl", *MODEL, "--each-eps", "0.15")
    assert code == 0
    assert {name: task["n_items"] for name, task in facts["tasks"].items()} == {"even": 150, "odd": 150}
    assert content(facts)["plan"]["data_name"] == "even.jsonl, odd.jsonl"
    assert main(["verify", facts["certificate"]]) == 0
    capsys.readouterr()
    code, facts = run(capsys, "tasks", data, *MODEL, "--by", "level", "--at-least", "0.9")
    assert (code, facts["decision"], set(facts["tasks"])) == (2, "some-fail", {"0", "1"})


def test_the_connections_change_nothing(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("tasks", data, *MODEL, "--which-fail", "0.6")
    one = run(capsys, *flags, "-j", "1", "--store", "sqlite:///one.db", "-o", "one.json")[1]
    many = run(capsys, *flags, "-j", "40", "--store", "sqlite:///many.db", "-o", "many.json")[1]
    assert one["tasks"] == many["tasks"]
    assert content(one) == content(many)


def test_a_spent_budget_goes_on_and_the_change_is_verified(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, facts = run(capsys, "tasks", data, *MODEL, "--eps", "0.05", "--max-calls", "40")
    assert (code, facts["stopped"], facts["calls"]) == (3, "budget", 40)
    code, more = run(capsys, "resume", facts["run_id"], "--max-calls", "90")
    assert (code, more["stopped"], more["calls"]) == (3, "budget", 90)
    certificate = content(more)
    assert [change["max_calls"] for change in certificate["changes"]] == [90]
    assert verify(certificate).valid
    certificate["changes"][0]["max_calls"] = 200
    certificate["digest"] = digest(certificate)
    assert verify(certificate).status == "invalid"
    code, done = run(capsys, "resume", facts["run_id"], "--max-calls", "300")
    assert (code, done["stopped"]) == (0, "goal")
    assert main(["verify", done["certificate"]]) == 0


def test_time_ends_a_run_and_its_certificate_says_so(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("idle_model.py").write_text(
        "import time\n\ndef answer(text):\n    time.sleep(0.01)\n    return 'x'\n"
    )
    monkeypatch.syspath_prepend(str(data.parent))
    flags = ("--model", "python:idle_model:answer", "--max-minutes", "0.005", "-j", "1")
    code, facts = run(capsys, "tasks", data, *flags, "--eps", "0.001")
    assert (code, facts["stopped"]) == (3, "budget")
    assert facts["n_evaluated"] < SIZE
    assert main(["verify", facts["certificate"]]) == 0


@pytest.mark.usefixtures("slow_model")
def test_killed_and_resumed_is_bit_for_bit_the_uninterrupted_run(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [
        str(data),
        "--model",
        "python:slow_model:answer",
        "--eps",
        "0.06",
        "-j",
        "4",
        "--display",
        "none",
    ]
    with monkeypatch.context() as there:
        there.chdir("whole")
        assert main(["tasks", *flags]) == 0
    capsys.readouterr()
    for answers in (0, 40):
        at_work = process("killed", "tasks", *flags)
        while at_work.poll() is None and len(answered("killed")) <= answers:
            time.sleep(0.005)
        at_work.kill()
        at_work.wait()
        kept = answered("killed")
        Path("killed/asked.txt").write_text("")
    assert len(kept) > 40
    assert main(["runs", "--store", "sqlite:///killed/cereval.db", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["status"] == "interrupted"
    half = ["report", found["run_id"], "--store", "sqlite:///killed/cereval.db", "-o", "half.html"]
    assert main(half) == 0
    assert "The goal was not reached" in Path("half.html").read_text()
    assert process("killed", "resume", found["run_id"], "--display", "none").wait() == 0
    asked = Path("killed/asked.txt").read_text().splitlines()
    assert asked
    assert not kept & {line.split()[0] for line in asked}
    name = f"{found['run_id']}.certificate.json"
    assert Path("killed", name).read_bytes() == Path("whole", name).read_bytes()
    assert content({"certificate": Path("whole", name)})["result"]["failures"] > 0
    assert main(["verify", str(Path("killed", name))]) == 0


def test_history_of_the_store_helps_and_can_be_left_out(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "run", data, "--model", "scripted/0.8", "--scorer", "exact", "--eps", "0.1")
    _, with_history = run(capsys, "tasks", data, *MODEL, "--eps", "0.1")
    _, without = run(capsys, "tasks", data, *MODEL, "--eps", "0.1", "--seed", "1", "--history", "none")
    assert content(with_history)["plan"]["side_information"] == ["groups", "history"]
    assert content(without)["plan"]["side_information"] == ["groups"]
    assert main(["verify", with_history["certificate"]]) == 0


PLACES = ("result", "draws", "settings", "changes", "plan.tasks", "plan.goal")


def test_a_forger_who_repairs_the_hashes_is_found(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, facts = run(capsys, "tasks", data, *MODEL, "--eps", "0.1", "--max-calls", "30")
    _, facts = run(capsys, "resume", facts["run_id"], "--max-calls", "50")
    for number in range(12):
        forged = content(facts)
        where = forge(forged, random.Random(number), only=PLACES[number % len(PLACES)])
        assert verify(repaired(forged)).status == "invalid", where


def test_only_the_store_tells_that_another_prompt_was_used(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, facts = run(capsys, "tasks", data, *MODEL, "--eps", "0.1", "--max-calls", "30")
    forged = content(facts)
    forged["plan"]["prompt"]["system"] = "Think hard."
    Path("forged.json").write_text(json.dumps(repaired(forged)))
    assert main(["verify", "forged.json", "--store", "sqlite:///cereval.db"]) == 1
    assert forged["run_id"] in capsys.readouterr().err


def repaired(forged: dict[str, Any]) -> dict[str, Any]:
    forged["run_id"] = digest_of(forged["plan"])[:12]
    forged["chain"] = chained(digest_of(forged["settings"]), forged["log"])
    forged["digest"] = digest(forged)
    return forged


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--items", "x.csv"), "--items must be left out"),
        (("--history", "others"), "`store` (the default) or `none`"),
        (("--by", "level", "--category", "level"), "--category must be left out"),
        (("--by", "nothing"), "'nothing'"),
        (("--data", "odd.jsonl"), "SCORES or DATA must be given"),
        (("--max-usd", "-1"), "--max-usd must be"),
        (("--eps", "7"), "eps must be"),
    ],
)
def test_errors_are_one_line_and_ask_nothing(
    data: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], words: str
) -> None:
    code, found = run(capsys, "tasks", data, *MODEL, *flags)
    assert (code, found["error"].count("\n")) == (1, 1)
    assert words in found["error"]


def test_what_does_not_fit_many_files_is_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("chosen.jsonl"), [{"question": "which?", "choices": ["x", "y"], "answer": "A"}])
    write(Path("bare.jsonl"), [{"question": "1 + 1?", "answer": "2"}])
    both = ("tasks", "--data", "even.jsonl", "--data", "odd.jsonl", *MODEL)
    assert "--by must be left out" in run(capsys, *both, "--by", "level")[1]["error"]
    assert "--few-shot must be left out" in run(capsys, *both, "--few-shot", "2")[1]["error"]
    assert "--scorer must be given" in run(capsys, *both, "--data", "chosen.jsonl")[1]["error"]
    write(Path("silent.jsonl"), [{"question": "1 + 1?", "right": "2"}])
    assert "silent" in run(capsys, *both, "--data", "silent.jsonl", "--scorer", "exact")[1]["error"]
    four = {"choices": ["w", "x", "y", "z"]}
    for name, answers in (("one", (1, 2, 4)), ("other", (1, 2, 3))):
        write(Path(f"{name}.jsonl"), [{"question": f"{n}?", "answer": n, **four} for n in answers])
    assert "from 0 or from 1" in run(capsys, "tasks", "one.jsonl", "other.jsonl", *MODEL)[1]["error"]
    assert "different names" in run(capsys, "tasks", data, data, *MODEL)[1]["error"]
    assert "--by must be" in run(capsys, "tasks", "bare.jsonl", *MODEL)[1]["error"]
    _, facts = run(capsys, *both, "--max-calls", "5")
    assert main(["resume", facts["run_id"], "--eps", "0.3"]) == 1
    assert "many tasks or growing data, which keep their question" in capsys.readouterr().err


@pytest.mark.usefixtures("data")
def test_flags_of_asking_are_refused_for_recorded_scores(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{number},{score}" for number, score in enumerate(np.tile([0, 1], 20))]
    Path("scores.csv").write_text("item,m\n" + "\n".join(rows))
    assert main(["tasks", "scores.csv", "--model", "m", "--max-tokens", "5"]) == 1
    assert "--max-tokens must be given only where models are asked" in capsys.readouterr().err
