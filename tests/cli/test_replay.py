"""`cereval replay` end to end: every flag does something, exit codes, JSON, errors."""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import cereval
from cereval.cli.main import main

SIZE = 1200
FIELDS = {field.name for field in fields(cereval.Result)} - cereval.Result.silent


def columns() -> dict[str, np.ndarray[Any, Any]]:
    """`good` is right on 90%; `twin` errs mostly where `good` does; `half` on even items; `gaps` lacks 200"""
    rng = np.random.default_rng(7)
    good = (rng.uniform(size=SIZE) < 0.9).astype(float)
    twin = np.where(rng.uniform(size=SIZE) < 0.03, 1 - good, good)
    gaps = good.copy()
    gaps[:200] = np.nan
    return {"good": good, "twin": twin, "half": (np.arange(SIZE) % 2).astype(float), "gaps": gaps}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replay")
    items = [f"q{i}" for i in range(SIZE)]
    table = pa.table({"item": items, **columns()})
    parquet.write_table(table, path / "scores.parquet")
    names = ["even number", "odd number"]
    rows = [{"item": q, "text": f"{names[i % 2]} {i}", "category": names[i % 2]} for i, q in enumerate(items)]
    (path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (path / "bare.csv").write_text("item,text\n" + "".join(f"{q},word\n" for q in items), encoding="utf-8")
    past = "item,past,good\n" + "".join(f"{q},{columns()['twin'][i]},1\n" for i, q in enumerate(items[:900]))
    (path / "past.csv").write_text(past, encoding="utf-8")
    return path


class Run:
    """One call of the program: exit code, stdout, stderr."""

    def __init__(
        self, folder: Path, capsys: pytest.CaptureFixture[str], *flags: str, scores: str = "scores.parquet"
    ):
        self.code = main(["replay", str(folder / scores), *flags])
        captured = capsys.readouterr()
        self.out, self.err = captured.out, captured.err

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


def replayed(folder: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, Any]:
    run = Run(folder, capsys, "--json", *flags)
    assert run.err == "" or "embedding" in run.err
    return run.json


def test_json_has_the_results_fields_and_only_finite_numbers(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(folder, capsys, "--model", "good", "--eps", "0.05", "--json")
    assert run.code == 0
    assert run.out.count("\n") == 1
    assert set(run.json) >= FIELDS
    assert all(math.isfinite(value) for value in run.json.values() if isinstance(value, float))
    assert run.json["truth"] == pytest.approx(columns()["good"].mean())
    assert run.json["truth_inside"] is True


def test_it_is_the_replay_of_the_library(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = replayed(folder, capsys, "--model", "good", "--eps", "0.04", "--seed", "5", "--confidence", "0.9")
    result = cereval.replay(columns()["good"], goal=cereval.Estimate(0.04), seed=5, confidence=0.9)
    assert {key: told[key] for key in FIELDS} == result.as_dict()


def test_the_headline_and_the_table_for_people(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(folder, capsys, "--model", "good", "--eps", "0.05")
    first = run.out.splitlines()[0]
    assert re.fullmatch(
        r"\d\d\.\d% \(\d\d\.\d% to \d\d\.\d%\), 95% confidence, \d+ of 1,200 questions asked", first
    )
    for word in ("uniform", "anytime", "benchmark", "interval", "inside the interval"):
        assert word in run.out


def test_missing_scores_are_not_part_of_the_pool(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = replayed(folder, capsys, "--model", "gaps", "--eps", "0.05")
    assert told["n_items"] == 1000
    assert told["truth"] == pytest.approx(columns()["good"][200:].mean())


@pytest.mark.parametrize(
    ("flags", "field", "value"),
    [
        (["--method", "seq"], "method", "seq"),
        (["--method", "static"], "guarantee", "fixed-n"),
        (["--target", "population"], "target", "population"),
        (["--target", "expected"], "target", "expected"),
        (["--budget", "40"], "n_evaluated", 40),
        (["--seed", "3"], "seed", 3),
        (["--confidence", "0.8"], "confidence", 0.8),
        (["--history", "twin"], "method", "active"),
        (["--history", "others"], "method", "active"),
        (["--history", "twin,half"], "method", "active"),
        (["--history", "twin", "--history", "half"], "method", "active"),
        (["--threshold", "0.8"], "decision", "above"),
        (["--at-least", "0.97"], "decision", "below"),
    ],
)
def test_every_flag_does_something(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: list[str], field: str, value: object
) -> None:
    goal = [] if "--threshold" in flags or "--at-least" in flags else ["--eps", "0.05"]
    assert replayed(folder, capsys, "--model", "good", *goal, *flags)[field] == value


def test_history_saves_calls_whether_column_or_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = replayed(folder, capsys, "--model", "good", "--eps", "0.03")["n_evaluated"]
    column = replayed(folder, capsys, "--model", "good", "--eps", "0.03", "--history", "twin")["n_evaluated"]
    file = replayed(folder, capsys, "--model", "good", "--eps", "0.03", "--history", str(folder / "past.csv"))
    assert column < 0.8 * plain
    assert file["n_evaluated"] < plain
    assert any("'good'" in note and "left out" in note for note in file["notes"])


def test_items_bring_groups_and_texts_and_can_be_switched_off(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--model", "half", "--eps", "0.03", "--items", str(folder / "items.jsonl")]
    plain = replayed(folder, capsys, "--model", "half", "--eps", "0.03")["n_evaluated"]
    for off in (
        ["--embeddings", "none"],
        ["--groups", "none"],
        ["--groups", "category", "--embeddings", "tfidf"],
    ):
        told = replayed(folder, capsys, *flags, *off)
        assert told["method"] == "active"
        assert told["n_evaluated"] < 0.7 * plain
    neither = replayed(folder, capsys, *flags, "--embeddings", "none", "--groups", "none")
    assert (neither["method"], neither["n_evaluated"]) == ("uniform", plain)
    assert replayed(folder, capsys, *flags, "--method", "oracle")["method"] == "oracle"


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--eps", "0.05"], 0),
        (["--eps", "0.05", "--budget", "10"], 3),
        (["--eps", "0.01", "--target", "population"], 3),
        (["--threshold", "0.8"], 0),
        (["--threshold", "0.97"], 2),
        (["--threshold", "0.89", "--budget", "20"], 3),
    ],
)
def test_exit_codes_with_and_without_json(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: list[str], code: int
) -> None:
    assert Run(folder, capsys, "--model", "good", *flags).code == code
    assert Run(folder, capsys, "--model", "good", *flags, "--json").code == code


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--threshold", "0.8"], "at least 80%: certified pass"),
        (["--at-least", "0.97"], "97%: certified fail"),
    ],
)
def test_a_decision_is_the_headline(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: list[str], says: str
) -> None:
    assert says in Run(folder, capsys, "--model", "good", *flags).out.splitlines()[0]


def test_the_truth_of_a_population_is_not_claimed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--model", "good", "--eps", "0.05", "--target", "population"]
    assert replayed(folder, capsys, *flags)["truth"] is None
    assert "unknown" in Run(folder, capsys, *flags).out


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--model", "goood"], "did you mean 'good'?"),
        (["--eps", "0"], "eps must be a number in (0, 1), or auto, got 0.0"),
        (["--eps", "nan"], "eps must be a number in (0, 1), or auto, got nan"),
        (["--threshold", "1.2"], "threshold must be a number in (0, 1), got 1.2"),
        (["--eps", "0.1", "--threshold", "0.5"], "--threshold must be left out where eps is given, got 0.5"),
        (["--confidence", "95"], "confidence must be a number in (0, 1), got 95.0"),
        (["--method", "unifrom"], "did you mean 'uniform'?"),
        (["--target", "moon"], "target must be one of benchmark"),
        (["--budget", "0"], "budget must be a whole number >= 1, got 0"),
        (["--seed", "-1"], "seed must be a whole number >= 0, got -1"),
        (["--history", "good"], "--history must be columns other than the model's own, got 'good'"),
        (["--history", "nobody"], "--history must be a column of the scores table"),
        (["--history", "nowhere.csv"], "nowhere.csv"),
        (["--items", "nowhere.csv"], "nowhere.csv"),
        (["--embeddings", "tfidf"], "--embeddings must be given with --items that have a column `text`"),
        (["--groups", "category"], "--groups must be given with --items that have a column `category`"),
        (["--embeddings", "magic"], "'magic' is not one of"),
        (["--method", "oracle"], "groups must be given for the method oracle"),
        (["--method", "active", "--target", "population"], "population"),
    ],
)
def test_bad_flags_are_one_line_that_names_them(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: list[str], says: str
) -> None:
    model = [] if "--model" in flags else ["--model", "good"]
    run = Run(folder, capsys, *model, *flags, "--json")
    assert run.code == 1
    assert run.out == ""
    assert run.err.startswith("error: ")
    assert run.err.count("\n") == 1
    assert says in run.err


def test_categories_asked_of_items_without_any(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(folder, capsys, "--model", "good", "--items", str(folder / "bare.csv"), "--groups", "category")
    assert run.code == 1
    assert "`category`" in run.err


def test_a_history_that_shares_no_item(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "other.csv").write_text("item,m\nzzz,1\n", encoding="utf-8")
    run = Run(folder, capsys, "--model", "good", "--history", str(tmp_path / "other.csv"))
    assert run.code == 1
    assert "shares items" in run.err
