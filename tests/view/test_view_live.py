"""A run that is followed shows what its replay would; a stop from elsewhere is heard."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from shown import OURS, TOKEN, begin, client, go_on, made, named, opened, pair, questions

import cereval
from cereval.errors import InvalidInput, Misuse
from cereval.report.story import read_story
from cereval.store.base import open_store
from cereval.store.sql import SqlStore
from cereval.view.app import Actions
from cereval.view.live import Following

KINDS = {
    "estimate": {},
    "compare": pair("one", "two"),
    "rank": {
        "kind": "rank",
        "candidates": named("one", "two", "three"),
        "goal": {"goal": "order", "tie": 0.1},
        "method": "pairs",
    },
    "tasks": {
        "kind": "tasks",
        "goal": {"goal": "macro", "eps": 0.1},
        "tasks": ("kind 0", "kind 1", "kind 2"),
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_following_ends_where_a_replay_does(tmp_path: Path, kind: str) -> None:
    store = opened(tmp_path)
    begun = begin(store, questions(120), **KINDS[kind])
    run = go_on(begun, store, most=8)
    following = Following(store)
    first = following.now(run)
    assert following.now(run).version == first.version
    while not begun.session.done:
        go_on(begun, store, most=24)
        followed = following.now(run)
        assert followed.begun.session.n_evaluated == begun.session.n_evaluated
    replayed = read_story(store, run)
    story = following.now(run).story()
    assert story.result.as_dict() == replayed.result.as_dict()
    assert story.steps == replayed.steps
    assert len(story.asked) == len([one for one in replayed.asked if one.answer is not None])
    store.close()


def test_one_tells_a_run_while_another_hears_what_is_new(tmp_path: Path) -> None:
    store = opened(tmp_path)
    begun = begin(store, questions(120))
    run = go_on(begun, store, most=8)
    following = Following(store)
    followed = following.now(run)
    heard = threading.Thread(target=following.now, args=(run,))

    class Slow(list):
        """Lets the other thread go ahead, as far as it may, before the first item is given."""

        def __getitem__(self, place):
            if not heard.ident:
                heard.start()
                heard.join(0.5)
            return super().__getitem__(place)

    go_on(begun, store, most=24)
    followed.items = Slow(followed.items)
    story = followed.story()
    heard.join(120)
    assert len(story.asked) == 8
    assert len(followed.story().asked) > 8
    store.close()


def test_a_run_stops_when_the_page_says_so(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    rows = [{"question": f"{n}", "answer": f"{n}" if n % 2 else "no"} for n in range(3000)]
    found: list[cereval.Run] = []
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    work = threading.Thread(target=lambda: found.append(_run(tmp_path, url)))
    work.start()
    store = open_store(url)
    while (
        not (going := [run for run in store.runs() if run.status == "running" and run.answers > 5])
        and work.is_alive()
    ):
        time.sleep(0.05)
    answer = client(store).post(f"/runs/{going[0].run_id}/stop", headers=OURS)
    assert answer.status_code == 303
    work.join(300)
    assert found[0].outcome.interrupted
    assert store.run(going[0].run_id).status == "interrupted"
    assert client(store).post(f"/runs/{going[0].run_id}/stop", headers=OURS).status_code == 409
    store.close()


def _run(folder: Path, url: str) -> cereval.Run:
    (folder / "slow_one.py").write_text(
        "import time\ndef model(messages):\n    time.sleep(0.02)\n    return messages[-1]['content']\n"
    )
    return cereval.evaluate(
        str(folder / "data.jsonl"),
        model=f"python:{folder}/slow_one.py:model",
        eps=0.01,
        store=url,
        connections=4,
    )


def test_a_run_goes_on_to_a_closer_goal_in_its_own_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    rows = [{"question": f"{n}", "answer": f"{n + 1}"} for n in range(400)]
    result = cereval.evaluate(rows, model="scripted/0.7", eps=0.15, store=url, seed=1)
    store = opened(tmp_path)
    answer = client(store).post(f"/runs/{result.run_id}/resume", headers=OURS, data={"eps": "0.1"})
    assert answer.status_code == 303
    end = time.monotonic() + 300
    while len(store.certificates(result.run_id)) < 2 and time.monotonic() < end:
        time.sleep(0.1)
    newest = store.certificates(result.run_id)[-1]["result"]
    assert newest["stopped"] == "goal"
    assert newest["half_width"] <= 0.1
    store.close()


@pytest.mark.parametrize(
    ("eps", "calls"), [("0.1 --trust", ""), ("2", ""), ("", "-1"), ("", "1e3"), ("nan", "")]
)
def test_nothing_but_numbers_reaches_a_command_line(tmp_path: Path, eps: str, calls: str) -> None:
    store = opened(tmp_path)
    run = store.run(made(store, questions()))
    with pytest.raises((InvalidInput, Misuse)):
        Actions(store, str(store.address)).resume(run, eps, calls)
    store.close()


def test_events_tell_what_is_new(tmp_path: Path) -> None:
    store = opened(tmp_path)
    run = go_on(begin(store, questions()), store, most=16)
    text = asyncio.run(asyncio.wait_for(events(store, run), 300))
    assert "event: charts" in text
    assert "How the interval narrowed" in text
    store.close()


def test_events_of_a_run_that_is_deleted_end(tmp_path: Path) -> None:
    """Whoever looks asks again, and is told that there is no such run: nothing is raised in the server."""
    store = opened(tmp_path)
    run = go_on(begin(store, questions()), store, most=16)
    text = asyncio.run(asyncio.wait_for(events(store, run, then=lambda: store.delete([run])), 300))
    assert "event: charts" in text
    store.close()


async def events(store: SqlStore, run: str, then: Callable[[], None] | None = None) -> str:
    """Listen to a run's events up to the first; then hang up, or do something and listen to the end."""
    sent: list[bytes] = []
    scope = {
        "type": "http",
        "method": "GET",
        "path": f"/runs/{run}/events",
        "raw_path": b"",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {TOKEN}".encode())],
        "server": ("127.0.0.1", 80),
        "scheme": "http",
        "root_path": "",
    }

    async def receive() -> dict[str, object]:
        while b"event: actions" not in b"".join(sent):
            await asyncio.sleep(0.01)
        if then is not None:
            then()
            await asyncio.sleep(600)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, object]) -> None:
        body = message.get("body", b"")
        assert isinstance(body, bytes)
        sent.append(body)

    await client(store).app(scope, receive, send)
    return b"".join(sent).decode()
