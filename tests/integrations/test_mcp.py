"""A coding agent measures models through `cereval mcp`, within its budget, and runs nothing that nobody typed."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cereval.integrations.mcp import PROTOCOLS, TOOLS, Server, described


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder with questions, outside of which there is nothing for an agent."""
    inside = tmp_path / "inside"
    inside.mkdir()
    rows = "".join(json.dumps({"question": f"{n} + 1 =", "answer": str(n + 1)}) + "\n" for n in range(200))
    (inside / "q.jsonl").write_text(rows)
    (tmp_path / "secret.jsonl").write_text(rows)
    (inside / "mine.py").write_text("raise SystemExit('this code was run')\n")
    monkeypatch.chdir(inside)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("HOME", str(tmp_path))


def call(server: Server, tool: str, **arguments: Any) -> dict[str, Any]:
    return server.call(tool, arguments)


def said(answer: dict[str, Any]) -> str:
    return str(answer["content"][0]["text"])


def test_an_agent_runs_gates_compares_and_shows() -> None:
    server = Server("sqlite:///cereval.db", 2000)
    ran = call(server, "run", data="q.jsonl", model="scripted/0.8", eps=0.1)
    assert not ran["isError"]
    result = ran["structuredContent"]
    assert result["lower"] <= result["estimate"] <= result["upper"]
    assert "95% confidence" in said(ran)
    gated = call(server, "gate", data="q.jsonl", model="scripted/0.9", min=0.5)["structuredContent"]
    assert gated["decision"] == "above"
    compared = call(
        server, "compare", data="q.jsonl", model="scripted/0.3", other_model="scripted/0.9", tie=0.2
    )["structuredContent"]
    assert compared["decision"] == "second"
    assert compared["calls_left"] == server.max_calls - server.spent < 2000
    assert len(call(server, "show")["structuredContent"]["runs"]) >= 3
    shown = call(server, "show", run=result["run_id"])["structuredContent"]
    assert shown["estimate"] == result["estimate"]
    assert all(row["score"] < 0.5 for row in shown["wrong"])


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("run", {"model": "python:mine:answer"}, "the agent would run python:mine:answer"),
        ("run", {"model": "gguf:mine.py"}, "the agent would load gguf:mine.py"),
        (
            "compare",
            {"model": "scripted/0.5", "other_model": "python:mine:answer"},
            "would run python:mine:answer",
        ),
        (
            "gate",
            {"model": "scripted/0.5", "min": 0.5, "scorer": "python:mine:score"},
            "would run python:mine:score",
        ),
        ("run", {"model": "scripted/0.5", "data": "../secret.jsonl"}, "would read and send ../secret.jsonl"),
        ("run", {"model": "scripted/0.5", "system": "@../secret.jsonl"}, "no file is read for an agent"),
        ("run", {"model": "scripted/0.5", "data": "task.yaml"}, "data must be a file of questions"),
        ("run", {"model": "scripted/0.5", "base_url": "http://example.org"}, "base_url"),
        ("run", {"model": "scripted/0.5", "eps": 2.0}, "eps"),
        ("run", {"model": "scripted/0.5", "data": "none.jsonl"}, "none.jsonl"),
        ("delete", {"run": "a"}, "tool must be one of run, gate, compare, show"),
    ],
)
def test_what_is_refused(tool: str, arguments: dict[str, Any], words: str) -> None:
    server = Server("sqlite:///cereval.db", 100)
    answer = call(server, tool, **{"data": "q.jsonl", **arguments})
    assert answer["isError"]
    assert words in said(answer)
    assert server.spent == 0


def test_all_runs_share_a_budget() -> None:
    server = Server("sqlite:///cereval.db", 20)
    first = call(server, "run", data="q.jsonl", model="scripted/0.5", eps=0.02, max_calls=15)
    assert first["structuredContent"]["stopped"] == "budget"
    second = call(server, "run", data="q.jsonl", model="scripted/0.6", eps=0.02)
    assert (second["structuredContent"]["asked"], server.spent) == (5, 20)
    assert "all spent" in said(call(server, "run", data="q.jsonl", model="scripted/0.7"))


def test_the_protocol_over_a_pipe() -> None:
    asked = {"name": "run", "arguments": {"data": "q.jsonl", "model": "scripted/0.8", "eps": 0.2}}
    messages: list[Any] = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": PROTOCOLS[-1], "capabilities": {}}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
        {"id": 3, "method": "tools/call", "params": asked},
        {"id": 4, "method": "ping"},
        {"id": 5, "method": "resources/list"},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in messages) + "[1]\n"
    done = subprocess.run(
        [sys.executable, "-m", "cereval", "mcp"], input=lines, capture_output=True, text=True, check=True
    )
    answers = {one["id"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert answers[1]["result"]["protocolVersion"] == PROTOCOLS[-1]
    assert [one["name"] for one in answers[2]["result"]["tools"]] == list(TOOLS)
    assert answers[3]["result"]["structuredContent"]["run_id"]
    assert answers[4]["result"] == {}
    assert answers[5]["error"]["code"] == -32601
    assert answers[None]["error"]["code"] == -32700
    assert not done.stderr


def test_tools_describe_what_they_take() -> None:
    for name in TOOLS:
        tool = described(name)
        jsonschema.Draft202012Validator.check_schema(tool["inputSchema"])
        assert tool["inputSchema"]["type"] == "object"
        assert "$ref" not in json.dumps(tool["inputSchema"])
    out = io.StringIO()
    Server("sqlite://", 1).serve(
        io.StringIO(json.dumps({"jsonrpc": "2.0", "id": "a", "method": "ping"}) + "\n"), out
    )
    assert json.loads(out.getvalue()) == {"jsonrpc": "2.0", "id": "a", "result": {}}
