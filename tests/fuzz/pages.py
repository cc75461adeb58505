"""Visit every page of `cereval view`, in the place of a server that would wait for a browser."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

from starlette.testclient import TestClient
from tests.fuzz.commands import WHOLE, WORDS

from cereval.store.sql import SqlStore
from cereval.view.access import Keys
from cereval.view.app import make_app

TOKEN = "a-token-for-the-fuzzer"
OF_ALL = ("/", "/?q=scripted&parts=", "/?skip=3", "/trend", "/label")
ODD = (
    "/?q={odd}&skip={odd}",
    "/trend?data={odd}",
    "/runs/{odd}",
    "/runs/{run}/answers?skip={odd}&contains={odd}&part={odd}",
    "/runs/{run}/answers/{odd}",
    "/label/{odd}?rater={odd}",
    "/static/{odd}",
)
"""Addresses with a word in them that somebody typed."""
OF_RUN = ("", "/charts", "/answers?wrong=1&contains=a", "/answers/0", "/certificate.json", "/report.html")


def visit(
    store: SqlStore, url: str, host: str, port: int, *, browser: bool, say: Callable[[str], None]
) -> None:
    """Ask for pages as a browser with the token would; what no page answers for is raised here."""
    del port, browser
    app = make_app(store, url, host=host, keys=Keys(TOKEN))
    with TestClient(app, base_url="http://127.0.0.1", follow_redirects=False) as client:
        client.headers["authorization"] = f"Bearer {TOKEN}"
        client.headers["origin"] = "http://127.0.0.1"
        listed = client.get("/?parts=").text + client.get("/label").text
        codes = {path: client.get(path).status_code for path in OF_ALL}
        codes |= {path: client.get(path).status_code for path in _of_runs(listed)}
        codes |= {path: client.get(path).status_code for path in _odd(listed)}
        codes |= {
            path: client.post(path, data=form).status_code for path, form in _forms(listed, codes).items()
        }
    broken = [path for path, code in codes.items() if code >= 500]
    assert not broken, broken
    say(f"{len(codes)} pages")


def _of_runs(listed: str) -> Iterator[str]:
    for run in _linked(listed, "runs"):
        yield from (f"/runs/{run}{page}" for page in OF_RUN)
    for run in _linked(listed, "label"):
        yield f"/label/{run}?rater=ann"


def _odd(listed: str) -> Iterator[str]:
    rng = random.Random(Path.cwd().name)  # the number of the input
    for run in _linked(listed, "runs")[:1]:
        for address in ODD:
            odd = rng.choice((*WORDS, *WHOLE)).encode("utf-8", "surrogatepass")
            yield address.format(run=run, odd=quote(odd[:6000], safe=""))


def _forms(listed: str, visited: dict[str, int]) -> dict[str, dict[str, str]]:
    checked = {
        f"/runs/{run}/verify": dict[str, str]()
        for run in _linked(listed, "runs")
        if visited[f"/runs/{run}/certificate.json"] == 200
    }
    label = {"rater": "ann", "draw": "0", "label": "1"}
    rated = {
        f"/label/{run}/{what}": label for run in _linked(listed, "label") for what in ("rate", "rate", "undo")
    }
    return checked | rated


def _linked(listed: str, kind: str) -> list[str]:
    return list(dict.fromkeys(re.findall(rf'href="/{kind}/([^"/?]+)', listed)))
