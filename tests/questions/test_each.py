"""Every question judged by itself: wrong verdicts are rare, many items cost no more each, audits follow."""

from __future__ import annotations

import copy
import json
import random
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.coverage import most_misses
from numpy.typing import NDArray

import cereval
from cereval.certificate.format import issue
from cereval.certificate.verify import verify
from cereval.cli.main import main
from cereval.plan import Known
from cereval.questions import kind_named
from cereval.questions.each.goal import EachAtLeast
from cereval.questions.each.session import EachResult, EachSession
from cereval.stats.rates import rejected

Floats = NDArray[np.float64]
Capture = pytest.CaptureFixture[str]


def played(rates: Floats, seed: int, *, failing: float = 0.0, flight: int = 16, **asked: Any) -> EachSession:
    session = EachSession(len(rates), **{"goal": EachAtLeast(0.8, 60), **asked}, seed=seed)
    rng = np.random.default_rng([seed, 17])
    tosses = rng.random((len(rates), 4000, 2))
    asked_before = np.zeros(len(rates), dtype=int)
    while not session.done:
        for draw in session.ask(flight):
            toss, failure = tosses[draw.item, asked_before[draw.item]]
            asked_before[draw.item] += 1
            if session.done:
                break
            if failure < failing:
                session.fail(draw)
            else:
                session.tell(draw, float(toss < rates[draw.item]))
    return session


def wrong(result: EachResult, rates: Floats, value: float) -> bool:
    return any(
        (one.verdict == "pass" and rates[one.item] < value)
        or (one.verdict == "fail" and rates[one.item] >= value)
        for one in result.items
    )


@pytest.mark.slow
def test_wrong_verdicts_are_as_rare_as_stated() -> None:
    """Rates on both sides of the value and just at it; delta = .2, so that a few runs suffice."""
    misses = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, 3])
        rates = np.concatenate((rng.beta(2, 1, 8), [0.8, 0.8, 0.79, 0.79, 1.0, 0.0]))
        misses += wrong(played(rates, seed, confidence=0.8).result(), rates, 0.8)
    assert misses <= most_misses(60, 0.2)


def test_the_closed_test_is_the_one_of_the_definition() -> None:
    rng = np.random.default_rng(1)
    for _ in range(30):
        logs = rng.normal(scale=3, size=7)
        wealth = np.exp(logs - 1e-9)
        wins = [
            all(
                wealth[[item, *others]].mean() >= 5
                for count in range(7)
                for others in combinations(set(range(7)) - {item}, count)
            )
            for item in range(7)
        ]
        assert rejected(logs, 0.2).tolist() == wins


def test_many_items_that_always_pass_take_no_more_answers_each() -> None:
    fewest = np.log(4 / 0.05) / np.log(1 + 0.98 * (1 - 0.8) / 0.8)  # with the boldest bet on every answer
    each = [played(np.ones(size), 1).n_evaluated / size for size in (5, 100)]
    assert each[1] <= each[0] + 2 <= fewest + 4


def test_an_item_near_the_value_is_given_up() -> None:
    result = played(np.array([1.0, 0.8, 0.0]), 2).result()
    assert [one.verdict for one in result.items] == ["pass", "undecided", "fail"]
    assert (result.stopped, result.decision, result.exit_code) == ("exhausted", "some-fail", 2)
    assert result.items[1].asked >= 60


@pytest.mark.parametrize("flight", [1, 7, 100])
def test_verdicts_do_not_depend_on_how_many_are_in_flight(flight: int) -> None:
    rates = np.random.default_rng(5).beta(3, 1, 12)
    alone, together = played(rates, 4, flight=1), played(rates, 4, flight=flight)
    assert alone.result() == together.result()
    assert alone.log == together.log


def test_the_audit_recomputes_every_verdict() -> None:
    rates = np.random.default_rng(6).beta(3, 1, 15)
    session = played(rates, 8, failing=0.03, models=("m",))
    about = {"model": "m", "data": "d"}
    found = issue(kind_named("each"), session, session.result(), Known(), about=about)
    verdict = verify(json.loads(json.dumps(found)))
    assert verdict.valid, verdict.reasons
    forged = copy.deepcopy(found)
    forged["result"]["items"][0]["verdict"] = "fail"
    assert not verify(forged).valid


# -- live -------------------------------------------------------------------------------------------------------------

DATA = [{"id": str(number), "input": f"{number}+1?", "answer": str(number + 1)} for number in range(12)]


def test_a_run_names_the_questions_that_fail(tmp_path: Path) -> None:
    chance = random.Random(1)

    def flaky(messages: list[dict[str, str]]) -> str:
        number = int(messages[-1]["content"].partition("+")[0].split()[-1])
        return str(number + 1) if number != 3 or chance.random() < 0.3 else "no"

    run = cereval.evaluate(DATA, flaky, each_at_least=0.8, store=f"sqlite:///{tmp_path}/runs.db")
    assert (run.result.decision, run.result.passing, run.result.failing) == ("some-fail", 11, 1)
    assert run.result.items[3].verdict == "fail"
    assert run.certificate["plan"]["target"] == "expected"
    assert verify(run.certificate).valid
    assert "11 of 12 questions are certainly answered right" in str(run)
    page = run.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "certainly" in page


def test_the_command_line_asks_each_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in DATA))
    line = ["run", "q.jsonl", "--model", "scripted/1.0", "--each-at-least", "0.8", "--display", "none"]
    assert main([*line, "--max-calls", "30", "--json"]) == 3
    first = json.loads(capsys.readouterr().out)
    assert first["stopped"] == "budget"
    assert main(["resume", first["run_id"], "--max-calls", "4000", "--display", "none", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["decision"], found["passing"]) == ("all-pass", 12)
    assert main(["verify", found["certificate"]]) == 0
    assert main(["gate", *line[1:]]) == 0
    for more in (["--eps", "0.1"], ["--method", "uniform"], ["--target", "benchmark"]):
        assert main([*line, *more]) == 1
