"""Results to come back to: answers kept, shown, exported, scored again, handed out, told and deleted."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.cli.live import replacing

from cereval.cli.main import main
from cereval.store.base import opened_store

Capture = pytest.CaptureFixture[str]
ROWS = ("item", "prompt", "answer", "score", "asked_at")


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder with 120 questions."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": f"q{n}", "question": f"{n} + 1?", "answer": str(n + 1), "category": "ab"[n % 2]}
        for n in range(120)
    ]
    Path("q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def told(capsys: Capture, *arguments: str, code: int = 0) -> Any:
    """Carry out a command with --json and give what it printed."""
    capsys.readouterr()
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def ran(capsys: Capture, *more: str, model: str = "scripted/0.7", code: int = 0) -> Any:
    line = replacing(["run", "q.jsonl", "--model", model, "--eps", "0.15", "--display", "none"], *more)
    return told(capsys, *line, code=code)


def test_no_answer_is_paid_for_twice_and_gate_asks_anew(capsys: Capture) -> None:
    first = ran(capsys)
    assert (first["asked"], first["kept"]) == (first["calls"], 0)
    again = ran(capsys)
    assert (again["run_id"], again["asked"], again["kept"]) == (first["run_id"], 0, first["calls"])
    closer = ran(capsys, "--eps", "0.1")
    assert closer["kept"] > 0
    assert closer["asked"] + closer["kept"] == closer["calls"]
    gate = ["gate", "q.jsonl", "--model", "scripted/0.7", "--min", "0.4", "--display", "none"]
    assert told(capsys, *gate)["kept"] == 0
    assert told(capsys, *gate, "--reuse", "--seed", "9")["kept"] > 0
    assert told(capsys, *gate, "--max-age", "7d", "--seed", "8")["kept"] > 0
    assert ran(capsys, "--revision", "new", "--seed", "4")["kept"] == 0
    assert ran(capsys, "--max-age", "0s", "--seed", "5")["kept"] == 0


def test_a_gate_decides_by_what_is_served_now(capsys: Capture) -> None:
    Path("served.py").write_text(
        "def answer(messages):\n    return str(int(messages[-1]['content'].split()[0]) + 1)\n"
    )
    gate = ["gate", "q.jsonl", "--model", "python:served.py:answer", "--min", "0.5", "--display", "none"]
    assert told(capsys, *gate)["decision"] == "above"
    Path("served.py").write_text("def answer(messages):\n    return 'no'\n")
    worse = told(capsys, *gate, code=2)
    assert (worse["decision"], worse["kept"]) == ("below", 0)
    assert told(capsys, *gate, "--max-age", "1d", code=2)["run_id"] == worse["run_id"], "the newest"


def test_an_edited_scorer_scores_again(capsys: Capture) -> None:
    Path("mine.py").write_text("def score(output, item):\n    return float(output == item.answer)\n")
    first = ran(capsys, "--scorer", "python:mine.py:score")
    Path("mine.py").write_text("def score(output, item):\n    return float(output != item.answer)\n")

    second = ran(capsys, "--scorer", "python:mine.py:score")
    assert second["run_id"] != first["run_id"]
    assert second["estimate"] < 0.5 < first["estimate"]


def test_show_and_export_give_every_answer(capsys: Capture) -> None:
    run = ran(capsys)
    wrong = told(capsys, "show", run["run_id"], "--wrong", "-n", "500")["rows"]
    assert wrong
    assert all(row["score"] == 0 for row in wrong)
    for ending in ("jsonl", "csv", "parquet"):
        assert told(capsys, "export", run["run_id"], "-o", f"a.{ending}")["rows"] == run["calls"]
    lines = [json.loads(line) for line in Path("a.jsonl").read_text().splitlines()]
    assert set(ROWS) <= set(lines[0])
    table = pq.read_table("a.parquet").to_pylist()
    cells = list(csv.DictReader(Path("a.csv").read_text().splitlines()))
    assert [row["item"] for row in lines] == [row["item"] for row in table] == [row["item"] for row in cells]


def test_no_cell_of_an_export_is_a_formula(capsys: Capture) -> None:
    Path("sly.py").write_text("def answer(messages):\n    return '=cmd()'\n")
    run = ran(capsys, model="python:sly.py:answer")
    told(capsys, "export", run["run_id"], "-o", "a.csv")
    assert all(row["answer"] == "'=cmd()" for row in csv.DictReader(Path("a.csv").read_text().splitlines()))


def test_runs_are_found_by_model_data_tag_and_age(capsys: Capture) -> None:
    ran(capsys, "--name", "nightly", "--tag", "x")
    ran(capsys, model="scripted/0.4")
    assert [run["model"] for run in told(capsys, "runs", "--tag", "nightly")] == ["nightly"]
    assert [run["model"] for run in told(capsys, "runs", "--model", "0.4")] == ["scripted/0.4"]
    assert len(told(capsys, "runs", "--since", "1h")) == 2
    assert told(capsys, "runs", "--since", "2100-01-01") == []
    trend = told(capsys, "trend", "q.jsonl")["runs"]
    assert [run["model"] for run in trend] == ["nightly", "scripted/0.4"]
    assert all(run["lower"] <= run["estimate"] <= run["upper"] for run in trend)


def test_delete_removes_a_run_and_refuses_what_others_rest_on(capsys: Capture) -> None:
    first = ran(capsys)
    second = ran(capsys, model="scripted/0.4")
    capsys.readouterr()
    assert main(["delete", first["run_id"], "--yes"]) == 1
    assert second["run_id"] in capsys.readouterr().err
    assert told(capsys, "delete", second["run_id"], first["run_id"])["deleted"]
    assert told(capsys, "runs") == []


def test_rescore_asks_nobody(capsys: Capture) -> None:
    run = ran(capsys)
    again = told(capsys, "rescore", run["run_id"], "--scorer", "contains", "--display", "none")
    assert (again["asked"], again["run_id"] != run["run_id"]) == (0, True)
    assert again["lower"] == pytest.approx(run["lower"])


def test_questions_are_handed_out_and_told_in_any_order(capsys: Capture) -> None:
    run = ran(capsys, model="external/people", code=3)["run_id"]
    done = 3
    while done == 3:
        handed = [told(capsys, "ask", run, "-n", "12", "-o", name)["rows"] for name in ("a.jsonl", "b.jsonl")]
        rows = [
            json.loads(line)
            for name in ("b.jsonl", "a.jsonl")
            for line in Path(name).read_text().splitlines()
        ]
        assert len({row["draw"] for row in rows}) == sum(handed)
        for row in rows:
            row["score"] = float(int(row["item"][1:]) % 4 > 0)
        Path("told.jsonl").write_text("".join(json.dumps(row) + "\n" for row in reversed(rows)))
        capsys.readouterr()
        done = main(["tell", run, "told.jsonl", "--display", "none", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert result["lower"] <= 0.75 <= result["upper"]
    assert main(["verify", f"{run}.certificate.json"]) == 0
    Path("bad.jsonl").write_text(json.dumps({"draw": 0, "item": "q1", "score": 7}) + "\n")
    assert main(["tell", run, "bad.jsonl"]) == 1


def test_what_could_not_be_written_is_not_out(capsys: Capture) -> None:
    run = ran(capsys, model="external/people", code=3)["run_id"]
    Path("file").write_text("no folder", encoding="utf-8")
    assert main(["ask", run, "-n", "40", "-o", "file/a.csv"]) == 1
    assert told(capsys, "ask", run, "-n", "40", "-o", "a.csv")["rows"] > 9
    assert main(["ask", run, "-n", "40", "-o", "b.csv"]) == 0
    assert "no question to hand out: " in (line := capsys.readouterr().out)
    assert "are out, as many as may be" in line
    assert main(["ask", run, "-o", "b.csv", "--lease", "long"]) == 1
    assert "--lease must be a number and a unit" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_scores_that_were_not_told_are_not_written_over(name: str, capsys: Capture) -> None:
    run = ran(capsys, model="external/people", code=3)["run_id"]
    asked = ["ask", run, "-n", "4", "-o", name]
    assert told(capsys, *asked)["rows"] == 4
    filled = Path(name).read_text().replace('"score": null', '"score": 1')
    Path(name).write_text(re.sub(r",$", ",1", filled, flags=re.MULTILINE) if name == "a.csv" else filled)
    before = Path(name).read_text()
    assert main(asked) == 1
    assert "4 scores that were not told (`cereval tell" in capsys.readouterr().err
    assert Path(name).read_text() == before
    assert main(["tell", run, name, "--display", "none"]) == 3
    capsys.readouterr()
    assert told(capsys, *asked)["rows"] == 4, "once they are told, the file is free"
    while told(capsys, *asked)["rows"]:
        pass
    assert told(capsys, *asked)["rows"] == 0, "an empty batch is one too"


def test_ask_writes_over_no_file_of_another_kind(capsys: Capture) -> None:
    run = ran(capsys, model="external/people", code=3)["run_id"]
    before = Path("q.jsonl").read_text()
    assert main(["ask", run, "-o", "q.jsonl"]) == 1
    assert (
        "-o must be a new file, or one that `cereval ask` has written, got 'q.jsonl'"
        in capsys.readouterr().err
    )
    assert Path("q.jsonl").read_text() == before


def test_a_budget_on_the_way_counts_what_was_not_needed_too(capsys: Capture) -> None:
    """Draws that were decided before lie beyond a smaller budget, and are not asked; lists name the goal of now."""
    first = ran(capsys, "-j", "8")
    again = ["resume", first["run_id"], "--eps", "0.02", "--display", "none"]
    most = first["calls"] + 2
    closer = told(capsys, *again, "--max-calls", str(most), code=3)
    assert (closer["calls"], closer["surplus"], closer["asked"]) == (most, 0, 2)
    assert [run["goal"] for run in told(capsys, "runs")] == ["within 2%"]
    assert main(["run", "q.jsonl", "--model", "scripted/0.7", "--eps", "0.15"]) == 3
    said = capsys.readouterr().err
    assert (
        f"the goal of run {first['run_id']} was changed by `resume`: it is within 2% now, not within 15%"
        in said
    )


def test_a_goal_that_is_reached_is_not_widened(capsys: Capture) -> None:
    run = ran(capsys)["run_id"]
    before = Path(f"{run}.certificate.json").read_text()
    assert main(["resume", run, "--eps", "0.2", "--display", "none"]) == 1
    assert "--eps must be at most 0.15, which is reached, got 0.2" in capsys.readouterr().err
    assert Path(f"{run}.certificate.json").read_text() == before
    short = ran(capsys, "--max-calls", "10", "--seed", "5", code=3)["run_id"]
    assert told(capsys, "resume", short, "--eps", "0.45", "--display", "none")["stopped"] == "goal", (
        "it was far"
    )


def test_suggested_commands_name_the_store(capsys: Capture) -> None:
    Path("broken.py").write_text("def answer(messages):\n    raise RuntimeError('no')\n")
    here = ["--scorer", "exact", "--store", "sqlite:///else.db", "--display", "none"]
    assert main(["run", "q.jsonl", "--model", "python:broken.py:answer", *here]) == 1
    assert "--store sqlite:///else.db` asks again" in capsys.readouterr().err
    run = told(capsys, "run", "q.jsonl", "--model", "scripted/0.7", "--eps", "0.2", *here)["run_id"]
    assert main(["resume", run, "--store", "sqlite:///else.db", "--display", "none"]) == 0
    out = capsys.readouterr().out
    assert "nothing was asked" in out
    assert "--fresh" not in out, "`resume` has no such flag"


def test_all_of_the_answers_are_not_said_to_be_some(capsys: Capture) -> None:
    run = ran(capsys)
    for count, more in ((run["calls"], False), (run["calls"] - 1, True)):
        assert main(["show", run["run_id"], "-n", str(count)]) == 0
        assert ("-n for more" in capsys.readouterr().out) is more


def test_a_fresh_ranking_asks_models_anew_that_another_one_asked(capsys: Capture) -> None:
    def ranked(*models: str) -> Any:
        named = [word for name in models for word in ("--model", name)]
        flags = ["--scorer", "exact", "--fresh", "--seed", "1", "--display", "none"]
        return told(capsys, "rank", "q.jsonl", *named, *flags)

    first, second = (
        ranked("scripted/0.9", "scripted/0.5", "scripted/0.1"),
        ranked("scripted/0.9", "scripted/0.1"),
    )
    assert first["kept"] == second["kept"] == 0
    assert not {*first["runs"].values()} & {*second["runs"].values()}


def test_people_are_not_asked_again_what_they_told_an_earlier_run(capsys: Capture) -> None:
    def asked(run: str, name: str) -> list[Any]:
        told(capsys, "ask", run, "-n", "200", "-o", name)
        return [json.loads(line) for line in Path(name).read_text().splitlines()]

    first = ran(capsys, "--seed", "1", "--max-calls", "30", model="external/people", code=3)["run_id"]
    rows = [{**row, "score": float(number % 3 > 0)} for number, row in enumerate(asked(first, "a.jsonl"))]
    Path("told.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["tell", first, "told.jsonl", "--display", "none"]) == 3
    capsys.readouterr()
    second = ran(capsys, "--seed", "2", model="external/people", code=3)["run_id"]
    fresh = asked(second, "b.jsonl")
    assert not {row["item"] for row in fresh} & {row["item"] for row in rows}
    gate = ["gate", "q.jsonl", "--model", "external/people", "--min", "0.5", "--display", "none"]
    anew = told(capsys, *gate, code=3)["run_id"]
    assert {row["item"] for row in asked(anew, "c.jsonl")} & {row["item"] for row in rows}, (
        "what is to be fresh"
    )
    while fresh:
        Path("told.jsonl").write_text("".join(json.dumps({**row, "score": 1.0}) + "\n" for row in fresh))
        main(["tell", second, "told.jsonl", "--display", "none"])
        fresh = asked(second, "b.jsonl")
    assert main(["resume", second, "--display", "none"]) == 0
    assert main(["verify", f"{second}.certificate.json"]) == 0


@pytest.mark.parametrize(("status", "how"), [("running", "was interrupted"), ("failed", "failed")])
@pytest.mark.fresh
def test_a_gate_names_the_run_that_was_cut_short(status: str, how: str, capsys: Capture) -> None:
    gate = ["gate", "q.jsonl", "--model", "scripted/0.7", "--min", "0.4", "--display", "none"]
    left = told(capsys, *gate)["run_id"]
    with opened_store(None) as store:
        store.mark(left, status)
    assert main(gate) == 0
    said = f"run {left} {how}; this one asks anew, `cereval resume {left}` goes on with that"
    assert said in capsys.readouterr().err


@pytest.mark.fresh
def test_a_gate_names_the_run_that_waits_for_scores(capsys: Capture) -> None:
    gate = ["gate", "q.jsonl", "--model", "external/people", "--min", "0.4", "--display", "none"]
    left = told(capsys, *gate, code=3)["run_id"]
    assert main(gate) == 3
    assert f"run {left} waits for scores; this one asks anew, `cereval ask {left} -o batch.csv`" in (
        capsys.readouterr().err
    )
    assert main([*gate, "--max-calls", "2"]) == 3
    spent = told(capsys, *gate, "--max-calls", "2", code=3)["run_id"]
    told(capsys, "ask", spent, "-o", "a.jsonl")
    Path("a.jsonl").write_text(Path("a.jsonl").read_text().replace('"score": null', '"score": 1'))
    assert main(["tell", spent, "a.jsonl", "--display", "none"]) == 3
    capsys.readouterr()
    assert main([*gate, "--max-calls", "2"]) == 3
    assert "waits for scores" not in capsys.readouterr().err, "all that it may ask was told"


def test_people_are_asked_nothing_beyond_a_smaller_budget(capsys: Capture) -> None:
    run = ran(capsys, model="external/people", code=3)["run_id"]
    assert told(capsys, "ask", run, "-n", "9", "--lease", "0s", "-o", "a.jsonl")["rows"] == 9
    assert main(["resume", run, "--max-calls", "4", "--display", "none"]) == 3
    capsys.readouterr()
    assert told(capsys, "ask", run, "-n", "9", "-o", "b.jsonl")["rows"] == 4


def test_a_batch_of_another_run_is_not_written_over(capsys: Capture) -> None:
    """Its draws have the same numbers; its questions are others."""
    Path("p.jsonl").write_text(
        Path("q.jsonl").read_text().replace('"id": "q', '"id": "p').replace("+ 1?", "+ one?")
    )
    runs = []
    for data in ("q.jsonl", "p.jsonl"):
        run = told(capsys, "run", data, "--model", "external/people", "--display", "none", code=3)["run_id"]
        told(capsys, "ask", run, "-n", "3", "-o", f"{run}.jsonl")
        filled = Path(f"{run}.jsonl").read_text().replace('"score": null', '"score": 1')
        Path(f"{run}.jsonl").write_text(filled)
        runs.append(run)
    first, second = runs
    assert main(["tell", first, f"{first}.jsonl", "--display", "none"]) == 3
    capsys.readouterr()
    assert main(["ask", first, "-n", "3", "-o", f"{second}.jsonl"]) == 1
    assert "3 scores that were not told" in capsys.readouterr().err


def test_money_that_is_spent_leaves_a_run_as_it_was(capsys: Capture) -> None:
    Path("paid.py").write_text(
        "from cereval.models.base import Reply\n\n\n"
        "def answer(messages):\n    return Reply(str(len(messages[-1]['content'])), cost_usd=0.01)\n"
    )
    spent = ["--max-usd", "0.05", "-j", "1", "--seed", "1"]
    first = ran(capsys, *spent, model="python:paid.py:answer", code=3)
    again = ran(capsys, *spent, model="python:paid.py:answer", code=3)
    assert (again["run_id"], again["asked"]) == (first["run_id"], 0)
    assert [run["status"] for run in told(capsys, "runs")] == ["budget"]


def test_a_certificate_in_the_store_is_verified_by_its_run(capsys: Capture) -> None:
    run = ran(capsys)["run_id"]
    Path(f"{run}.certificate.json").unlink()
    assert told(capsys, "verify", run)["valid"]
    assert told(capsys, "verify", run[:6], "--store", "sqlite:///cereval.db")["valid"]
    with opened_store(None) as store:
        store.label(run, ["nightly"])
    assert told(capsys, "verify", "nightly")["valid"]
    assert main(["verify", "tomorrow"]) == 1
    assert "cereval.db has no single run 'tomorrow'" in capsys.readouterr().err
    with opened_store(None) as store:
        store.create_run("abc", {"format": "x", "kind": "estimate"}, "d", "m")
    assert main(["verify", "abc"]) == 1
    assert "run abc has no certificate yet: it is created" in capsys.readouterr().err
    assert main(["verify", "0" * 12]) == 1


def test_several_models_are_asked_outside_or_none(capsys: Capture) -> None:
    both = ["compare", "q.jsonl", "--model", "external/new", "--scorer", "exact", "--display", "none"]
    run = told(capsys, *both, "--model", "external/old", code=3)["run_id"]
    assert told(capsys, "ask", run, "-n", "6", "-o", "a.jsonl")["rows"] == 6
    for part in next(one["parts"] for one in told(capsys, "runs") if one["run_id"] == run):
        for command in (["resume"], ["ask", "-o", "part.csv"], ["tell", "a.jsonl"], ["rescore"], ["judge"]):
            assert main([command[0], part, *command[1:]]) == 1
            assert f"no part of a larger run: resume {run}" in capsys.readouterr().err
    models = {json.loads(line)["model"] for line in Path("a.jsonl").read_text().splitlines()}
    assert models == {"external/new", "external/old"}
    assert main([*both, "--model", "scripted/0.7"]) == 1
    assert "--model must be external/NAME for all candidates of a run, or for none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("scorer", "words"),
    [("python:target.py:score", "the second argument is the item"), ("choice", "has no choices")],
)
def test_a_scorer_that_cannot_fit_is_refused_first(scorer: str, words: str, capsys: Capture) -> None:
    Path("target.py").write_text("def score(output, target):\n    return float(output == target)\n")
    assert main(["run", "q.jsonl", "--model", "scripted/0.7", "--scorer", scorer]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("scorer", "words"),
    [
        ("exact", "--judge must be left out for the scorer `exact`, got 'openai/j'"),
        ("grad", "--scorer must be a known name (did you mean 'grade'?)"),
        (
            "grade",
            "the judge openai/j cannot be asked: OPENAI_API_KEY is not set; export your key, or give --judge-base-url",
        ),
    ],
)
def test_a_key_is_asked_for_only_where_a_judge_is_of_use(
    scorer: str, words: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    assert main(["run", "q.jsonl", "--model", "scripted/0.7", "--scorer", scorer, "--judge", "openai/j"]) == 1
    assert words in capsys.readouterr().err


def test_flags_that_would_be_ignored_are_refused(capsys: Capture) -> None:
    Path("s.csv").write_text("item,a,b\n" + "".join(f"{n},1,0\n" for n in range(40)))
    assert main(["compare", "s.csv", "--model", "a", "--model", "b", "--tag", "x"]) == 1
    run = ran(capsys)["run_id"]
    assert main(["rescore", run, "--rubric", "be strict"]) == 1
    assert "--rubric" in capsys.readouterr().err


def test_an_age_without_effect_is_said(capsys: Capture) -> None:
    asked = ["run", "q.jsonl", "--model", "scripted/0.7", "--eps", "0.15", "--display", "none"]
    assert main([*asked, "--fresh", "--max-age", "7d"]) == 0
    assert "--max-age has no effect with --fresh" in capsys.readouterr().err


def test_of_reusing_and_its_age_a_flag_wins_over_the_file(capsys: Capture) -> None:
    ran(capsys)
    for setting, flags, some in (
        ("fresh: true", ["--max-age", "7d"], True),
        ("max_age: 7d", ["--fresh"], False),
    ):
        Path("task.yaml").write_text(f"data: q.jsonl\nmodel: scripted/0.7\neps: 0.15\nseed: 9\n{setting}\n")
        assert bool(told(capsys, "run", "task.yaml", *flags, "--display", "none")["kept"]) == some


def test_names_that_nothing_has_are_refused_with_those_there_are(capsys: Capture) -> None:
    run = ran(capsys)["run_id"]
    assert main(["trend", "p.jsonl"]) == 1
    assert "DATA must be a question file, or the data of a run" in (line := capsys.readouterr().err)
    assert "did you mean 'q.jsonl'?), got 'p.jsonl'" in line
    assert main(["show", run, "--category", "c"]) == 1
    assert "--category must be a category of the data (there are " in capsys.readouterr().err
    assert told(capsys, "show", run, "--category", "a", "--contains", "nowhere")["rows"] == []


def test_a_new_version_has_its_own_tags(capsys: Capture) -> None:
    whole = Path("q.jsonl").read_text().splitlines(keepends=True)
    Path("first.jsonl").write_text("".join(whole[:100]))
    line = ["extend", "first.jsonl", "--model", "scripted/0.7", "--eps", "0.2", "--display", "none"]
    run = told(capsys, *line)["run_id"]
    told(capsys, "extend", run, "--data", "q.jsonl", "--tag", "v2", "--display", "none")
    assert [one["kind"] for one in told(capsys, "runs", "--tag", "v2")] == ["growing"]


def test_history_and_answers_follow_the_question_into_an_edited_file(capsys: Capture) -> None:
    """One question of 120 is worded anew, one is added, one is gone, all have other ids: the rest is known."""
    first = ran(capsys, "--max-calls", "120", "--eps", "0.01", "--no-history")
    assert first["asked"] == 120
    rows = [json.loads(line) for line in Path("q.jsonl").read_text().splitlines()]
    rows[5] |= {"question": "What comes after 5?"}
    edited = [
        {**row, "id": f"new-{row['id']}"} for row in (*rows[1:], {**rows[0], "question": "Zero and one?"})
    ]
    Path("edited.jsonl").write_text("".join(json.dumps(row) + "\n" for row in reversed(edited)))
    line = ["run", "edited.jsonl", "--eps", "0.01", "--display", "none"]
    again = told(capsys, *line, "--model", "scripted/0.7", "--no-history")
    assert (again["asked"], again["kept"]) == (2, 118)
    other = told(capsys, *line, "--model", "scripted/0.5", "-o", "other.json")
    assert other["method"] == "active"
    known = json.loads(Path("other.json").read_text())
    assert set(known["plan"]["history"]) == {first["run_id"], again["run_id"]}
    assert main(["verify", "other.json"]) == 0
    capsys.readouterr()
    assert main(["resume", other["run_id"], "--display", "none"]) == 0


def test_an_unrelated_file_with_the_same_ids_is_no_history(capsys: Capture) -> None:
    ran(capsys)
    rows = [{"id": f"q{n}", "question": f"{n} times 2?", "answer": str(2 * n)} for n in range(120)]
    Path("other.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for model in ("scripted/0.7", "scripted/0.4"):
        run = told(
            capsys,
            "run",
            "other.jsonl",
            "--model",
            model,
            "--eps",
            "0.2",
            "--display",
            "none",
            "-o",
            "c.json",
        )
        assert run["kept"] == 0
        assert run["run_id"] not in json.loads(Path("c.json").read_text())["plan"]["history"]
    plans = [one["run_id"] for one in told(capsys, "runs", "--data", "other")]
    assert set(json.loads(Path("c.json").read_text())["plan"]["history"]) == {plans[0]}


def test_a_template_that_shows_more_than_the_question_asks_anew(capsys: Capture) -> None:
    rows = [{"q": f"{n} + 1?", "answer": str(n + 1), "note": "a"} for n in range(60)]
    for name, note in (("a", "a"), ("b", "b")):
        told_rows = [{**row, "note": note} for row in rows]
        Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in told_rows))
    for template, kept in (("{{ note }}: {{ question }}", 0), ("{{ question }}", 60)):
        for name in ("a", "b"):
            line = ["run", f"{name}.jsonl", "--input", "q", "--model", "scripted/0.7", "--template", template]
            run = told(capsys, *line, "--eps", "0.001", "--display", "none", "--no-history")
        assert run["kept"] == kept
