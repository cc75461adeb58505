"""What the pages show, from the outside."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from shown import HOSTILE, OURS, begin, client, go_on, made, opened, pair, questions
from sqlalchemy import text
from tests.view.shown import named

import cereval
from cereval.certificate.verify import verify
from cereval.errors import CerevalError
from cereval.store.sql import SqlStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    found = opened(tmp_path)
    yield found
    found.close()


class Reader(HTMLParser):
    """Collects the tags and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


def test_the_list_has_every_run(store: SqlStore) -> None:
    assert "No runs yet" in client(store).get("/").text
    runs = [made(store, questions(), candidates=named(f"model {n}")) for n in range(3)]
    store.label(runs[0], ["nightly"])
    page = client(store).get("/").text
    assert all(f"/runs/{run}" in page for run in runs)
    found = client(store).get("/", params={"q": "NIGHTLY model"}).text
    assert [run in found for run in runs] == [True, False, False]


def test_a_run_is_found_by_the_beginning_of_its_id(store: SqlStore) -> None:
    run = made(store, questions())
    assert client(store).get(f"/runs/{run[:8]}").headers["location"] == f"/runs/{run}"
    assert client(store).get("/runs/nothing").status_code == 404
    assert client(store).get(f"/runs/{run}").status_code == 200


def test_an_answer_that_cannot_be_is_not_there(store: SqlStore) -> None:
    run = made(store, questions())
    assert client(store).get(f"/runs/{run}/answers/0").status_code == 200
    for draw in ("999999", "9" * 5000, str(2**63), "-1", "x", "1.5"):
        assert client(store).get(f"/runs/{run}/answers/{draw}").status_code == 404


def test_the_charts_say_what_the_certificate_says(store: SqlStore) -> None:
    run = made(store, questions())
    charts = client(store).get(f"/runs/{run}/charts").text
    assert store.run(run).summary["answer"] in charts
    assert "How the interval narrowed" in charts
    assert "<polygon" in charts


def hostile_runs(store: SqlStore) -> list[str]:
    data = questions(90, text=HOSTILE, category=HOSTILE)

    def reply(item: int) -> tuple[str, float | None]:
        return HOSTILE, None if item % 9 == 0 else float(item % 2)

    shared = {"data_name": HOSTILE, "scorer": {"spec": HOSTILE}}
    prompt = {"system": HOSTILE, "template": None, "examples": []}
    alone = named(HOSTILE, prompt=prompt)
    single = made(store, data, reply, candidates=alone, **shared)
    double = made(store, data, reply, **pair(HOSTILE, f"{HOSTILE} too", prompt=prompt), **shared)
    people = {"spec": {"name": "people", "how": "prefer", "raters": 1, "criteria": HOSTILE}}
    third = go_on(
        begin(store, data, **{**shared, "scorer": people, "candidates": alone}), store, reply, most=8
    )
    for run in (single, double, third):
        store.label(run, [HOSTILE])
    return [single, double, third]


def test_hostile_texts_are_shown_as_text_on_every_page(store: SqlStore) -> None:
    runs = hostile_runs(store)
    visitor = client(store)
    paths = ["/", "/?parts=1", f"/?q={HOSTILE}", "/trend", "/label", f"/runs/{HOSTILE.replace('/', '')}"]
    for run in runs:
        paths += [
            f"/runs/{run}{end}"
            for end in ("", "/charts", "/answers", "/answers?show=failed", f"/answers?q={HOSTILE}")
        ]
        paths += [f"/runs/{run}/answers/0", f"/label/{run}?rater={HOSTILE[:40]}"]
    for path in paths:
        page = visitor.get(path).text
        read = Reader(page)
        assert "<script>document" not in page, path
        assert "img" not in read.tags, path
        assert not [name for name, _ in read.attributes if name.startswith("on")], path
        assert not [
            value
            for name, value in read.attributes
            if name in ("href", "src") and ":" in value[:12] and value != "data:,"
        ], path
        assert "49" not in re.findall(r"\{\{7\*7\}\}|(?<=</pre>)49", page), path


def test_answers_come_page_by_page_each_once(store: SqlStore) -> None:
    run = made(store, questions())
    visitor, seen, path = client(store), [], f"/runs/{run}/answers?limit=10"
    for _ in range(50):
        page = visitor.get(path).text
        seen += re.findall(rf"/runs/{run}/answers/(\d+)\"", page)
        more = re.search(r'hx-get="([^"]+after=[^"]+)"', page)
        if more is None:
            break
        path = more[1].replace("&amp;", "&") + "&limit=10"
    assert sorted(map(int, seen)) == list(range(len(store.answers(run))))


def test_a_score_that_is_none_is_shown_as_such(store: SqlStore) -> None:
    run = made(store, questions())
    with store.engine.begin() as connection:
        connection.execute(text("update answers set score = 'much', latency_s = 'long' where draw = 0"))
    answer = client(store).get(f"/runs/{run}/answers?limit=100")
    assert (answer.status_code, answer.text.count("no score")) == (200, 1)
    one = client(store).get(f"/runs/{run}/answers/0").text
    assert "no score" in one
    assert re.search(r"Took</dt><dd>unknown", one)


def test_what_an_answer_cost_is_unknown_where_no_price_is_known(store: SqlStore) -> None:
    run = made(store, questions())
    with store.engine.begin() as connection:
        connection.execute(text("update answers set cost_usd = null where draw = 0"))
    assert re.search(r"Cost</dt><dd>unknown", client(store).get(f"/runs/{run}/answers/0").text)


def test_wrong_answers_first_and_by_themselves(store: SqlStore) -> None:
    run = made(store, questions())
    wrong = [answer for answer in store.answers(run) if answer.score == 0]
    for path in ("?show=wrong&limit=100", "?order=worst&limit=100"):
        page = client(store).get(f"/runs/{run}/answers{path}").text
        marks = re.findall(r'class="score (\w+)"', page)
        assert marks[: len(wrong)] == ["wrong"] * len(wrong)
    page = client(store).get(f"/runs/{run}/answers", params={"q": wrong[0].text}).text
    assert wrong[0].text in page
    assert len(re.findall("<article", page)) == 1
    assert "No answers like that" in client(store).get(f"/runs/{run}/answers?q=nowhere").text


def test_a_comparison_is_shown_side_by_side(store: SqlStore) -> None:
    run = made(store, questions(), **pair("one", "two"))
    page = client(store).get(f"/runs/{run}").text
    parts = re.findall(r"is better on (\d+)", page)
    shown = [
        (first.score, second.score)
        for first, second in zip(
            *(store.answers(one.run_id) for one in store.runs() if one.model in ("one", "two")), strict=True
        )
    ]
    assert sorted(map(int, parts)) == sorted([sum(a > b for a, b in shown), sum(a < b for a, b in shown)])
    rows = client(store).get(f"/runs/{run}/answers?show=disagree&limit=100").text
    assert rows.count("<article") == sum(a != b for a, b in shown)


def test_the_certificate_is_handed_out_and_verified(store: SqlStore) -> None:
    run = made(store, questions())
    content = json.loads(client(store).get(f"/runs/{run}/certificate.json").text)
    assert verify(content).status == "valid"
    assert "<b>valid</b>" in client(store).post(f"/runs/{run}/verify", headers=OURS).text
    assert "<!doctype html>" in client(store).get(f"/runs/{run}/report.html").text


def test_the_trend_has_every_run_on_the_data(store: SqlStore) -> None:
    runs = [made(store, questions(), candidates=named(f"model {n}")) for n in range(2)]
    page = client(store).get("/trend").text
    assert all(run in page for run in runs)
    assert "model 1" in page
    store.mark(runs[0], "finished", {"estimate": 0.53, "lower": 0.4448, "upper": 0.6162})
    assert "44.4% – 61.7%" in client(store).get("/trend").text, "an interval is not rounded inwards"


def test_a_run_that_failed_says_why(store: SqlStore) -> None:
    run = made(store, questions())
    store.mark(run, "failed", {"error": "the judge gave no grade"})
    assert "It failed: the judge gave no grade" in client(store).get(f"/runs/{run}/charts").text
    store.mark(run, "running")
    assert "It failed" not in client(store).get(f"/runs/{run}/charts").text


def test_calls_whose_failures_were_held_back_are_counted(store: SqlStore, tmp_path: Path) -> None:
    """They are no answers, for they are asked again; but they were calls."""
    (tmp_path / "dead.py").write_text("def model(text):\n    raise RuntimeError('it is dead')\n")
    rows = [{"question": f"{n}", "answer": f"{n}"} for n in range(50)]
    with pytest.raises(CerevalError, match="it is dead"):
        cereval.run(rows, model=f"python:{tmp_path}/dead.py:model", store=str(store.address), connections=4)
    (run,) = store.runs()
    held = store.events(run.run_id)[-1]["detail"]["held_back"]
    assert (run.status, run.answers, held > 0) == ("failed", 0, True)
    charts = client(store).get(f"/runs/{run.run_id}/charts").text
    assert re.findall(r"<dt>(Calls|Failed)</dt><dd>(\d+)", charts) == [
        ("Calls", str(held)),
        ("Failed", str(held)),
    ]
    store.mark(run.run_id, "failed", {"error": "x", "held_back": 3, "held_back_usd": None})
    assert "<dt>Cost</dt><dd>unknown" in client(store).get(f"/runs/{run.run_id}/charts").text
    assert ">unknown</td>" in client(store).get("/").text


def test_bad_addresses_get_one_line(store: SqlStore) -> None:
    run = made(store, questions())
    for path in ("?after=x", "?show=nonsense", "?limit=none"):
        answer = client(store).get(f"/runs/{run}/answers{path}")
        assert answer.status_code == 400
        assert "must be" in answer.text
    assert client(store).get(f"/runs/{run}/answers/999999").status_code == 404
