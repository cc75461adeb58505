"""`--eps auto`: a budget of calls or money is used up, and the interval is about as near as was forecast."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.batch_kills import hurry
from benchmarks.batch_server import Provider
from tests.cli.live import run, write

from cereval.certificate.verify import verify
from cereval.cli.main import main
from cereval.questions.mean.goal import Finest
from cereval.questions.mean.session import Session
from cereval.runner import batches, loop
from cereval.stats.planning import Scenario, eps_bought

ITEMS, CALLS = 600, 150
LINE = ("run", "q.jsonl", "--eps", "auto", "--seed", "5")
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    write(Path("q.jsonl"), [{"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(ITEMS)])


def check_valid(told: dict[str, Any]) -> None:
    assert verify(json.loads(Path(told["certificate"]).read_text())).valid


def test_all_calls_are_used_and_that_is_no_failure(capsys: Capture) -> None:
    code, told = run(capsys, *LINE, "--model", "scripted/0.7", "--max-calls", CALLS)
    assert (code, told["stopped"], told["calls"], told["calls_to_go"]) == (0, "budget", CALLS, None)
    assert told["half_width"] <= 1.1 * eps_bought(Scenario(ITEMS, mean=0.7), CALLS)
    assert "normal" in told["instead"]
    check_valid(told)
    code, more = run(capsys, "resume", told["run_id"], "--max-calls", ITEMS)
    assert (code, more["stopped"]) == (0, "goal")
    assert more["half_width"] < 0.01
    check_valid(more)


def test_a_budget_is_needed(capsys: Capture) -> None:
    code, told = run(capsys, *LINE, "--model", "scripted/0.7")
    assert code == 1
    assert "--eps must be a number, or auto with --max-usd, --max-calls or --max-minutes" in told["error"]


def test_money_is_used_up_by_batch_in_five_rounds(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((batches, "LOOK_S"), (batches, "SETTLE_S"), (loop, "TICK_S")):
        monkeypatch.setattr(module, name, getattr(module, name))
    hurry()
    provider = Provider()
    thread = threading.Thread(target=provider.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    model = ("--model", "openai/m", "--base-url", provider.url, "--price-in", "10", "--price-out", "10")
    code, told = run(capsys, *LINE, *model, "--batch", "--max-usd", "0.3", "--max-tokens", "50")
    provider.shutdown()
    provider.server_close()
    thread.join()
    assert (code, told["stopped"]) == (0, "budget")
    assert 0.9 * 0.3 <= told["cost_usd"] <= 0.3
    assert len(provider.sizes) <= 5
    check_valid(told)


def test_a_dry_run_says_how_near_the_money_comes(capsys: Capture) -> None:
    line = [*LINE, "--model", "openai/gpt-4o", "--max-usd", "0.5", "--dry-run"]
    assert main([*line, "--json"]) == main([*line, "--json", "--batch"]) == 0
    live, batch = map(json.loads, capsys.readouterr().out.splitlines())
    assert live["expected_calls"] == pytest.approx(batch["expected_calls"] / 2, abs=1)
    assert 0.5 > live["expected_eps"] > batch["expected_eps"] > 0
    assert main(line) == 0
    assert "at worst" in capsys.readouterr().out


def test_intervals_hold_where_money_ends_the_run() -> None:
    """At most 6 of 60 may miss: with a chance of 5% each, more come once in 40 such tests."""
    missed = 0
    for seed in range(60):
        scores = (np.random.default_rng(seed).random(200) < 0.8).astype(float)
        session = Session(200, goal=Finest(), seed=seed, method="uniform")
        while session.n_evaluated < 60:
            if session.n_evaluated == 20:
                # Right answers are dearer here: what money buys depends on the scores.
                session.foresee(20 + int(60 * (1.3 - float(np.mean([known[0] for _, known in session.log])))))
            (draw,) = session.ask(1)
            session.tell(draw, float(scores[draw.item]))
        missed += not session.interval.lower <= scores.mean() <= session.interval.upper
    assert missed <= 6
