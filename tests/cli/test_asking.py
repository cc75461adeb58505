"""Other ways to ask: providers, prices by name, choices by log-probabilities, chats, and what is said beforehand."""

from __future__ import annotations

import json
import shlex
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from tests.cli.served import Server, served

from cereval.cli.main import main
from cereval.models import openai_model

Capture = pytest.CaptureFixture[str]
LETTERS = "ABCD"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder with sums, as questions and as choices."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    rows = [{"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(60)]
    write("q.jsonl", rows)
    choices = [
        {"question": f"{n} + 1?", "choices": [str(n + k) for k in range(4)], "answer": 1} for n in range(60)
    ]
    write("choices.jsonl", choices)


def write(name: str, rows: list[dict[str, Any]]) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def told(capsys: Capture, *arguments: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def asked(capsys: Capture, data: str, *more: str, command: str = "run", code: int = 0) -> Any:
    return told(capsys, command, data, "--display", "none", *more, code=code)


def failed(capsys: Capture, *arguments: str) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == 1
    return capsys.readouterr().err


def right(model: str, text: str) -> dict[str, Any]:  # noqa: ARG001
    return {"text": str(int(text.split()[0]) + 1)}


# -- providers and prices ---------------------------------------------------------------------------------------------


@pytest.fixture
def anthropic(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server in Anthropic's place."""
    with served(right) as server:
        moved = {
            **openai_model.PROVIDERS,
            "anthropic": openai_model.Provider(server.url, "ANTHROPIC_API_KEY"),
        }
        for place in ("models", "models.openai_model"):
            monkeypatch.setattr(f"cereval.{place}.PROVIDERS", moved)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant")
        yield server


def test_a_provider_has_its_address_its_key_and_its_price(anthropic: Server, capsys: Capture) -> None:
    run = asked(capsys, "q.jsonl", "--model", "anthropic/claude-3-5-haiku-latest", "--eps", "0.2")
    assert anthropic.keys == {"Bearer sk-ant"}
    assert {model for model, _ in anthropic.asked} == {"claude-3-5-haiku-latest"}
    assert run["cost_usd"] == pytest.approx(run["calls"] * (100 * 0.8 + 10 * 4) / 1e6)
    assert run["priced_by"] == f"genai-prices {version('genai-prices')}"
    assert told(capsys, "runs")[0]["priced_by"] == run["priced_by"]
    assert main(["report", run["run_id"], "-o", "page.html"]) == 0
    assert run["priced_by"] in Path("page.html").read_text()
    stored = Path("cereval.db").read_bytes() + Path(run["certificate"]).read_bytes()
    assert b"sk-ant" not in stored
    assert b"sk-openai" not in stored


def test_a_stored_provider_needs_no_trust_and_takes_no_address(anthropic: Server, capsys: Capture) -> None:
    line = ("q.jsonl", "--model", "anthropic/claude-x", "--eps", "0.1", "--max-calls", "5")
    run = asked(capsys, *line, code=3)
    assert told(capsys, "resume", run["run_id"], "--max-calls", "60", "--display", "none")["calls"] > 5
    assert "--base-url must be left out" in failed(capsys, "run", *line, "--base-url", anthropic.url)


def test_flags_win_over_the_own_table_and_that_over_list_prices(anthropic: Server, capsys: Capture) -> None:
    import os

    own = Path(os.environ["XDG_CONFIG_HOME"]) / "cereval" / "prices.yaml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text("anthropic/claude-3-5-haiku: {input: 1, output: 2}\nopenai/mine: {input: 3, output: 4}\n")
    line = ("q.jsonl", "--model", "anthropic/claude-3-5-haiku-latest", "--max-calls", "2", "--eps", "0.1")
    run = asked(capsys, *line, "--seed", "1", code=3)
    assert run["cost_usd"] == pytest.approx(run["calls"] * (100 * 1 + 10 * 2) / 1e6)
    assert run["priced_by"] == str(own)
    flags = ("--price-in", "10", "--price-out", "10", "--fresh", "--seed", "2")
    run = asked(capsys, *line, *flags, code=3)
    assert run["cost_usd"] == pytest.approx(run["calls"] * 1100 / 1e6)
    elsewhere = asked(
        capsys, "q.jsonl", "--model", "openai/mine", "--base-url", anthropic.url, *line[3:], code=3
    )
    assert elsewhere["cost_usd"] == pytest.approx(elsewhere["calls"] * 340 / 1e6)
    own.write_text("anthropic/claude-3-5-haiku: cheap\n")
    assert "it needs `input` and `output`" in failed(capsys, "run", *line)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("antropic/claude", "did you mean anthropic/?"),
        ("nobody/x", "groq/NAME"),
        ("groq/llama", "GROQ_API_KEY is not set"),
    ],
)
def test_unknown_providers_and_missing_keys(
    model: str, words: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    assert words in failed(capsys, "run", "q.jsonl", "--model", model)


def test_a_judge_is_counted_and_priced_before_and_after(capsys: Capture) -> None:
    def graded(model: str, text: str) -> dict[str, Any]:
        return {"text": "[[10]]"} if model == "judge" else right(model, text)

    with served(graded) as server:
        line = [
            *("q.jsonl", "--model", "openai/m", "--base-url", server.url, "--scorer", "grade"),
            *("--judge", "openai/judge", "--judge-price-in", "10", "--judge-price-out", "0"),
            *("--price-in", "1", "--price-out", "0", "--eps", "0.1"),
        ]
        dry = told(capsys, "run", *line, "--dry-run")
        assert dry["judge_calls"] == dry["expected_calls"] > 0
        assert dry["expected_usd"] > 0
        assert not server.asked
        run = asked(capsys, *line, "--max-usd", "0.01", code=3)
        assert run["cost_usd"] == pytest.approx(run["calls"] * (100 + 1000) / 1e6)
        assert run["cost_usd"] <= 0.01
        assert sum(count for (model, _), count in server.asked.items() if model == "judge") == run["calls"]


# -- choices by log-probabilities -------------------------------------------------------------------------------------


def lettered(model: str, text: str) -> dict[str, Any]:  # noqa: ARG001
    """Says nothing that can be read, but leans towards B, except where the number is a multiple of five."""
    best = "A" if int(text.split()[0]) % 5 == 0 else "B"
    other = "B" if best == "A" else "A"
    return {"text": "Hm", "logprobs": {"The": -0.1, f" {best}": -2.0, f"({best}": -3.0, other: -2.2}}


def test_the_likeliest_letter_is_the_choice(capsys: Capture) -> None:
    with served(lettered) as server:
        line = ("choices.jsonl", "--model", "openai/m", "--base-url", server.url, "--eps", "0.0001")
        run = asked(capsys, *line, "--choose", "logprobs")
        assert run["estimate"] == pytest.approx(0.8)
        assert all(body["max_tokens"] == 1 and body["top_logprobs"] == 20 for body in server.bodies)
        told(capsys, "export", run["run_id"], "-o", "a.jsonl")
        rows = [json.loads(line) for line in Path("a.jsonl").read_text().splitlines()]
        assert {row["answer"] for row in rows} == {"A", "B"}
        assert rows[0]["detail"].startswith(f"{rows[0]['answer']} 0.6")
        assert main(["verify", run["certificate"]]) == 0
        assert asked(capsys, *line)["estimate"] == 0, "what a text says is another question"
        again = asked(capsys, *line, "--choose", "logprobs", "--seed", "4")
        assert (again["asked"], again["kept"]) == (0, 60)


def test_a_server_without_log_probabilities_ends_the_run_at_once(capsys: Capture) -> None:
    with served(lambda *_: {"text": "B"}) as server:
        line = (
            "run",
            "choices.jsonl",
            "--model",
            "openai/m",
            "--base-url",
            server.url,
            "--choose",
            "logprobs",
        )
        assert "m sends no log-probabilities" in failed(capsys, *line, "-j", "1")
        assert sum(server.asked.values()) == 1
        assert "has no choices" in failed(capsys, *line[:1], "q.jsonl", *line[2:])


# -- chats ------------------------------------------------------------------------------------------------------------


def test_a_chat_is_asked_turn_by_turn(capsys: Capture) -> None:
    chats = [
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Ready?"},
                {"role": "assistant", "content": "Yes."},
                {"role": "user", "content": f"{n} + 1?"},
            ],
            "answer": str(n + 1),
        }
        for n in range(30)
    ]
    write("chats.jsonl", chats)
    with served(right) as server:
        line = ["--model", "openai/m", "--base-url", server.url, "--eps", "0.01"]
        run = asked(capsys, "chats.jsonl", *line, "--template", "{{ question }} !", "--system", "Add.")
        assert run["estimate"] == 1
        sent = server.bodies[0]["messages"]
        assert [turn["role"] for turn in sent] == ["system", "system", "user", "assistant", "user"]
        assert [turn["content"] for turn in sent[:2]] == ["Add.", "Be brief."]
        assert sent[-1]["content"].endswith("+ 1? !")
        asked(capsys, "chats.jsonl", *line, "--few-shot", "1")
        roles = [turn["role"] for turn in server.bodies[-1]["messages"]]
        assert roles == ["system", "user", "assistant", "user", "assistant", *roles[:3], "user"]


@pytest.mark.parametrize(
    ("turns", "words"),
    [
        ([{"role": "tool", "content": "x"}], "message 1 of 1: `role` must be one of system, user, assistant"),
        ([{"role": "user", "content": ""}], "`content` must be a text"),
        (
            [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}],
            "message 2 of 2: a system's",
        ),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "must be user"),
        ([{"role": "user", "content": "a"}, "b"], "message 2 of 2: it must have `role` and `content`"),
    ],
)
def test_a_chat_that_is_none_is_refused_with_its_place(turns: list[Any], words: str, capsys: Capture) -> None:
    write("bad.jsonl", [{"messages": [{"role": "user", "content": "1?"}]}, {"messages": turns}])
    told_why = failed(capsys, "run", "bad.jsonl", "--model", "scripted/0.5", "--scorer", "regex:1")
    assert "line 2" in told_why
    assert words in told_why


# -- what is said -----------------------------------------------------------------------------------------------------


def test_an_undecided_gate_says_where_it_stands_and_what_is_missing(capsys: Capture) -> None:
    line = [
        "gate",
        "q.jsonl",
        "--model",
        "scripted/0.7",
        "--min",
        "0.65",
        "--max-calls",
        "10",
        "--display",
        "none",
    ]
    found = told(capsys, *line, code=3)
    assert found["decision"] is None
    assert found["calls_to_go"] > 0
    assert found["lower"] < found["estimate"] < found["upper"]
    assert main(line) == 3
    out = " ".join(capsys.readouterr().out.split())
    assert "at least 65%: undecided, 53.8% (11.8% to 91.7%)" in out
    assert "still needed about" in out
    assert (
        told(capsys, "resume", found["run_id"], "--max-calls", "60", "--display", "none")["calls_to_go"]
        is None
    )


def test_duplicates_are_noticed(capsys: Capture) -> None:
    rows = [{"question": f"{n % 48} + 1?", "answer": str(n % 48 + 1)} for n in range(60)]
    write("twice.jsonl", rows)
    assert main(["run", "twice.jsonl", "--model", "scripted/0.7", "--eps", "0.3", "--display", "plain"]) == 0
    assert "12 questions appear more than once" in capsys.readouterr().err
    assert main(["run", "q.jsonl", "--model", "scripted/0.7", "--eps", "0.3", "--display", "plain"]) == 0
    assert "more than once" not in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--threshold", "0.5", "--mean", "0.8"], ["--target", "expected"]])
def test_every_row_of_a_plan_is_a_command_that_runs(more: list[str], capsys: Capture) -> None:
    goal = [] if "--threshold" in more else ["--eps", "0.3"]
    rows = told(capsys, "plan", "--items", "60", *goal, *more)["methods"]
    commands = {row["method"]: row["command"] for row in rows if row["command"]}
    assert {"seq", "uniform"} <= set(commands)
    assert not {"normal", "exact", "hoeffding"} & set(commands)
    for line in commands.values():
        words = shlex.split(line.replace("DATA", "q.jsonl").replace("MODEL", "scripted/0.9"))[1:]
        assert main([*words, "--display", "none", "--no-history", "--max-calls", "200"]) in (0, 3), line


# -- one server, many questions ---------------------------------------------------------------------------------------


def test_no_model_is_asked_a_question_twice_by_a_mornings_work(capsys: Capture) -> None:
    """Run at .05, then .03, gate --reuse, compare with a second model, rank with a third."""
    rows = [{"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(400)]
    write("many.jsonl", rows)
    every = {"m": 4, "n": 3, "o": 2}

    def sometimes(model: str, text: str) -> dict[str, Any]:
        return right(model, text) if int(text.split()[0]) % every[model] else {"text": "no"}

    with served(sometimes) as server:
        here = ("--base-url", server.url, "--display", "none", "-j", "4")
        told(capsys, "run", "many.jsonl", "--model", "openai/m", "--eps", "0.05", *here)
        told(capsys, "run", "many.jsonl", "--model", "openai/m", "--eps", "0.03", *here)
        gate = told(capsys, "gate", "many.jsonl", "--model", "openai/m", "--min", "0.7", "--reuse", *here)
        assert gate["kept"] > 0
        two = ("--model", "openai/m", "--model", "openai/n")
        told(capsys, "compare", "many.jsonl", *two, "--eps", "0.04", *here)
        rank = told(capsys, "rank", "many.jsonl", *two, "--model", "openai/o", "--tie", "0.05", *here)
        assert rank["kept"] > 0
        assert max(server.asked.values()) == 1
