"""What holds for every kind of question that models are asked: one suite over all five commands.

What only one of them does is tested in its own file.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from benchmarks.serving import served
from tests.certificate.forging import forge, repaired
from tests.cli.live import MODELS, answered, asked, content, killed, listed, run, settled, slow_model, write

from cereval import ENGINE
from cereval.certificate.verify import verify
from cereval.cli.main import main
from cereval.runner import loop

__all__ = ["slow_model"]

FIRST, ALL = 200, 300
SCRIPTED = ("scripted/0.9", "scripted/0.6", "scripted/0.2")
PYTHON = tuple(f"python:slow_model:{name}" for name in MODELS)
SERVED = ("openai/a", "openai/b", "openai/c")
Capture = pytest.CaptureFixture[str]
PLANNED = ("plan.goal", "plan.seed", "plan.growth.sizes")
FORGED = ("result", "draws", "settings", "plan.goal", "plan.seed")


@dataclass(frozen=True)
class Question:
    """A command and its goal; `models` are asked. forged: the parts of its certificate that a forger changes."""

    command: str
    kind: str
    models: int
    goal: tuple[str, ...]
    forged: tuple[str, ...] = (*FORGED, "changes")

    def line(self, models: Sequence[str] = SCRIPTED, data: str = "first.jsonl") -> list[str]:
        named = [part for name in models[: self.models] for part in ("--model", name)]
        return [self.command, data, *named, *self.goal, "--seed", "3"]


QUESTIONS = [
    Question("run", "estimate", 1, ("--eps", "0.08"), ("result", "draws")),
    Question("compare", "compare", 2, ("--within", "0.12")),
    Question("rank", "rank", 3, ("--tie", "0.15", "--prove-ties")),
    Question("tasks", "tasks", 1, ("--eps", "0.08"), (*FORGED, "plan.tasks", "changes")),
    Question(
        "extend",
        "growing",
        1,
        ("--eps", "0.08"),
        ("result", "draws", "settings.s", "settings.goal", *PLANNED),
    ),
]


def of(*commands: str) -> pytest.MarkDecorator:
    """The questions of some commands; of all, if none is named."""
    chosen = [one for one in QUESTIONS if not commands or one.command in commands]
    return pytest.mark.parametrize("question", chosen, ids=lambda question: question.command)


every_kind = of()
one_and_several = of("run", "rank")
"""Where the kind makes no difference but that of one run or several; tests/questions/test_conformance.py has all."""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [{"question": f"{n} + 4?", "answer": str(n + 4), "category": "abc"[n % 3]} for n in range(ALL)]
    write(tmp_path / "first.jsonl", rows[:FIRST])
    write(tmp_path / "new.jsonl", rows[FIRST:])
    return tmp_path / "first.jsonl"


# -- killed and resumed ------------------------------------------------------------------------------------------------


@of("rank", "extend")
@pytest.mark.usefixtures("slow_model")
def test_killed_and_resumed_is_bit_for_bit_the_uninterrupted_run(
    data: Path, question: Question, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Killed, repeated, killed again and resumed: several runs in one, and a run that rests on another.

    Every kind, killed at any write: tests/questions/test_conformance.py; fifty kills of a run: `python -m
    benchmarks.crash`.
    """
    command = [*question.line(PYTHON, str(data)), "-j", "4", "--display", "none"]
    with monkeypatch.context() as there:
        there.chdir("whole")
        code, whole = run(capsys, *command)
        assert code == 0, whole
        if question.command == "extend":
            # The second version: it rests on the first one's results too.
            Path("../killed/cereval.db").write_bytes(Path("cereval.db").read_bytes())
            command = [
                "extend",
                whole["run_id"],
                "--data",
                str(data.parent / "new.jsonl"),
                "--display",
                "none",
            ]
            code, whole = run(capsys, *command)
    before = answered("killed")
    killed("killed", command, answers=0)
    kept = killed("killed", command, answers=15)
    assert len(kept) > len(before) + 15
    url = "sqlite:///killed/cereval.db"
    (found,) = [row for row in listed(capsys, url) if row["run_id"] == whole["run_id"]]
    assert found["status"] == "interrupted"
    assert main(["report", found["run_id"], "--store", url, "-o", "half.html"]) == 0
    assert f"{found['run_id']} (interrupted)" in Path("half.html").read_text()
    Path("killed/asked.txt").write_text("")
    with monkeypatch.context() as there:
        there.chdir("killed")
        code, resumed = run(capsys, "resume", found["run_id"])
    assert (code, resumed["stopped"]) == (0, "goal")
    assert asked("killed")
    assert not kept & set(asked("killed"))
    name = f"{whole['run_id']}.certificate.json"
    assert Path("killed", name).read_bytes() == Path("whole", name).read_bytes()
    assert content({"certificate": Path("whole", name)})["result"]["failures"] > 0
    assert main(["verify", str(Path("killed", name))]) == 0
    assert "log in the store" in capsys.readouterr().out


# -- options -----------------------------------------------------------------------------------------------------------


@every_kind
@pytest.mark.usefixtures("data")
def test_certificate_page_and_display(question: Question, capsys: Capture) -> None:
    flags = ["--certificate", "c.json", "--report", "page.html", "--display", "plain", "--max-calls", "60"]
    code = main([*question.line(), *flags])
    told = capsys.readouterr()
    assert code in (0, 3)
    (run_id,) = [row["run_id"] for row in listed(capsys) if row["kind"] == question.kind]
    assert told.err.startswith(f"run {run_id}: scripted/0.9")
    assert f"on {FIRST} questions of first.jsonl" in told.err.splitlines()[0]
    headline = told.out.splitlines()[0]
    assert main(["verify", "c.json"]) == 0
    assert not Path(f"{run_id}.certificate.json").exists()
    page = Path("page.html").read_text()
    assert run_id in page
    assert "<script" not in page
    assert main(["report", run_id, "-o", "again.html"]) == 0
    assert Path("again.html").read_text() == page
    capsys.readouterr()
    for spelling in ("-o", "--output"):
        assert (
            main([*question.line(), "--max-calls", "60", spelling, f"{spelling}.json", "--display", "none"])
            == code
        )
        quiet = capsys.readouterr()
        assert quiet.out.splitlines()[0].startswith("nothing was asked")
        assert quiet.out.splitlines()[1] == headline
        assert [line for line in quiet.err.splitlines() if "`cereval resume" not in line] == []
        assert Path(f"{spelling}.json").read_bytes() == Path("c.json").read_bytes()


@every_kind
@pytest.mark.usefixtures("data")
def test_a_spent_budget_goes_on(question: Question, capsys: Capture) -> None:
    code, facts = run(capsys, *question.line(), "--max-calls", "20")
    assert (code, facts["stopped"], facts["interrupted"]) == (3, "budget", False)
    # Of a comparison it counts items, each put to both.
    assert facts["calls"] == (40 if question.command == "compare" else 20)
    assert main(["verify", facts["certificate"]]) == 0
    again = run(capsys, *question.line(), "--budget", "20")
    assert (again[0], settled(again[1])) == (code, settled(facts)), "it is the same option"
    code, more = run(capsys, "resume", facts["run_id"], "--max-calls", "24")
    assert (code, more["stopped"], more["run_id"]) == (3, "budget", facts["run_id"])
    assert more["calls"] == (48 if question.command == "compare" else 24)
    assert main(["verify", more["certificate"]]) == 0
    code, done = run(capsys, "resume", facts["run_id"], "--max-calls", "2000")
    assert (code, done["stopped"]) == (0, "goal")
    assert main(["verify", done["certificate"]]) == 0


@every_kind
@pytest.mark.usefixtures("slow_model")
def test_time_ends_a_run_and_more_of_it_goes_on(
    question: Question, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """By a clock that goes on by a second for each call, whatever the machine's load."""
    clock = SimpleNamespace(monotonic=lambda: float(len(asked(".")) if Path("asked.txt").exists() else 0))
    with monkeypatch.context() as then:
        then.setattr(loop, "time", clock)
        then.setattr(loop, "TICK_S", 0.01)
        code, facts = run(capsys, *question.line(PYTHON), "--max-minutes", "0.25", "-j", "1")
    assert (code, facts["stopped"]) == (3, "budget")
    assert 15 <= len(asked(".")) < 60
    assert main(["verify", facts["certificate"]]) == 0
    code, facts = run(capsys, "resume", facts["run_id"], "--max-minutes", "10", "-j", "20")
    assert (code, facts["stopped"]) == (0, "goal")
    assert main(["verify", facts["certificate"]]) == 0


@one_and_several
@pytest.mark.usefixtures("slow_model")
def test_the_connections_change_the_pace_and_nothing_else(question: Question, capsys: Capture) -> None:
    certificates = []
    for connections in (4, 16):
        name = f"{connections}.json"
        url = f"sqlite:///{connections}.db"
        sys.modules.pop("slow_model", None)
        model = import_module("slow_model")
        model.together = connections // 2 + 1
        code, _ = run(capsys, *question.line(PYTHON), "-j", connections, "--store", url, "-o", name)
        assert code == 0
        assert connections / 2 < model.peak <= connections
        certificates.append(Path(name).read_bytes())
    assert certificates[0] == certificates[1]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    key = tmp_path_factory.mktemp("served") / "key.json"
    key.write_text(json.dumps({f"{n} + 4?": str(n + 4) for n in range(ALL)}))
    with served(key) as address:
        yield address


@every_kind
@pytest.mark.usefixtures("data")
def test_money_ends_a_run(question: Question, url: str, capsys: Capture) -> None:
    priced = ("--base-url", url, "--price-in", "1", "--price-out", "2")
    code, facts = run(capsys, *question.line(SERVED), *priced, "--max-usd", "0.0003")
    assert (code, facts["stopped"]) == (3, "budget")
    assert 0.0002 < facts["cost_usd"] <= 0.0003 + 1e-12
    assert main(["verify", facts["certificate"]]) == 0
    code, found = run(capsys, *question.line(SERVED), "--base-url", url, "--max-usd", "1")
    assert (code, "--max-usd must be given with --price-in" in found["error"]) == (1, True)


# -- the store ---------------------------------------------------------------------------------------------------------


@every_kind
@pytest.mark.usefixtures("data")
def test_every_run_that_is_listed_has_a_page(question: Question, capsys: Capture) -> None:
    code, facts = run(capsys, *question.line())
    assert code == 0
    rows = {row["run_id"]: row for row in listed(capsys)}
    whole = rows[facts["run_id"]]
    assert (whole["kind"], whole["engine"], whole["status"]) == (question.kind, ENGINE, "finished")
    assert whole["parts"] == list(facts["runs"].values())
    assert len(whole["parts"]) == (question.models if question.models > 1 else 0)
    assert {rows[part]["kind"] for part in whole["parts"]} <= {"part"}
    assert [rows[part]["model"] for part in whole["parts"]] == list(facts["runs"])
    assert set(rows) == {facts["run_id"], *whole["parts"]}
    counted = [rows[part]["calls"] for part in whole["parts"]] or [whole["calls"]]
    assert sum(counted) == whole["calls"]
    for run_id in rows:
        page = f"{run_id}.html"
        assert main(["report", run_id, "-o", page]) == 0
        assert run_id in Path(page).read_text()
        capsys.readouterr()
        assert main(["report", run_id, "-o", page, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["run_id"] == run_id
    for part in whole["parts"]:
        assert "no part of a larger run" in run(capsys, "resume", part)[1]["error"]


@every_kind
@pytest.mark.usefixtures("data")
def test_a_finished_run_is_not_asked_again(question: Question, capsys: Capture) -> None:
    code, facts = run(capsys, *question.line())
    assert facts["certificate"] == f"{facts['run_id']}.certificate.json"
    before = listed(capsys)
    for command in (question.line(), ["resume", facts["run_id"]]):
        again, told = run(capsys, *command)
        assert (again, settled(told), told["asked"]) == (code, settled(facts), 0)
    assert listed(capsys) == before


# -- certificates ------------------------------------------------------------------------------------------------------


@one_and_several
@pytest.mark.usefixtures("data")
def test_verify_tells_its_verdict(question: Question, capsys: Capture) -> None:
    _, facts = run(capsys, *question.line())
    certificate = content(facts)
    assert certificate["engine"] == ENGINE
    redrawn = content(facts)
    forge(redrawn, random.Random(1), only="draws")
    for verdict, code, held in (
        ("valid", 0, certificate),
        ("unchecked", 1, repaired({**certificate, "engine": ENGINE + 1})),
        # Another engine may draw otherwise, but the store beside it has what was drawn, and the hashes have to fit.
        ("invalid", 2, repaired({**redrawn, "engine": ENGINE + 1})),
        ("invalid", 2, {**redrawn, "engine": ENGINE + 1, "chain": "0"}),
        ("invalid", 2, repaired(redrawn)),
    ):
        Path("c.json").write_text(json.dumps(held))
        capsys.readouterr()
        assert main(["verify", "c.json", "--json"]) == code
        told = json.loads(capsys.readouterr().out)
        assert (told["verdict"], told["valid"]) == (verdict, verdict == "valid")
        assert told["reasons"] or verdict == "valid"


@every_kind
@pytest.mark.usefixtures("data")
def test_a_forger_who_repairs_the_hashes_is_found(question: Question, capsys: Capture) -> None:
    _, facts = run(capsys, *question.line(), "--max-calls", "30")
    _, facts = run(capsys, "resume", facts["run_id"], "--max-calls", "40")
    for number in range(12):
        forged = content(facts)
        where = forge(forged, random.Random(number), only=question.forged[number % len(question.forged)])
        if question.kind == "compare" and where == "changes.0.max_calls":
            # 41 calls are as many pairs as 40, and say the same: an even number is another budget.
            forged["changes"][0]["max_calls"] = random.Random(number).choice((38, 42, 48))
        assert verify(repaired(forged)).status == "invalid", where


@one_and_several
@pytest.mark.usefixtures("data")
def test_only_the_store_tells_that_another_prompt_was_used(question: Question, capsys: Capture) -> None:
    _, facts = run(capsys, *question.line(), "--max-calls", "20")
    forged = content(facts)
    forged["plan"]["candidates"][0]["prompt"]["system"] = "Think hard."
    Path("forged.json").write_text(json.dumps(repaired(forged)))
    capsys.readouterr()
    assert main(["verify", "forged.json", "--store", "sqlite:///cereval.db"]) == 1
    assert forged["run_id"] in capsys.readouterr().err


# -- history -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("data")
def test_a_run_after_a_comparison_learns_from_its_sides_and_not_from_differences(capsys: Capture) -> None:
    """The scores that a run learns from are those of one candidate each, its own earlier ones among them."""
    compare = QUESTIONS[1]
    _, pair = run(capsys, *compare.line())
    first, second = pair["runs"].values()
    _, facts = run(capsys, "run", "first.jsonl", "--model", "scripted/0.5", "--eps", "0.1")
    assert set(content(facts)["plan"]["history"]) == {first, second}
    _, facts = run(capsys, "run", "first.jsonl", "--model", SCRIPTED[0], "--eps", "0.1")
    history = content(facts)["plan"]["history"]
    assert {first, second} <= set(history)
    assert pair["run_id"] not in history
