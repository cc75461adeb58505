from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from benchmarks.model_server import Faults, FaultyModel
from hypothesis import given
from hypothesis import strategies as st

from cereval.errors import CallError, InvalidInput

KEY = {f"What is {i} times 7?": str(7 * i) for i in range(2000)}


def ask(model: FaultyModel, question: str) -> str:
    return asyncio.run(model.answer([{"role": "user", "content": question}])).text


@given(st.floats(0, 1), st.integers(0, 100))
def test_accuracy_is_known_and_near_what_was_asked(accuracy: float, seed: int) -> None:
    model = FaultyModel(KEY, accuracy, seed=seed)
    # Six standard deviations of a binomial over 2,000 questions.
    assert abs(model.true_accuracy() - accuracy) <= 6 * (accuracy * (1 - accuracy) / 2000) ** 0.5 + 1e-12


def test_faults_and_order_do_not_change_answers() -> None:
    calm = FaultyModel(KEY, 0.5)
    wild = FaultyModel(KEY, 0.5, faults=Faults(0.3))
    questions = list(KEY)[:200]
    assert [ask(calm, q) for q in questions] == [ask(wild, q) for q in reversed(questions)][::-1]
    assert not wild.attempts, "attempts of answered prompts must not pile up"


def test_accuracy_by_question_and_questions_inside_prompts() -> None:
    model = FaultyModel({"2+2": "4", "2+22": "24", "9-1": "8"}, chances={"2+2": 1.0, "2+22": 1.0})
    assert ask(model, "Compute 2+22 please") == "24"
    assert ask(model, "9-1") == ask(model, "unheard of") == "none of these"


def test_faults_without_end_are_a_call_error() -> None:
    with pytest.raises(CallError, match="after 6 attempts"):
        ask(FaultyModel(KEY, faults=Faults(1.0)), "x")


@pytest.mark.parametrize(
    "make", [lambda: FaultyModel(KEY, 1.5), lambda: Faults(-1), lambda: Faults(0.1, ("x",))]
)
def test_what_cannot_be(make: object) -> None:
    with pytest.raises(InvalidInput):
        make()  # type: ignore[operator]


def test_the_server_as_a_process(tmp_path: Path) -> None:
    (tmp_path / "key.json").write_text(json.dumps({"1+1": "2"}))
    served = "benchmarks.model_server"
    command = [sys.executable, "-m", served, "--answers", str(tmp_path / "key.json"), "--accuracy", "1"]
    with subprocess.Popen(
        command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        body = json.dumps({"messages": [{"role": "user", "content": "1+1"}]}).encode()
        with urllib.request.urlopen(f"{url}/chat/completions", body, timeout=120) as response:
            assert json.load(response)["choices"][0]["message"]["content"] == "2"
        process.terminate()
