"""`cereval tasks` with a model that is asked: the same answer as a replay, and what only tasks have.

Kills, budgets and forgers: test_kinds_live.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.live import content, run, write

from cereval.cli.main import main
from cereval.datasets.read import read_dataset
from cereval.models.scripted import ScriptedModel
from cereval.questions.tasks.goal import Macro
from cereval.questions.tasks.session import replay_tasks

SIZE = 300
MODEL = ("--model", "scripted/0.7")
SEEDED = ("--eps", "0.08", "--seed", "0")


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
    code, facts = run(capsys, "tasks", "--data", data, *MODEL, *SEEDED, "--report", "page.html")
    pool = read_dataset(data)
    model = ScriptedModel({item.text: str(item.answer) for item in pool.items}, 0.7)
    scores = [float(model.is_right(item.text)) for item in pool.items]
    expected = replay_tasks(
        scores, [item.category for item in pool.items], goal=Macro(0.08), seed=0
    ).as_dict()
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


def test_history_of_the_store_helps_and_can_be_left_out(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "run", data, "--model", "scripted/0.8", "--scorer", "exact", "--eps", "0.1")
    _, with_history = run(capsys, "tasks", data, *MODEL, "--eps", "0.1")
    _, without = run(capsys, "tasks", data, *MODEL, "--eps", "0.1", "--seed", "1", "--history", "none")
    assert content(with_history)["plan"]["side_information"] == ["groups", "history"]
    assert content(without)["plan"]["side_information"] == ["groups"]
    assert main(["verify", with_history["certificate"]]) == 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--items", "x.csv"), "--items must be left out"),
        (("--history", "others"), "`store` or `none`"),
        (("--by", "level", "--category", "level"), "--category must be left out"),
        (("--by", "nothing"), "'nothing'"),
        (("--data", "odd.jsonl"), "as arguments or with --data, and not both"),
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
    assert "--eps must be left out: only `run` and `gate` can change it" in capsys.readouterr().err


@pytest.mark.usefixtures("data")
def test_flags_of_asking_are_refused_for_recorded_scores(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{number},{score}" for number, score in enumerate(np.tile([0, 1], 20))]
    Path("scores.csv").write_text("item,m\n" + "\n".join(rows))
    assert main(["tasks", "scores.csv", "--model", "m", "--max-tokens", "5"]) == 1
    assert "--max-tokens must be given only where models are asked" in capsys.readouterr().err
