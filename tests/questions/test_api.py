"""Live evaluation from Python, every kind alike: what comes back, where it is kept, and where it can be used."""

from __future__ import annotations

import asyncio
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.questions.questions import FIRST, MODELS, ROWS, SEED

import cereval
from cereval.certificate.verify import verify
from cereval.errors import CerevalError, InvalidInput
from cereval.runner.progress import Silent, Subject

DATA = ROWS[:FIRST]

CALLS: dict[str, Callable[..., cereval.Run]] = {
    "estimate": lambda **more: cereval.evaluate(DATA, model=MODELS[1], eps=0.12, seed=SEED, **more),
    "compare": lambda **more: cereval.compare(
        DATA, *MODELS[:2], goal=cereval.Difference(0.2), seed=SEED, **more
    ),
    "rank": lambda **more: cereval.rank(DATA, MODELS, goal=cereval.Order(0.2), seed=SEED, **more),
    "tasks": lambda **more: cereval.tasks(DATA, model=MODELS[1], goal=cereval.Macro(0.12), seed=SEED, **more),
    "growing": lambda **more: cereval.extend(None, DATA, model=MODELS[1], eps=0.12, seed=SEED, **more),
}


@pytest.fixture(params=CALLS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'runs.db'}"


def test_a_run_returns_its_result_its_certificate_and_its_answers(
    kind: str, url: str, tmp_path: Path
) -> None:
    found = CALLS[kind](store=url)
    assert (found.stopped, found.seed, found.n_items) == ("goal", SEED, FIRST)
    assert found.certificate["run_id"] == found.run_id
    assert found.certificate["result"] == json.loads(json.dumps(found.as_dict()))
    assert verify(found.certificate).valid
    rows = found.answers()
    assert len(rows) == found.calls
    assert {row["model"] for row in rows} == set(found.result.models)
    names = {"item", "model", "prompt", "answer", "score", "failure", "category", "cost_usd"}
    assert names <= set(rows[0])
    assert len(found.to_frame()) == len(rows)
    assert found.run_id in repr(found)
    assert str(found) == found.result.headline()
    assert "<table>" in found._repr_html_()
    page = found.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert found.run_id in page
    with pytest.raises(AttributeError):
        _ = found.nothing_like_it


def test_repeating_a_call_asks_nothing_and_a_larger_budget_goes_on(kind: str, url: str) -> None:
    class Notes(Silent):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def on_start(self, subject: Subject, notes: Any = ()) -> None:  # noqa: ARG002
            self.seen += notes

    first, again = CALLS[kind](store=url), CALLS[kind](store=url)
    assert (again.run_id, again.calls, again.certificate) == (first.run_id, first.calls, first.certificate)
    if kind != "growing":
        notes = Notes()
        CALLS[kind](store=url, observer=notes)
        assert any("none is asked again" in note for note in notes.seen)


def test_nothing_is_left_behind_by_a_store_in_memory(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = CALLS[kind](store="sqlite://")
    assert len(found.answers()) == found.calls
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(CerevalError, match="name one on disk"):
        found.report("page.html")


def test_it_works_inside_a_running_event_loop(kind: str, url: str) -> None:
    async def notebook() -> cereval.Run:
        return CALLS[kind](store=url)

    assert asyncio.run(notebook()).stopped == "goal"


def test_in_an_event_loop_it_can_share_it(url: str) -> None:
    async def both() -> list[cereval.Run]:
        runs = [
            cereval.evaluate_async(DATA, model=MODELS[1], eps=0.15, store=url, seed=seed, history=False)
            for seed in (1, 2)
        ]
        return list(await asyncio.gather(*runs))

    one, other = asyncio.run(both())
    assert one.run_id != other.run_id
    assert one.stopped == other.stopped == "goal"


def test_results_and_runs_are_pickled(kind: str, url: str) -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    found = CALLS[kind](store=url)
    for way in (pickle, cloudpickle):
        again = way.loads(way.dumps(found))
        assert again.result == found.result
        assert again.certificate == found.certificate
        assert again.answers() == found.answers()


@pytest.mark.parametrize("data", ["path", "pandas"])
def test_data_may_be_a_file_or_a_table(tmp_path: Path, url: str, data: str) -> None:
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in DATA))
    given = path if data == "path" else pandas.DataFrame(DATA)
    found = cereval.evaluate(given, model=MODELS[1], goal=cereval.Threshold(0.2), store=url)
    assert (found.decision, found.exit_code) == ("above", 0)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: cereval.evaluate(DATA), "model"),
        (lambda: cereval.evaluate(DATA, model="scripted/0.5", models=MODELS), "models"),
        (lambda: cereval.evaluate(DATA, MODELS), "model"),
        (lambda: cereval.compare(DATA, MODELS[0], None), "b must be given"),
        (lambda: cereval.compare(DATA, MODELS[0], MODELS[0]), "candidates must be different"),
        (lambda: cereval.evaluate(DATA, model="scripted/0.5", goal="estimate"), "goal"),
        (lambda: cereval.evaluate(DATA, model="scripted/0.5", goal=cereval.Sign()), "goal"),
        (lambda: cereval.evaluate(DATA, model="scripted/0.5", goal=cereval.Estimate(), eps=0.1), "eps"),
        (lambda: cereval.evaluate([1, 2], model="scripted/0.5"), "data"),
        (lambda: cereval.evaluate(DATA, model="scripted/0.5", nonsense=1), "nonsense"),
        (lambda: cereval.evaluate(DATA, model="scripted/0.5", min=0.5, at_least=0.6), "at_least"),
        (lambda: cereval.evaluate(DATA, cereval.Candidate("scripted/0.5"), system="x"), "system"),
        (lambda: cereval.compare(DATA, *MODELS[:2], method="uniform"), "method"),
        (lambda: cereval.compare(DATA, *MODELS[:2], eps=0.1, within=0.1), "within"),
        (lambda: cereval.rank(DATA, MODELS, target="fresh"), "target"),
        (lambda: cereval.rank(DATA, MODELS, beats="scripted/0.7"), "beats"),
        (lambda: cereval.tasks(DATA, model="scripted/0.5", mix="sums=1"), "mix"),
        (lambda: cereval.extend(None, DATA, model="scripted/0.5", at_least=0.5), "at_least"),
    ],
)
def test_bad_input_is_named(
    call: Callable[[], Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=says):
        call()
    assert list(tmp_path.iterdir()) == []


# -- the package ------------------------------------------------------------------------------------------------------


def test_every_public_name_is_listed_and_there() -> None:
    listed = set(dir(cereval))
    for name in cereval.__all__:
        assert name in listed
        assert getattr(cereval, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = cereval.nothing


def test_names_are_listed_before_they_are_imported() -> None:
    code = (
        "import sys, cereval; assert {'evaluate', 'replay', 'Estimate'} <= set(dir(cereval)); "
        "assert 'numpy' not in sys.modules; from cereval import replay; assert callable(replay)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_the_module_and_what_uses_it_are_cloudpickled() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    assert cloudpickle.loads(cloudpickle.dumps(cereval)) is cereval
    assert cloudpickle.loads(cloudpickle.dumps(lambda: cereval.replay))() is cereval.replay
    work = cloudpickle.dumps(lambda: cereval.replay([1, 0] * 200, goal=cereval.Estimate(0.1), seed=1))
    code = "import sys, pickle; print(pickle.load(sys.stdin.buffer)().n_evaluated)"
    done = subprocess.run(
        [sys.executable, "-c", code], input=work, capture_output=True, check=True, timeout=300
    )
    assert int(done.stdout) == cereval.replay([1, 0] * 200, goal=cereval.Estimate(0.1), seed=1).n_evaluated


@pytest.mark.parametrize(
    "value",
    [
        cereval.Estimate(0.05),
        cereval.Top(2),
        cereval.Draw(0, 3, 0.5),
        cereval.Session(50, seed=1),
        cereval.CompareSession(50, seed=1),
        cereval.TaskSession(["a", "b"] * 25),
        cereval.Growing(50),
    ],
    ids=lambda value: type(value).__name__,
)
def test_goals_draws_and_sessions_are_pickled(value: Any) -> None:
    again = pickle.loads(pickle.dumps(value))
    assert type(again) is type(value)
    if hasattr(value, "ask"):
        assert again.ask(3) == value.ask(3)


SEALABLE: dict[str, tuple[Callable[..., cereval.Run], tuple[str, ...], dict[str, Any]]] = {
    "estimate": (cereval.evaluate, MODELS[1:2], {"eps": 0.12}),
    "compare": (cereval.compare, MODELS[:2], {"goal": cereval.Difference(0.2)}),
    "rank": (
        lambda data, *models, **more: cereval.rank(data, models, **more),
        MODELS,
        {"goal": cereval.Order(0.2)},
    ),
    "tasks": (cereval.tasks, MODELS[1:2], {"goal": cereval.Macro(0.12)}),
}


@pytest.mark.fresh
@pytest.mark.parametrize("name", SEALABLE)
def test_a_plan_is_sealed_and_carried_out_from_python(name: str, tmp_path: Path) -> None:
    ask, models, options = SEALABLE[name]
    url, path = f"sqlite:///{tmp_path}/runs.db", tmp_path / "plan.seal.json"
    seal = cereval.seal(DATA, path, *models, kind=name, store=url, **options)
    result = ask(DATA, *models, store=url, seal=path, **options)
    assert result.run_id == seal.run_id
    assert verify(result.certificate, seal=seal).valid
    other = ask(DATA, *models, store=url, **options)
    assert verify(other.certificate, seal=seal).status == "departed"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"eps": 0.2}, "goal.eps"),
        ({"confidence": 0.9}, "confidence"),
        ({"max_calls": 20}, "max_calls"),
        ({"seed": 4}, "seed"),
        ({"model": MODELS[0]}, r"candidates\[0\]\.model"),
        ({"template": "Q: {{ question }}"}, r"candidates\[0\]\.prompt\.template is another"),
        ({"temperature": None}, r"candidates\[0\]\.settings\.temperature"),
    ],
)
def test_a_call_that_differs_from_its_seal_is_refused(
    change: dict[str, Any], says: str, tmp_path: Path
) -> None:
    url, path = f"sqlite:///{tmp_path}/runs.db", tmp_path / "plan.seal.json"
    sealed = {"model": MODELS[1], "eps": 0.12}
    cereval.seal(DATA, path, MODELS[1], store=url, eps=0.12)
    with pytest.raises(CerevalError, match=says):
        cereval.evaluate(DATA, store=url, seal=path, **{**sealed, **change})
    with pytest.raises(CerevalError, match="data_hash"):
        cereval.evaluate(DATA[:-1], store=url, seal=path, **sealed)


def test_tasks_have_short_forms_of_their_goals() -> None:
    rows = [{"question": f"{n}?", "answer": str(n), "category": "ab"[n % 2]} for n in range(60)]
    flags = {"model": "scripted/0.9", "scorer": "exact", "store": "sqlite://", "seed": 1}
    assert cereval.tasks(rows, eps=0.2, **flags).outcome.plan.goal == cereval.Macro(0.2).spec()
    found = cereval.tasks(rows, at_least=0.5, **flags).outcome.plan.goal
    assert found == cereval.AllAtLeast(0.5).spec()
    with pytest.raises(CerevalError, match="left out where eps is given"):
        cereval.tasks(rows, eps=0.2, at_least=0.5, **flags)
