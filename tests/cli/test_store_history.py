"""`cereval replay --history store`: earlier runs on the same items, never the model's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.paper.tables import alike, write_benchmark

from cereval.cli.main import main
from cereval.datasets.base import Item
from cereval.plan import Plan, candidate_spec
from cereval.records import Draw
from cereval.store.base import Answer, open_store

Capture = pytest.CaptureFixture[str]
SIZE = 600


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_benchmark(tmp_path_factory.mktemp("stored") / "tiny", alike(SIZE, 4))


def plan(model: str) -> dict[str, Any]:
    goal = {"goal": "estimate", "eps": 0.02}
    return Plan("estimate", goal, "sha256:data", SIZE, (candidate_spec(model),)).as_dict()


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Two runs of other models, one of `m0` itself, on the table's items in another order."""
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    store, scores = open_store(url), alike(SIZE, 4)
    rows = list(range(SIZE))[::-1]
    store.add_items("sha256:data", [Item(f"q{row}", f"say {row}").as_dict() for row in rows])
    for column, model in ((1, "openai/m1"), (2, "m2"), (0, "openai/m0")):
        run = f"run-{column}"
        store.create_run(run, plan(model), "sha256:data", model)
        asked = range(0, SIZE, 2)
        store.add_draws(run, [Draw(index, item, 1 / SIZE) for index, item in enumerate(asked)])
        answers = [Answer(index, score=float(scores[rows[item], column])) for index, item in enumerate(asked)]
        store.add_answers(run, answers)
    store.close()
    return url


def replayed(folder: Path, capsys: Capture, *more: str) -> dict[str, object]:
    command = ["replay", str(folder / "scores.parquet"), "--model", "m0", "--eps", "0.05", "--json", *more]
    assert main(command) == 0
    told: dict[str, object] = json.loads(capsys.readouterr().out)
    return told


def test_earlier_runs_are_history_and_its_own_is_not(folder: Path, url: str, capsys: Capture) -> None:
    told = replayed(folder, capsys, "--history", "store", "--store", url)
    assert told["method"] == "active"
    notes = told["notes"]
    assert isinstance(notes, list)
    assert "2 earlier runs from the store, 600 answers" in notes[0]
    assert "1 runs of 'm0' itself were left out" in notes[1]


def test_the_rival_is_no_history(folder: Path, url: str, capsys: Capture) -> None:
    table = str(folder / "scores.parquet")
    command = [
        "replay",
        "compare",
        table,
        "--model",
        "m0",
        "--model",
        "m1",
        "--history",
        "store",
        "--store",
        url,
    ]
    main([*command, "--json"])
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert "1 earlier runs from the store, 300 answers" in notes[0]
    assert "2 runs of 'm0' or 'm1' itself were left out" in notes[1]


def test_it_is_the_history_of_the_same_columns(
    folder: Path, url: str, capsys: Capture, tmp_path: Path
) -> None:
    """The store's sparse columns give the same run as a file with the same scores."""
    scores = alike(SIZE, 4)
    lines = [
        f"q{row}," + (f"{scores[row, 1]},{scores[row, 2]}" if (SIZE - 1 - row) % 2 == 0 else ",")
        for row in range(SIZE)
    ]
    (tmp_path / "past.csv").write_text("item,a,b\n" + "\n".join(lines) + "\n", encoding="utf-8")
    from_store = replayed(folder, capsys, "--history", "store", "--store", url)
    from_file = replayed(folder, capsys, "--history", str(tmp_path / "past.csv"))
    assert from_store["n_evaluated"] == from_file["n_evaluated"]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--store", "sqlite:///nowhere.db"], "--store must be given with --history store"),
        (["--history", "store", "--store", "sqlite:///nowhere.db"], "there is no database nowhere.db"),
    ],
)
def test_stores_that_cannot_serve(folder: Path, capsys: Capture, more: list[str], says: str) -> None:
    assert main(["replay", str(folder / "scores.parquet"), "--model", "m0", *more]) == 1
    assert says in capsys.readouterr().err


def test_a_store_without_runs_on_these_items(folder: Path, capsys: Capture, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'empty.db'}"
    open_store(url).close()
    command = [
        "replay",
        str(folder / "scores.parquet"),
        "--model",
        "m0",
        "--history",
        "store",
        "--store",
        url,
    ]
    assert main(command) == 1
    assert "runs of other models" in capsys.readouterr().err


def test_numbers_are_no_names(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file has items 0 to 399: only texts tell whether they are the same."""
    monkeypatch.chdir(tmp_path)
    numbers = range(60)
    Path("scores.csv").write_text("item,m\n" + "".join(f"{n},{n % 2}\n" for n in numbers))
    for name, word in (("same", "plus"), ("other", "minus")):
        rows = [{"item": n, "text": f"{n} {word} 1?", "category": "sums"} for n in numbers]
        Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    questions = [{"id": n, "question": f"{n} plus 1?", "answer": str(n + 1)} for n in numbers]
    Path("q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions))
    assert main(["run", "q.jsonl", "--model", "scripted/0.7", "--eps", "0.3", "--display", "none"]) == 0
    line = [
        "replay",
        "scores.csv",
        "--model",
        "m",
        "--history",
        "store",
        "--embeddings",
        "none",
        "--eps",
        "0.2",
    ]
    assert main([*line, "--items", "same.jsonl"]) == 0
    assert "1 earlier runs from the store" in " ".join(capsys.readouterr().out.split())
    for more in ([], ["--items", "other.jsonl"]):
        assert main([*line, *more]) == 1
        assert "runs of other models on the items of SCORES" in capsys.readouterr().err
