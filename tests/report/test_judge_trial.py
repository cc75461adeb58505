"""A judge on trial: what is certified of it holds, for judges of all kinds and runs that look at their grades."""

from __future__ import annotations

import json
from math import log
from pathlib import Path

import numpy as np
import pytest
from benchmarks.coverage import most_misses
from tests.cli.served import served

import cereval
from cereval.cli.main import main
from cereval.plan import Plan
from cereval.report import page_of
from cereval.report.judge import FOR_VERDICTS, Game, tell_with, try_judge
from cereval.runner import people
from cereval.stats.verdicts import NAMES, measures
from cereval.store import labels as kept_labels
from cereval.store.base import Answer, opened_store

ITEMS, RUNS, DELTA = 300, 60, 0.2


def truth(said: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Count the measures from all verdicts and labels, as a textbook has them."""
    agreement = float(np.mean(said == labels))
    chance = said.mean() * labels.mean() + (1 - said.mean()) * (1 - labels.mean())
    return {
        "agreement": agreement,
        "kappa": (agreement - chance) / (1 - chance),
        "sensitivity": said[labels].mean(),
        "specificity": (~said[~labels]).mean(),
        "leniency": said.mean() - labels.mean(),
    }


@pytest.mark.parametrize("method", ["auto", "uniform", "all"])
@pytest.mark.parametrize("agrees", [0.95, 0.6])
def test_all_measures_hold_at_once(method: str, agrees: float) -> None:
    missed, widths = 0, []
    for seed in range(RUNS if method != "all" else 2):
        rng = np.random.default_rng([seed, int(100 * agrees)])
        labels = rng.random(ITEMS) < 0.7
        said = np.where(rng.random(ITEMS) < agrees, labels, rng.random(ITEMS) < 0.8)
        share = FOR_VERDICTS / 2 * DELTA
        games = [Game(np.flatnonzero(group), share, lambda _, score: score) for group in (said, ~said)]
        history = said.astype(float)[:, None]
        session = cereval.Session(
            ITEMS, goal=cereval.Estimate(0.06), method=method, history=history, seed=seed
        )
        while not session.done:
            for draw in session.ask(4):
                tell_with(games, session, draw, (float(labels[draw.item]),))
        assert sum(game.asked for game in games) == session.n_evaluated
        found, true = measures(games[0].share(), games[1].share()), truth(said, labels)
        assert [one.name for one in found] == list(NAMES)
        missed += any(not one.lower - 1e-9 <= true[one.name] <= one.upper + 1e-9 for one in found)
        widths.append(found[0].upper - found[0].lower)
        if method == "all":
            assert [one.estimate for one in found] == pytest.approx([true[name] for name in NAMES])
    assert missed <= most_misses(RUNS, FOR_VERDICTS * DELTA)
    assert np.mean(widths) < (0.01 if method == "all" else 0.3)


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
        trial, page = try_judge(store, run), page_of(store, run).html
        strict = try_judge(store, run, mark=1.0)
    said, labels = (
        np.array([n % 4 > 0 or n > 60 for n in range(80)]),
        np.array([n % 4 > 0 for n in range(80)]),
    )
    parts = {one.name: one for one in trial.parts}
    for name, value in truth(said, labels).items():
        assert parts[name].lower <= value <= parts[name].upper, name
    assert parts["length"].lower <= (5 - 0) / 40 <= parts["length"].upper
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
        assert Plan.from_dict(store.run(run.run_id).plan).scorer["judge"] == ["openai/judge"]
        parts = {one.name: one for one in try_judge(store, run.run_id).parts}
    assert parts["order"].lower <= 0.2 <= parts["order"].upper
    assert parts["flips"].lower <= 1 <= parts["flips"].upper
    assert parts["flips"].estimate > 0.5
    capsys.readouterr()
    assert main(["judge", run.run_id, "--store", url]) == 0
    assert "changes its verdict with the order on" in capsys.readouterr().out
    assert main(["judge", plain.run_id, "--store", url]) == 1
    assert "--scorer prefer:both_orders" in capsys.readouterr().err
