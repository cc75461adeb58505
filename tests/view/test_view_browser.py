"""The view in real Chromium: live, by keyboard, on a phone, with hostile answers and many of them."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from shown import GOAL, HOSTILE, TOKEN, made, opened, pair, questions
from tests.view.shown import named

import cereval
from cereval.api import Run
from cereval.plan import Plan
from cereval.store import labels
from cereval.store.sql import SqlStore
from cereval.view.access import Keys
from cereval.view.app import make_app

sync_api = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
uvicorn = pytest.importorskip("uvicorn", reason="pip install 'cereval[view]'")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (apt-get install chromium)")
WAIT = 300_000
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
TOO_WIDE = """[...document.querySelectorAll('body *')]
.filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 150))"""


class Served:
    """A server in a thread, which can be stopped and started again at the same address."""

    def __init__(self, store: SqlStore) -> None:
        self.store, self.port = store, 0
        self.start()

    def start(self) -> None:
        self.keys = Keys(TOKEN)
        app = make_app(self.store, str(self.store.address), keys=self.keys)
        config = uvicorn.Config(
            app, host="127.0.0.1", port=self.port, log_level="error", timeout_graceful_shutdown=1
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        self.port = self.server.servers[0].sockets[0].getsockname()[1]

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(120)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    store = opened(tmp_path)
    found = Served(store)
    yield found
    found.stop()
    store.close()


@pytest.fixture
def visit(browser: sync_api.Browser, served: Served) -> Iterator[Callable[..., sync_api.Page]]:
    """Open pages that may act; whatever the console complains about fails the test, but for lost connections."""
    complaints: list[str] = []
    contexts = []

    def open_page(path: str = "/", width: int = 1280) -> sync_api.Page:
        context = browser.new_context(viewport={"width": width, "height": 800})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("dialog", lambda box: complaints.append(f"a dialog: {box.message}"))
        page.goto(f"{served.address}{path}{'&' if '?' in path else '?'}token={served.keys.token}")
        page.wait_for_url(lambda address: "token=" not in address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    lost = ("ERR_CONNECTION", "ERR_INCOMPLETE", "htmx:")
    assert [one for one in complaints if not any(sign in one for sign in lost)] == []


WAITING = """
import itertools, time
from pathlib import Path

number = itertools.count()

def model(messages):
    text = messages[-1]["content"]
    while next(number) > 24 and not Path({go!r}).exists():
        time.sleep(0.05)
    time.sleep(0.02)
    return text if int(text) % 4 else "0"
"""


def waiting_run(folder: Path, url: str, found: list[Run], eps: float = 0.1) -> None:
    """Run a model that falls silent after some answers until there is a file `go`."""
    (folder / "waiting.py").write_text(WAITING.format(go=str(folder / "go")))
    rows = [json.dumps({"question": f"{n}", "answer": f"{n}"}) for n in range(1, 400)]
    (folder / "data.jsonl").write_text("\n".join(rows))
    settings = {
        "model": f"python:{folder}/waiting.py:model",
        "eps": eps,
        "store": url,
        "connections": 2,
        "seed": 3,
    }
    found.append(cereval.evaluate(str(folder / "data.jsonl"), **settings))


def test_a_live_run_is_seen_finishing(
    tmp_path: Path, served: Served, visit: Callable[..., sync_api.Page]
) -> None:
    found: list[Run] = []
    work = threading.Thread(
        target=waiting_run, args=(tmp_path, str(served.store.address), found), daemon=True
    )
    work.start()
    while not (runs := [run for run in served.store.runs() if run.answers > 10]):
        time.sleep(0.05)
    listed, page = visit("/"), visit(f"/runs/{runs[0].run_id}")
    listed.wait_for_selector(".status.running", timeout=WAIT)
    page.wait_for_selector("#charts .status.running", timeout=WAIT)
    page.wait_for_selector("#charts figure svg .band >> visible=true", timeout=WAIT)
    page.evaluate("window.neverReloaded = true")
    (tmp_path / "go").touch()
    page.wait_for_selector("#charts .status.finished", timeout=WAIT)
    work.join(300)
    assert page.inner_text("h1") == found[0].result.answer()
    assert page.evaluate("window.neverReloaded")
    listed.wait_for_selector(f"#run-{runs[0].run_id} .status.finished", timeout=WAIT)


def test_the_buttons_stop_a_run_and_bring_one_to_a_closer_goal(
    tmp_path: Path, served: Served, visit: Callable[..., sync_api.Page]
) -> None:
    found: list[Run] = []
    url = str(served.store.address)
    work = threading.Thread(target=waiting_run, args=(tmp_path, url, found, 0.01), daemon=True)
    work.start()
    while not (runs := [run for run in served.store.runs() if run.answers > 10]):
        time.sleep(0.05)
    page = visit(f"/runs/{runs[0].run_id}")
    page.click("button:text-is('Stop')")
    page.wait_for_selector("text=Stopping: the calls in flight are waited for", timeout=WAIT)
    (tmp_path / "go").touch()
    work.join(300)
    assert found[0].outcome.interrupted
    rows = [{"question": f"{n}", "answer": f"{n + 1}"} for n in range(400)]
    wide = cereval.evaluate(rows, model="scripted/0.7", eps=0.15, store=url, seed=1)
    page = visit(f"/runs/{wide.run_id}")
    page.fill("input[name='eps']", "0.1")
    page.wait_for_selector("#charts figure svg >> visible=true", timeout=WAIT)
    page.click("text=Go on to a closer goal")
    end = time.monotonic() + 300
    while len(served.store.certificates(wide.run_id)) < 2 and time.monotonic() < end:
        time.sleep(0.1)
    assert served.store.certificates(wide.run_id)[-1]["result"]["half_width"] <= 0.1


def test_a_hundred_thousand_answers_are_browsed(
    tmp_path: Path, served: Served, visit: Callable[..., sync_api.Page]
) -> None:
    run = many_answers(tmp_path / "runs.db", served.store, 100_000)
    page = visit(f"/runs/{run}")
    assert "100,000" in page.inner_text("#answers .tabs")
    assert page.locator("#charts button").inner_text() == "Draw the charts"
    page.click("#answers .tabs label:has-text('Wrong')")
    sync_api.expect(page.locator("#answer-list .score.wrong")).to_have_count(25, timeout=WAIT)
    page.click("text=More")
    sync_api.expect(page.locator("#answer-list article")).to_have_count(50, timeout=WAIT)
    page.click("#answers .tabs label:has-text('All')")
    page.fill("#find-text", "the answer 2042 ")
    sync_api.expect(page.locator("#answer-list article")).to_have_count(1, timeout=WAIT)


def many_answers(file: Path, store: SqlStore, count: int) -> str:
    """Write a run with so many answers straight into the database."""
    data = questions(3)
    plan = Plan(
        "estimate",
        GOAL,
        data.content_hash,
        n_items=3,
        candidates=named("made-up"),
        data_name="many.jsonl",
        target="expected",
    )
    store.add_items(plan.data_hash, (item.as_dict() for item in data.items))
    run = store.create_run(plan.run_id, plan.as_dict(), plan.data_hash, "made-up").run_id
    with sqlite3.connect(file) as database:
        database.executemany(
            "INSERT INTO draws VALUES (?, ?, ?, 1.0, 0.0)", ((run, n, n % 3) for n in range(count))
        )
        database.executemany(
            "INSERT INTO answers VALUES (?, ?, ?, ?, NULL, '', 0, 0, 0.0, 0.0, 1, '', 0.0, '')",
            ((run, n, f"the answer {n} of many", float(n % 5 > 0)) for n in range(count)),
        )
    database.close()
    return run


def people_scoring(served: Served, found: list[Run]) -> tuple[threading.Thread, str]:
    """Start a run that people score in a thread; return the thread and the run's id."""
    rows = [{"id": f"q{n}", "question": f"question {n}", "reply": f"{HOSTILE} reply {n}"} for n in range(40)]
    url = str(served.store.address)
    settings = {"model": "given/reply", "scorer": "people", "eps": 0.2, "store": url, "seed": 1}
    work = threading.Thread(target=lambda: found.append(cereval.evaluate(rows, **settings)), daemon=True)
    work.start()
    while not (runs := served.store.runs()):
        time.sleep(0.05)
    return work, runs[0].run_id


def test_labels_count_in_a_browser_that_runs_no_script(served: Served, browser: sync_api.Browser) -> None:
    """Forms are sent by the browser itself also while a page still loads its scripts."""
    _, run = people_scoring(served, [])
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{served.address}/label/{run}?rater=Ann&token={served.keys.token}")
    page.wait_for_url(lambda address: "token=" not in address)
    end = time.monotonic() + 300
    while not page.locator("button[data-key='1']").count() and time.monotonic() < end:
        page.reload()
    page.click("button[data-key='1']")
    page.wait_for_selector("text=Ann: 1 of 1 labels", timeout=WAIT)
    context.close()
    served.store.mark(run, "stopping")


def test_two_people_label_while_the_server_restarts(
    served: Served, visit: Callable[..., sync_api.Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels, "UNDO_S", 0.3)
    monkeypatch.setattr("cereval.runner.people.LOOK_S", 0.05)
    found: list[Run] = []
    work, run = people_scoring(served, found)
    pages = [visit(f"/label/{run}") for _ in range(2)]
    for page, name in zip(pages, ("Ann", "Bo"), strict=True):
        page.keyboard.type(name)
        page.keyboard.press("Enter")
        page.wait_for_selector("#card", timeout=WAIT)
    pressed = 0
    end = time.monotonic() + 300
    while not found and time.monotonic() < end:
        for page in pages:
            if page.locator("button[data-key='1']").count():
                page.keyboard.press("1" if pressed % 4 else "0")
                pressed += 1
            page.wait_for_timeout(60)
        if pressed == 6:
            pressed += 1
            served.stop()
            for page in pages:
                page.keyboard.press("1")
            served.start()
            for page, name in zip(pages, ("Ann", "Bo"), strict=True):
                page.goto(f"{served.address}/label/{run}?rater={name}")
    work.join(300)
    assert found[0].stopped == "goal"
    raters = {row["detail"].partition(":")[0] for row in found[0].answers()}
    assert raters == {"Ann", "Bo"}
    for page in pages:
        assert page.title() != "owned"
        page.goto(f"{served.address}/label/{run}?rater=Ann")
        page.wait_for_selector("text=See what is certified", timeout=WAIT)


@pytest.mark.parametrize("width", [1280, 390])
def test_hostile_texts_do_nothing_and_nothing_is_too_wide(
    served: Served, visit: Callable[..., sync_api.Page], width: int
) -> None:
    text = HOSTILE + "W" * 300
    data = questions(60, text=text, category=text)
    runs = [
        made(
            served.store,
            data,
            lambda item: (text, None if item % 9 == 0 else float(item % 2)),
            data_name=text,
            **fields,
        )
        for fields in ({"candidates": named(text)}, pair(text, "two"))
    ]
    served.store.label(runs[0], [text])
    page = visit("/", width)
    for path in ("/", "/trend", "/label", *(f"/runs/{run}" for run in runs), f"/runs/{runs[0]}/answers/1"):
        page.goto(f"{served.address}{path}")
        if path in (f"/runs/{run}" for run in runs):
            page.wait_for_selector("#charts .tiles", timeout=WAIT)
        assert page.title() != "owned", path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
            path,
            page.evaluate(TOO_WIDE),
        )


def test_by_keyboard_alone(served: Served, visit: Callable[..., sync_api.Page]) -> None:
    run = made(served.store, questions())
    page = visit("/")
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('model-name')"):
            break
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{run}", timeout=WAIT)
    page.wait_for_selector("#charts .tiles", timeout=WAIT)
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent === 'Verify'"):
            break
    page.keyboard.press("Enter")
    page.wait_for_selector("#verdict .valid", timeout=WAIT)


def soonest_paint(page: sync_api.Page, address: str, enough_ms: float) -> float:
    """Load a page until it is painted soon enough, at most 20 times; return the shortest time."""
    paints: list[float] = []
    while len(paints) < 20 and min(paints, default=enough_ms) >= enough_ms:
        page.goto(address)
        while (paint := page.evaluate(PAINTED)) is None:
            page.wait_for_timeout(50)
        paints.append(paint)
    return min(paints)


def test_a_thousand_runs_are_painted_within_a_second(
    tmp_path: Path, served: Served, visit: Callable[..., sync_api.Page]
) -> None:
    run = made(served.store, questions())
    page = visit("/label")
    few = soonest_paint(
        page, f"{served.address}/label", 250.0
    )  # what this machine, busy as it is, needs for a short page
    with sqlite3.connect(tmp_path / "runs.db") as database:
        for number in range(1000):
            given = (f"{number:012x}", run)
            database.execute(
                "INSERT INTO runs SELECT ?, plan, data_hash, model, created_at, engine FROM runs WHERE run_id = ?",
                given,
            )
            database.execute(
                "INSERT INTO events SELECT ?, number, status, detail, recorded_at FROM events WHERE run_id = ?",
                given,
            )
    database.close()
    assert soonest_paint(page, f"{served.address}/", 1000.0) < max(1000.0, 4 * few)
    assert page.locator(".runs tbody tr").count() == 200
