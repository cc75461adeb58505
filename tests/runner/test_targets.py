"""What a mean is over where nobody says, and what is said where candidates answer anew at every call."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import cereval
from cereval.certificate.verify import verify
from cereval.plan import about_luck, candidate_spec

DATA = [{"id": str(number), "input": f"{number}+1?", "answer": str(number + 1)} for number in range(40)]


def tossing(messages: list[dict[str, str]]) -> str:
    """Answer rightly four times out of five, anew at every call."""
    number = int(messages[-1]["content"].partition("+")[0].split()[-1])
    return str(number + 1) if random.random() < 0.8 else "no"


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
    assert "not of fresh ones" in run.result.notes[0]
    assert "not of fresh ones" in run.certificate["result"]["notes"][0]
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


def test_an_order_of_random_candidates_is_said_to_be_of_these_answers(tmp_path: Path) -> None:
    found = cereval.rank(
        DATA, [tossing, other], temperature=None, store=store(tmp_path), seed=1, max_calls=40
    )
    assert "not of fresh ones" in found.result.notes[0]
    assert "not of fresh ones" in found.certificate["result"]["notes"][0]
    assert verify(found.certificate).valid


def test_tasks_and_growing_data_say_so_too(tmp_path: Path) -> None:
    data = [{**row, "category": "ab"[place % 2]} for place, row in enumerate(DATA)]
    tasks = cereval.tasks(data, tossing, temperature=None, store=store(tmp_path), seed=1, max_calls=30)
    assert "not of fresh ones" in tasks.certificate["result"]["notes"][0]
    assert verify(tasks.certificate).valid
    file = tmp_path / "data.jsonl"
    file.write_text("\n".join(f'{{"id": "{n}", "input": "{n}+1?", "answer": "{n + 1}"}}' for n in range(40)))
    grown = cereval.extend(None, file, tossing, temperature=None, store=store(tmp_path), seed=1, max_calls=30)
    assert "not of fresh ones" in grown.certificate["result"]["notes"][0]
    assert verify(grown.certificate).valid


def test_a_candidate_that_repeats_itself_needs_no_word() -> None:
    from cereval.plan import Plan

    plan = Plan("rank", {"goal": "order"}, "sha256:0", 10, (candidate_spec("a"), candidate_spec("b")))
    assert about_luck(plan) == ()
