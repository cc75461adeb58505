"""Write a picture of every page of the web view into docs/images, from a store made for it.

    make screenshots          # or: python docs/screenshots.py [FOLDER]

Needs Chromium and the package `playwright`. The store is made anew: scripted models on the bank of questions.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

CEREVAL = (sys.executable, "-m", "cereval")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDTHS = {"wide": 1280, "phone": 390}
ON_A_PHONE = ("view-list", "view-run", "view-compare", "view-rank", "view-label")
MODELS = ("scripted/0.9", "scripted/0.82", "scripted/0.8", "scripted/0.7", "scripted/0.55", "scripted/0.4")
TALLEST = 1400
"""A picture ends there: the answers of a run go on and on."""
SCORED = ("--scorer", "contains", "--display", "none", "--seed", "7")
COMMANDS = {
    "first": ("run", "bank.jsonl", "--model", "scripted/0.7", "--eps", "0.05", "--tag", "nightly", *SCORED),
    "run": ("run", "bank.jsonl", "--model", "scripted/0.8", "--eps", "0.04", "--tag", "nightly", *SCORED),
    "budget": (
        "run",
        "bank.jsonl",
        "--model",
        "scripted/0.6",
        "--eps",
        "0.02",
        "--max-calls",
        "120",
        *SCORED,
    ),
    "gate": ("gate", "bank.jsonl", "--model", "scripted/0.9", "--min", "0.8", *SCORED),
    "compare": ("compare", "bank.jsonl", "--model", "scripted/0.82", "--model", "scripted/0.7", *SCORED),
    "rank": (
        "rank",
        "bank.jsonl",
        *(part for model in MODELS for part in ("--model", model)),
        "--tie",
        "0.05",
        *SCORED,
    ),
    "tasks": ("tasks", "few.jsonl", "--model", "scripted/0.8", "--eps", "0.06", *SCORED),
    "growing": ("extend", "--data", "few.jsonl", "--model", "scripted/0.75", "--eps", "0.08", *SCORED),
}


def made_store(folder: Path) -> dict[str, str]:
    """Make a store with a run of every kind; return their ids by the names above."""
    bank = subprocess.run(
        [sys.executable, "-m", "cereval.datasets.bank"], capture_output=True, text=True, check=True
    )
    (folder / "bank.jsonl").write_text(bank.stdout, encoding="utf-8")
    (folder / "few.jsonl").write_text("".join(bank.stdout.splitlines(keepends=True)[:700]), encoding="utf-8")
    ids = {}
    for name, arguments in COMMANDS.items():
        done = subprocess.run([*CEREVAL, *arguments, "--json"], cwd=folder, capture_output=True, text=True)
        found = re.search(r'"run_id": "([0-9a-f]+)"', done.stdout)
        if found is None:
            raise SystemExit(f"{name}: {done.stderr}")
        ids[name] = found[1]
    return ids


@contextmanager
def waiting_for_people(folder: Path) -> Iterator[dict[str, str]]:
    """Have runs wait for labels; give their ids by the way in which people judge."""
    rows = [json.loads(line) for line in (folder / "few.jsonl").read_text(encoding="utf-8").splitlines()[:60]]
    said = [
        {**row, "reply": f"I would say it is {row['answer'][0]}.", "answer": row["answer"][0]} for row in rows
    ]
    (folder / "said.jsonl").write_text("".join(json.dumps(row) + "\n" for row in said), encoding="utf-8")
    ways, found = ("people", "people:scale", "people:prefer"), dict[str, str]()
    with ExitStack() as stack:
        for way in ways:
            flags = ("--model", "given/reply", "--scorer", way, "--eps", "0.1", "--display", "none")
            work = stack.enter_context(subprocess.Popen([*CEREVAL, "run", "said.jsonl", *flags], cwd=folder))
            stack.callback(work.kill)
            found |= {way: _newest(folder, found)}
        yield found


def _newest(folder: Path, known: dict[str, str]) -> str:
    """Wait for a run that has answers to be labelled and is not known yet."""
    for _ in range(300):
        with closing(sqlite3.connect(folder / "cereval.db")) as database, suppress(sqlite3.Error):
            ids = {row[0] for row in database.execute("SELECT run_id FROM replies")} - set(known.values())
            if ids:
                return str(ids.pop())
        time.sleep(0.1)
    raise SystemExit("no run waits for people")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the store; return the address with its one-time token."""
    environment = {**os.environ, "CEREVAL_VIEW_TOKEN": "a-token-for-pictures"}
    command = [*CEREVAL, "view", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def pages(ids: dict[str, str], people: dict[str, str]) -> dict[str, str]:
    """Name every page and its path."""
    runs = {f"view-{name}": f"/runs/{run}" for name, run in ids.items() if name not in ("first", "budget")}
    labels = {
        f"view-{way.replace('people', 'label').replace(':', '-')}": f"/label/{run}?rater=Ada"
        for way, run in people.items()
    }
    lists = {"view-list": "/", "view-trend": "/trend?data=bank.jsonl", "view-labels": "/label"}
    return {**lists, **runs, "view-answer": f"/runs/{ids['run']}/answers/3", **labels}


def take(page: Page, address: str, path: str, target: Path) -> None:
    """Take a picture of a page once its charts are drawn."""
    page.goto(address + path)
    if path.startswith("/runs/") and "answers" not in path:
        page.wait_for_selector("#charts .tiles", timeout=60_000)
    page.wait_for_timeout(200)
    height = min(page.evaluate("document.documentElement.scrollHeight"), TALLEST)
    size = page.viewport_size
    assert size is not None
    page.set_viewport_size({"width": size["width"], "height": height})
    page.screenshot(path=target)
    page.set_viewport_size(size)


def main(images: Path) -> None:
    """Make the store, serve it, and take all pictures."""
    images.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        ids = made_store(folder)
        with waiting_for_people(folder) as people, served(folder) as entrance:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page()
            page.goto(entrance)
            page.wait_for_selector("h1")
            for size, width in WIDTHS.items():
                page.set_viewport_size({"width": width, "height": 700})
                for title, path in pages(ids, people).items():
                    if size == "wide" or title in ON_A_PHONE:
                        take(page, entrance.partition("/?")[0], path, images / f"{title}-{size}.png")
            browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "images")
