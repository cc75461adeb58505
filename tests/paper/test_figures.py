"""The experiment drivers: small versions of every figure, resumed runs, torn files."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.populations import bernoulli
from click.testing import CliRunner
from tests.planted import plant

from cereval.cli.reproduce import reproduce as command
from cereval.errors import BadFile, Misuse
from cereval.paper.experiments import (
    Ablation,
    Benchmarks,
    Counterexample,
    HubnessCase,
    ScalingLaw,
    Simulation,
    curvature,
    folders,
    load,
    model_size,
)
from cereval.paper.figures import Figure, RowFile, Rows, Task, printed_reaches, reproduce, run_tasks

pytest.importorskip("matplotlib", reason="the extra `plots` is not installed")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A benchmark of 120 items in the layout of shared/data, five models from weak to strong."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("data") / "tiny"
    folder.mkdir()
    rng = np.random.default_rng(0)
    items = [f"q{i}" for i in range(120)]
    columns: dict[str, Any] = {"item": items}
    for number, accuracy in enumerate((0.05, 0.3, 0.5, 0.7, 0.95)):
        columns[f"model-{number + 1}b"] = (rng.uniform(size=120) < accuracy).astype(float)
    columns["model-1b"][3] = np.nan
    pq.write_table(pa.table(columns), folder / "scores.parquet")
    texts = [f"question {i % 7} about {i % 5} things" for i in range(120)]
    pq.write_table(pa.table({"item": items[::-1], "text": texts[::-1]}), folder / "items.parquet")
    return folder.parent


def figures(data: Path, out: Path) -> list[Figure]:
    return [
        Simulation(
            replications=1, eps=(0.2, 0.3), size=600, methods=("seq", "cer-eval", "oracle", "uniform")
        ),
        Benchmarks(data, out, replications=1, multiples=(1.5, 3.0), dimensions=8),
        Ablation(data, out, replications=1, multiples=(2.0,), embedders=("tfidf", "noise"), dimensions=8),
        ScalingLaw(data, out, replications=1, eps=(0.15, 0.2, 0.3)),
        Counterexample(replications=1, cases=(HubnessCase(600, 0.3),)),
    ]


@pytest.mark.parametrize("number", range(5))
def test_every_figure_writes_its_parts_and_resumes(number: int, data: Path, tmp_path: Path) -> None:
    figure = figures(data, tmp_path)[number]
    first = reproduce(figure, tmp_path, jobs=0, quiet=True)
    written = first.csv.read_bytes()
    assert first.png.stat().st_size > 5000
    assert first.svg.read_text().startswith("<?xml")
    assert "What the paper says, and why it differs" in first.note.read_text()
    again = reproduce(figure, tmp_path, jobs=0, quiet=True)
    assert again.csv.read_bytes() == written
    assert again.rows == first.rows


def test_items_are_aligned_and_missing_scores_left_out(data: Path) -> None:
    benchmark = load(folders(data)[0])
    assert benchmark.texts[1] == "question 1 about 1 things"
    series = benchmark.series("model-1b")
    assert len(series.scores) == 119
    assert series.history.shape == (119, 4)
    assert folders(data / "tiny") == [data / "tiny"]


def test_a_folder_without_benchmarks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"scores\.parquet"):
        folders(tmp_path)


class Counting:
    """A figure that counts how often each task is run."""

    name = "counting"

    def __init__(self) -> None:
        self.ran: list[int] = []

    def tasks(self) -> list[Task]:
        return [Task(self.work, number=i, title=f"task {i}") for i in range(4)]

    def work(self, number: int, title: str) -> list[dict[str, Any]]:  # noqa: ARG002
        self.ran.append(number)
        return [{"number": number, "part": part, "name": "a, b"} for part in range(2)]

    def plot(self, rows: Rows, figure: Any) -> None:
        figure.subplots().plot([row["number"] for row in rows])

    def note(self, rows: Rows) -> str:
        return f"{len(rows)} rows"


def test_a_torn_row_is_run_again_and_the_rest_is_not(tmp_path: Path) -> None:
    whole = reproduce(Counting(), tmp_path, jobs=0, quiet=True)
    text = whole.csv.read_text()
    whole.csv.write_text(text[: text.index("task 2") + 30])
    resumed = Counting()
    assert reproduce(resumed, tmp_path, jobs=0, quiet=True).rows == whole.rows
    assert resumed.ran == [2, 3]


def test_an_interruption_keeps_what_was_finished(tmp_path: Path) -> None:
    class Interrupted(Counting):
        def work(self, number: int, title: str) -> list[dict[str, Any]]:
            if number == 2:
                raise KeyboardInterrupt
            return super().work(number, title)

    with pytest.raises(KeyboardInterrupt):
        reproduce(Interrupted(), tmp_path, jobs=0, quiet=True)
    assert RowFile(tmp_path / "counting.csv").finished() == {"0/task 0", "1/task 1"}


def test_a_process_that_dies_at_its_work_is_one_line(tmp_path: Path) -> None:
    dies = Task(os._exit, status=3)
    with pytest.raises(Misuse, match="fewer --jobs"):
        run_tasks([dies], tmp_path / "rows.csv", jobs=1, title="dying", quiet=True)


def test_no_file_of_the_folder_stands_in_for_a_module_of_the_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    planted = plant(tmp_path)
    rows = run_tasks([Task(_row)], tmp_path / "rows.csv", jobs=1, title="planted", quiet=True)
    assert rows == [{"safe": 1}]
    assert not planted.exists()


def _row() -> list[dict[str, Any]]:
    return [{"safe": int(sys.flags.safe_path)}]


def test_a_foreign_csv_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "counting.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(BadFile, match="not a table"):
        reproduce(Counting(), tmp_path, jobs=0, quiet=True)
    assert path.read_text() == "a,b\n1,2\n"


def test_one_run_yields_every_eps() -> None:
    population = bernoulli(np.random.default_rng(0), 0.5, size=1000)
    side = {"seed": 3, "embeddings": population.embeddings}
    together = printed_reaches("cer-eval", population.scores, [0.4, 0.3, 0.2], **side)
    apart = [printed_reaches("cer-eval", population.scores, [eps], **side)[0] for eps in (0.4, 0.3, 0.2)]
    assert together == apart


def test_a_run_that_never_reaches_eps_takes_everything() -> None:
    (never,) = printed_reaches("seq", np.arange(20) % 2 / 1, [0.1], seed=0)
    assert (never.items, never.saved) == (20, 0.0)


@pytest.mark.parametrize(
    ("name", "size"), [("Qwen2-1.5B-it", 1.5), ("mixtral-8x22b", 176.0), ("gpt4_1106_preview", None)]
)
def test_sizes_are_read_from_names(name: str, size: float | None) -> None:
    assert model_size(name) == size


def test_curvature_tells_an_inverted_u() -> None:
    assert curvature([0.1, 0.5, 0.9], [10, 50, 10]) < 0 < curvature([0.1, 0.5, 0.9], [50, 10, 50])


def test_the_command_prints_one_json_object(data: Path, tmp_path: Path) -> None:
    arguments = ["scaling", "--quick", "--data", str(data), "--out", str(tmp_path), "--jobs", "1", "--json"]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert printed["figure"] == "scaling"
    assert all(Path(printed[part]).exists() for part in ("csv", "png", "svg", "note"))


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    for place in (tmp_path / "taken", tmp_path / "taken" / "below", tmp_path / ("x" * 300)):
        with pytest.raises(BadFile, match="cannot be the folder of a figure"):
            reproduce(Counterexample(1), place)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\xff\xfe", "can't decode byte 0xff"),
        (b"\xef\xbb\xbf", "it has no columns `key` and `of`"),
        (b"\n\n", "it has no columns `key` and `of`"),
        (b"key,of,other\na,1,2\n", "its columns are not key, of, number, part, name"),
    ],
)
def test_a_memory_of_something_else_is_one_line(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "counting.csv"
    path.write_bytes(content)
    with pytest.raises(BadFile, match=re.escape(says)):
        reproduce(Counting(), tmp_path, jobs=0, quiet=True)
    assert path.read_bytes() == content


@pytest.mark.parametrize("name", ["counting.csv", "counting.png", "counting.svg", "counting.md"])
def test_a_folder_in_the_place_of_a_file_is_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(BadFile, match=r"(?i)is a directory"):
        reproduce(Counting(), tmp_path, jobs=0, quiet=True)


def test_a_figure_of_nothing_is_one_line(tmp_path: Path) -> None:
    class Nothing(Counting):
        def work(self, number: int, title: str) -> list[dict[str, Any]]:  # noqa: ARG002
            return []

    with pytest.raises(BadFile, match="nothing to plot for counting"):
        reproduce(Nothing(), tmp_path, jobs=0, quiet=True)


def test_a_folder_or_a_pipe_in_the_place_of_the_scores_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "one" / "scores.parquet").mkdir(parents=True)
    with pytest.raises(BadFile, match=r"scores\.parquet is a directory"):
        ScalingLaw(tmp_path, tmp_path).tasks()
    (tmp_path / "two").mkdir()
    os.mkfifo(tmp_path / "two" / "scores.parquet")
    with pytest.raises(BadFile, match=r"scores\.parquet is a pipe"):
        ScalingLaw(tmp_path / "two", tmp_path).tasks()
