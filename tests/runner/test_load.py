"""Runs from Python: list them, load one, verify it, go on with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import cereval
from cereval.errors import CerevalError

ROWS = [{"question": f"{n} + 1 =", "answer": str(n + 1)} for n in range(300)]


def test_a_run_is_listed_loaded_verified_and_resumed(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    asked = cereval.evaluate(
        ROWS, "scripted/0.7", eps=0.05, seed=1, max_calls=20, store=store, scorer="exact"
    )
    (row,) = cereval.runs(store)
    assert (row["run_id"], row["calls"], row["model"]) == (asked.run_id, 20, "scripted/0.7")
    run = cereval.load(asked.run_id[:6], store)
    assert (run.estimate, run.lower, run.upper, run.calls) == (asked.estimate, asked.lower, asked.upper, 20)
    assert run.certificate == asked.certificate
    assert len(run.answers()) == 20
    assert cereval.verify(run).valid
    on = run.resume(max_calls=60)
    assert on.n_evaluated > run.n_evaluated
    assert cereval.load(asked.run_id, store).n_evaluated == on.n_evaluated


def test_a_changed_certificate_is_not_valid(tmp_path: Path) -> None:
    run = cereval.evaluate(ROWS, "scripted/0.7", eps=0.2, seed=1, store="sqlite://", scorer="exact")
    assert cereval.verify(run.certificate).valid
    changed = {**run.certificate, "result": {**run.certificate["result"], "lower": 0.69}}
    assert not cereval.verify(changed).valid
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(changed), encoding="utf-8")
    assert cereval.verify(path).status == "invalid"


def test_an_unknown_run_is_one_line(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    cereval.evaluate(ROWS, "scripted/0.7", eps=0.2, seed=1, store=store, scorer="exact")
    with pytest.raises(CerevalError, match="no single run"):
        cereval.load("ffff", store)
