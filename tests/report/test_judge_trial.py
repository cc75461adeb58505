"""A judge on trial: what is certified of it holds, for judges of all kinds and runs that look at their grades."""

from __future__ import annotations

import json
from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pytest
from benchmarks.judges import SCENES, Job, Scene, bounds, play, row, truths, watch
from tests.cli.served import served

import cereval
from cereval.cli.main import main
from cereval.records import Interval
from cereval.report import page_of
from cereval.report.judge import Game, try_judge
from cereval.runner import people
from cereval.stats.verdicts import NAMES, Share
from cereval.store import labels as kept_labels
from cereval.store.base import Answer, opened_store

RUNS, DELTA = 90, 0.2
"""As in `tests/test_coverage.py`: misses twice as frequent as stated are found with probability 96%."""
WITH_LABELS = [name for name in SCENES if not name.startswith("order")]
WITHOUT = [name for name in SCENES if name.startswith("order")]


@pytest.mark.parametrize(
    ("names", "figures"), [(WITH_LABELS, (*NAMES, "length")), (WITHOUT, ("flips", "order"))]
)
def test_no_figure_misses_more_often_than_stated(names: list[str], figures: tuple[str, ...]) -> None:
    """Fixed seeds; every figure after every label. In full: `python -m benchmarks.judges --runs 1000`."""
    outcomes = [
        one
        for seed in range(RUNS)
        for one in play(Job(names[seed % len(names)], range(seed, seed + 1), DELTA))
    ]
    counts = row("", outcomes, figures)[3:]
    assert set().union(*(one.widths for one in outcomes)) == set(figures)
    for name, count, most in zip((*figures, "any"), counts, bounds(RUNS, figures, DELTA), strict=True):
        assert int(str(count)) <= most, name


def test_misses_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals that are far too narrow miss: what counts the misses does not look away."""
    share = Game.share

    def narrow(game: Game) -> Share:
        found = share(game)
        low, high = (
            found.estimate + 0.1 * (end - found.estimate) for end in (found.limits.lower, found.limits.upper)
        )
        return found._replace(limits=Interval(low, high))

    monkeypatch.setattr(Game, "share", narrow)
    missed = [
        one.missed
        for name in ("likes long answers", "order: leans a little")
        for one in play(Job(name, range(5)))
    ]
    assert set().union(*missed) == {*NAMES, "length", "flips", "order"}


def test_where_all_are_labelled_the_figures_are_exact() -> None:
    scene = SCENES["agrees 60%"](np.random.default_rng(0))
    outcome = watch(replace(scene, method="all"), 0)
    assert not outcome.missed
    assert max(outcome.widths.values()) < 0.01


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make a run that a lenient judge graded and people label as it waits for them."""
    rows = [
        {"id": f"q{n}", "question": f"question {n}", "output": "x" * n + f" answer {n}"} for n in range(80)
    ]
    judge = tmp_path / "judge.py"
    judge.write_text(
        "def grade(messages):\n    number = int(messages[-1]['content'].split('answer ')[-1].split()[0])\n"
        "    return '[[9]]' if number % 4 or number > 60 else '[[2]]'\n"
    )
    given: dict[int, float] = {}

    async def label(self: people.WithPeople, run_id: str, place: int) -> list[kept_labels.Rating]:
        reply = self.labels.reply(run_id, place)
        assert isinstance(reply, Answer)
        number = int(reply.text.split()[-1])
        given[number] = float(number % 4 > 0)
        return [kept_labels.Rating(run_id, place, "Ann", given[number], 0.0, 1)]

    monkeypatch.setattr(people.WithPeople, "_rated", label)
    found = f"sqlite:///{tmp_path / 'runs.db'}"
    cereval.evaluate(
        rows, "given/output", scorer="people", judge=f"python:{judge}:grade", eps=0.1, store=found, seed=1
    )
    return found


def test_a_run_that_people_label_tries_its_judge(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with opened_store(url) as store:
        run = next(one.run_id for one in store.runs() if not one.plan["goal"].get("judged"))
        graded = next(one.run_id for one in store.runs() if one.run_id != run)
        trial, page = try_judge(store, run), page_of(store, run).html
        strict = try_judge(store, run, mark=1.0)
    said, labels = (
        np.array([n % 4 > 0 or n > 60 for n in range(80)]),
        np.array([n % 4 > 0 for n in range(80)]),
    )
    parts = {one.name: one for one in trial.parts}
    true = truths(Scene(labels.astype(float), said.astype(float), np.arange(80.0)))
    assert true["length"] == pytest.approx(4 / 40), "64, 68, 72 and 76"
    assert set(true) == set(parts)
    for name, value in true.items():
        assert parts[name].lower <= value <= parts[name].upper, name
    assert 0 < trial.asked <= trial.items == 80
    assert "The judge, against people" in page
    assert "specificity" in page
    assert {one.name: one.upper for one in strict.parts}["sensitivity"] == 0, "grade 9 is below the mark"
    capsys.readouterr()
    assert main(["judge", run, "--store", url]) == 0
    assert "agrees with people on" in capsys.readouterr().out
    assert main(["judge", run, "--store", url, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told["parts"]) == set(parts)
    assert told["asked"] == trial.asked
    for command in (["judge"], ["ask", "-o", "labels.csv"], ["resume"]):
        assert main([command[0], graded, *command[1:], "--store", url]) == 1
        assert "RUN must be the run that people label, not its judge's part" in capsys.readouterr().err
    assert main(["judge", run, "--store", url, "--mark", "2"]) == 1
    assert "--mark must be a number in (0, 1]" in capsys.readouterr().err


def test_a_judge_that_looks_at_the_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It likes what comes first a little, whatever that is."""
    rows = [{"question": f"question {n}", "output": f"answer {n}", "answer": "reference"} for n in range(60)]
    url, likes = f"sqlite:///{tmp_path / 'runs.db'}", {"m": log(0.6), "M": log(0.4)}
    with served(lambda *_: {"text": "m", "logprobs": likes}) as server:
        run = cereval.evaluate(
            *(rows, "given/output"), scorer="prefer:both_orders", judge="openai/judge",
            judge_base_url=server.url, eps=0.1, store=url, seed=1,
        )  # fmt: skip
        plain = cereval.evaluate(
            *(rows, "given/output"), scorer="prefer", judge="openai/judge",
            judge_base_url=server.url, eps=0.1, store=url, seed=1,
        )  # fmt: skip
    with opened_store(url) as store:
        trial = try_judge(store, run.run_id)
    assert trial.headline().startswith("openai/judge changes its verdict with the order on ")
    parts = {one.name: one for one in trial.parts}
    assert parts["order"].lower <= 0.2 <= parts["order"].upper
    assert parts["flips"].lower <= 1 <= parts["flips"].upper
    assert parts["flips"].estimate > 0.5
    capsys.readouterr()
    assert main(["judge", run.run_id, "--store", url]) == 0
    assert "changes its verdict with the order on" in capsys.readouterr().out
    assert main(["judge", plain.run_id, "--store", url]) == 1
    assert "--scorer prefer:both_orders" in capsys.readouterr().err
