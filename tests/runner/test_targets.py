"""What a mean is over where nobody says, and what is said where candidates answer anew at every call."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import cereval
from cereval.certificate.verify import verify
from cereval.cli.main import main
from cereval.plan import about_luck, candidate_spec

DATA = [{"id": str(number), "input": f"{number}+1?", "answer": str(number + 1)} for number in range(40)]


TOSSES: Counter[int] = Counter()
"""How often each question was asked."""


@pytest.fixture(autouse=True)
def same_tosses() -> None:
    TOSSES.clear()


def tossing(messages: list[dict[str, str]]) -> str:
    """Answer rightly four times out of five, anew at every call, and alike whenever a test is repeated."""
    number = int(messages[-1]["content"].partition("+")[0].split()[-1])
    TOSSES[number] += 1
    return str(number + 1) if random.Random(f"{number} {TOSSES[number]}").random() < 0.8 else "no"


def other(messages: list[dict[str, str]]) -> str:
    return tossing(messages)


def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/runs.db"


@pytest.mark.parametrize(
    ("model", "temperature", "target"),
    [
        (tossing, None, "expected"),
        (tossing, 0.0, "benchmark"),
        ("scripted/0.7", 0.0, "benchmark"),
        ("scripted/0.7", 0.5, "benchmark"),
    ],
)
def test_a_mean_is_over_fresh_answers_where_a_candidate_does_not_repeat_itself(
    tmp_path: Path, model: Any, temperature: float | None, target: str
) -> None:
    run = cereval.evaluate(DATA, model, eps=0.2, temperature=temperature, store=store(tmp_path), seed=1)
    assert run.result.target == target
    assert not run.result.notes or "differently" not in run.result.notes[0]
    assert verify(run.certificate).valid


def test_who_wants_these_very_answers_is_warned(tmp_path: Path) -> None:
    run = cereval.evaluate(
        DATA, tossing, eps=0.2, temperature=None, target="benchmark", store=store(tmp_path), seed=1
    )
    assert run.result.target == "benchmark"
    assert "about the answers given now" in run.result.notes[0]
    assert "about the answers given now" in run.certificate["result"]["notes"][0]
    assert verify(run.certificate).valid


def test_random_candidates_are_compared_by_fresh_answers(tmp_path: Path) -> None:
    place = store(tmp_path)
    run = cereval.compare(DATA, tossing, other, temperature=None, store=place, seed=1, max_calls=60)
    assert run.result.target == run.certificate["plan"]["target"] == "expected"
    assert run.result.n_evaluated > 20
    assert len({entry["item"] for entry in run.certificate["log"]}) < run.result.n_evaluated
    assert verify(run.certificate).valid
    again = cereval.compare(DATA, tossing, other, temperature=None, store=place, seed=1, max_calls=60)
    assert again.certificate == run.certificate


def test_random_candidates_are_ranked_by_fresh_answers(tmp_path: Path) -> None:
    place = store(tmp_path)
    run = cereval.rank(DATA, [tossing, other], temperature=None, store=place, seed=1, max_calls=150)
    assert run.result.target == run.certificate["settings"]["target"] == "expected"
    asked = [entry["item"] for entry in run.certificate["log"] if entry["model"] == 0]
    assert len(set(asked)) < len(asked)
    assert verify(run.certificate).valid
    longer = run.resume(max_calls=400)
    assert longer.certificate["log"][: len(run.certificate["log"])] == run.certificate["log"]
    assert verify(longer.certificate).valid
    very = cereval.rank(
        DATA, [tossing, other], temperature=None, target="benchmark", store=place, seed=1, max_calls=40
    )
    assert "about the answers given now" in very.certificate["result"]["notes"][0]
    assert verify(very.certificate).valid


def test_tasks_of_a_random_candidate_are_about_fresh_answers(tmp_path: Path) -> None:
    data = [{**row, "category": "ab"[place % 2]} for place, row in enumerate(DATA)]
    place = store(tmp_path)
    for goal in ({"eps": 0.08}, {"min": 0.6}, {"which_fail": 0.6}):
        run = cereval.tasks(data, tossing, temperature=None, store=place, seed=1, max_calls=150, **goal)
        assert run.result.target == "expected"
        assert run.result.n_evaluated > 40
        assert verify(run.certificate).valid


def of_three_kinds(messages: list[dict[str, str]]) -> str:
    """Know most questions always, every seventh never, and every fifth half the time."""
    number = int(messages[-1]["content"].partition("+")[0].split()[-1])
    knows = number % 7 > 0 and (number % 5 > 0 or random.random() < 0.5)
    return str(number + 1) if knows else "no"


def test_it_is_shown_how_random_answers_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = store(tmp_path)
    run = cereval.evaluate(DATA, of_three_kinds, eps=0.08, temperature=None, store=place, seed=1)
    scores: dict[str, list[float]] = {}
    for row in run.answers():
        scores.setdefault(row["item"], []).append(row["score"])
    again = [own for own in scores.values() if len(own) > 1]
    kinds = [sum(set(own) == kind for own in again) for kind in ({1.0}, {0.0}, {0.0, 1.0})]
    assert min(kinds) > 0
    command = ["show", run.run_id, "--store", place, "--random"]
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (model,) = told["models"]
    assert [model[name] for name in ("again", "right", "wrong", "random")] == [len(again), *kinds]
    assert {row["item"] for row in told["rows"]} == {
        item for item, own in scores.items() if set(own) == {0.0, 1.0}
    }
    assert main(command) == 0
    assert "always wrong" in capsys.readouterr().out
    page = run.report(tmp_path / "page.html").read_text("utf-8")
    assert "How random the answers are" in page
    assert f"Of {len(again)} questions asked twice or more, {kinds[0]} were <b>always right</b>" in page
    once = cereval.evaluate(DATA, "scripted/0.7", eps=0.2, store=place, seed=1)
    assert main(["show", once.run_id, "--store", place, "--random"]) == 0
    assert "no question was asked twice" in capsys.readouterr().out
    assert "How random" not in once.report(tmp_path / "page.html").read_text("utf-8")


def test_several_answers_of_a_draw_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = store(tmp_path)
    run = cereval.evaluate(
        DATA, tossing, eps=0.1, samples=3, temperature=None, store=place, seed=1, max_calls=90
    )
    assert main(["show", run.run_id, "--store", place, "--random", "--json"]) == 0
    (model,) = json.loads(capsys.readouterr().out)["models"]
    assert model["again"] == model["asked"] > 10
    words = f"Of {model['again']} questions asked twice or more, {model['right']} "
    assert words in run.report(tmp_path / "page.html").read_text("utf-8")


def test_growing_data_are_about_these_answers(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text("\n".join(f'{{"id": "{n}", "input": "{n}+1?", "answer": "{n + 1}"}}' for n in range(40)))
    grown = cereval.extend(None, file, tossing, temperature=None, store=store(tmp_path), seed=1, max_calls=30)
    assert "about the answers given now" in grown.certificate["result"]["notes"][0]
    assert verify(grown.certificate).valid


def test_a_candidate_that_repeats_itself_needs_no_word() -> None:
    from cereval.plan import Plan

    plan = Plan("rank", {"goal": "order"}, "sha256:0", 10, (candidate_spec("a"), candidate_spec("b")))
    assert about_luck(plan) == ()
