"""`cereval extend` with a model that is asked: versions are runs, all hold at once, nothing is asked twice.

Kills, budgets and forgers: test_kinds_live.py.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli.live import run, settled, write
from tests.questions.replays import replay_growing

from cereval.cli.main import main
from cereval.datasets.read import read_dataset
from cereval.models.scripted import ScriptedModel
from cereval.questions.mean.goal import Estimate
from cereval.runner import loop
from cereval.runner.resume import recall_run
from cereval.store.base import open_store

FIRST, ALL = 240, 400
MODEL = ("--model", "scripted/0.7")
SEEDED = ("--eps", "0.1", "--seed", "5")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [{"question": f"{n} + 4?", "answer": str(n + 4)} for n in range(ALL)]
    write(tmp_path / "first.jsonl", rows[:FIRST])
    write(tmp_path / "new.jsonl", rows[FIRST:])
    write(tmp_path / "all.jsonl", rows)
    return tmp_path / "all.jsonl"


def grown(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two versions."""
    code, first = run(capsys, "extend", "--data", "first.jsonl", *MODEL, *SEEDED, *flags)
    assert (code, first["stopped"]) == (0, "goal")
    where = [*flags[flags.index("--store") :][:2]] if "--store" in flags else []
    _, second = run(capsys, "extend", first["run_id"], "--data", "new.jsonl", *where)
    return first, second


@pytest.mark.parametrize("target", ["benchmark", "population"])
def test_versions_are_what_a_replay_of_the_models_scores_is(
    data: Path, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    first, second = grown(capsys, "--target", target)
    pool = read_dataset(data)
    model = ScriptedModel({item.text: str(item.answer) for item in pool.items}, 0.7)
    scores = [float(model.is_right(item.text)) for item in pool.items]
    expected = replay_growing(scores, [FIRST, ALL], goal=Estimate(0.1), seed=5, target=target).as_dict()
    assert {name: second[name] for name in expected} == json.loads(json.dumps(expected))
    assert second["versions"][0] == first["versions"][0]
    assert (second["model"], second["goal"], second["eps"]) == ("scripted/0.7", "estimate", 0.1)
    for facts in (first, second):
        assert main(["verify", facts["certificate"]]) == 0
        assert "log in the store" in capsys.readouterr().out
    assert main(["report", second["run_id"], "-o", "page.html"]) == 0
    assert "all versions at once" in Path("page.html").read_text()


@pytest.mark.usefixtures("data")
def test_a_repeated_command_goes_on_and_a_whole_file_adds_what_is_new(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, second = grown(capsys)
    assert settled(run(capsys, "extend", "first.jsonl", *MODEL, *SEEDED)[1]) == settled(first)
    assert settled(run(capsys, "extend", first["run_id"], "--data", "new.jsonl")[1]) == settled(second)
    assert settled(run(capsys, "resume", second["run_id"])[1]) == settled(second)
    other = ("--store", "sqlite:///other.db")
    again, _ = grown(capsys, *other)
    _, whole = run(capsys, "extend", again["run_id"], "--data", "all.jsonl", *other)
    assert "error" in whole, "it was extended already"
    Path("other.db").unlink()
    assert run(capsys, "extend", "first.jsonl", *MODEL, *SEEDED, *other)[1]["run_id"] == first["run_id"]
    _, whole = run(capsys, "extend", first["run_id"], "--data", "all.jsonl", *other)
    assert whole["versions"] == second["versions"]


@pytest.mark.fresh
@pytest.mark.usefixtures("data")
def test_a_seed_that_nobody_knows_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    _, facts = run(capsys, "extend", "first.jsonl", *MODEL, "--eps", "0.1")
    _, again = run(capsys, "extend", "first.jsonl", *MODEL, "--eps", "0.1")
    assert settled(again) == settled(facts)
    assert facts["seed"] > 1000


@pytest.mark.fresh
@pytest.mark.usefixtures("data")
def test_a_run_with_a_known_seed_is_not_taken_for_one_without(capsys: pytest.CaptureFixture[str]) -> None:
    _, known = run(capsys, "extend", "first.jsonl", *MODEL, "--eps", "0.2", "--seed", "0")
    _, drawn = run(capsys, "extend", "first.jsonl", *MODEL, "--eps", "0.2")
    assert (known["seed"], drawn["run_id"] == known["run_id"]) == (0, False)
    assert drawn["seed"] > 1000


@pytest.mark.usefixtures("data")
def test_a_version_is_extended_by_one_process_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    _, first = run(capsys, "extend", "first.jsonl", *MODEL, *SEEDED, "--store", "sqlite:///a.db")
    store = open_store("sqlite:///a.db")
    with store.hold(first["run_id"]):
        line = ["extend", first["run_id"], "--data", "new.jsonl", "--store", "sqlite:///a.db"]
        code, refused = run(capsys, *line)
        assert (code, "another process works on" in refused["error"]) == (1, True)
    store.close()


@pytest.mark.usefixtures("data")
def test_a_corrected_answer_is_no_new_question(capsys: pytest.CaptureFixture[str]) -> None:
    _, first = run(capsys, "extend", "first.jsonl", *MODEL, *SEEDED)
    write(Path("mended.jsonl"), [{"question": "7 + 4?", "answer": "12"}])
    code, found = run(capsys, "extend", first["run_id"], "--data", "mended.jsonl")
    assert (code, "is asked already" in found["error"]) == (1, True)


@pytest.mark.usefixtures("data")
def test_limits_outlive_a_version_that_needed_no_call(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--target", "population", "--max-usd", "5", "--price-in", "1", "--price-out", "1")
    _, second = grown(capsys, *flags, "--store", "sqlite:///p.db")
    store = open_store("sqlite:///p.db")
    assert not store.draws(second["run_id"])
    assert recall_run(second["run_id"], store, {}).limits.max_usd == 5
    store.close()


@pytest.mark.usefixtures("data")
def test_new_questions_without_answers_do_not_block_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"question": f"{n} + 4?", "right": str(n + 4)} for n in range(FIRST, ALL)]
    write(Path("bare.jsonl"), rows)
    _, first = run(capsys, "extend", "first.jsonl", *MODEL, *SEEDED)
    code, found = run(capsys, "extend", first["run_id"], "--data", "bare.jsonl")
    assert (code, "name it with --answer" in found["error"]) == (1, True)
    code, found = run(capsys, "extend", first["run_id"], "--data", "bare.jsonl", "--answer", "right")
    assert (code, found["versions"][1]["n_items"]) == (0, ALL)


@pytest.mark.usefixtures("data")
def test_a_larger_sample_of_one_population_asks_only_what_the_goal_lacks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, second = grown(capsys, "--target", "population")
    assert (second["calls"], second["stopped"]) == (0, "goal")
    _, first = run(capsys, "extend", "first.jsonl", *MODEL, "--eps", "0.055", "--target", "population")
    assert first["stopped"] == "exhausted"
    code, more = run(capsys, "extend", first["run_id"], "--data", "new.jsonl")
    assert (code, more["stopped"]) == (0, "goal")
    assert 0 < more["calls"] - more["surplus"] == more["versions"][1]["calls"] < ALL - FIRST


def test_a_version_that_has_not_ended_is_resumed_before_it_is_extended(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a clock that goes on by a second for each call."""
    Path("lazy_model.py").write_text(
        "calls = []\n\ndef answer(messages):\n    calls.append(messages)\n    return 'x'\n"
    )
    monkeypatch.syspath_prepend(str(data.parent))
    calls = import_module("lazy_model").calls
    flags = ("--model", "python:lazy_model:answer", "--max-minutes", "0.25", "-j", "1", "--eps", "0.02")
    with monkeypatch.context() as then:
        then.setattr(loop, "time", SimpleNamespace(monotonic=lambda: float(len(calls))))
        then.setattr(loop, "TICK_S", 0.01)
        code, facts = run(capsys, "extend", "first.jsonl", *flags)
    assert (code, facts["stopped"]) == (3, "budget")
    assert main(["verify", facts["certificate"]]) == 0
    capsys.readouterr()
    assert "has not ended" in run(capsys, "extend", facts["run_id"], "--data", "new.jsonl")[1]["error"]
    code, facts = run(capsys, "resume", facts["run_id"], "--max-minutes", "10", "-j", "20")
    assert (code, facts["stopped"]) == (0, "goal")
    assert run(capsys, "extend", facts["run_id"], "--data", "new.jsonl")[0] == 0


@pytest.mark.usefixtures("data")
def test_worked_examples_do_not_become_questions(capsys: pytest.CaptureFixture[str]) -> None:
    _, first = run(capsys, "extend", "first.jsonl", *MODEL, *SEEDED, "--few-shot", "3")
    _, second = run(capsys, "extend", first["run_id"], "--data", "all.jsonl")
    assert [version["n_items"] for version in second["versions"]] == [FIRST - 3, ALL - 3]


WRONG: list[tuple[tuple[str, ...], str]] = [
    (("first.jsonl", *MODEL, "--items", "s.csv"), "--items must be left out"),
    (("first.jsonl", *MODEL, "--eps", "7"), "eps must be"),
    (("task.yaml", *MODEL), "not a task file"),
    ((*MODEL,), "DATA or SCORES must be given"),
    (("--data", "first.jsonl"), "--model must be given"),
    (("first.jsonl",), "--model must be given"),
    (("RUN", "--data", "first.jsonl"), "has no new item"),
    (("RUN", "--data", "new.jsonl", "--eps", "0.2"), "--eps must be left out for a new version"),
    (("RUN", "--data", "new.jsonl", *MODEL), "--model must be left out for a new version"),
    (("NAMED", "--data", "changed.jsonl"), "is not what it was"),
    (("OTHER", "--data", "new.jsonl"), "a run that `cereval extend` started"),
    (("nothing", "--data", "new.jsonl"), "nothing"),
]


@pytest.mark.usefixtures("data")
def test_errors_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"id": str(n), "question": f"{n} + 4?", "answer": str(n + 4)} for n in range(60)]
    write(Path("named.jsonl"), rows)
    Path("task.yaml").write_text("data: first.jsonl\nmix: a=1\n")
    write(Path("changed.jsonl"), [{**rows[0], "answer": "5"}])
    ids = {
        name: run(capsys, command, data, *MODEL, "--eps", "0.2")[1]["run_id"]
        for name, command, data in (
            ("RUN", "extend", "first.jsonl"),
            ("NAMED", "extend", "named.jsonl"),
            ("OTHER", "run", "first.jsonl"),
        )
    }
    for arguments, words in WRONG:
        code, found = run(capsys, "extend", *(ids.get(part, part) for part in arguments))
        assert (code, found["error"].count("\n")) == (1, 1), arguments
        assert words in found["error"]


@pytest.mark.usefixtures("data")
def test_a_version_keeps_its_question(capsys: pytest.CaptureFixture[str]) -> None:
    first, _ = grown(capsys)
    error = run(capsys, "resume", first["run_id"], "--eps", "0.3")[1]["error"]
    assert "--eps must be left out" in error
    # A budget would change a certificate that the next version's rests on.
    error = run(capsys, "resume", first["run_id"], "--max-calls", "20")[1]["error"]
    assert "RUN must be the newest version" in error
