"""Runs by a provider's batches: any state, any order, nothing paid twice, and the same certificates as live."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.batch_kills import KINDS, hurry, place
from benchmarks.batch_server import Provider

from cereval import models
from cereval.certificate.verify import verify
from cereval.cli.main import main
from cereval.models import openai_model
from cereval.models.batches import as_message
from cereval.runner import batches, loop

Capture = pytest.CaptureFixture[str]
ITEMS = 600


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder with sums in two categories, and no waiting."""
    monkeypatch.chdir(tmp_path)
    for module, name in ((batches, "LOOK_S"), (batches, "SETTLE_S"), (loop, "TICK_S")):
        monkeypatch.setattr(module, name, getattr(module, name))
    for module in (models, openai_model):
        monkeypatch.setattr(module, "PROVIDERS", module.PROVIDERS)
    for name in KINDS:
        monkeypatch.setenv(f"{name.upper()}_API_KEY", "sk-test")
    hurry()
    rows = [
        {"question": f"{n} + 1?", "answer": str(n + 1), "category": "ab"[n % 2], "choices": None}
        for n in range(ITEMS)
    ]
    Path("q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def provider() -> Iterator[Provider]:
    server = Provider()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def told(capsys: Capture, *arguments: str, code: int = 0) -> Any:
    capsys.readouterr()
    found = main([*arguments, "--json", "--display", "none"])
    out, err = capsys.readouterr()
    assert found == code, (out, err)
    return json.loads(out) if out else err


def go(
    capsys: Capture, provider: Provider, *more: str, kind: str = "openai", eps: float = 0.1, code: int = 0
) -> Any:
    line = ("run", "q.jsonl", *place(kind, provider.url), "--eps", str(eps), "--batch")
    return told(capsys, *line, *more, code=code)


def check_paid_once(provider: Provider) -> None:
    assert provider.paid
    assert set(provider.paid.values()) == {1}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fates", [[], ["expired"], ["errors", "errors"], ["lost"]])
def test_whatever_becomes_of_a_batch_the_answer_is_that_of_a_live_run(
    kind: str, fates: list[str], provider: Provider, capsys: Capture
) -> None:
    provider.fates = fates
    run = go(capsys, provider, kind=kind)
    check_paid_once(provider)
    assert sum(provider.paid.values()) == run["calls"] == run["asked"]
    assert verify(json.loads(Path(run["certificate"]).read_text())).valid
    calm = Provider()
    threading.Thread(target=calm.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    undisturbed = go(capsys, calm, "--store", "sqlite:///calm.db", kind=kind)
    assert (run["lower"], run["upper"]) == (undisturbed["lower"], undisturbed["upper"])
    assert len(calm.sizes) <= 5
    calm.shutdown()
    calm.server_close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_cancelled_batch_stops_the_run_and_resume_orders_the_rest(
    kind: str, provider: Provider, capsys: Capture
) -> None:
    provider.fates = ["cancelled"]
    assert "was cancelled: " in told_error(capsys, provider, kind)
    (run,) = told_list(capsys)
    assert run["calls"] == sum(provider.paid.values()) > 0
    told(capsys, "resume", run["run_id"])
    check_paid_once(provider)


def told_error(capsys: Capture, provider: Provider, kind: str) -> str:
    return str(go(capsys, provider, kind=kind, code=1))


def told_list(capsys: Capture) -> Any:
    capsys.readouterr()
    assert main(["runs", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("kind", ["openai", "mistral", "together"])
def test_a_refused_batch_says_why(kind: str, provider: Provider, capsys: Capture) -> None:
    provider.fates = ["failed"]
    assert "refused batch batch_0: 'the file is not right'" in told_error(capsys, provider, kind)
    assert not provider.paid


def test_a_process_may_end_while_a_batch_is_at_work(provider: Provider, capsys: Capture) -> None:
    provider.looks = 10**9
    run = go(capsys, provider, "--max-minutes", "0.02", code=3)
    assert (run["calls"], len(provider.sizes)) == (0, 1)
    run = told(capsys, "resume", run["run_id"], "--max-minutes", "0.02", code=3)
    assert len(provider.sizes) == 1, "nothing is ordered again"
    refused = told(capsys, "resume", run["run_id"], "--live", code=1)
    assert "--batch must be given: batch batch_0 may hold answers that are paid for" in refused
    provider.looks = 1
    done = told(capsys, "resume", run["run_id"], "--max-minutes", "5")
    assert (done["stopped"], done["calls"]) == ("goal", sum(provider.paid.values()))
    check_paid_once(provider)


@pytest.mark.slow
def test_no_answer_is_paid_twice_wherever_the_process_is_killed() -> None:
    """The quick version of `benchmarks/results/batch-kills-*.md`, where 200 runs were killed."""
    line = [sys.executable, "-m", "benchmarks.batch_kills", "--runs", "2"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "line",
    [
        ("gate", "q.jsonl", "--min", "0.5"),
        ("tasks", "q.jsonl", "--each-eps", "0.2"),
        ("compare", "q.jsonl", "--system", "A", "--system", "B", "--tie", "0.1"),
        ("rank", "q.jsonl", "--system", "A", "--system", "B", "--tie", "0.3", "--prove-ties"),
        ("run", "q.jsonl", "--eps", "0.1", "--samples", "2", "--temperature", "1"),
        ("run", "q.jsonl", "--eps", "0.1", "--method", "active"),
    ],
)
def test_every_command_takes_batches(line: tuple[str, ...], provider: Provider, capsys: Capture) -> None:
    run = told(capsys, *line, *place("openai", provider.url), "--batch")
    assert verify(json.loads(Path(run["certificate"]).read_text())).valid
    assert sum(provider.paid.values()) >= run["calls"] > 0
    assert len(provider.sizes) <= 12
    if "--samples" not in line:
        check_paid_once(provider)


def test_a_fleet_takes_batches(provider: Provider, capsys: Capture) -> None:
    provider.looks = 0  # its workers are processes of their own, which look every two seconds
    models = [{"model": "openai/m", "base_url": provider.url, "system": name} for name in ("A", "B")]
    fleet = {"models": models, "data": ["q.jsonl"], "eps": 0.1, "batch": True, "store": "sqlite:///fleet.db"}
    Path("fleet.yaml").write_text(json.dumps(fleet))
    found = told(capsys, "fleet", "fleet.yaml", "--trust")
    assert sum(provider.paid.values()) == sum(row["calls"] for row in found["runs"]) > 0
    check_paid_once(provider)
    assert provider.calls["POST /batches"] == len(provider.sizes)
    assert "POST /chat/completions" not in provider.calls


def test_draws_that_forecasts_hold_back_go_out_in_rounds_and_the_record_says_so(
    provider: Provider, capsys: Capture
) -> None:
    run = go(capsys, provider, "--method", "active", eps=0.07)
    certificate = json.loads(Path(run["certificate"]).read_text())
    rounds = [one["round"] for one in certificate["changes"]]
    assert rounds
    assert len(provider.sizes) == len(rounds)
    certificate["changes"][1]["round"] += 50
    assert not verify(certificate).valid


def test_money_is_known_before_the_first_answer(provider: Provider, capsys: Capture) -> None:
    line = ("--price-in", "10", "--price-out", "10", "--max-tokens", "100")
    run = go(capsys, provider, *line, "--max-usd", "0.1", eps=0.05, code=3)
    assert 0.02 < run["cost_usd"] <= 0.1
    assert run["cost_usd"] == pytest.approx(sum(provider.paid.values()) * 1100 / 1e6)


def test_a_dry_run_says_rounds_and_both_prices(provider: Provider, capsys: Capture) -> None:
    line = ("run", "q.jsonl", "--dry-run", *place("anthropic", provider.url))
    live, batch = told(capsys, *line), told(capsys, *line, "--batch")
    assert (live["rounds"], batch["rounds"]) == (None, 5)
    assert live["expected_usd"] == live["live_usd"] == batch["live_usd"]
    assert batch["expected_usd"] == batch["batch_usd"] == pytest.approx(live["live_usd"] / 2)
    assert main([*line, "--batch"]) == 0
    said = capsys.readouterr().out
    assert "about 5, each of which may take a day" in said
    assert "with --live" in said
    gate = told(capsys, "gate", *line[1:], "--min", "0.5", "--batch")
    assert (gate["expected_calls"], gate["most_calls"]) == (None, ITEMS)
    assert gate["most_usd"] == pytest.approx(ITEMS * batch["expected_usd"] / batch["expected_calls"])
    assert main(["gate", *line[1:], "--min", "0.5", "--batch"]) == 0
    assert "at most 600" in capsys.readouterr().out


@pytest.mark.parametrize("model", ["scripted/0.5", "deepseek/x"])
def test_who_takes_no_batches(model: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-d")
    error = told(capsys, "run", "q.jsonl", "--model", model, "--batch", code=1)
    assert "--batch must be left out for a model that is not one of openai/, groq/" in error


def test_a_chat_in_anthropics_own_words() -> None:
    turns = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
    said = as_message({"model": "m", "messages": turns, "temperature": 0.0, "max_tokens": 5, "stop": "."})
    assert said == {
        "model": "m",
        "temperature": 0.0,
        "max_tokens": 5,
        "system": "S",
        "messages": turns[1:],
        "stop_sequences": ["."],
    }
    assert as_message({"model": "m", "messages": turns[1:]})["max_tokens"] == 4096
