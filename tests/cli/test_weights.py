"""`--weights` and `--mix`: replay, plan, and live runs that are resumed and verified."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cereval.cli.main import main

SIZE = 500


def answer(messages: list[dict[str, str]]) -> str:
    """A model that is right on even numbers, and on all under 100."""
    question = messages[-1]["content"]
    number = int(question.split()[-1])
    return str(number) if number % 2 == 0 or number < 100 else "no idea"


def kind(number: int) -> str:
    return "low" if number < 100 else "high"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights")
    rows = [
        {"item": f"q{i}", "question": f"say {i}", "answer": str(i), "category": kind(i), "w": 1 + i % 3}
        for i in range(SIZE)
    ]
    (path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    scores = [float(answer([{"content": row["question"]}]) == row["answer"]) for row in rows]
    lines = [f"q{i},{score},{score if i else ''}" for i, score in enumerate(scores)]
    (path / "scores.csv").write_text("item,m,gap\n" + "\n".join(lines), encoding="utf-8")
    heavy = [f"q{i},{1000 if i < 3 else 1}" for i in reversed(range(SIZE))]
    (path / "heavy.csv").write_text("item,weight\n" + "\n".join(heavy), encoding="utf-8")
    (path / "ones.csv").write_text(
        "item,weight\n" + "\n".join(f"q{i},2" for i in range(SIZE)), encoding="utf-8"
    )
    (path / "mix.csv").write_text("category,share\nlow,0.5\nhigh,0.5\n", encoding="utf-8")
    (path / "short.csv").write_text("item,weight\nq0,1\n", encoding="utf-8")
    (path / "bad.csv").write_text(
        "item,weight\n" + "\n".join(f"q{i},-1" for i in range(SIZE)), encoding="utf-8"
    )
    return path


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def truth(weights: Any) -> float:
    scores = [float(i % 2 == 0 or i < 100) for i in range(SIZE)]
    return float(np.average(scores, weights=weights))


LOW = np.where(np.arange(SIZE) < 100, 0.5 / 100, 0.5 / 400)


def replayed(folder: Path, *flags: object) -> int:
    start = ["replay", folder / "scores.csv", "--model", "m", "--items", folder / "items.jsonl", "--json"]
    return main([*map(str, start), "--method", "uniform", *map(str, flags)])


@pytest.mark.parametrize(
    ("flags", "weights"),
    [
        (("--mix", "low=0.5,high=0.5"), LOW),
        (("--mix", "mix.csv"), LOW),
        (("--weights", "w"), 1 + np.arange(SIZE) % 3),
        (("--weights", "heavy.csv"), np.where(np.arange(SIZE) < 3, 1000, 1)),
    ],
)
def test_replay(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, str], weights: Any
) -> None:
    value = folder / flags[1] if flags[1].endswith(".csv") else flags[1]
    assert replayed(folder, flags[0], value, "--eps", "0.06") == 0
    found = printed(capsys)
    assert found["target"] == "weighted"
    assert found["truth"] == pytest.approx(truth(weights))
    assert found["truth_inside"]
    assert any("equally weighted ones (Kish)" in note for note in found["notes"])


def test_equal_weights_change_no_number(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replayed(folder, "--eps", "0.05", "--weights", folder / "ones.csv")
    equal = printed(capsys)
    replayed(folder, "--eps", "0.05")
    without = printed(capsys)
    same = ("estimate", "lower", "upper", "n_evaluated", "truth", "notes")
    assert [equal[name] for name in same] == [without[name] for name in same]


def test_a_mix_is_one_of_the_items_that_have_a_score(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--model", "gap", "--items", str(folder / "items.jsonl"), "--mix", "low=1,high=1", "--json"]
    assert main(["replay", str(folder / "scores.csv"), *flags, "--eps", "0.1"]) == 0
    assert printed(capsys)["truth"] == pytest.approx(0.75)


def test_plan_counts_with_the_weights(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--weights", str(folder / "heavy.csv"), "--eps", "0.05", "--json"]) == 0
    found = printed(capsys)
    calls = {row["method"]: row["calls"] for row in found["methods"]}
    assert set(calls) == {"normal", "uniform"}
    assert calls["uniform"] == found["weights"]["calls"] < found["weights"]["calls_without"]
    assert found["weights"]["extreme"]
    assert "calls (about" in found["weights"]["warning"]
    items = str(folder / "items.jsonl")
    assert main(["plan", "--items", items, "--mix", "low=1,high=1", "--eps", "0.05"]) == 0
    shown = capsys.readouterr()
    assert "worth 320 equally weighted ones" in shown.out
    assert main(["plan", "--items", items, "--eps", "0.05", "--json"]) == 0
    assert printed(capsys)["weights"] is None


LIVE = "python:tests.cli.test_weights:answer"


def live(folder: Path, store: Path, *flags: object) -> list[str]:
    start = [folder / "items.jsonl", "--model", LIVE, "--scorer", "exact", "--id", "item", "--store"]
    return [*map(str, start), f"sqlite:///{store}", "--json", "--display", "none", *map(str, flags)]


@pytest.mark.parametrize("flags", [("--mix", "low=0.5,high=0.5"), ("--weights", "w")])
def test_a_live_run_is_resumed_and_verified(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, str]
) -> None:
    """One run cannot tell whether intervals cover: `benchmarks.shift` counts that, resumed runs among them."""
    store = tmp_path / "runs.db"
    assert main(["run", *live(folder, store, *flags, "--eps", "0.08", "--max-calls", "40")]) == 3
    first = printed(capsys)
    assert (first["target"], first["n_evaluated"]) == ("weighted", 40)
    more = ["--store", f"sqlite:///{store}", "--json", "--display", "none", "--max-calls", "500"]
    assert main(["resume", first["run_id"], *more]) == 0
    found = printed(capsys)
    assert (found["target"], found["stopped"]) == ("weighted", "goal")
    assert found["n_evaluated"] > 40
    assert main(["verify", found["certificate"]]) == 0
    assert "log in the store" in capsys.readouterr().out
    page = tmp_path / "page.html"
    assert main(["report", found["run_id"], "--store", f"sqlite:///{store}", "-o", str(page)]) == 0
    capsys.readouterr()
    assert "<th>Weights</th>" in page.read_text(encoding="utf-8")
    certificate = json.loads(Path(found["certificate"]).read_text())
    certificate["plan"].pop("weights")
    Path(found["certificate"]).write_text(json.dumps(certificate))
    assert main(["verify", found["certificate"]]) == 2


def test_weights_are_part_of_what_is_asked_for(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = []
    for flags in ((), ("--mix", "low=1,high=2"), ("--mix", "low=1,high=1")):
        assert main(["run", *live(folder, tmp_path / "runs.db", *flags, "--eps", "0.2")]) == 0
        ids.append(printed(capsys)["run_id"])
    assert len(set(ids)) == 3


def test_gate_and_dry_run_know_weights(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = live(folder, tmp_path / "runs.db", "--mix", "low=0.9,high=0.1")
    assert main(["gate", *flags, "--min", "0.8"]) == 0
    assert printed(capsys)["decision"] == "above"
    assert main(["run", *flags, "--eps", "0.05", "--dry-run"]) == 0
    facts = printed(capsys)
    assert facts["plan"]["weights"]["source"] == "mix low=0.9,high=0.1"
    assert facts["expected_calls"] < 200


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--weights", "w", "--mix", "low=1"), "--mix must be left out"),
        (("--weights", "nothing"), "no column `nothing`"),
        (("--weights", "short.csv"), "lacks 499 of the 500 items"),
        (("--weights", "bad.csv"), "'q0'"),
        (("--weights", "question"), "numbers >= 0"),
        (("--mix", "lo=1"), "did you mean 'low'"),
        (("--mix", "low"), "name=share"),
        (
            ("--weights", "w", "--target", "population"),
            "--weights must be left out for the target population",
        ),
    ],
)
def test_errors_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], words: str
) -> None:
    given = [folder / one if one.endswith(".csv") else one for one in flags]
    assert replayed(folder, *given) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert words in error or words.strip("'") in error


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--items", "5", "--mix", "a=1"), "--items must be a file"),
        (("--items", "many"), "a whole number >= 1, or a file"),
        ((), "a whole number >= 1, or a file"),
        (("--items", "7", "--weights", "heavy.csv"), "the 500 of the weights"),
        (("--weights", "heavy.csv", "--target", "expected"), "benchmark when weights are given"),
    ],
)
def test_errors_of_plan(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], words: str
) -> None:
    given = [str(folder / one) if one.endswith(".csv") else one for one in flags]
    assert main(["plan", *given]) == 1
    assert words in capsys.readouterr().err


def test_relative_shares_are_said_to_be(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replay = ["replay", str(folder / "scores.csv"), "--items", str(folder / "items.jsonl"), "--model", "m"]
    assert main([*replay, "--mix", "low=2,high=1", "--json"]) == 0
    assert "the shares of --mix sum to 3" in printed(capsys)["notes"][0]
    assert main([*replay, "--mix", "low=0.33,high=0.67", "--json"]) == 0
    assert not any("--mix" in note for note in printed(capsys)["notes"])
    plan = ["plan", "--items", str(folder / "items.jsonl"), "--mix", "low=2,high=1"]
    assert main(plan) == 0
    assert "sum to 3" in capsys.readouterr().err


def test_a_wrong_mix_is_refused_before_texts_are_embedded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cereval.cli.replay.embed", lambda *_: pytest.fail("texts were embedded"))
    replay = ["replay", str(folder / "scores.csv"), "--items", str(folder / "items.jsonl"), "--model", "m"]
    assert main([*replay, "--mix", "low=0.5,hihg=0.5"]) == 1
    assert "--mix must be made of the data's categories (did you mean 'high'?)" in capsys.readouterr().err


def weighted(path: Path, weights: list[object]) -> str:
    file = path / "weights.csv"
    lines = [f"q{number},{weight}" for number, weight in enumerate(weights)]
    file.write_text("\n".join(("item,weight", *lines)), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        (["-0.0"] * 4, "--weights must be not all zero"),
        (["1e308", "1e308", "1"], "--weights must be 0, or at least 1e-300 of a finite sum"),
        (
            ["1", "1e-320"],
            "--weights must be 0, or at least 1e-300 of a finite sum, got '1e-320 at item 1, sum 1'",
        ),
    ],
)
def test_weights_that_cannot_be_divided_by_their_sum(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], weights: list[object], says: str
) -> None:
    questions = [
        {"id": f"q{i}", "question": "?", "answer": "1", "w": float(w)} for i, w in enumerate(weights)
    ]  # type: ignore[arg-type]
    data = tmp_path / "data.jsonl"
    data.write_text("\n".join(map(json.dumps, questions)), encoding="utf-8")
    run = ["run", str(data), "--model", "scripted/0.5", "--dry-run", "--weights", "w"]
    for words in (["plan", "--weights", weighted(tmp_path, weights)], run, [*run, "--at-least", "0.5"]):
        assert main(words) == 1
        assert says in capsys.readouterr().err


@pytest.mark.parametrize("weight", ["1e308", "1e-320"])
def test_equal_weights_count_alike_however_large(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], weight: str
) -> None:
    file = weighted(tmp_path, [weight] * SIZE)
    assert main(["plan", "--weights", file, "--eps", "0.05", "--json"]) == 0
    assert printed(capsys)["weights"]["effective"] == pytest.approx(SIZE)
    assert replayed(folder, "--weights", file, "--eps", "0.05") == 0
    assert printed(capsys)["truth"] == pytest.approx(truth(np.ones(SIZE)))


@pytest.mark.parametrize("mix", ["low=1e308,high=1e308", "low=1e-320,high=1"])
def test_a_mix_that_cannot_be_divided_by_its_sum(
    folder: Path, capsys: pytest.CaptureFixture[str], mix: str
) -> None:
    items = str(folder / "items.jsonl")
    assert main(["plan", "--items", items, "--mix", mix]) == 1
    assert (
        "--mix must be shares of 0, or of at least 5e-298 of a finite sum (category low)"
        in capsys.readouterr().err
    )
    assert replayed(folder, "--mix", mix) == 1
    assert "--mix must be shares" in capsys.readouterr().err
    assert main(["run", items, "--model", "scripted/0.5", "--dry-run", "--mix", mix]) == 1
    assert "--mix must be shares" in capsys.readouterr().err
