"""Several answers to every question: what is told, what is counted, what is kept."""

from __future__ import annotations

import asyncio
import json
from itertools import combinations, product
from math import fsum
from pathlib import Path
from typing import Any

import pytest

from cereval.cli.main import main
from cereval.errors import InvalidInput
from cereval.records import Draw
from cereval.runner.executor import Sampled
from cereval.runner.samples import Samples
from cereval.store.base import Answer

Capture = pytest.CaptureFixture[str]

CHANCE = 0.4
MODEL = f"""
import random
rng = random.Random(5)
def answer(messages):
    question = messages[-1]["content"]
    right = str(int(question.split()[0]) + 1)
    return right if rng.random() < {CHANCE} else "no"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder with 60 questions and a model that is right by chance."""
    monkeypatch.chdir(tmp_path)
    rows = [{"id": f"q{n}", "question": f"{n} + 1?", "answer": str(n + 1)} for n in range(60)]
    Path("q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("chance.py").write_text(MODEL)


def told(capsys: Capture, *arguments: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def sampled(capsys: Capture, *more: str, command: str = "run", code: int = 0) -> Any:
    line = [
        command,
        "q.jsonl",
        "--model",
        "python:chance.py:answer",
        "--display",
        "none",
    ]
    return told(capsys, *line, *more, code=code)


@pytest.mark.parametrize("worst", [False, True])
@pytest.mark.parametrize(("count", "tries"), [(1, 1), (4, 1), (4, 2), (4, 4)])
def test_what_is_told_expects_the_best_or_worst_of_k_fresh_answers(
    count: int, tries: int, worst: bool
) -> None:
    """Over every way in which the answers can come out; graded scores too."""
    values, chances = (0.0, 0.3, 1.0), (0.5, 0.2, 0.3)

    def expectation(many: int, value: Any) -> float:
        terms = []
        for places in product(range(3), repeat=many):
            chance = 1.0
            for place in places:
                chance *= chances[place]
            terms.append(chance * value([values[place] for place in places]))
        return fsum(terms)

    samples, of_them = Samples(count, **{"worst_of" if worst else "best_of": tries}), min if worst else max
    assert expectation(count, samples.score) == pytest.approx(expectation(tries, of_them), abs=1e-12)
    scores = [0.0, 0.3, 1.0, 0.3][:count]
    subsets = [of_them(subset) for subset in combinations(scores, tries)]
    assert samples.score(scores) == pytest.approx(fsum(subsets) / len(subsets))


def test_every_call_counts_and_every_answer_is_exported(capsys: Capture) -> None:
    first = sampled(
        capsys, "--samples", "4", "--target", "expected", "--eps", "0.05", "--max-calls", "42", code=3
    )
    assert (first["calls"], first["n_evaluated"], first["stopped"]) == (40, 10, "budget")
    more = told(
        capsys, *("resume", first["run_id"], "--max-calls", "4000", "--eps", "0.08", "--display", "none")
    )
    assert more["lower"] <= CHANCE <= more["upper"]
    assert more["calls"] == more["asked"] + 40
    assert more["calls"] >= 4 * more["n_evaluated"]
    assert main(["verify", more["certificate"]]) == 0
    assert told(capsys, "export", more["run_id"], "-o", "a.jsonl")["rows"] == more["calls"]
    rows = [json.loads(line) for line in Path("a.jsonl").read_text().splitlines()]
    assert [row["sample"] for row in rows[:5]] == [1, 2, 3, 4, 1]
    assert {row["score"] for row in rows} == {0.0, 1.0}
    assert {row["answer"] for row in rows} > {"no"}
    assert told(capsys, "runs")[0]["calls"] == more["calls"]
    assert main(["report", more["run_id"], "-o", "page.html"]) == 0
    assert "every question is asked 4 times" in Path("page.html").read_text()


def test_a_gate_of_pass_at_k(capsys: Capture) -> None:
    """Right four times in ten, right at least once in four times .87."""
    gate = sampled(capsys, "--pass-at", "4", "--min", "0.7", "--target", "expected", command="gate")
    assert gate["decision"] == "above"
    assert gate["calls"] % 4 == 0
    worse = sampled(capsys, "--samples", "4", "--min", "0.7", "--target", "expected", command="gate", code=2)
    assert worse["decision"] == "below"


def test_pass_to_the_power_of_k_is_of_fresh_answers(capsys: Capture) -> None:
    """Right four times in ten, twice in a row .16."""
    run = sampled(capsys, "--pass-all", "2", "--samples", "4", "--eps", "0.05")
    assert run["target"] == "expected"
    assert run["lower"] <= CHANCE**2 <= run["upper"]
    assert main(["verify", run["certificate"]]) == 0
    assert main(["report", run["run_id"], "-o", "page.html"]) == 0
    assert "pass^2 (the worst of 2) over all answers the model could give" in Path("page.html").read_text()


@pytest.mark.parametrize("first_alone", [True, False])
def test_the_other_calls_wait_for_the_first_so_that_they_find_its_prompt_in_the_cache(
    first_alone: bool,
) -> None:
    log: list[str] = []

    class Inner:
        async def answer(self, draw: Draw, model: int, place: int) -> Answer:  # noqa: ARG002
            log.append("asked")
            await asyncio.sleep(0)
            log.append("answered")
            return Answer(place, "4", 1.0)

    async def ask() -> Answer:
        room = asyncio.Semaphore(8)
        sampled = Sampled(Inner(), Samples(3), room, first_alone)  # type: ignore[arg-type]
        return await sampled.answer(Draw(0, 0, 0.1), 0, 0)

    assert asyncio.run(ask()).score == 1.0
    assert log.count("answered") == 3
    assert log.index("answered") == (1 if first_alone else 3)


@pytest.mark.parametrize("command", ["compare", "rank", "tasks"])
def test_other_questions_take_several_answers_too(command: str, capsys: Capture) -> None:
    Path("surer.py").write_text(MODEL.replace(f"< {CHANCE}", "< 0.95"))
    second = () if command == "tasks" else ("--model", "python:surer.py:answer")
    rows = [
        json.loads(line) | {"category": "ab"[place % 2]}
        for place, line in enumerate(Path("q.jsonl").read_text().splitlines())
    ]
    Path("q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    goal = ("--eps", "0.3") if command == "tasks" else ("--tie", "0.2")
    found = sampled(capsys, *second, *goal, "--pass-all", "2", command=command)
    assert found["stopped"] == "goal"
    assert main(["verify", found["certificate"]]) == 0


def test_a_failed_call_leaves_the_question_unknown(capsys: Capture) -> None:
    often = "\nold = answer\ndef answer(messages):\n    if rng.random() < .05: raise ValueError\n"
    broken = MODEL + often + "    return old(messages)\n"
    Path("chance.py").write_text(broken)
    run = sampled(capsys, "--samples", "3", "--eps", "0.3", "--target", "expected", "-j", "1")
    rows = told(capsys, "show", run["run_id"], "--failed")["rows"]
    assert bool(rows) == bool(run["failures"])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--samples", "3", "--temperature", "0"], "--temperature above 0"),
        (["--samples", "0"], "--samples must be a whole number in [1, 1000]"),
        (["--samples", "2", "--pass-at", "3"], "--pass-at must be a whole number in [1, 2]"),
        (["--samples", "2", "--pass-all", "3"], "--pass-all must be a whole number in [1, 2]"),
        (["--samples", "4", "--pass-all", "3", "--pass-at", "2"], "left out where --pass-at is given"),
        (["--pass-at", "-1"], "--pass-at must be a whole number in [1, 1000], got -1"),
        (["--pass-at", "3", "--temperature", "0"], "--pass-at must be given with a --temperature above 0"),
        (["--samples", "5", "--max-calls", "3"], "at least the 5 calls of one question"),
    ],
)
def test_what_makes_no_sense_is_refused(more: list[str], words: str, capsys: Capture) -> None:
    temperature = [] if "--temperature" in more else ["--temperature", "1"]
    line = ["run", "q.jsonl", "--model", "scripted/0.5", *temperature, *more]
    assert main(line) == 1
    assert words in capsys.readouterr().err


def test_words_say_what_is_estimated() -> None:
    assert "the mean score over all answers the model could give" in Samples(3).words("expected")
    assert "pass@2" in Samples(3, 2).words("benchmark")
    with pytest.raises(InvalidInput):
        Samples(2, 3)
