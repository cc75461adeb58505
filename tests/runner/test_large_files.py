"""The questions of a large file stay on disk, whatever is asked about them: only those that are drawn are read."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cereval
from cereval.api import settings_for
from cereval.certificate.verify import verify
from cereval.datasets import large
from cereval.errors import InvalidInput
from cereval.questions.compare.goal import Sign
from cereval.questions.mean.goal import Estimate
from cereval.questions.rank.goal import Order
from cereval.questions.tasks.goal import Macro
from cereval.runner.limits import Allowance
from cereval.runner.prepare import prepare, read_data
from cereval.runner.run import Bounds, Outcome, conduct
from cereval.runner.start import evidence
from cereval.settings import Candidate, settings_of
from cereval.store.base import opened_store

ITEMS = 3000


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Take note of every row that is read; files are large from a hundred questions on."""
    rows: list[int] = []
    before = large.JsonlRows.row

    def row(self: large.JsonlRows, number: int) -> Any:
        rows.append(number)
        return before(self, number)

    monkeypatch.setattr(large, "LARGE", 100)
    monkeypatch.setattr(large, "HEAD", 20)
    monkeypatch.setattr(large.JsonlRows, "row", row)
    return rows


def questions(folder: Path) -> str:
    topics = ("", "sums", "!first")
    lines = [
        {"id": f"q{row}", "question": f"{row} + 1", "answer": str(row + 1), "category": topics[row % 3]}
        for row in range(ITEMS)
    ]
    file = folder / "large.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(file)


WAYS: dict[str, tuple[list[str], Any]] = {
    "estimate": (["scripted/0.9"], Estimate(0.1)),
    "compare": (["scripted/0.9", "scripted/0.4"], Sign()),
    "rank": (["scripted/0.9", "scripted/0.5", "scripted/0.1"], Order()),
    "tasks": (["scripted/0.9"], Macro(0.1)),
}


def carry_out(way: str, file: str, store: str, bounds: Bounds | None = None, **options: Any) -> Outcome:
    models, goal = WAYS[way]
    settings = settings_for(way, file, models, goal, {"scorer": "contains", "store": store, **options})
    work = prepare(settings)
    with opened_store(store, create=True) as opened:
        return asyncio.run(conduct(work, settings, opened, bounds=bounds))


@pytest.mark.parametrize("way", WAYS)
def test_only_what_is_drawn_is_read(way: str, tmp_path: Path, read: list[int]) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    done = carry_out(way, questions(tmp_path), store, seed=1)
    assert done.result.stopped == "goal"
    assert len(set(read)) < ITEMS / 2
    with opened_store(store) as kept:
        assert not kept.items(done.plan.data_hash), "the questions are not copied into the store"
        assert verify(done.certificate, evidence(done.certificate, kept)).status == "valid"


def test_tasks_of_a_large_file_are_those_of_a_small_one(tmp_path: Path, read: list[int]) -> None:
    del read
    done = cereval.tasks(
        questions(tmp_path),
        model="scripted/0.9",
        goal=Macro(0.2),
        scorer="contains",
        seed=1,
        store="sqlite://",
    )
    assert done.outcome.plan.tasks == ("!first", "(none)", "sums")


@pytest.mark.parametrize("way", WAYS)
def test_a_repeated_command_goes_on_with_its_run(way: str, tmp_path: Path, read: list[int]) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    begun = carry_out(way, questions(tmp_path), store, Bounds(allowance=Allowance(20)))
    repeated = carry_out(way, questions(tmp_path), store)
    assert (repeated.run_id, repeated.kept) == (begun.run_id, 20)
    assert len(set(read)) < ITEMS / 2


def weighed(folder: Path, suffix: str) -> str:
    """Questions with a category and a weight, with a blank line where there can be one."""
    rows = [
        {
            "id": f"q{row}",
            "question": f"{row} + 1",
            "answer": str(row + 1),
            "category": ("sums", "law")[row % 3 == 0],
            "asked": row % 7 + 1,
        }
        for row in range(600)
    ]
    file = folder / f"weighed{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
    else:
        lines = [json.dumps(row) for row in rows]
        file.write_text("\n".join([*lines[:50], "", *lines[50:]]), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize("target", [{"weights": "asked"}, {"mix": "law=0.7,sums=0.3"}])
def test_weights_of_a_large_file_are_those_of_a_small_one(
    suffix: str, target: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {"model": "scripted/0.9", "eps": 0.1, "scorer": "contains", "seed": 1, **target}
    file = weighed(tmp_path, suffix)
    small = cereval.evaluate(file, store="sqlite://", **asked).outcome
    monkeypatch.setattr(large, "LARGE", 100)
    store = f"sqlite:///{tmp_path}/runs.db"
    big = cereval.evaluate(file, store=store, **asked).outcome
    assert big.plan.data_hash != small.plan.data_hash, "it stayed on disk"
    assert big.plan.weights == small.plan.weights
    with opened_store(store) as kept:
        assert verify(big.certificate, evidence(big.certificate, kept)).status == "valid"


@pytest.mark.parametrize(
    ("weights", "says"), [("askd", "asked"), ("id", "a field of the data"), ("note", "q7")]
)
def test_weights_that_are_none(weights: str, says: str, tmp_path: Path, read: list[int]) -> None:
    del read
    file = tmp_path / "large.jsonl"
    rows = [
        {"id": f"q{n}", "question": f"{n}?", "answer": "1", "asked": 1, "note": "x" if n == 7 else 2}
        for n in range(200)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with pytest.raises(InvalidInput, match=says):
        cereval.evaluate(
            str(file), model="scripted/0.9", scorer="contains", store="sqlite://", weights=weights
        )


def test_worked_examples_have_no_weight(tmp_path: Path, read: list[int]) -> None:
    del read
    candidate = Candidate("scripted/0.9", few_shot=3)
    settings = settings_of("estimate", weighed(tmp_path, ".jsonl"), [candidate], {})
    data, examples = read_data(settings, on_disk=True)
    left = [row for row in range(600) if f"q{row}" not in {example.id for example in examples}]
    assert isinstance(data.items, large.FileItems)
    assert list(data.items.column("asked")) == [row % 7 + 1 for row in left]
