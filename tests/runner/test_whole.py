"""Where answers cost nothing, all of them are used: exactly for these questions, as a sample for others of the kind."""

from __future__ import annotations

import json
import random
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
from benchmarks.coverage import most_misses
from tests.certificate.forging import forge
from tests.cli.live import content, run, write

import cereval
from cereval.certificate.verify import verify
from cereval.methods.uniform import Whole
from cereval.questions.compare.goal import Difference
from cereval.questions.compare.session import CompareSession
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session
from cereval.questions.replay import drive

Capture = pytest.CaptureFixture[str]
PASSAGES, EACH = 120, 5
BOTH = ["compare", "given.jsonl", "--model", "given/a", "--model", "given/b"]


@pytest.fixture(autouse=True)
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Answers of two models; questions about one passage are right and wrong together."""
    monkeypatch.chdir(tmp_path)
    rng = random.Random(0)
    made = []
    for passage in range(PASSAGES):
        easy = rng.random()
        for question in range(EACH):
            right = str(1000 * passage + question)
            given = {
                name: right if rng.random() < level * easy else "no" for name, level in (("a", 1), ("b", 0.8))
            }
            made.append(
                {"question": f"{passage}, {question}?", "answer": right, "passage": f"p{passage}", **given}
            )
    write(tmp_path / "given.jsonl", made)
    return made


def share(rows: list[dict[str, Any]], name: str) -> float:
    return mean(row[name] == row["answer"] for row in rows)


def test_all_rows_are_used_and_the_answer_is_exact(capsys: Capture, rows: list[dict[str, Any]]) -> None:
    code, facts = run(capsys, *BOTH)
    truth = share(rows, "a") - share(rows, "b")
    assert (code, facts["n_evaluated"], facts["decision"], facts["stopped"]) == (0, 600, "first", "goal")
    assert facts["lower"] == pytest.approx(truth, abs=1e-12) == facts["upper"]
    certificate = content(facts)
    assert verify(certificate).valid
    # The log of all answers proves it, not the stated ends.
    forge(certificate, random.Random(1), only="result")
    assert not verify(certificate).valid

    code, one = run(capsys, "run", "given.jsonl", "--model", "given/a")
    assert (code, one["n_evaluated"]) == (0, 600)
    assert one["lower"] == one["upper"] == one["estimate"] == pytest.approx(share(rows, "a"))
    assert verify(content(one)).valid


def test_a_population_is_estimated_from_all_of_them(capsys: Capture, rows: list[dict[str, Any]]) -> None:
    """As wide as a normal interval of the same sample, within a seventh; clusters make it wider, as they must."""
    code, facts = run(capsys, *BOTH, "--target", "population", "--seed", 1)
    gaps = [(row["a"] == row["answer"]) - (row["b"] == row["answer"]) for row in rows]
    normal = 1.96 * float(np.std(gaps)) / len(gaps) ** 0.5
    assert (code, facts["n_evaluated"]) == (0, 600)
    assert facts["lower"] < mean(gaps) < facts["upper"]
    assert normal < (facts["upper"] - facts["lower"]) / 2 < 8 / 7 * normal
    assert verify(content(facts)).valid
    _, apart = run(capsys, "run", "given.jsonl", "--model", "given/a", "--target", "population", "--seed", 1)
    together = ["run", "given.jsonl", "--model", "given/a", "--target", "population", "--cluster", "passage"]
    _, clusters = run(capsys, *together, "--seed", 1)
    assert (clusters["n_items"], clusters["n_evaluated"]) == (PASSAGES, PASSAGES)
    assert clusters["upper"] - clusters["lower"] > 1.2 * (apart["upper"] - apart["lower"])
    assert verify(content(clusters)).valid


def test_clusters_of_asked_models_are_drawn(capsys: Capture) -> None:
    line = ["run", "given.jsonl", "--model", "scripted/0.8", "--target", "population", "--cluster", "passage"]
    code, facts = run(capsys, *line, "--eps", "0.1", "--seed", 1)
    assert (code, facts["stopped"]) == (0, "goal")
    assert facts["n_evaluated"] < facts["n_items"] == PASSAGES
    assert verify(content(facts)).valid
    log = content(facts)["log"]
    assert {round(EACH * entry["score"], 6) for entry in log} <= set(range(EACH + 1))
    code, refused = run(capsys, "rescore", facts["run_id"], "--scorer", "contains")
    assert code == 1
    assert "without --cluster" in refused["error"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--cluster", "passage"], "--target population"),
        (["--cluster", "passag", "--target", "population"], "did you mean 'passage'"),
        (["--cluster", "passage", "--target", "population", "--weights", "passage"], "weights"),
    ],
)
def test_clusters_that_cannot_be_are_refused(capsys: Capture, flags: list[str], said: str) -> None:
    code, facts = run(capsys, "run", "given.jsonl", "--model", "given/a", *flags)
    assert code == 1
    assert said in facts["error"]


def test_a_budget_or_a_paid_judge_asks_some(capsys: Capture) -> None:
    _, facts = run(capsys, *BOTH, "--max-calls", "50")
    assert facts["n_evaluated"] <= 50
    _, live = run(capsys, "compare", "given.jsonl", "--model", "given/a", "--model", "scripted/0.1")
    assert live["n_evaluated"] < 600


def test_two_runs_are_compared_on_what_both_answered(capsys: Capture) -> None:
    made = [
        run(capsys, "run", "given.jsonl", "--model", f"scripted/{level}", "--max-calls", calls, "--seed", 1)[
            1
        ]
        for level, calls in ((0.9, 300), (0.5, 400))
    ]
    ids = [one["run_id"] for one in made]
    code, facts = run(capsys, "compare", *ids)
    assert (code, facts["decision"], facts["asked"]) == (0, "first", 0)
    assert facts["n_evaluated"] == facts["n_items"] < 300
    assert facts["lower"] == facts["upper"]
    assert all(one in facts["data"] for one in ids)
    assert verify(content(facts)).valid
    code, ranked = run(capsys, "rank", *ids)
    assert (code, ranked["asked"], len(ranked["order"])) == (0, 0, 1)
    assert verify(content(ranked)).valid
    code, refused = run(capsys, "compare", ids[0], ids[0])
    assert code == 1
    assert "different" in refused["error"]


def test_python_uses_all_too(rows: list[dict[str, Any]]) -> None:
    answered = cereval.compare("given.jsonl", "given/a", "given/b")
    assert answered.lower == answered.upper == pytest.approx(share(rows, "a") - share(rows, "b"))


# -- the method -------------------------------------------------------------------------------------------------------


def test_failed_calls_leave_an_interval_that_is_certain() -> None:
    scores = np.array([1.0, 0.0, np.nan, 1.0])
    result = drive(Session(4, goal=Estimate(0.1), method=Whole.name, seed=1), scores)
    assert (result.lower, result.upper, result.n_evaluated) == (0.5, 0.75, 4)


@pytest.mark.parametrize("level", [0.02, 0.5, 0.9])
def test_the_population_is_covered(level: float) -> None:
    """60 samples at 70%: more than 26 misses have a chance of 1%, and one of 99% where they are twice as likely."""
    missed, rng = 0, np.random.default_rng(7)
    for seed in range(60):
        drawn = rng.uniform(size=(60, 1)) < level  # clusters of four, right and wrong together
        scores = np.where(rng.uniform(size=(60, 4)) < 0.7, drawn, rng.uniform(size=(60, 4)) < level).mean(
            axis=1
        )
        session = Session(
            60,
            goal=Estimate(0.01),
            confidence=0.7,
            method=Whole.name,
            target="population",
            budget=60,
            seed=seed,
        )
        result = drive(session, scores)
        missed += not result.lower <= level <= result.upper
    assert missed <= most_misses(60, 0.3) == 26


def test_exact_answers_are_never_contradictions() -> None:
    """Bets miss once in a while; where all answers are in, nothing is bet."""
    rng = np.random.default_rng(3)
    for seed in range(40):
        scores = (rng.uniform(size=(50, 2)) < [0.5, 0.6]).astype(float)
        session = CompareSession(50, goal=Difference(0.5), confidence=0.2, method=Whole.name, seed=seed)
        result = drive(session, scores)
        truth = pytest.approx(float((scores[:, 0] - scores[:, 1]).mean()), abs=1e-12)
        assert result.stopped == "goal"
        assert result.n_evaluated == 50
        assert result.lower == truth == result.upper


def test_settings_of_a_comparison_stay_what_they_were() -> None:
    assert "method" not in CompareSession(10, seed=1).settings()
    assert json.loads(json.dumps(CompareSession(10, seed=1, method="all").settings()))["method"] == "all"
