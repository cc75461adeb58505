"""`cereval tasks` end to end: flags, exit codes, JSON, certificate, page, errors."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from cereval.cli.main import main

SIZE = 900
SUBJECTS = ("law", "<b>maths</b>", "art")
MEANS = {"law": 0.9, "<b>maths</b>": 0.4, "art": 0.75}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tasks")
    rng = np.random.default_rng(3)
    subjects = [SUBJECTS[i % 3] for i in range(SIZE)]
    model = (rng.uniform(size=SIZE) < [MEANS[one] for one in subjects]).astype(float)
    past = np.where(rng.uniform(size=SIZE) < 0.1, 1 - model, model)
    items = [f"q{i}" for i in range(SIZE)]
    parquet.write_table(
        pa.table({"item": items, "m": model, "past": past, "empty": np.full(SIZE, np.nan)}),
        path / "scores.parquet",
    )
    rows = [
        {"item": q, "category": s, "level": i % 2}
        for i, (q, s) in enumerate(zip(items, subjects, strict=True))
    ]
    (path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    for name, part in (("first", slice(0, 400)), ("second", slice(400, 900))):
        lines = [f"{q},{z}" for q, z in zip(items[part], model[part], strict=True)]
        (path / f"{name}.csv").write_text("item,m\n" + "\n".join(lines), encoding="utf-8")
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["replay", "tasks", *map(str, arguments)])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def by_category(folder: Path) -> tuple[Path, str, Path, str, str]:
    return folder / "scores.parquet", "--items", folder / "items.jsonl", "--model", "m"


def test_json_has_the_names_that_scripts_rely_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--by", "category", "--eps", "0.05", "--history", "others", "--json")
    code, out, _ = run(capsys, *by_category(folder), *flags)
    found = json.loads(out)
    assert code == 0
    assert set(found["tasks"]) == set(SUBJECTS)
    assert {"estimate", "lower", "upper", "n"} <= set(found["tasks"]["law"])
    assert {"estimate", "lower", "upper"} <= set(found["macro"])
    assert found["n_evaluated"] == sum(task["n"] for task in found["tasks"].values()) < SIZE
    assert found["macro"]["upper"] - found["macro"]["lower"] <= 0.1 + 1e-9
    assert found["truth_inside"] is True
    assert (found["stopped"], found["guarantee"], found["confidence"]) == ("goal", "anytime", 0.95)


def test_certificate_and_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    certificate, page = folder / "c.json", folder / "p.html"
    flags = ("--which-fail", "0.6", "--certificate", certificate, "--report", page)
    code, out, _ = run(capsys, *by_category(folder), *flags)
    assert code == 2
    assert out.splitlines()[0].startswith("below 60%: <b>maths</b>, 95% confidence")
    assert main(["verify", str(certificate)]) == 0
    assert "intervals and verdicts recomputed" in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert "&lt;b&gt;maths&lt;/b&gt;" in text
    assert "<b>maths" not in text
    assert "<script" not in text
    assert "http://" not in text
    assert "https://" not in text
    HTMLParser().feed(text)
    forged = json.loads(certificate.read_text())
    forged["result"]["macro"]["lower"] += 1e-3
    certificate.write_text(json.dumps(forged))
    assert main(["verify", str(certificate)]) == 2


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (("--at-least", "0.2"), 0, "at least 20%: certified pass"),
        (("--at-least", "0.8"), 2, "certified fail"),
        (("--at-least", "0.3", "--budget", "20"), 3, "undecided"),
        (("--each-eps", "0.1"), 0, "macro mean of 3 tasks"),
        (("--eps", "0.05", "--each-eps", "0.15"), 0, "macro mean of 3 tasks"),
        (("--by", "level", "--eps", "0.1"), 0, "macro mean of 2 tasks"),
        (("--eps", "0.01", "--budget", "50"), 3, "50 of 900"),
    ],
)
def test_goals_and_exit_codes(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], code: int, words: str
) -> None:
    found, out, err = run(capsys, *by_category(folder), *flags)
    assert (found, err) == (code, "")
    assert words in " ".join(out.split())


def test_several_files_are_several_tasks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys, folder / "first.csv", folder / "second.csv", "--model", "m", "--eps", "0.1", "--json"
    )
    tasks: dict[str, Any] = json.loads(out)["tasks"]
    assert code == 0
    assert {name: task["n_items"] for name, task in tasks.items()} == {"first": 400, "second": 500}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--eps", "0.1", "--at-least", "0.5"), "left out where"),
        (("--which-fail", "0.1", "--at-least", "0.5"), "--which-fail must be left out"),
        (("--by", "nothing"), "no column `nothing`"),
        (("--eps", "7"), "eps must be"),
        (("--history", "nobody"), "nobody"),
    ],
)
def test_errors_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], words: str
) -> None:
    code, out, err = run(capsys, *by_category(folder), *flags)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert words in err


def test_one_file_needs_items_and_several_need_different_names(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--items must be given" in run(capsys, folder / "first.csv", "--model", "m")[2]
    twice = run(capsys, folder / "first.csv", folder / "first.csv", "--model", "m")
    assert "of different names" in twice[2]
