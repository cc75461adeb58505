"""Recorded scores, in tables and in logs of other tools, are used whole by `run`, `gate`, `compare` and `rank`."""

from __future__ import annotations

import json
import random
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from tests.cli.live import content, run

from cereval.certificate.verify import verify

LOGS = Path(__file__).parents[1] / "integrations" / "logs"
N = 80
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[float]]:
    monkeypatch.chdir(tmp_path)
    rng = random.Random(1)
    columns = {
        name: [float(rng.random() < level) for _ in range(N)]
        for name, level in (("good", 0.9), ("fair", 0.7), ("poor", 0.3))
    }
    columns["poor"] = columns["poor"][:-1]  # the last item has no score
    lines = ["item,good,fair,poor"]
    for row in range(N):
        values = [str(column[row]) if row < len(column) else "" for column in columns.values()]
        lines.append(",".join([f"q{row}", *values]))
    Path("scores.csv").write_text("\n".join(lines))
    texts = "".join(f"q{row},What is {row}?,{'ab'[row % 2]},{row // 4}\n" for row in range(N))
    Path("items.csv").write_text("item,text,category,passage\n" + texts)
    return columns


def log(path: str, model: str, level: float, seed: int) -> list[float]:
    """Write a log of Inspect; return its scores."""
    rng = random.Random(seed)
    values = [float(rng.random() < level) for _ in range(N)]
    samples = [
        {
            "id": row,
            "input": f"What is {row}?",
            "target": str(row),
            "metadata": {"passage": row // 4},
            "scores": {"match": {"value": "C" if value else "I"}},
        }
        for row, value in enumerate(values)
    ]
    about = {"model": model, "task": "sums", "dataset": {}, "config": {}}
    Path(path).write_text(json.dumps({"version": 2, "status": "success", "eval": about, "samples": samples}))
    return values


def test_a_table_is_compared_whole(capsys: Capture, scores: dict[str, list[float]]) -> None:
    code, facts = run(capsys, "compare", "scores.csv", "--model", "good", "--model", "fair")
    truth = mean(scores["good"]) - mean(scores["fair"])
    assert (code, facts["decision"], facts["n_evaluated"]) == (0, "first", N)
    assert facts["lower"] == pytest.approx(truth) == facts["upper"]
    assert (facts["first"], facts["second"], facts["cost_usd"]) == ("good", "fair", 0)
    assert verify(content(facts)).valid
    # What one of them lacks is left out, and said.
    code, facts = run(capsys, "compare", "scores.csv", "--model", "good", "--model", "poor")
    assert facts["n_items"] == N - 1
    capsys.readouterr()
    run(capsys, "compare", "scores.csv", "--model", "poor", "--model", "good", "--not-worse", "0.1")


def test_the_page_says_what_the_difference_is_about(capsys: Capture) -> None:
    both = ["compare", "scores.csv", "--model", "good", "--model", "fair", "--report", "page.html"]
    run(capsys, *both)
    assert "All of them are in" in Path("page.html").read_text()
    run(capsys, *both, "--target", "population", "--items", "items.csv", "--cluster", "passage")
    text = Path("page.html").read_text()
    assert "all questions of this kind" in text
    assert "The clusters of one passage each" in text
    assert "not about other data" not in text
    assert "more characters" not in text.split("What it means")[1].split("</p>")[0]


def test_one_column_is_exact_and_a_gate_of_it_decides(
    capsys: Capture, scores: dict[str, list[float]]
) -> None:
    _, facts = run(capsys, "run", "scores.csv", "--model", "fair")
    assert facts["lower"] == facts["upper"] == pytest.approx(mean(scores["fair"]))
    assert run(capsys, "gate", "scores.csv", "--model", "fair", "--min", "0.5")[0] == 0
    assert run(capsys, "gate", "scores.csv", "--model", "fair", "--min", "0.9")[0] == 2


def test_clusters_come_from_the_file_of_items_or_the_log(capsys: Capture) -> None:
    line = [
        "run",
        "scores.csv",
        "--model",
        "fair",
        "--target",
        "population",
        "--items",
        "items.csv",
        "--seed",
        1,
    ]
    _, apart = run(capsys, *line)
    _, clusters = run(capsys, *line, "--cluster", "passage")
    assert (apart["n_items"], clusters["n_items"]) == (N, N // 4)
    assert verify(content(clusters)).valid
    log("a.json", "m", 0.8, 3)
    _, of_log = run(capsys, "run", "a.json", "--target", "population", "--cluster", "passage")
    assert of_log["n_items"] == N // 4


def test_logs_are_compared_in_one_command(capsys: Capture) -> None:
    """The same model with two prompts: two logs are two candidates."""
    first, second = log("a.json", "openai/m", 0.9, 4), log("b.json", "openai/m", 0.6, 5)
    code, facts = run(capsys, "compare", "a.json", "b.json")
    assert (code, facts["decision"], facts["n_evaluated"]) == (0, "first", N)
    assert facts["lower"] == pytest.approx(mean(first) - mean(second)) == facts["upper"]
    assert (facts["first"], facts["second"]) == ("openai/m (a)", "openai/m (b)")
    assert verify(content(facts)).valid
    log("c.json", "openai/other", 0.3, 6)
    code, ranked = run(capsys, "rank", "a.json", "b.json", "c.json")
    assert code == 0
    assert len(ranked["order"]) == 3
    assert all(one["lower"] == one["upper"] for one in ranked["intervals"].values())
    assert verify(content(ranked)).valid


def test_a_call_that_failed_stays_unknown(capsys: Capture) -> None:
    """In a log of Inspect with 8 samples, one of which has no score, and 4 of which are right."""
    code, facts = run(capsys, "run", LOGS / "data" / "sums.eval", "--eps", "0.1")
    assert (code, facts["n_items"], facts["failures"]) == (0, 8, 1)
    assert (facts["lower"], facts["upper"]) == (0.5, 0.625)


@pytest.mark.parametrize("path", ["data/lm_eval/dummy", "others/promptfoo-0.121/out.json"])
def test_logs_of_every_tool_are_read(capsys: Capture, path: str) -> None:
    command = "compare" if "promptfoo" in path else "run"
    code, facts = run(capsys, command, LOGS / path)
    assert code in (0, 3)
    assert facts["n_evaluated"] == facts["n_items"]


def test_every_pair_of_a_table_is_in_order(capsys: Capture, scores: dict[str, list[float]]) -> None:
    _, facts = run(capsys, "rank", "scores.csv", "--model", "good", "--model", "fair", "--model", "poor")
    kept = {name: mean(column[: N - 1]) for name, column in scores.items()}
    assert {name: one["lower"] for name, one in facts["intervals"].items()} == pytest.approx(kept)
    assert sorted(map(tuple, facts["order"])) == sorted(
        (one, other) for one in kept for other in kept if kept[one] > kept[other]
    )
    certificate = content(facts)
    assert verify(certificate).valid
    certificate["result"]["intervals"]["good"]["upper"] += 0.01
    assert not verify(certificate).valid


def test_tasks_are_exact(capsys: Capture, scores: dict[str, list[float]]) -> None:
    line = ["tasks", "scores.csv", "--items", "items.csv", "--model", "fair"]
    code, facts = run(capsys, *line)
    own = {name: mean(scores["fair"][number::2]) for number, name in enumerate("ab")}
    assert code == 0
    assert {name: task["lower"] for name, task in facts["tasks"].items()} == pytest.approx(own)
    assert {name: task["upper"] for name, task in facts["tasks"].items()} == pytest.approx(own)
    assert facts["macro"]["lower"] == pytest.approx(mean(own.values())) == facts["macro"]["upper"]
    certificate = content(facts)
    assert verify(certificate).valid
    certificate["result"]["tasks"]["a"]["upper"] += 0.01
    assert not verify(certificate).valid
    assert run(capsys, *line, "--at-least", "0.3")[0] == 0
    code, facts = run(capsys, *line, "--which-fail", "0.99")
    assert (code, facts["failing"]) == (2, ["a", "b"])
    assert verify(content(facts)).valid
    # Several files: each is a task.
    for name in ("north", "south"):
        Path(f"{name}.csv").write_text(Path("scores.csv").read_text())
    _, facts = run(capsys, "tasks", "north.csv", "south.csv", "--model", "good")
    assert set(facts["tasks"]) == {"north", "south"}
    assert facts["n_items"] == 2 * N


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--history", "others"], "recorded scores are there already"),
        (["--max-calls", "5"], "recorded scores are there already"),
        (["--scorer", "exact"], "recorded scores are there already"),
        (["--system", "x"], "recorded scores are there already"),
    ],
)
def test_flags_of_asking_are_refused(capsys: Capture, flags: list[str], said: str) -> None:
    both = ["compare", "scores.csv", "--model", "good", "--model", "fair"]
    code, facts = run(capsys, *both, *flags)
    assert code == 1
    assert said in facts["error"]


def test_a_replay_says_what_it_would_have_cost(capsys: Capture) -> None:
    """And has a certificate with the flag that runs have."""
    for words in (["compare", "scores.csv", "--model", "good", "--model", "poor"], ["rank", "scores.csv"]):
        code, facts = run_plain(capsys, "replay", *words, "--seed", 1, "-o", "proof.json")
        assert code == 0
        assert facts["n_evaluated"] < N if "n_evaluated" in facts else facts["calls"] <= facts["calls_full"]
        assert verify(json.loads(Path("proof.json").read_text())).valid
    code, facts = run_plain(
        capsys, "replay", "scores.csv", "--model", "good", "--eps", "0.2", "-o", "one.json"
    )
    assert code == 0
    assert verify(json.loads(Path("one.json").read_text())).valid


def run_plain(capsys: Capture, *words: object) -> tuple[int, dict[str, Any]]:
    from cereval.cli.main import main

    capsys.readouterr()
    code = main([*map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_replay_with_texts_has_a_certificate(capsys: Capture) -> None:
    """Vectors of the texts are part of it: what they said of the items is recomputed."""
    line = [
        "replay",
        "scores.csv",
        "--model",
        "good",
        "--items",
        "items.csv",
        "--eps",
        "0.1",
        "-o",
        "texts.json",
    ]
    assert run_plain(capsys, *line, "--seed", 1)[0] == 0
    certificate = json.loads(Path("texts.json").read_text())
    assert certificate["side_information"]["embeddings"]["shape"][0] == N
    assert "recomputed by the audit" in "; ".join(verify(certificate).checked)
    certificate["side_information"].pop("embeddings")
    assert not verify(certificate).valid
