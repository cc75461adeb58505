"""Stores that were changed by hand: SQLite keeps any value in any column, and each wrong one is one line."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from cereval.cli.main import main
from cereval.errors import StoreError
from cereval.runner.run import _minute
from cereval.runner.samples import unpacked
from cereval.store.base import Answer, opened_store
from cereval.store.browsing import Browser, Wanted
from cereval.store.database import insert_rows
from cereval.store.labels import Labels

QUESTIONS = Path(__file__).parent.parent / "golden" / "questions.jsonl"
CASES = {
    "a version in words": "update cereval_schema set version = 'x'",
    "a plan that is no JSON": "update runs set plan = '[[['",
    "a plan that is a list": "update runs set plan = '[]'",
    "NaN in a plan": "update runs set plan = replace(plan, '\"confidence\":0.95', '\"confidence\":NaN')",
    "a plan without a goal": "update runs set plan = replace(plan, '\"goal\":{', '\"goals\":{')",
    "a goal in words": 'update runs set plan = replace(plan, \'"goal":{\', \'"goal":"x","goals":{\')',
    "a seed in words": 'update runs set plan = replace(plan, \'"seed":\', \'"seed":"x","more":\')',
    "an item without answers": 'update items set content = \'{"id": "a", "input": "b"}\'',
    "an item of numbers": "update items set content = replace(content, '\"choices\":[]', '\"choices\":5')",
    "a draw of no item": "update draws set item = 99999",
    "a draw in words": "update draws set item = 'x'",
    "an endless score": "update answers set score = 9e999 where score is not null",
    "a text that is bytes": "update answers set text = x'ff'",
    "an answer given at a word": "update answers set at = 'x'",
    "a certificate of a word": "update certificates set number = 'x' || number",
    "an event beyond all numbers": "update events set number = number + 9223372036854775000",
    "no events": "delete from events",
}


OWN = ["--store", "sqlite:///own.db"]


def ran_and_changed(
    line: str, statement: str, capsys: pytest.CaptureFixture[str], wanted: str = "select run_id from runs"
) -> str:
    """Carry out a command on a store of its own, change that by hand, and name a run in it."""
    shutil.copy(QUESTIONS, "questions.jsonl")
    assert main([*line.split(), "--display", "none", *OWN]) == 0
    with closing(sqlite3.connect("own.db")) as store:
        store.execute(statement)
        store.commit()
        run = str(store.execute(wanted).fetchone()[0])
    capsys.readouterr()
    return run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a finished run, one that learnt from it, and one that spent its budget."""
    file = tmp_path_factory.mktemp("whole") / "store.db"
    run = [
        "run",
        str(QUESTIONS),
        "--seed",
        "1",
        "--display",
        "none",
        "--store",
        f"sqlite:///{file}",
        "--model",
    ]
    assert main([*run, "scripted/0.6", "--eps", "0.2"]) == 0
    assert main([*run, "scripted/0.7", "--eps", "0.2"]) == 0
    assert main([*run, "scripted/0.5", "--eps", "0.1", "--max-calls", "20"]) == 3
    return file


def changed(whole: Path, folder: Path, statement: str) -> str:
    shutil.copy(whole, folder / "store.db")
    with closing(sqlite3.connect(folder / "store.db")) as store:
        store.execute(statement)
        store.commit()
        return str(store.execute("select run_id from runs order by created_at").fetchone()[0])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("command", ["runs", "show", "export", "report", "resume"])
def test_a_damaged_store_is_one_line(
    case: str,
    command: str,
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    run = changed(whole, tmp_path, CASES[case])
    extra = {"runs": [], "export": [run, "-o", "a.csv"], "resume": [run, "--display", "none"]}.get(
        command, [run]
    )
    code = main([command, *extra, "--store", "sqlite:///store.db"])
    said = capsys.readouterr().err
    assert code in (0, 1, 3)
    assert (code == 1) == ("error: " in said)
    assert said.count("error: ") <= 1


@pytest.mark.parametrize(
    ("statement", "command", "says"),
    [
        (
            "update answers set at = 'x'",
            "run questions.jsonl --model scripted/0.6 --eps 0.15",
            "`at` holds 'x'",
        ),
        (
            "update draws set item = 1e30",
            "run questions.jsonl --model scripted/0.7 --eps 0.2",
            "`item` holds 1e+30",
        ),
        (
            "update draws set item = 9223372036854775807 where draw = 3",
            "run questions.jsonl --model scripted/0.7 --eps 0.2",
            "`item` holds 9223372036854775807",
        ),
        ("insert into labels select run_id, x'ff' from runs", "runs", "`label` holds b'\\xff'"),
    ],
)
def test_a_cell_is_of_the_type_of_its_own_column(
    statement: str,
    command: str,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A time is a word in some tables, and a number in that of the answers, which a later run keeps."""
    monkeypatch.chdir(tmp_path)
    ran_and_changed("run questions.jsonl --model scripted/0.6 --eps 0.2", statement, capsys)
    assert main([*command.split(), *OWN]) == 1
    assert says in capsys.readouterr().err


def test_settings_that_sqlite_would_ignore_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "--store", "sqlite:///any.db?mode=ro"]) == 1
    assert "no settings but timeout" in capsys.readouterr().err


def test_verify_writes_nothing(whole: Path, tmp_path: Path) -> None:
    name = "certificate.json"
    shutil.copy(whole, tmp_path / "store.db")
    with opened_store(f"sqlite:///{whole}", reading=True) as store:
        (tmp_path / name).write_text(json.dumps(store.certificates(store.runs()[0].run_id)[0]))
    before = (tmp_path / "store.db").read_bytes()
    main(["verify", str(tmp_path / name), "--store", f"sqlite:///{tmp_path / 'store.db'}"])
    main(["verify", str(tmp_path / name)])
    assert (tmp_path / "store.db").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, "store.db"]


@pytest.mark.parametrize(
    "statement",
    [
        "delete from draws where draw = 3",
        "update draws set item = 40 where draw = 3",
        "update draws set item = -1",
    ],
)
@pytest.mark.parametrize("command", ["report", "show", "export"])
def test_a_part_of_a_ranking_without_one_of_its_draws_is_one_line(
    statement: str,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    questions = QUESTIONS.read_text(encoding="utf-8").splitlines()[:40]
    Path("fewer.jsonl").write_text("\n".join(questions), encoding="utf-8")
    rank = "rank fewer.jsonl --model scripted/0.9 --model scripted/0.1 --tie 0.4"
    ranked = 'select run_id from runs where plan like \'%"goal":"ranked"%\''
    part = ran_and_changed(rank, statement, capsys, ranked)
    code = main([command, part, *OWN, *(["-o", "new.csv"] if command == "export" else [])])
    said = capsys.readouterr().err
    assert code in (0, 1)
    assert (code == 1) == (said.count("error: ") == 1)
    assert command != "report" or "are damaged, or were changed by hand: " in said


@pytest.mark.parametrize("content", ['\'{"a": ' + "9" * 5000 + "}'", "'[]'", "'\"abc\"'", "5", "x'ff'"])
def test_an_item_that_is_none_is_one_line_on_every_page(content: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'own.db'}"
    line = f"run {QUESTIONS} --model scripted/0.6 --eps 0.3 --display none --store {url}"
    assert main(line.split()) == 0
    with closing(sqlite3.connect(tmp_path / "own.db")) as own:
        own.execute(f"update items set content = {content}")
        own.commit()
        run, data = own.execute("select run_id, data_hash from runs").fetchone()
    with opened_store(url, reading=True) as store:
        browser = Browser(store)
        for read in (lambda: browser.page(run, data, Wanted()), lambda: browser.one(run, data, 0)):
            with pytest.raises(StoreError, match="damaged, or was changed by hand: `content` holds"):
                read()


@pytest.mark.parametrize("reading", [False, True])
@pytest.mark.parametrize("schema", [0, 2, 7])
def test_another_schema_is_refused_with_what_to_do(
    schema: int, reading: bool, whole: Path, tmp_path: Path
) -> None:
    statement = f"update cereval_schema set version = {schema}" if schema else "delete from cereval_schema"
    changed(whole, tmp_path, statement)
    said = rf"store\.db has the schema {schema} of another version .* this one reads 1; use the version that wrote it"
    with (
        pytest.raises(StoreError, match=said),
        opened_store(f"sqlite:///{tmp_path / 'store.db'}", reading=reading),
    ):
        pass


@pytest.mark.parametrize("content", ["[[[", "[1]", '[{"nothing": 1}]', "9" * 5000])
def test_several_answers_that_are_none_are_one_line(content: str) -> None:
    with pytest.raises(StoreError, match="the answers to draw 3 are damaged"):
        unpacked(Answer(3, text=content, score=0.5))


@pytest.mark.parametrize("content", ["[[[", '{"nothing": 1}', "{}"])
def test_a_reply_that_is_none_is_one_line(content: str, whole: Path, tmp_path: Path) -> None:
    run = changed(whole, tmp_path, "delete from events")
    with opened_store(f"sqlite:///{tmp_path / 'store.db'}") as store, store.writing() as connection:
        insert_rows(connection, "replies", [{"run_id": run, "draw": 0, "content": content, "at": 0.0}])
    with (
        opened_store(f"sqlite:///{tmp_path / 'store.db'}") as store,
        pytest.raises(StoreError, match="is damaged, or was changed by hand"),
    ):
        Labels(store).reply(run, 0)


@pytest.mark.parametrize("item", [-1, 99_999])
def test_a_kept_answer_to_no_item_is_one_line(
    item: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    questions = QUESTIONS.read_text(encoding="utf-8").splitlines()
    Path("fewer.jsonl").write_text("\n".join(questions[:40]), encoding="utf-8")
    Path("more.jsonl").write_text("\n".join(questions[:50]), encoding="utf-8")
    flags = "--model scripted/0.6 --eps 0.2"
    ran_and_changed(f"run fewer.jsonl {flags}", f"update draws set item = {item} where draw = 3", capsys)
    assert main(["run", "more.jsonl", *flags.split(), "--display", "none", *OWN]) == 1
    assert "an earlier run drew items that its data sha256:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        (
            "update runs set created_at = 'x'",
            "is damaged, or was changed by hand: 'x' is no moment in ISO 8601",
        ),
        ("update events set recorded_at = '0001-01-01'", "'0001-01-01' is no moment in ISO 8601"),
    ],
)
def test_moments_beyond_the_calendar(
    statement: str,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    run = ran_and_changed("run questions.jsonl --model scripted/0.6 --eps 0.2", statement, capsys)
    assert main(["export", run, "--format", "every-eval-ever", "-o", "e.json", *OWN]) == 1
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("moment", [-1e300, 1e300, 1e12])
def test_a_kept_answer_of_no_day_has_a_line(moment: float) -> None:
    assert _minute(moment) == "an unknown day"


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store: a run that can go on, whose goal was changed, and one whose questions are out."""
    folder = tmp_path_factory.mktemp("begun")
    shutil.copy(QUESTIONS, folder)
    own = ["--store", f"sqlite:///{folder / 'own.db'}"]
    run = ["run", str(folder / "questions.jsonl"), "--display", "none", "--seed", "1", *own]
    assert main([*run, "--model", "scripted/0.6", "--eps", "0.1", "--max-calls", "10", "--json"]) == 3
    assert main([*run, "--model", "external/people", "--eps", "0.3", "--json"]) == 3
    with closing(sqlite3.connect(folder / "own.db")) as store:
        (folder / "asked").write_text(named(store, "scripted/0.6"), encoding="utf-8")
        (folder / "people").write_text(named(store, "external/people"), encoding="utf-8")
    resume = [
        "resume",
        (folder / "asked").read_text(),
        "--eps",
        "0.09",
        "--max-calls",
        "12",
        "--display",
        "none",
    ]
    assert main([*resume, *own]) == 3
    ask = ["ask", (folder / "people").read_text(), "-n", "3", "-o", str(folder / "batch.jsonl")]
    assert main([*ask, *own]) == 0
    return folder


def named(store: sqlite3.Connection, model: str) -> str:
    return str(store.execute("select run_id from runs where model = ?", (model,)).fetchone()[0])


ENDED, RUNNING = "status in ('finished', 'budget')", "status = 'running'"
DETAILS = {
    "an estimate in words": f"update events set detail = json_set(detail, '$.estimate', 'x') where {ENDED}",
    "an end in words": f"update events set detail = json_set(detail, '$.lower', 'x') where {ENDED}",
    "one end alone": f"update events set detail = json_remove(detail, '$.upper') where {ENDED}",
    "ends alone": f"update events set detail = json_remove(detail, '$.estimate') where {ENDED}",
    "an answer that is a list": f"update events set detail = json_set(detail, '$.answer', json('[1]')) where {ENDED}",
    "endless costs": "update events set detail = replace(detail, '\"cost_usd\":0.0', '\"cost_usd\":1e999')",
    "long costs": f"update events set detail = replace(detail, '\"cost_usd\":0.0', '\"cost_usd\":{'9' * 400}')",
    "no detail": "update events set detail = '{}'",
    "a result in words": "update certificates set content = json_set(content, '$.result', 'x')",
    "no result": "update certificates set content = json_remove(content, '$.result')",
    "an end that is a list": "update certificates set content = json_set(content, '$.result.stopped', json('[]'))",
    "a number in words": "update certificates set content = json_set(content, '$.result.estimate', 'x')",
    "a number without end": f"update certificates set content = json_set(content, '$.result.lower', {'9' * 400})",
    "no log": "update certificates set content = json_remove(content, '$.log')",
    "connections in words": f"update events set detail = json_set(detail, '$.connections', 'x') where {RUNNING}",
    "a time limit in words": f"update events set detail = json_set(detail, '$.max_minutes', 'x') where {RUNNING}",
    "a change of nothing": "update events set detail = '{}' where status = 'changed'",
    "a change of too much": "update events set detail = json_set(detail, '$.more', 1) where status = 'changed'",
    "a change after words": "update events set detail = json_set(detail, '$.drawn', 'x') where status = 'changed'",
    "a change to a word": "update events set detail = json_set(detail, '$.goal', 'x') where status = 'changed'",
    "a lease without end": "update events set detail = json_remove(detail, '$.until') where status = 'leased'",
    "a lease of words": "update events set detail = json_set(detail, '$.calls', 'x') where status = 'leased'",
    "a lease until a word": "update events set detail = json_set(detail, '$.until', 'x') where status = 'leased'",
}
LINES = (
    "runs",
    "runs --json",
    "trend questions.jsonl",
    "show ASKED",
    "report ASKED -o page.html",
    "resume ASKED --max-calls 14 --display none",
    "ask PEOPLE -n 2 -o new.jsonl",
)


def each_is_one_line_at_most(lines: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Carry out commands on the runs of `begun`: each does its work, or says in one line why not."""
    for line in lines:
        line = line.replace("ASKED", Path("asked").read_text()).replace("PEOPLE", Path("people").read_text())
        code = main([*line.split(), *OWN])
        assert code in (0, 1, 3)
        assert capsys.readouterr().err.count("error: ") == (code == 1)


@pytest.mark.parametrize("case", DETAILS)
def test_what_events_say_is_believed_only_as_it_was_written(
    case: str,
    begun: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("own.db")) as store:
        store.execute(DETAILS[case])
        store.commit()
    each_is_one_line_at_most(LINES, capsys)


@pytest.mark.parametrize("case", DETAILS)
def test_no_page_breaks_on_what_events_say(case: str, begun: Path, tmp_path: Path) -> None:
    pytest.importorskip("starlette", reason="pip install 'cereval[view]'")
    from tests.fuzz.pages import visit

    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    with closing(sqlite3.connect(tmp_path / "own.db")) as store:
        store.execute(DETAILS[case])
        store.commit()
    url = f"sqlite:///{tmp_path / 'own.db'}"
    with opened_store(url) as opened:
        visit(opened, url, "127.0.0.1", 0, browser=False, say=print)


PLANS = {
    "a goal without a name": "json_remove(plan, '$.goal.goal')",
    "a goal called by a list": "json_set(plan, '$.goal.goal', json('[]'))",
    "a model without a name": "json_remove(plan, '$.model.name')",
    "settings that are a number": "json_set(plan, '$.model.settings', 1)",
    "settings of nothing": "json_set(plan, '$.model.settings', json('{\"x\": 1}'))",
    "models that are none": "json_set(plan, '$.model.models', json('[1]'))",
    "no models": "json_set(plan, '$.model.models', json('{}'))",
    "half a pair": "json_set(plan, '$.model.second', json('{}'))",
    "a scorer that is a list": "json_set(plan, '$.scorer.spec', json('[]'))",
    "no scorer": "json_remove(plan, '$.scorer')",
    "a scorer of nothing": "json_set(plan, '$.scorer', json('{}'))",
    "examples in words": "json_set(plan, '$.prompt.examples', 'x')",
    "examples that are numbers": "json_set(plan, '$.prompt.examples', json('[1]'))",
    "a template that is a list": "json_set(plan, '$.prompt.template', json('[]'))",
    "history beyond all numbers": f"json_set(plan, '$.history', json('{{\"a\": {10**30}}}'))",
    "versions without sizes": "json_set(plan, '$.growth', json('{\"after\": null}'))",
    "a version after a number": "json_set(plan, '$.growth', json('{\"sizes\": [40], \"after\": true}'))",
    "no name of the data": "json_remove(plan, '$.data_name')",
    "tasks that are numbers": "json_set(plan, '$.tasks', json('[1]'))",
}


@pytest.mark.parametrize("case", PLANS)
def test_a_plan_is_believed_only_as_it_was_written(
    case: str,
    begun: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A plan that was changed has the id that fits it, as whoever forges one would see to."""
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    old = Path("asked").read_text()
    with closing(sqlite3.connect("own.db")) as store:
        store.execute(f"update runs set plan = {PLANS[case]} where run_id = ?", (old,))
        (plan,) = store.execute("select plan from runs where run_id = ?", (old,)).fetchone()
        plan = json.dumps(json.loads(plan), sort_keys=True, separators=(",", ":"))
        new = hashlib.sha256(plan.encode()).hexdigest()[:12]
        for table in ("runs", "events", "draws", "answers", "certificates"):
            store.execute(f"update {table} set run_id = ? where run_id = ?", (new, old))
        store.commit()
    Path("asked").write_text(new)
    more = (
        "export ASKED --format every-eval-ever -o e.json",
        "rescore ASKED --scorer contains --display none",
    )
    each_is_one_line_at_most((*LINES, *more), capsys)
