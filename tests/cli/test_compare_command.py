"""`cereval compare` on recorded scores: answers, exit codes, certificate and page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.live import settled

from cereval.certificate.format import schema
from cereval.cli.main import main
from cereval.questions.compare.session import Comparison


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    skill = rng.beta(1, 0.6, size=400)
    columns = {
        name: rng.random(400) < skill + gap for name, gap in {"new": 0.2, "old": 0, "p1": 0, "p2": 0}.items()
    }
    columns["twin"] = columns["old"]
    lines = ["item," + ",".join(columns)]
    lines += [
        f"q{row}," + ",".join(str(int(column[row])) for column in columns.values()) for row in range(400)
    ]
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(lines))
    (tmp_path / "items.csv").write_text(
        "item,text,category\n" + "\n".join(f"q{row},sum {row},c{row % 3}" for row in range(400))
    )
    return path


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_better_model_is_named(scores: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["replay", "compare", str(scores), "--model", "new", "--model", "old", "--history", "others"]
    code, facts = printed(command, capsys)
    assert code == 0
    assert (facts["decision"], facts["stopped"], facts["guarantee"]) == ("first", "goal", "anytime")
    assert 0 <= facts["lower"] <= facts["difference"] <= facts["upper"]
    assert facts["n_evaluated"] < facts["n_items"] == 400
    assert facts["truth_inside"]
    assert main(command) == 0
    line = capsys.readouterr().out.splitlines()[0]
    assert re.match(
        r"new is better than old by \d+\.\d points \(.*\), 95% confidence, \d+ of 400 questions", line
    )


def test_a_difference_is_told_with_its_number(scores: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["replay", "compare", str(scores), "--model", "old", "--model", "new", "--within", "0.1"]
    assert main(command) == 0
    assert re.match(
        r"old minus new: -\d+\.\d points \(-\d+\.\d to -\d+\.\d\), new is better, 95%",
        capsys.readouterr().out,
    )


def test_equal_models_and_spent_budgets(scores: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, facts = printed(
        ["replay", "compare", str(scores), "--model", "old", "--model", "twin", "--eps", "0.1"], capsys
    )
    assert (code, facts["decision"]) == (0, "no-difference")
    tight = ["replay", "compare", str(scores), "--model", "p1", "--model", "p2", "--budget", "9"]
    code, facts = printed(tight, capsys)
    assert (code, facts["decision"], facts["stopped"]) == (3, "undecided", "budget")


def test_the_regression_check(scores: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, facts = printed(
        ["replay", "compare", str(scores), "--model", "new", "--model", "old", "--not-worse", "0.02"], capsys
    )
    assert (code, facts["decision"]) == (0, "not-worse")
    code, facts = printed(
        ["replay", "compare", str(scores), "--model", "old", "--model", "new", "--not-worse", "0.02"], capsys
    )
    assert (code, facts["decision"]) == (2, "worse")


def test_certificate_and_page(scores: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proof, page = scores.with_name("proof.json"), scores.with_name("page.html")
    items = str(scores.with_name("items.csv"))
    command = [
        "replay",
        "compare",
        str(scores),
        "--model",
        "new",
        "--model",
        "old",
        "--history",
        "p1,p2",
        "--items",
        items,
    ]
    assert main([*command, "--certificate", str(proof), "--report", str(page)]) == 0
    assert main(["verify", str(proof)]) == 0
    assert "valid" in capsys.readouterr().out
    text = page.read_text()
    assert "new is better than old" in text
    assert "<script" not in text
    forged = json.loads(proof.read_text())
    forged["result"]["decision"] = "second"
    proof.write_text(json.dumps(forged))
    assert main(["verify", str(proof)]) == 2


def test_the_rival_is_never_history(scores: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = ["replay", "compare", str(scores), "--model", "new", "--model", "old"]
    assert main([*both, "--history", "old"]) == 1
    assert "--history must be columns other than" in capsys.readouterr().err
    _, facts = printed([*both, "--history", str(scores)], capsys)
    assert sum("was left out" in note for note in facts["notes"]) == 2


@pytest.mark.parametrize("command", ["compare", "rank"])
def test_no_history_can_be_said(command: str, scores: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = ["replay", command, str(scores), "--model", "new", "--model", "old", "--seed", "1"]
    assert printed([*both, "--history", "none"], capsys) == printed(both, capsys)


@pytest.mark.parametrize(
    ("flags", "hint"),
    [
        (["--model", "new"], "--model must be given twice"),
        (["--model", "new", "--model", "new"], "two different columns"),
        (["--model", "new", "--model", "odl"], "did you mean 'old'"),
        (["--model", "new", "--model", "old", "--eps", "0.1", "--not-worse", "0.1"], "left out where"),
        (
            ["--model", "new", "--model", "old", "--within", "0.1", "--not-worse", "0.2"],
            "--not-worse must be left out where within is given, got 0.2",
        ),
    ],
)
def test_mistakes_are_one_line(
    scores: Path, flags: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "compare", str(scores), *flags]) == 1
    assert hint in capsys.readouterr().err


# -- models that are asked ---------------------------------------------------------------------------------------------


@pytest.fixture
def questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "sums.jsonl"
    rows = [{"question": f"{n} + 3?", "answer": str(n + 3), "category": "abc"[n % 3]} for n in range(200)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


LIVE = ["--model", "scripted/0.95", "--model", "scripted/0.5", "--display", "none"]


def test_two_models_are_asked_and_nothing_is_asked_twice(
    questions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, facts = printed(["compare", str(questions), *LIVE, "--budget", "9"], capsys)
    assert (code, facts["decision"], facts["stopped"]) == (3, "undecided", "budget")
    code, facts = printed(["compare", str(questions), *LIVE], capsys)
    assert (code, facts["decision"], facts["stopped"]) == (0, "first", "goal")
    assert 0 <= facts["lower"] <= facts["difference"] <= facts["upper"]
    again = printed(["compare", str(questions), *LIVE], capsys)[1]
    assert (settled(again), again["asked"]) == (settled(facts), 0)
    assert main(["verify", facts["certificate"]]) == 0
    assert "log in the store" in capsys.readouterr().out
    certificate = json.loads(Path(facts["certificate"]).read_text())
    assert certificate["format"] == "cereval-comparison/1"
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(certificate, schema("cereval-comparison/1"))


def test_both_answers_are_kept_and_resume_shows_a_comparison(
    questions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from cereval.store.base import open_store

    _, facts = printed(["compare", str(questions), *LIVE, "--budget", "6"], capsys)
    assert list(facts["runs"]) == ["scripted/0.95", "scripted/0.5"]
    store = open_store("sqlite:///cereval.db")
    kept = [store.answers(part) for part in facts["runs"].values()]
    drawn = [store.draws(part) for part in facts["runs"].values()]
    store.close()
    assert [len(answers) for answers in kept] == [6, 6]
    assert all(answer.text for answers in kept for answer in answers)
    assert drawn[0] == drawn[1], "both models are asked the same items"
    code = main(["resume", facts["run_id"], "--max-calls", "150", "--display", "none"])
    assert code == 0
    assert "scripted/0.95 is better than scripted/0.5" in capsys.readouterr().out
    assert main(["runs", "--json"]) == 0
    run, *sides = json.loads(capsys.readouterr().out)
    assert " against " in run["model"]
    assert run["calls"] == 2 * run["items"] > 12
    assert run["parts"] == [side["run_id"] for side in sides] == list(facts["runs"].values())
    assert [side["model"] for side in sides] == ["scripted/0.95", "scripted/0.5"]


def test_a_comparison_counts_the_calls_of_both_models(
    questions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, facts = printed(["compare", str(questions), *LIVE, "--budget", "6"], capsys)
    assert (facts["n_evaluated"], facts["calls"]) == (6, 12)


def test_the_regression_check_of_asked_models(questions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    turned = ["--model", "scripted/0.5", "--model", "scripted/0.95", "--display", "none"]
    code, facts = printed(["compare", str(questions), *turned, "--not-worse", "0.05"], capsys)
    assert (code, facts["decision"]) == (2, "worse")


def test_a_comparison_keeps_its_question(questions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, facts = printed(["compare", str(questions), *LIVE, "--not-worse", "0.05", "--budget", "3"], capsys)
    assert (code, facts["decision"]) == (3, "undecided")
    assert main(["resume", facts["run_id"], "--eps", "0.3", "--display", "none"]) == 1
    assert "--eps must be left out: only `run` and `gate` can change it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("decision", "code"), [("not-worse", 0), ("worse", 2), ("undecided", 3), ("first", 3)]
)
def test_a_regression_check_passes_on_its_own_answer_only(decision: str, code: int) -> None:
    result = Comparison(
        decision=decision,
        difference=0,
        lower=-1,
        upper=1,
        confidence=0.95,
        n_evaluated=9,
        n_items=10,
        saved=0.1,
        stopped="goal",
        method="uniform",
        guarantee="anytime",
        target="benchmark",
        seed=0,
        goal={"goal": "not-worse", "eps": 0.02},
    )
    assert result.exit_code == code


def test_flags_of_the_other_kind_are_refused(
    scores: Path, questions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = ["compare", str(scores), "--model", "new", "--model", "old"]
    assert main([*recorded, "--max-usd", "3"]) == 1
    assert "--max-usd must be given only where models are asked" in capsys.readouterr().err
    assert main(["compare", str(questions), *LIVE, "--history", "others"]) == 1
    assert "`store` or `none`" in capsys.readouterr().err


def test_the_page_of_a_pair_run(questions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, facts = printed(["compare", str(questions), *LIVE], capsys)
    assert main(["report", facts["run_id"], "-o", "pair.html"]) == 0
    text = Path("pair.html").read_text()
    assert "scripted/0.95 is better than scripted/0.5" in text
    assert facts["certificate"].partition(".")[0] in facts["run_id"]
    assert "<script" not in text
