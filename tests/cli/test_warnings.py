"""Results that an interval alone would make look better than they are: each is said in the result itself."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.cli.live import run, write
from tests.cli.served import Server, served
from tests.waiting import turns

import cereval
from cereval.certificate.format import digest
from cereval.certificate.verify import verify
from cereval.cli.main import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    write(Path("q.jsonl"), [{"question": f"say {n}", "answer": str(n)} for n in range(60)])


@pytest.fixture
def mini() -> Iterator[Server]:
    """A server that answers rightly, under another name than it was asked for, and takes no temperature."""
    with served(lambda _, text: {"text": text.split()[-1], "served": "gpt-4o-mini-2024-07-18"}) as server:
        server.refuses = ("temperature",)
        yield server


def noted(capsys: Capture, *arguments: object) -> list[str]:
    """Run a command; return the notes of its result."""
    code, facts = run(capsys, "run", "q.jsonl", "--eps", "0.2", "--seed", "1", *arguments)
    assert code == 0, facts
    notes: list[str] = facts["notes"]
    return notes


def test_where_a_temperature_is_refused_the_question_is_about_fresh_answers(
    mini: Server, capsys: Capture
) -> None:
    line = (
        "run",
        "q.jsonl",
        "--eps",
        "0.2",
        "--seed",
        "1",
        "--base-url",
        mini.url,
        "--model",
        "openai/gpt-4o",
    )
    code, facts = run(capsys, *line)
    assert (code, facts["target"], facts["failures"]) == (0, "expected", 0)
    assert facts["asked"] == facts["calls"] == sum("temperature" not in body for body in mini.bodies)
    assert verify(json.loads(Path(facts["certificate"]).read_text())).valid
    code, again = run(capsys, *line)
    assert (code, again["asked"], again["run_id"]) == (0, 0, facts["run_id"])
    assert [one["run_id"] for one in cereval.runs()] == [facts["run_id"]], "the refused run is gone"


def test_another_model_answered_and_a_setting_was_refused(mini: Server, capsys: Capture) -> None:
    line = ("--model", "openai/gpt-4o", "--base-url", mini.url, "--target", "benchmark")
    notes = noted(capsys, *line)
    other = "warning: openai/gpt-4o was asked, and the server says that gpt-4o-mini-2024-07-18 answered"
    assert other in notes
    end = "its answers may differ from call to call (--target expected)"
    assert f"warning: the server refuses `temperature`: openai/gpt-4o is asked without it; {end}" in notes
    code, again = run(capsys, "run", "q.jsonl", "--eps", "0.2", "--seed", "1", *line)
    assert (code, again["asked"]) == (0, 0)
    assert other in again["notes"], "also where all answers were there"
    served = {"openai/gpt-4o": {"gpt-4o-mini-2024-07-18": again["calls"]}}
    assert again["served"] == served
    certificate = json.loads(Path(again["certificate"]).read_text())
    assert certificate["provenance"]["served"] == served
    assert verify(certificate).valid
    assert main(["verify", again["certificate"]]) == 0


def test_a_server_that_changes_its_model_on_the_way_is_told_by_counts(capsys: Capture) -> None:
    """Only the other name was shown, as if it had given all answers."""
    asked = count()

    def answer(_: object, text: str) -> dict[str, str]:
        return {"text": text.split()[-1], "served": "gpt-4o" if next(asked) < 5 else "gpt-3"}

    with served(answer) as server:
        line = ("--model", "openai/gpt-4o", "--base-url", server.url, "-j", "1", "--display", "none")
        assert main(["run", "q.jsonl", "--eps", "0.2", "--seed", "1", *line]) == 0
    assert re.search(r"answered by +gpt-3 \(\d+\), gpt-4o \(5\)", capsys.readouterr().out)


def test_a_certificate_whose_answers_came_from_elsewhere_is_found(mini: Server, capsys: Capture) -> None:
    noted(capsys, "--model", "openai/gpt-4o", "--base-url", mini.url)
    (path,) = Path().glob("*.certificate.json")
    certificate = json.loads(path.read_text())
    certificate["provenance"]["served"] = {"openai/gpt-5": {"gpt-5": 3}}
    verdict = verify({**certificate, "digest": digest(certificate)})
    assert verdict.reasons == ("provenance.served names a candidate that the plan has not",)


def test_everything_or_nothing_is_right(capsys: Capture) -> None:
    (right,) = (note for note in noted(capsys, "--model", "scripted/1") if "are right" in note)
    assert "answers of scripted/1 are right by the scorer exact: the questions may be too easy" in right
    (wrong,) = (note for note in noted(capsys, "--model", "scripted/0") if "are wrong" in note)
    assert (
        "answers of scripted/0 are wrong by the scorer exact: the prompt or the scorer may not fit" in wrong
    )
    assert not [note for note in noted(capsys, "--model", "scripted/0.7") if note.startswith("warning")]


def test_a_template_without_a_placeholder(capsys: Capture) -> None:
    template = ("--template", "Question: { question }")
    (warned,) = (
        note for note in noted(capsys, "--model", "scripted/0.7", *template) if "asked the same" in note
    )
    assert "scripted/0.7 is asked the same whatever the question" in warned
    assert not [
        note
        for note in noted(capsys, "--model", "scripted/0.7", "--template", "{{ question }}?")
        if "same" in note
    ]


def test_the_scorer_that_nobody_named_is_said(capsys: Capture) -> None:
    line = ["run", "q.jsonl", "--model", "scripted/0.7", "--eps", "0.2", "--display", "plain"]
    assert main(line) == 0
    told = capsys.readouterr()
    assert (
        "no --scorer was given: `exact` is used, by which an answer is right if it equals the reference"
        in told.err
    )
    assert "scorer exact" in told.out.splitlines()[0]
    assert main([*line, "--scorer", "contains"]) == 0
    assert "--scorer was given" not in capsys.readouterr().err


def test_a_model_that_changes_its_mind(capsys: Capture) -> None:
    """The same question twice, other answers: at temperature 0 that is a fact about the server worth knowing."""
    write(Path("q.jsonl"), [{"id": n, "question": "say 1", "answer": str(n % 2)} for n in range(60)])
    answers = iter(range(10_000))
    with served(lambda *_: {"text": str(next(answers))}) as server:
        asked = ("--model", "openai/x", "--base-url", server.url)
        assert any(
            "openai/x gave different answers to the same question" in note for note in noted(capsys, *asked)
        )
        with_chance = noted(capsys, *asked, "--temperature", "1")
        assert not any("gave different answers" in note for note in with_chance)


def test_answers_that_a_server_cut_off_are_said(capsys: Capture) -> None:
    """A server with a limit of its own makes a model look worse than it is, without a word."""

    def cut(_: str, text: str) -> dict[str, str]:
        number = text.split()[-1]
        return {"text": number} if int(number) % 3 else {"text": "Well, the", "ended": "length"}

    with served(cut) as server:
        asked = ("--model", "openai/x", "--base-url", server.url)
        (note,) = noted(capsys, *asked)
        assert re.match(r"warning: \d+ of \d+ answers of openai/x were cut off", note)
        assert note in noted(capsys, *asked), "a run that is repeated is told the same"
        chosen = noted(capsys, *asked, "--max-tokens", "9")
        assert not any("cut off" in one for one in chosen), "somebody's own limit is known to him"


def test_python_says_what_was_kept_and_what_is_doubtful(caplog: pytest.LogCaptureFixture) -> None:
    def wrong(_: Any) -> str:
        return "no"

    with caplog.at_level(logging.INFO, "cereval"):
        first = cereval.evaluate("q.jsonl", wrong, eps=0.2, seed=1)
    assert "gave the answer 'no' 10 times in a row" in caplog.text
    assert any("are wrong by the scorer exact" in note for note in first.notes)
    assert "nothing was asked" not in str(first)
    again = cereval.evaluate("q.jsonl", wrong, eps=0.2, seed=1)
    assert f"nothing was asked: all {again.calls} answers were stored" in str(again)
    assert repr(again).endswith("(1 warning, see `notes`)>")
    assert (again.scorer, again.served, again.instead["all"]) == ("exact", {}, 60)


def test_a_function_is_tried_alone_before_others_are_asked() -> None:
    """A function that gives no text costs one call of it, and at most one of whoever else is asked."""
    asked: list[str] = []

    async def number(_: Any) -> Any:
        asked.append("number")
        await turns(20)
        return 7

    async def other(_: Any) -> str:
        asked.append("other")
        return "x"

    with pytest.raises(cereval.CerevalError, match="must return a text or a Reply, got 7"):
        cereval.compare("q.jsonl", number, other)
    assert asked.count("number") == 1
    assert asked.count("other") <= 1


def test_a_function_that_expects_a_text_is_told_where_the_question_is() -> None:
    with pytest.raises(cereval.CerevalError, match=r"the question is messages\[-1\]\['content'\]"):
        cereval.evaluate("q.jsonl", lambda question: question.upper())


def test_a_function_that_answers_by_other_fields_does_not_change_its_mind(
    tmp_path: Path, capsys: Capture
) -> None:
    write(
        Path("q.jsonl"),
        [{"question": "who?", "passage": str(n % 3), "answer": str(n % 3)} for n in range(60)],
    )
    (tmp_path / "reads.py").write_text("def answer(messages, item):\n    return item['passage']\n")
    found = noted(capsys, "--model", f"python:{tmp_path / 'reads.py'}:answer")
    assert not any("gave different answers" in note for note in found)


def test_stored_answers_among_all_of_them_are_said(capsys: Capture) -> None:
    line = ["run", "q.jsonl", "--model", "scripted/0.7", "--scorer", "contains", "--display", "none"]
    assert main([*line, "--eps", "0.2"]) == 0
    capsys.readouterr()
    assert main([*line, "--method", "all"]) == 0
    assert "answers asked now" in capsys.readouterr().out
