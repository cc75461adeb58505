"""People label; the run counts what they say, and nothing twice."""

from __future__ import annotations

import csv
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from shown import OURS, client

import cereval
from cereval.api import Run
from cereval.certificate.verify import verify
from cereval.cli.main import main
from cereval.errors import BadFile, InvalidInput
from cereval.runner.start import evidence
from cereval.store import labels as kept_labels
from cereval.store.base import open_store
from cereval.store.labels import Labels, agreement
from cereval.store.sql import SqlStore

ROWS = [
    {"id": f"q{n}", "question": f"question {n}", "output": f"answer {n}", "answer": "reference"}
    for n in range(40)
]


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_labels, "UNDO_S", 0.3)
    monkeypatch.setattr("cereval.runner.people.LOOK_S", 0.02)
    monkeypatch.setattr("cereval.runner.run.LOOK_S", 0.1)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'runs.db'}"


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    found = open_store(url)
    assert isinstance(found, SqlStore)
    yield found
    found.close()


def begun(url: str, **settings: object) -> tuple[threading.Thread, list[Run]]:
    """Start a run that people score in a thread."""
    found: list[Run] = []
    given = {"model": "given/output", "scorer": "people", "eps": 0.2, "store": url, "seed": 1, **settings}
    work = threading.Thread(target=lambda: found.append(cereval.evaluate(ROWS, **given)), daemon=True)
    work.start()
    return work, found


def until(ready: Callable[[], object], seconds: float = 300) -> object:
    end = time.monotonic() + seconds
    while not (got := ready()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
    return got


def waiting_run(store: SqlStore) -> str:
    until(
        lambda: [
            run
            for run in store.runs()
            if run.status == "running"
            and run.plan["scorer"]["spec"]["name"] == "people"
            and not run.plan["goal"].get("judged")
        ]
    )
    return next(run.run_id for run in store.runs() if run.status == "running")


def labelling(
    store: SqlStore, run: str, rater: str, choose: Callable[[str], str], over: Callable[[], bool]
) -> int:
    """Label as a person does, from what the page shows."""
    visitor, given = client(store), 0
    page = visitor.get(f"/label/{run}", params={"rater": rater}).text
    while not over():
        draw = re.search(r'name="draw" value="(\d+)"', page)
        if draw is None:
            time.sleep(0.05)
            page = visitor.get(f"/label/{run}", params={"rater": rater}, headers={"hx-request": "true"}).text
            continue
        part = re.search(r'name="part" value="(\w+)"', page)
        assert part is not None
        form = {"rater": rater, "part": part[1], "draw": draw[1], "label": choose(page)}
        page = visitor.post(f"/label/{run}/rate", data=form, headers={**OURS, "hx-request": "true"}).text
        given += 1
    return given


def right(page: str) -> str:
    number = re.search(r"answer (\d+)", page)
    assert number is not None
    return str(int(int(number[1]) % 4 > 0))


def test_people_score_a_run_to_its_goal(store: SqlStore, url: str) -> None:
    """Whoever has given a label waits with the next one until the other has too, so that neither gives them all."""
    work, found = begun(url)
    run = waiting_run(store)

    def in_turn(who: str) -> Callable[[str], str]:
        def choose(page: str) -> str:
            if who in raters():
                until(lambda: len(raters()) == 2)
            return right(page)

        return choose

    def raters() -> set[str]:
        return {one.rater for one in Labels(store).ratings([run])}

    two = [
        threading.Thread(target=labelling, args=(store, run, who, in_turn(who), lambda: bool(found)))
        for who in ("Ann", "Bo")
    ]
    for person in two:
        person.start()
    work.join(300)
    for person in two:
        person.join(120)
    result = found[0]
    assert result.stopped == "goal"
    assert all(row["score"] == float(right(row["answer"])) for row in result.answers())
    assert {row["detail"].partition(":")[0] for row in result.answers()} == {"Ann", "Bo"}
    assert verify(result.certificate, evidence(result.certificate, store)).status == "valid"


def test_undo_before_it_counts(store: SqlStore, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_labels, "UNDO_S", 600.0)
    begun(url)
    run = waiting_run(store)
    labels, visitor = Labels(store), client(store)
    until(lambda: store.draws(run))
    page = str(until(lambda: _card(visitor.get(f"/label/{run}", params={"rater": "Ann"}).text)))
    draw = re.search(r'name="draw" value="(\d+)"', page)
    assert draw is not None
    form = {"rater": "Ann", "part": run, "draw": draw[1], "label": "1"}
    visitor.post(f"/label/{run}/rate", data=form, headers=OURS)
    assert [one.score for one in labels.ratings([run])] == [1.0]
    again = visitor.post(f"/label/{run}/undo", data={"rater": "Ann"}, headers=OURS).text
    assert labels.ratings([run]) == []
    assert f'name="draw" value="{draw[1]}"' in again
    assert (
        "nothing to take back" in visitor.post(f"/label/{run}/undo", data={"rater": "Ann"}, headers=OURS).text
    )
    store.mark(run, "stopping")


def _card(page: str) -> str:
    return page if 'name="draw"' in page else ""


def test_sides_are_hidden_shuffled_and_read_back(store: SqlStore, url: str) -> None:
    work, found = begun(url, scorer="people:prefer", eps=0.3)
    run = waiting_run(store)
    shown: list[bool] = []

    def left_is_answer(page: str) -> str:
        left = re.search(r"<h3>Left</h3><pre>(.*?)</pre>", page, re.DOTALL)
        assert left is not None
        shown.append(left[1].startswith("answer"))
        assert "given/output" not in page
        return "left" if shown[-1] else "right"

    labelling(store, run, "Ann", left_is_answer, lambda: bool(found))
    work.join(300)
    assert set(shown) == {True, False}
    assert {row["score"] for row in found[0].answers()} == {1.0}


def test_two_labels_each_and_their_agreement(store: SqlStore, url: str) -> None:
    work, found = begun(url, scorer="people:scale", raters=2, eps=0.3)
    run = waiting_run(store)
    people = {"Ann": "5", "Bo": "3"}
    threads = [
        threading.Thread(
            target=labelling, args=(store, run, who, lambda _, point=point: point, lambda: bool(found))
        )
        for who, point in people.items()
    ]
    for thread in threads:
        thread.start()
    work.join(300)
    for thread in threads:
        thread.join(120)
    assert {row["score"] for row in found[0].answers()} == {0.75}
    count, same, _ = agreement(Labels(store).ratings([run])) or (0, 1.0, 1.0)
    assert count >= found[0].n_evaluated
    assert same == 0


def test_a_judge_grades_all_and_people_few(store: SqlStore, url: str, tmp_path: Path) -> None:
    judge = tmp_path / "judge.py"
    judge.write_text(
        "def grade(messages):\n    number = int(messages[-1]['content'].split('answer ')[-1].split()[0])\n"
        "    return '[[10]]' if number % 4 else '[[1]]'\n"
    )
    work, found = begun(url, judge=f"python:{judge}:grade", eps=0.2)
    run = str(
        until(lambda: next((one.run_id for one in store.runs() if not one.plan["goal"].get("judged")), ""))
    )
    labelling(store, run, "Ann", right, lambda: bool(found))
    work.join(300)
    graded = next(one for one in store.runs() if one.plan["goal"].get("judged"))
    assert graded.answers == len(ROWS)
    assert store.run(run).plan["history"] == {graded.run_id: len(ROWS)}
    assert found[0].outcome.certificate["side_information"]["history"]
    assert verify(found[0].certificate, evidence(found[0].certificate, store)).status == "valid"


def test_labels_given_elsewhere(
    store: SqlStore, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work, found = begun(url)
    run = waiting_run(store)
    batch = tmp_path / "batch.csv"
    end = time.monotonic() + 300
    while not found and time.monotonic() < end:
        until(lambda: found or Labels(store).waiting([run], store.run(run).data_hash))
        if found:
            break
        assert main(["ask", run, "--store", url, "-o", str(batch)]) == 0
        with batch.open(newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            row["score"], row["rater"] = right(row["answer"]), "Ann"
        with batch.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]) if rows else ["draw"])
            writer.writeheader()
            writer.writerows(rows)
        if rows:
            assert main(["ask", run, "--store", url, "-o", str(batch)]) == 1, "no label is written over"
            assert f"{len(rows)} scores that were not told" in capsys.readouterr().err
            assert main(["tell", run, str(batch), "--store", url, "--json"]) == 0
            assert json.loads(capsys.readouterr().out)["labels"] == len(rows)
        time.sleep(0.2)
    work.join(300)
    assert found[0].stopped == "goal"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scorer": "people:stars"}, "people:scale"),
        ({"raters": 0}, "raters"),
        ({"scorer": "exact", "raters": 2}, "given with --scorer people"),
        ({"target": "expected"}, "where people score"),
        ({"model": "given/outputs"}, "output"),
    ],
)
def test_bad_settings_get_one_line(url: str, settings: dict[str, object], message: str) -> None:
    given = {"model": "given/output", "scorer": "people", "store": url, **settings}
    with pytest.raises(InvalidInput, match=message):
        cereval.evaluate(ROWS, **given)


def test_preferences_need_something_to_compare_with(url: str) -> None:
    rows = [{"question": "q", "reply": "a"}]
    with pytest.raises(BadFile, match="some items have none"):
        cereval.evaluate(rows, model="given/reply", scorer="people:prefer", store=url)


def test_labels_are_checked(store: SqlStore, url: str) -> None:
    begun(url)
    run = waiting_run(store)
    until(lambda: Labels(store).waiting([run], store.run(run).data_hash))
    visitor = client(store)
    for form, code in (
        ({"rater": "", "part": run, "draw": "0", "label": "1"}, 400),
        ({"rater": "Ann", "part": run, "draw": "0", "label": "7"}, 400),
        ({"rater": "Ann", "part": "elsewhere", "draw": "0", "label": "1"}, 200),
        ({"rater": "Ann", "part": run, "draw": "99999", "label": "1"}, 200),
        ({"rater": "Ann", "part": run, "draw": "-1", "label": "1"}, 400),
        ({"rater": "Ann", "part": run, "draw": "abc", "label": "1"}, 400),
        ({"rater": "Ann", "part": run, "label": "1"}, 400),
        ({"rater": "Ann", "part": run, "draw": "0", "label": "1", **{f"x{n}": "" for n in range(17)}}, 413),
    ):
        assert visitor.post(f"/label/{run}/rate", data=form, headers=OURS).status_code == code, form
    assert Labels(store).ratings([run]) == []
    other = cereval.evaluate(ROWS, model="scripted/0.7", store=url, eps=0.3).run_id
    page = visitor.get(f"/label/{other}")
    assert (page.status_code, "not scored by people" in page.text) == (409, True)
    store.mark(run, "stopping")
