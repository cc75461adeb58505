"""A page for every kind of question, finished or not, from a store or recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import unescape
from pathlib import Path
from typing import Any, ClassVar

import pytest
from stories import Reply, pool, stored_run
from tests.golden.golden_cases import CASES
from tests.golden.lines import certificate_of
from tests.report.stories import named

from cereval.questions import formats
from cereval.questions.base import Kind
from cereval.questions.log import Log
from cereval.questions.mean import EstimateMean
from cereval.questions.session import tell
from cereval.questions.tasks import Tasks
from cereval.records import Certified, Step, Table
from cereval.report import page_of, recorded_page
from cereval.report.story import read_story
from cereval.store.base import Store, open_store

RECORDED = sorted(name for name in CASES if "-recorded" in name)
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path / 'runs.db'}")
    yield store
    store.close()


def shown(html: str) -> str:
    """The page as text in one line, without its marks; what must hold of every page is held here."""
    assert html.startswith("<!doctype html>")
    assert "<script" not in html
    assert "\x1b" not in html
    assert "\u202e" not in html
    assert "http" not in html.replace("https://", "http://").partition("<style>")[0]
    return " ".join(unescape(html).split())


def has_headline(html: str, result: Certified) -> bool:
    lead = result.headline().removeprefix(f"{result.answer()}, ")
    text = shown(html)
    return f">{result.answer()}</h1>" in text and f'<p class="lead">{lead}</p>' in text


# -- live runs of every kind ------------------------------------------------------------------------------------------

TWO = named("a" + HOSTILE, "b")
FOUR = named("a" + HOSTILE, "b", "c", "d")
TASKS = ("kind 0", "kind 1", "kind 2")
LIVE: dict[str, dict[str, Any]] = {
    "estimate": {},
    "gate": {"goal": {"goal": "threshold", "value": 0.7}},
    "compare": {"kind": "compare", "candidates": TWO, "goal": {"goal": "difference", "eps": 0.15}},
    "rank": {"kind": "rank", "candidates": FOUR, "goal": {"goal": "order", "tie": 0.2}, "method": "pairs"},
    "top": {
        "kind": "rank",
        "candidates": FOUR,
        "goal": {"goal": "top", "k": 1, "within": 0.2},
        "method": "pairs",
    },
    "tasks": {
        "kind": "tasks",
        "tasks": TASKS,
        "goal": {"goal": "macro", "eps": 0.15},
        "side_information": ("groups",),
    },
    "growing": {"kind": "growing", "growth": {"sizes": [300], "after": None}, "method": "growing"},
}


@pytest.mark.parametrize("most", [0, 8, 10_000], ids=["begun", "left", "finished"])
@pytest.mark.parametrize("name", LIVE)
def test_live_runs_of_every_kind(name: str, most: int, store: Store) -> None:
    fields = {"candidates": named("a" + HOSTILE), "data_name": HOSTILE, **LIVE[name]}
    data = pool(question=HOSTILE)
    run_id = stored_run(
        store, data, lambda item: Reply(HOSTILE, float(item % 20 > item // 100)), most=most, **fields
    )
    pages = {run.run_id: page_of(store, run.run_id) for run in store.runs()}
    for page in pages.values():
        assert "&lt;script&gt;" in page.html
        shown(page.html)
    text, story = shown(pages[run_id].html), read_story(store, run_id)
    if story.steps:
        assert isinstance(story.kind, Tasks) or story.steps[-1].lower == story.result.as_dict()["lower"]
    assert ("None yet" in text) == (most == 0)
    assert ("cereval resume" in text) == (most <= 8)
    assert ("Sample answers" in text) == ("What it took" in text) == (most > 0)
    assert len(pages) == 1 + len(LIVE[name].get("candidates", ()))


@pytest.mark.parametrize("name", LIVE)
def test_a_page_begins_with_the_answer(name: str, store: Store) -> None:
    fields = json.loads(json.dumps(LIVE[name]).replace(json.dumps(HOSTILE)[1:-1], ""))
    fields |= {
        each: tuple(fields[each]) for each in ("tasks", "side_information", "candidates") if each in fields
    }
    run_id = stored_run(store, pool(), lambda item: Reply("four", float(item % 20 > item // 100)), **fields)
    assert has_headline(page_of(store, run_id).html, read_story(store, run_id).result)


def test_each_model_is_told_apart(store: Store) -> None:
    run_id = stored_run(store, pool(), lambda item: Reply("four", float(item % 4 > 0)), **LIVE["rank"])
    text = shown(page_of(store, run_id).html)
    assert "The certified order" in text or "Every model" in text
    assert text.count('<td class="n optional">') > 0
    assert all(f">{name} · kind" in text for name in ("b", "c"))


def test_a_part_certifies_nothing_and_names_its_whole(store: Store) -> None:
    run_id = stored_run(store, pool(), lambda item: Reply("four", float(item % 4 > 0)), **LIVE["compare"])
    (part, _) = (run.run_id for run in store.runs() if run.run_id != run_id)
    text = shown(page_of(store, part).html)
    assert "certify nothing" in text
    assert run_id in text
    assert "The certificate</h2>" not in text


# -- recorded evaluations ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_evaluations(name: str, tmp_path: Path) -> None:
    certificate = certificate_of(name, CASES[name], tmp_path)
    kind = formats()[certificate["format"]]
    log = Log({n: kind.scores(entry) for n, entry in enumerate(certificate["log"])}, len(certificate["log"]))
    session, _ = kind.retold(certificate, log, tell)
    about = {"data": HOSTILE, "items": "sha256:00", **certificate["settings"].get("about", {})}
    html = recorded_page(kind, session.result(), certificate, (), about)
    assert has_headline(html, session.result())
    assert certificate["digest"] in html
    assert f'download="{kind.name}-certificate.json"' in html


class Odd(EstimateMean):
    """A sixth kind, without a page of its own."""

    name: ClassVar[str] = "odd"
    page: ClassVar[str] = ""


class OddResult(Certified):
    """An answer of several parts, on a scale of its own."""

    lower = -0.5

    def answer(self) -> str:
        return "odd & even"

    def rows(self) -> list[tuple[str, str]]:
        return [("oddness", "<3>")]

    def table(self) -> Table:
        return Table(("part", "share"), [["left", "1%"], [HOSTILE, "99%"]], numbers=(1,))


def test_a_kind_without_a_page_has_a_decent_one() -> None:
    shared: Mapping[str, Any] = {"n_evaluated": 3, "n_items": 10, "saved": 0.7, "seed": 5, "confidence": 0.9}
    words: Mapping[str, Any] = {"method": "m", "guarantee": "anytime", "target": "benchmark"}
    result = OddResult(**shared, **words, stopped="goal", models=("a", "b", "c"))
    steps = [Step(n, 0.0, -1 / (n + 1), 1 / (n + 1)) for n in range(4)]
    kind: Kind = Odd()
    html = recorded_page(kind, result, {"digest": "d1"}, steps, {"data": "odd.csv"})
    assert has_headline(html, result)
    text = shown(html)
    for part in ("3 models</b> on <b>odd.csv", "Oddness", "left", "99%", "How the interval narrowed", "d1"):
        assert part in text
    assert "no matter when" in text


def test_a_page_knows_its_run(store: Store) -> None:
    run_id = stored_run(store, pool(), lambda _: Reply())
    page = page_of(store, run_id[:6])
    assert page.run_id == run_id
    assert page.result == read_story(store, page.run_id).result.as_dict()
