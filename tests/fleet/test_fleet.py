"""Fleets end to end: the same certificates whoever was killed, budgets, gates, limits of a real server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.model_server import FaultyModel, Handler, serve_locally
from benchmarks.serving import questions

import cereval
from cereval.cli.main import main
from cereval.errors import Busy, InvalidInput
from cereval.fleet import workers
from cereval.fleet.file import read_fleet
from cereval.fleet.result import planned_words
from cereval.fleet.run import plan_fleet
from cereval.fleet.work import Job, carried_out
from cereval.runner.limits import Allowance
from cereval.runner.resume import last_circumstances
from cereval.store.base import opened_store

FIELDS = {"input": "ask", "answer": "gold", "scorer": "exact"}


@pytest.fixture
def data(tmp_path: Path) -> list[str]:
    paths = []
    for name, count in (("a", 500), ("b", 400)):
        (tmp_path / name).mkdir()
        made = questions(tmp_path / name, count, seed=count)
        paths.append(str(made.rename(tmp_path / f"{name}.jsonl")))
    return paths


def fleet_of(data: list[str], **more: Any) -> dict[str, Any]:
    models = ["scripted/0.6", "scripted/0.7"]
    return {"models": models, "data": data, "eps": 0.1, "seed": 3, "workers": 1, **FIELDS, **more}


def certificates(url: str) -> dict[str, Any]:
    with opened_store(url) as store:
        return {run.run_id: store.certificates(run.run_id)[-1] for run in store.runs()}


def paid_for(url: str) -> int:
    with opened_store(url) as store:
        return sum(not answer.kept for run in store.runs() for _, answer, _ in store.rows(run.run_id))


WAITING = """
import itertools, json, time, zlib
from pathlib import Path

turns = itertools.count(1)


def weak(messages):
    question = messages[-1]["content"]
    return said(question, 6)


def strong(messages):
    question = messages[-1]["content"]
    return said(question, 7)


def said(question, tenths):
    while next(turns) > 20 and not Path({go!r}).exists():
        time.sleep(0.01)
    left, right = question.split(" = ")[0].split(" + ")
    return str(int(left) + int(right)) if zlib.crc32(question.encode()) % 10 < tenths else "none"
"""


def test_killed_workers_change_nothing(
    data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The models answer twenty questions in each process, then wait until a worker was killed."""
    calm, stormy = (f"sqlite:///{tmp_path}/{name}.db" for name in ("calm", "stormy"))
    (tmp_path / "waiting.py").write_text(WAITING.format(go=str(tmp_path / "go")))
    models = [f"python:{tmp_path}/waiting.py:{name}" for name in ("weak", "strong")]
    (tmp_path / "go").touch()
    undisturbed = cereval.run_fleet(fleet_of(data, models=models), store=calm)
    assert (undisturbed.exit_code, len(undisturbed.runs)) == (0, 4)
    (tmp_path / "go").unlink()
    started: list[Any] = []
    monkeypatch.setattr(
        workers, "_started", lambda make=workers._started: started.append(make()) or started[-1]
    )

    def kill() -> None:
        with opened_store(stormy, create=True) as store:
            while len(started) < 2 or sum(run.answers for run in store.runs()) < 20:
                time.sleep(0.01)
        os.kill(started[-1].pid, signal.SIGKILL)
        (tmp_path / "go").touch()

    thread = threading.Thread(target=kill)
    thread.start()
    disturbed = cereval.run_fleet(fleet_of(data, models=models, workers=2, connections=1), store=stormy)
    thread.join()
    assert len(started) == 3
    assert certificates(stormy) == certificates(calm)
    assert [run["run_id"] for run in disturbed.runs] == [run["run_id"] for run in undisturbed.runs]
    assert [run["history"] for run in disturbed.runs] == [0, 0, 1, 1]


def test_gates_and_budgets_from_the_command_line(
    data: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def called(name: str, **fleet: Any) -> tuple[int, dict[str, Any]]:
        file = tmp_path / f"{name}.yaml"
        file.write_text(json.dumps(fleet), encoding="utf-8")  # JSON is YAML
        code = main(["fleet", str(file), "--store", f"sqlite:///{tmp_path}/{name}.db", "--json"])
        out = capsys.readouterr()
        return code, json.loads(out.out)

    gate = {"goal": "gate", "min": 0.65}
    models = ["scripted/0.9", "scripted/0.2"]
    code, facts = called("gates", **fleet_of(data[:1], goals=gate, models=models))
    assert (code, [run["decision"] for run in facts["runs"]]) == (2, ["above", "below"])
    code, facts = called("budget", **fleet_of(data, max_calls=120))
    assert (code, facts["calls"]) == (3, 120)
    assert {run["stopped"] for run in facts["runs"]} <= {"budget", "not started"}
    code, facts = called("budget", **fleet_of(data))
    assert (code, {run["stopped"] for run in facts["runs"]}) == (0, {"goal"})


def test_a_gate_asks_what_is_served_now_and_other_goals_do_not(data: list[str], tmp_path: Path) -> None:
    fleet = fleet_of(data[:1], goals=["run", {"goal": "gate", "min": 0.5}], models=["scripted/0.9"])
    url = f"sqlite:///{tmp_path}/runs.db"
    first, again = (cereval.run_fleet(fleet, store=url) for _ in range(2))
    assert [run["decision"] for run in again.runs] == [None, "above"]
    assert first.runs[0]["run_id"] == again.runs[0]["run_id"]
    assert [run["asked"] > 0 for run in again.runs] == [False, True]
    kept = cereval.run_fleet({**fleet, "fresh": False}, store=url)
    assert [run["asked"] for run in kept.runs] == [0, 0]


def test_what_is_to_be_fresh_is_asked_anew_whatever_age_is_allowed(data: list[str], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    fleet = fleet_of(data[:1], models=["scripted/0.6"], fresh=True, max_age="7d")
    first, again = (cereval.run_fleet(fleet, store=url) for _ in range(2))
    assert first.runs[0]["run_id"] != again.runs[0]["run_id"]
    assert again.asked == again.calls > 0


def test_a_budget_that_is_spent_stays_spent(data: list[str], tmp_path: Path) -> None:
    """Comparisons ask two models an item; repeating the fleet asks nothing, and shows what was there."""
    fleet = fleet_of(data[:1], goals=["run", {"goal": "compare", "tie": 0.01}], max_calls=120)
    url = f"sqlite:///{tmp_path}/runs.db"
    first, again = (cereval.run_fleet(fleet, store=url) for _ in range(2))
    assert (first.calls, again.calls, again.asked) == (120, 120, 0)
    assert first.asked == paid_for(url), "in all turns of a run"
    assert [run["answer"] for run in again.runs] == [run["answer"] for run in first.runs]


def test_a_gate_has_every_night_what_it_had_the_night_before(data: list[str], tmp_path: Path) -> None:
    """What it gives back by being asked anew is not for the runs beside it, which had their part."""
    goals = ["run", {"goal": "gate", "min": 0.7}]
    fleet = fleet_of(data[:1], models=["scripted/0.6"], goals=goals, eps=0.03, max_calls=330)
    nights = [cereval.run_fleet(fleet, store=f"sqlite:///{tmp_path}/runs.db") for _ in range(3)]
    assert [night.exit_code for night in nights] == [2] * 3
    assert {night.runs[0]["run_id"] for night in nights} == {nights[0].runs[0]["run_id"]}
    assert [night.calls <= 330 for night in nights] == [True] * 3


def test_what_a_fleet_finished_does_not_change_its_order(data: list[str], tmp_path: Path) -> None:
    """Runs are learnt from by their place, which must be the same when the fleet is repeated."""
    url = f"sqlite:///{tmp_path}/runs.db"
    fleet = fleet_of(data[:1], models=["scripted/0.95", "scripted/0.5"])

    def order(store: str) -> list[str]:
        return [step.entry.model for step in plan_fleet(fleet, store=store)]

    before = order(url)
    cereval.run_fleet(fleet, store=url)
    assert order(url) == before
    other = f"sqlite:///{tmp_path}/other.db"
    for model in fleet["models"]:
        cereval.evaluate(data[0], model=model, eps=0.1, store=other, **FIELDS)
    assert order(other) != before, "what others found does"


def test_gates_of_earlier_nights_leave_the_budget_alone(data: list[str], tmp_path: Path) -> None:
    fleet = fleet_of(data[:1], goals=[{"goal": "gate", "min": 0.2}], max_calls=60)
    nights = [cereval.run_fleet(fleet, store=f"sqlite:///{tmp_path}/runs.db") for _ in range(4)]
    assert [night.exit_code for night in nights] == [0] * 4
    assert sum(night.asked for night in nights) > 60


def test_goals_of_every_kind_share_their_answers(data: list[str], tmp_path: Path) -> None:
    goals = ["run", {"goal": "compare", "tie": 0.2}, {"goal": "rank", "tie": 0.2, "proven": True}]
    url = f"sqlite:///{tmp_path}/runs.db"
    done = cereval.run_fleet(fleet_of(data[:1], goals=goals), store=url)
    assert done.exit_code == 0, done.as_dict()
    assert [run["goal"] for run in done.runs][2:] == [
        "which is better, or within 20%",
        "every pair further apart than 20% in order",
    ]
    assert done.asked < done.calls, "what one run asked, another does not ask again"
    assert done.report(tmp_path / "fleet.html").read_text(encoding="utf-8").count("<tr>") == 5
    assert len(done.to_frame()) == 4


def test_what_cannot_run_is_told_and_stops_no_other(data: list[str], tmp_path: Path) -> None:
    models = ["scripted/0.6", {"model": "openai/m", "base_url": "http://127.0.0.1:9/v1"}]
    done = cereval.run_fleet(fleet_of(data[:1], models=models), store=f"sqlite:///{tmp_path}/runs.db")
    assert done.exit_code == 1
    assert [run["exit_code"] for run in done.runs] == [0, 1]
    assert "127.0.0.1:9" in done.runs[1]["error"]
    with pytest.raises(InvalidInput, match="a database that several processes share"):
        cereval.run_fleet(fleet_of(data), store="sqlite://")
    with pytest.raises(InvalidInput, match="on must be local or ray"):
        cereval.run_fleet(fleet_of(data), on="the moon")


def test_what_a_run_took_before_it_failed_is_paid(data: list[str], tmp_path: Path) -> None:
    breaks = tmp_path / "breaks.py"
    breaks.write_text(
        "import itertools\nturns = itertools.count()\n\n\n"
        "def answer(question):\n    return '7' if next(turns) < 30 else None\n"
    )
    models = [{"model": f"python:{breaks}:answer", "priority": 1}, "scripted/0.6"]
    url = f"sqlite:///{tmp_path}/runs.db"
    done = cereval.run_fleet(
        fleet_of(data[:1], models=models, max_calls=100, connections=1, eps=0.02), store=url
    )
    assert "must return a text" in done.runs[0]["error"]
    assert [run["calls"] for run in done.runs] == [30, 70]
    assert (done.calls, done.asked) == (100, paid_for(url))
    with opened_store(url) as store:
        assert store.run(done.runs[0]["run_id"]).answers == 30


@pytest.fixture
def paid(tmp_path: Path) -> str:
    """A model that takes a cent for each answer, and is right half the time."""
    (tmp_path / "paid.py").write_text(
        "from cereval.models.base import Reply\n\n\n"
        "def answer(question):\n    return Reply(str(len(question) % 2), cost_usd=0.01)\n"
    )
    return f"python:{tmp_path}/paid.py:answer"


def costs(url: str) -> float:
    with opened_store(url) as store:
        return sum(run.cost_usd or 0.0 for run in store.runs())


def test_money_is_counted_whatever_became_of_the_settings(data: list[str], tmp_path: Path, paid: str) -> None:
    """Another prompt is another run: what the first one cost is spent, and gives the second no more."""
    url = f"sqlite:///{tmp_path}/runs.db"
    fleet = fleet_of(data[:1], models=[paid], eps=0.02, history=False, connections=1)
    cereval.run_fleet({**fleet, "max_usd": 1.0}, store=url)
    assert costs(url) == pytest.approx(1.0, abs=0.011)
    cereval.run_fleet({**fleet, "max_usd": 1.5, "template": "Q: {input}"}, store=url)
    assert costs(url) == pytest.approx(1.5, abs=0.011)


def test_a_run_keeps_to_its_own_limit_of_money(data: list[str], tmp_path: Path, paid: str) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    own = {"data": data[0], "max_usd": 0.2}
    fleet = fleet_of([], models=[paid], eps=0.02, max_usd=1.0, connections=1) | {"data": [own]}
    cereval.run_fleet(fleet, store=url)
    assert costs(url) == pytest.approx(0.2, abs=0.011)


def test_several_answers_to_a_question_are_several_calls(data: list[str], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    fleet = fleet_of(data[:1], models=["scripted/0.6"], eps=0.02, samples=4, temperature=1.0, max_calls=100)
    done = cereval.run_fleet(fleet, store=url)
    assert (done.calls, done.asked, paid_for(url)) == (100, 100, 25)
    assert "2,000 calls" in planned_words(plan_fleet({**fleet, "eps": 0.001}, store=f"{url}.none"))


def test_what_is_only_read_is_not_written_to(data: list[str], tmp_path: Path, paid: str) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    fleet = fleet_of(data[:1], models=[paid], eps=0.02, max_usd=0.6, connections=1)

    def books() -> list[Any]:
        with opened_store(url) as store:
            return [(store.events(run.run_id), store.certificates(run.run_id)) for run in store.runs()]

    first = cereval.run_fleet(fleet, store=url)
    before = books()
    again = cereval.run_fleet(fleet, store=url)
    assert books() == before
    names = ("run_id", "answer", "calls", "cost_usd", "stopped", "exit_code")
    assert [again.runs[0][name] for name in names] == [first.runs[0][name] for name in names]
    assert again.runs[0]["stopped"] == "budget"


def test_a_gate_that_was_killed_last_night_is_paid_by_last_night(data: list[str], tmp_path: Path) -> None:
    """Its workers draw their seeds. Whatever they are, 60 answers of a model that is right in 60% decide no gate at 50%
    and this confidence, unless 53 of them are right, which has probability below 1e-5."""
    url, gate = f"sqlite:///{tmp_path}/runs.db", {"goal": "gate", "min": 0.5}
    fleet = fleet_of(data[:1], models=["scripted/0.6"], goals=[gate], max_calls=60, confidence=1 - 1e-9)
    del fleet["seed"]
    first = cereval.run_fleet(fleet, store=url)
    with opened_store(url) as store:
        run = store.runs()[0].run_id
        store.mark(run, "running", last_circumstances(run, store))  # as it was begun, and nobody works on it
    second = cereval.run_fleet(fleet, store=url)
    assert [(night.calls, night.asked, night.exit_code) for night in (first, second)] == [(60, 60, 3)] * 2
    assert first.runs[0]["run_id"] != second.runs[0]["run_id"]


def test_however_long_a_start_takes_a_gate_goes_on_with_its_own_run(
    data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goal = [{"goal": "gate", "min": 0.59}]
    entry = read_fleet(fleet_of(data[:1], goals=goal)).entries[0]
    job = Job(
        entry,
        f"sqlite:///{tmp_path}/runs.db",
        "fleet:x",
        time.time(),
        {},
        at=time.time(),
        allowance=Allowance(20),
    )
    first = carried_out(job)

    def slow(*given: Any, **more: Any) -> Any:
        time.sleep(1)
        return opened_store(*given, **more)

    monkeypatch.setattr("cereval.api.opened_store", slow)
    more = Allowance(20, before={first["run_id"]: (20, 0.0)})
    second = carried_out(replace(job, at=time.time(), allowance=more))
    assert (second["run_id"], second["calls"], second["asked"]) == (first["run_id"], 40, 20)


def test_a_worker_that_takes_over_has_what_is_left_of_the_share(data: list[str], tmp_path: Path) -> None:
    """The first one was killed before it could say what it took: the store says it."""
    entry = read_fleet(fleet_of(data[:1], eps=0.02)).entries[0]
    job = Job(
        entry, f"sqlite:///{tmp_path}/runs.db", "fleet:x", 0.0, {}, at=time.time(), allowance=Allowance(30)
    )
    killed = carried_out(replace(job, allowance=Allowance(12)))
    taken_over = carried_out(job)
    assert (killed["calls"], taken_over["calls"], taken_over["asked"]) == (12, 30, 30)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_fleet_that_is_ended_asks_no_more_and_has_no_double(
    end: signal.Signals, data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Schedulers end what they run by SIGTERM, then by SIGKILL; its workers must not go on paying."""
    (tmp_path / "slow.py").write_text(
        "import time\n\n\ndef answer(question):\n    time.sleep(0.5)\n"
        "    print(question, file=open('calls.txt', 'a'))\n    return '7'\n"
    )
    monkeypatch.chdir(tmp_path)
    fleet = fleet_of(data[:1], models=["python:slow.py:answer"], eps=0.02, connections=2)
    Path("fleet.yaml").write_text(json.dumps(fleet | {"store": "sqlite:///runs.db"}))
    begun = subprocess.Popen(
        [sys.executable, "-m", "cereval", "fleet", "fleet.yaml", "--trust"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )

    def calls() -> int:
        return len(Path("calls.txt").read_text().splitlines()) if Path("calls.txt").exists() else 0

    while calls() < 4 and begun.poll() is None:
        time.sleep(0.05)
    try:
        with pytest.raises(Busy, match="another process works on this fleet now"):
            cereval.run_fleet(fleet, store="sqlite:///runs.db")
    finally:
        by_then = calls()
        begun.send_signal(end)
        # To the end of its workers: they write to the same pipe.
        _, errors = begun.communicate(timeout=300)
    at_the_end = calls()
    time.sleep(1)
    # Four calls a second, so that the news may take ten seconds; all 500 would take two minutes.
    assert calls() == at_the_end <= by_then + 40
    assert "Traceback" not in errors
    with opened_store("sqlite:///runs.db") as store:
        run = store.runs()[0]
    assert (run.status, run.answers) == ("interrupted", at_the_end)


def test_a_worker_whose_driver_is_gone_before_it_has_begun_asks_nobody(
    data: list[str], tmp_path: Path
) -> None:
    (tmp_path / "slow.py").write_text(
        "import time\n\n\ndef answer(question):\n    time.sleep(0.5)\n"
        f"    print(question, file=open('{tmp_path}/calls.txt', 'a'))\n    return '7'\n"
    )
    entry = read_fleet(fleet_of(data[:1], models=[f"python:{tmp_path}/slow.py:answer"], eps=0.02)).entries[0]
    job = Job(entry, f"sqlite:///{tmp_path}/runs.db", "fleet:x", 0.0, {}, at=time.time())
    line = json.dumps(job.as_dict()) + "\n"
    subprocess.run(
        [sys.executable, "-m", "cereval.fleet.workers"], input=line, text=True, timeout=300, check=False
    )
    calls = tmp_path / "calls.txt"
    assert not calls.exists() or len(calls.read_text().splitlines()) <= 20, "those in flight"


def test_a_comparison_in_the_store_is_no_mean(data: list[str], tmp_path: Path) -> None:
    """Its difference was taken for the mean score of models on the data, and may be negative."""
    url = f"sqlite:///{tmp_path}/runs.db"
    cereval.compare(data[0], "scripted/0.1", "scripted/0.9", store=url, seed=1, **FIELDS)
    assert cereval.run_fleet(fleet_of(data[:1]), store=url).exit_code == 0


def test_a_worker_that_dies_again_and_again_has_taken_what_it_took(data: list[str], tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text(
        "import itertools, os\nturns = itertools.count()\n\n\n"
        "def answer(question):\n    return '7' if next(turns) < 20 else os._exit(3)\n"
    )
    models = [{"model": f"python:{tmp_path}/dies.py:answer", "priority": 1}, "scripted/0.6"]
    url = f"sqlite:///{tmp_path}/runs.db"
    fleet = fleet_of(data[:1], models=models, max_calls=200, connections=1, eps=0.02)
    done = cereval.run_fleet(fleet, store=url)
    assert "its worker died 4 times" in done.runs[0]["error"]
    # Four workers with twenty answers each, of which a death loses up to three that are not written yet.
    assert done.runs[0]["calls"] >= 4 * (20 - 3)
    assert (done.calls, done.asked) == (200, paid_for(url))


def test_gates_count_no_more_whatever_became_of_the_data(data: list[str], tmp_path: Path) -> None:
    url, grown = f"sqlite:///{tmp_path}/runs.db", tmp_path / "grown.jsonl"
    lines = Path(data[0]).read_text().splitlines(keepends=True)
    goals = [{"goal": "gate", "min": 0.59}]
    for night in range(3):
        grown.write_text("".join(lines[: 300 + 5 * night]))
        done = cereval.run_fleet(fleet_of([str(grown)], goals=goals, max_calls=80), store=url)
        assert done.asked == 80
    goals = [{"goal": "gate", "min": 0.59, "data": [data[1]]}]
    fleet = fleet_of(data[1:], models=["scripted/0.6"], goals=goals, max_calls=40, max_age="1s")
    assert cereval.run_fleet(fleet, store=url).asked == 40
    for _ in range(2):
        time.sleep(1.1)  # until its answers are too old
        assert cereval.run_fleet(fleet, store=url).asked == 40


def test_settings_tell_runs_of_one_question_apart(data: list[str], tmp_path: Path) -> None:
    """One that is fresh and one that is not: the first has its part every night, and the second is never forgotten."""
    url = f"sqlite:///{tmp_path}/runs.db"
    models = [
        {"model": "scripted/0.6", "system": "a"},
        {"model": "scripted/0.6", "system": "b", "fresh": True},
    ]
    fleet = fleet_of(data[:1], models=models, eps=0.02, max_calls=100, history=False)
    nights = [cereval.run_fleet(fleet, store=url) for _ in range(3)]
    assert [night.calls for night in nights] == [100] * 3
    assert [night.runs[0]["asked"] > 0 for night in nights] == [True, False, False]
    assert all(night.runs[1]["asked"] > 0 for night in nights)


class Counting(Handler):
    """Notes how many requests were there at once, and answers none before there were as many as there may be."""

    most = 0

    def __init__(self, model: FaultyModel, allowed: int) -> None:
        super().__init__(model)
        self.allowed, self.full = allowed, asyncio.Event()

    async def _response(self, *given: Any) -> bytes | None:
        self.most = max(self.most, self.busy)
        if self.most >= self.allowed:
            self.full.set()
        await asyncio.wait_for(self.full.wait(), 60)
        return await super()._response(*given)


@contextmanager
def server(key: dict[str, str], allowed: int) -> Iterator[tuple[Counting, str]]:
    """A scripted server in a thread of its own."""
    handler, loop = Counting(FaultyModel(key, 0.7, delay_s=0.01), allowed), asyncio.new_event_loop()
    address, done = loop.create_future(), asyncio.Event()

    async def serve() -> None:
        async with serve_locally(handler) as url:
            address.set_result(url)
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    while not address.done():
        time.sleep(0.01)
    yield handler, address.result()
    loop.call_soon_threadsafe(done.set)
    thread.join()
    loop.close()


def test_limits_hold_across_processes(data: list[str], tmp_path: Path) -> None:
    lines = [line for path in data for line in Path(path).read_text(encoding="utf-8").splitlines()]
    key = {row["ask"]: row["gold"] for row in map(json.loads, lines)}
    fleet = fleet_of(data, models=["openai/m"], eps=0.15, workers=2, history=False)
    with server(key, allowed=3) as (handler, url):
        done = cereval.run_fleet(
            {**fleet, "base_url": url, "limits": {"connections": 3}}, store=f"sqlite:///{tmp_path}/limited.db"
        )
    assert done.exit_code == 0
    # Each of the two runs keeps eight calls under way where it may.
    assert handler.most == 3
