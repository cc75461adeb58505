"""The question bank: the same for everyone, answerable, and not answered by repeating the question."""

from __future__ import annotations

import asyncio
import hashlib
import json
import operator
import re
import subprocess
import sys
from collections import Counter

import pytest
from benchmarks.example_scores import example_scores

from cereval.datasets.bank import SCORER, SCORES, as_jsonl, example
from cereval.datasets.base import DataSet
from cereval.datasets.read import read_dataset
from cereval.scorers import build_scorer

OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
ANSWER_IN_QUESTION = {"even or odd", "comparison", "copying a word", "kinds of things"}
FINGERPRINT = "faff0d47bfbdcb12"


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> DataSet:
    path = tmp_path_factory.mktemp("bank") / "bank.jsonl"
    path.write_text("\n".join(as_jsonl()) + "\n", encoding="utf-8")
    return read_dataset(path)


def scores(bank: DataSet, answers: list[str]) -> list[float]:
    scorer = build_scorer(SCORER)

    async def all_scores() -> list[float]:
        return [
            (await scorer.score(item, answer)).value for item, answer in zip(bank.items, answers, strict=True)
        ]

    return asyncio.run(all_scores())


def test_the_bank_never_changes() -> None:
    content = "\n".join(as_jsonl()).encode()
    assert hashlib.sha256(content).hexdigest()[:16] == FINGERPRINT


def test_the_scores_are_those_that_are_made_up() -> None:
    assert example(SCORES) == example_scores()


def test_about_two_thousand_questions_in_many_categories_and_levels(bank: DataSet) -> None:
    assert 1900 <= len(bank.items) <= 2100
    assert len({item.text for item in bank.items}) == len(bank.items)
    assert len({item.category for item in bank.items}) >= 20
    assert {item.metadata["level"] for item in bank.items} == {1, 2, 3}
    assert min(Counter(item.category for item in bank.items).values()) >= 20


def test_every_accepted_answer_is_scored_right_inside_a_sentence(bank: DataSet) -> None:
    for place in range(2):
        answers = [f"The answer is {item.answers[min(place, len(item.answers) - 1)]}." for item in bank.items]
        assert min(scores(bank, answers)) == 1.0


def test_repeating_the_question_is_no_answer(bank: DataSet) -> None:
    found = scores(bank, [item.text for item in bank.items])
    assert not [
        item
        for item, score in zip(bank.items, found, strict=True)
        if score and item.category not in ANSWER_IN_QUESTION
    ]


def test_sums_differences_and_products_are_right(bank: DataSet) -> None:
    checked = 0
    for item in bank.items:
        if match := re.fullmatch(r"(\d+) ([-+*]) (\d+) =", item.text):
            a, sign, b = match.groups()
            assert item.answer == str(OPERATIONS[sign](int(a), int(b)))
            checked += 1
    assert checked > 300


def test_the_command_writes_jsonl() -> None:
    command = [sys.executable, "-m", "cereval.datasets.bank"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines == as_jsonl()
    assert all(json.loads(line)["answer"] for line in lines)
