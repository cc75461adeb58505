"""What a new user met, row by row: each row is a finding of issue 28, and the test that it stays mended."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.live import QUIET, run, write
from tests.cli.served import served

import cereval
from cereval.cli.main import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    write(Path("q.jsonl"), [{"question": f"say {n}", "answer": str(n)} for n in range(200)])


def facts(capsys: Capture, line: str, *more: str, code: int = 0) -> dict[str, Any]:
    found, values = run(capsys, *line.split(), *more)
    assert found == code, values
    return values


def right(_: str, text: str) -> dict[str, str]:
    return {"text": text.split()[-1]}


def half_right(_: str, text: str) -> dict[str, str]:
    return {"text": text.split()[-1] if int(text.split()[-1]) % 2 else "no"}


def test_row_1_each_candidate_is_asked_at_its_own_address(capsys: Capture) -> None:
    with served(right) as new, served(half_right) as old:
        line = f"compare q.jsonl --model openai/m --base-url {new.url} --base-url {old.url} --seed 1"
        found = facts(capsys, line)
        assert (found["decision"], found["first"], found["second"])[0] == "first"
        assert sum(new.asked.values()) == sum(old.asked.values()) > 0
    assert (
        "--model must be given once" in facts(capsys, "run q.jsonl --model a/b --model c/d", code=1)["error"]
    )


def test_row_2_prompts_temperatures_and_runs_can_be_compared(capsys: Capture) -> None:
    Path("a.txt").write_text("Be brief.")
    prompts = facts(capsys, "compare q.jsonl --model scripted/0.9 --system @a.txt --system B --within 0.2")
    assert (prompts["first"], prompts["second"]) == ("scripted/0.9 (system a.txt)", "scripted/0.9 (system B)")
    warm = facts(capsys, "compare q.jsonl --model scripted/0.9 --temperature 0 --temperature 1 --within 0.2")
    assert warm["second"] == "scripted/0.9 (temperature 1)"
    facts(capsys, "run q.jsonl --model scripted/0.5 --eps 0.2 --name before")
    assert facts(capsys, "compare q.jsonl --model scripted/0.9 --baseline before")["decision"] == "first"


def test_row_2_a_server_is_compared_with_a_model_that_has_no_address(capsys: Capture) -> None:
    with served(half_right) as server:
        line = f"compare q.jsonl --model openai/m --model scripted/1 --base-url {server.url} --seed 1"
        assert facts(capsys, line)["decision"] == "second"
        two = facts(capsys, f"{line} --base-url http://127.0.0.1:9/v1", code=1)
        assert "--base-url must be left out for scripted/1" in two["error"]
    with pytest.raises(cereval.CerevalError, match=r"base_url must be left out for python:.*lambda"):
        cereval.evaluate("q.jsonl", lambda _: "", base_url="http://127.0.0.1:9/v1")


def test_row_3_edited_code_is_another_candidate(capsys: Capture) -> None:
    line = "run q.jsonl --model python:bot.py:answer --eps 0.2 --seed 1"
    Path("bot.py").write_text("def answer(chat):\n    return chat[-1]['content'].split()[-1]\n")
    assert facts(capsys, line)["estimate"] == 1
    Path("bot.py").write_text("def answer(chat):\n    return 'no'\n")
    for name in [name for name in sys.modules if name.startswith("bot")]:
        del sys.modules[name]
    again = facts(capsys, line)
    assert (again["estimate"], again["kept"]) == (0, 0)
    assert "nothing was asked" in str(cereval.evaluate("q.jsonl", "python:bot.py:answer", eps=0.2, seed=1))


@pytest.mark.parametrize("spec", ["neighbour.py:answer", "neighbour:answer"])
def test_row_3_so_is_code_that_it_imports_from_its_own_folder(
    spec: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("neighbour", "parts", "parts.inner"):
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    Path("parts").mkdir()
    Path("parts/__init__.py").write_text("")
    Path("neighbour.py").write_text(
        "from parts.inner import look\n\ndef answer(chat):\n    return look(chat[-1]['content'])\n"
    )
    line = f"run q.jsonl --model python:{spec} --eps 0.2 --seed 1"
    for said, expected in (("text.split()[-1]", 1), ("'no'", 0)):
        Path("parts/inner.py").write_text(f"def look(text):\n    return {said}\n")
        found = facts(capsys, line)
        assert (found["estimate"], found["kept"]) == (expected, 0)


def test_row_4_a_judge_sees_the_chat_and_its_reasons_are_kept(capsys: Capture) -> None:
    chat = [{"role": "user", "content": "I am Ann."}, {"role": "user", "content": "Who am I?"}]
    write(Path("c.jsonl"), [{"input": chat, "answer": "Ann", "context": f"passage {n}"} for n in range(60)])
    with served(lambda *_: {"text": "Because it is so. [[10]]"}) as judge:
        line = "run c.jsonl --model scripted/0.9 --scorer grade --judge openai/j --eps 0.2"
        line += f" --judge-base-url {judge.url}"
        found = facts(capsys, line)
        assert "I am Ann." in json.dumps(judge.bodies[0])
        template = "{context} {question} {answer} Grade as [[5]]."
        facts(capsys, line, "--judge-template", template, "--fresh")
        assert "passage" in json.dumps(judge.bodies[-1])
        assert "{nothing}" in facts(capsys, line, "--judge-template", "{nothing} {answer}", code=1)["error"]
    assert main(["show", found["run_id"], "--json"]) == 0
    assert "Because it is so." in json.loads(capsys.readouterr().out)["rows"][0]["detail"]
    assert main(["show", found["run_id"], "-n", "1"]) == 0
    assert "Because" in capsys.readouterr().out


def test_row_4_several_judges_are_a_panel(capsys: Capture) -> None:
    def verdict(body: Any, _: str) -> dict[str, str]:
        return {"text": {"a": "[[10]]", "b": "[[10]]", "c": "[[1]]"}[body]}

    with served(verdict) as judges:
        line = (
            f"run q.jsonl --model scripted/0.9 --judge-base-url {judges.url} --max-calls 6 --rubric Strict."
        )
        line += " --judge openai/a --judge openai/b --judge openai/c"
        mean = facts(capsys, line, "--scorer", "grade", code=3)
        assert (mean["scorer"], mean["estimate"]) == (
            "panel by openai/a, openai/b, openai/c",
            pytest.approx(2 / 3),
        )
        assert facts(capsys, line, "--scorer", "panel:majority", code=3)["estimate"] == 1
        assert {model for model, _ in judges.asked} == {"a", "b", "c"}


def test_row_5_the_first_line_is_what_the_answers_support(capsys: Capture) -> None:
    wrong = facts(capsys, "run q.jsonl --model scripted/0 --eps 0.1 --seed 1")
    assert (wrong["estimate"], wrong["lower"]) == (0, 0)
    every = facts(capsys, "run q.jsonl --model scripted/1 --eps 0.1 --seed 1")
    assert (every["estimate"], every["upper"]) == (1, 1)
    assert every["instead"]["all"] == 200 > every["instead"]["hoeffding"] > every["instead"]["normal"]
    assert (
        main(
            [
                "compare",
                "q.jsonl",
                "--model",
                "scripted/0.9",
                "--model",
                "scripted/0.5",
                "--seed",
                "1",
                *QUIET[:2],
            ]
        )
        == 0
    )
    first = capsys.readouterr().out.splitlines()[0]
    assert "scripted/0.9 is better than scripted/0.5 by" in first
    assert "more than 0, at most" in first


def test_row_6_the_scorer_and_what_is_doubtful_are_said(capsys: Capture) -> None:
    found = facts(capsys, "run q.jsonl --model scripted/0 --eps 0.1", "--template", "Question: { query }")
    assert found["scorer"] == "exact"
    assert any("are wrong by the scorer exact" in note for note in found["notes"])
    assert any("is asked the same whatever the question" in note for note in found["notes"])


def test_row_7_lists_tell_candidates_apart_and_names_are_ids(capsys: Capture) -> None:
    for more in (
        ["--system", "A", "--name", "plain"],
        ["--system", "B"],
        ["--scorer", "contains", "--system", "B"],
    ):
        facts(capsys, "run q.jsonl --model scripted/0.9 --eps 0.2 --seed 1", *more)
    expected = [
        "plain (scripted/0.9, system A, scorer exact)",
        "scripted/0.9 (system B, scorer exact)",
        "scripted/0.9 (system B, scorer contains)",
    ]
    for line, key in (("runs", None), ("trend q.jsonl", "runs")):
        assert main([*line.split(), "--json"]) == 0
        listed = json.loads(capsys.readouterr().out)
        assert [one["candidate"] for one in (listed[key] if key else listed)] == expected
    assert main(["show", "plain"]) == 0
    assert main(["report", "plain", "-o", "r.html"]) == 0
    assert main(["export", "plain", "-o", "a.jsonl"]) == 0
    assert facts(capsys, "resume plain --eps 0.15")["half_width"] <= 0.15
    assert main(["show", "plane"]) == 1
    assert "did you mean 'plain'" in capsys.readouterr().err


def test_row_8_functions_get_the_chat_and_progress_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    seen: list[Any] = []

    def answer(messages: Any, item: Any) -> str:
        seen.append((messages, item))
        return str(item["question"].split()[-1])

    def score(output: str, item: Any) -> tuple[float, str]:
        return float(output in item.answers), "as it is"

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    rows = [json.loads(line) for line in Path("q.jsonl").read_text().splitlines()]
    asked = cereval.Candidate(answer, system="Be brief.")
    found = cereval.evaluate(rows, asked, at_least=0.5, scorer=score, max_calls=100)
    assert found.decision == "above"
    assert [turn["role"] for turn in seen[0][0]] == ["system", "user"]
    assert "answer" not in seen[0][1]
    assert (found.scorer.startswith("python:"), found.answers()[0]["detail"]) == (True, "as it is")
    assert found.resume(max_calls=120).decision == "above"
    assert "200 questions of data.jsonl" in capsys.readouterr().err
    with pytest.raises(cereval.CerevalError, match="a function does not get them"):
        cereval.evaluate(rows, cereval.Candidate(answer, temperature=0.5))


def test_row_9_any_field_of_the_request_can_be_sent_or_left_out(capsys: Capture) -> None:
    with served(right) as server:
        server.refuses = ("max_tokens",)
        line = f"run q.jsonl --model openai/m --base-url {server.url} --eps 0.2 --temperature none --max-tokens 7"
        facts(capsys, line, "--set", "top_p=0.5", "--set", 'reasoning={"effort": "low"}')
        body = server.bodies[-1]
    assert "temperature" not in body
    assert (body["max_completion_tokens"], body["top_p"], body["reasoning"]) == (7, 0.5, {"effort": "low"})


def test_row_9_answers_of_a_schema_are_asked_for_and_checked(capsys: Capture) -> None:
    Path("s.json").write_text(json.dumps({"type": "object", "required": ["n"]}))
    with served(lambda _, text: {"text": json.dumps({"n": text} if text.endswith("0") else {})}) as server:
        line = f"run q.jsonl --model openai/m --base-url {server.url} --scorer schema --max-calls 9 --seed 1"
        assert "--schema must be given with" in facts(capsys, line, code=1)["error"]
        found = facts(capsys, f"{line} --schema s.json", code=3)
        assert server.bodies[-1]["response_format"]["json_schema"]["schema"]["required"] == ["n"]
    assert main(["show", found["run_id"], "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["score"] for row in rows if not row["prompt"].endswith("0")} == {0}
    assert "'n' is a required property" in {row["detail"] for row in rows if row["score"] == 0}.pop()


def test_row_10_the_own_past_is_history(capsys: Capture) -> None:
    facts(capsys, "run q.jsonl --model scripted/0.9 --eps 0.1 --revision monday")
    night = facts(capsys, "gate q.jsonl --model scripted/0.9 --min 0.5 --revision tuesday")
    certificate = json.loads(Path(night["certificate"]).read_text())
    assert len(certificate["plan"]["history"]) == 1


def test_row_12_small_things(capsys: Capture) -> None:
    line = "rank q.jsonl --model scripted/0.7 --model scripted/0.71 --tie 0.3 --seed 1"
    ties = facts(capsys, line, code=3)
    assert (ties["order"], ties["stopped"]) == ([], "goal"), "nothing is certified: exit 3"
    found = facts(capsys, "run q.jsonl --model scripted/0.5 --eps 0.1 --seed 1")
    again = facts(capsys, f"rescore {found['run_id']} --scorer contains")
    assert again["n_evaluated"] == found["n_evaluated"]
    assert main(["show", found["run_id"], "--wrong", "--json"]) == 0
    assert {row["reference"] for row in json.loads(capsys.readouterr().out)["rows"]} <= set(
        map(str, range(200))
    )
    assert main(["plan", "--items", "200", "--eps", "0.001", "--json"]) == 0
    assert max(row["calls"] for row in json.loads(capsys.readouterr().out)["methods"]) <= 200
    for field in ("ideal", "expected_output", "reference"):
        write(Path("f.jsonl"), [{"query": f"say {n}", field: str(n)} for n in range(20)])
        facts(capsys, "run f.jsonl --model scripted/0.9 --eps 0.4 --input query", "--template", "{{ query }}")
    write(Path("f.jsonl"), [{"question": f"say {n}", "key of it": str(n), "extra": 1} for n in range(20)])
    assert (
        "(it has 'key of it', 'extra')" in facts(capsys, "run f.jsonl --model scripted/0.9", code=1)["error"]
    )


def test_row_12_compare_counts_calls_alike_on_the_way_and_at_the_end() -> None:
    class Watching:
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def on_start(self, *_: Any) -> None: ...
        def on_note(self, *_: Any) -> None: ...
        def on_end(self, *_: Any) -> None: ...
        def on_progress(self, progress: Any) -> None:
            self.seen.append(progress)

    from cereval.runner.progress import line

    watching = Watching()
    found = cereval.compare("q.jsonl", "scripted/0.9", "scripted/0.5", observer=watching, seed=1)
    assert line(watching.seen[-1]).startswith(f"{2 * found.n_evaluated} calls, ")
