"""The web view, pages over a store: `make_app` gives an ASGI application, `serve` runs it on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import webbrowser
from collections.abc import AsyncIterator, Callable, Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import uvicorn
from sqlalchemy import make_url
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from cereval.errors import CerevalError, InvalidInput, Misuse, NoSuchRun, Unreachable
from cereval.questions.mean.goal import Estimate
from cereval.report import environment, page_of
from cereval.store.base import GOING, STOPPING, Run
from cereval.store.browsing import Browser
from cereval.store.sql import SqlStore
from cereval.view import run_page
from cereval.view.access import Guard, Keys, is_loopback, view_secret
from cereval.view.label_page import Card, Desk
from cereval.view.live import Following
from cereval.view.run_list import RunList, trend
from cereval.view.run_page import Shown

HERE = Path(__file__).parent
LARGEST_FORM = 2**16
MOST_FIELDS = 20
TICK_S = 0.5
"""How often the store is looked at while somebody watches."""
SILENCE_S = 15.0
"""A line is sent at least so often, so that a connection that is gone is noticed."""
SLOW = 8
"""The charts are drawn again after so many times as long as they took."""
CODES = {InvalidInput: 400, NoSuchRun: 404, Unreachable: 503}
OWN_FILES = 40
"""Files that the server itself opens, most of them for the database; the rest is for connections."""

BACKLOG = 32
"""Connections that wait to be taken; asyncio tries as many at once, also where no file is free for them."""

Events = AsyncIterator[tuple[str, str]]
"""Names and contents of server-sent events; an empty name is a pause."""


def make_app(
    store: SqlStore, url: str, *, keys: Keys, host: str = "127.0.0.1", most_streams: int = 100
) -> Starlette:
    """Make the application over an open store; `url` is what `cereval resume` is given."""
    pages = Pages(store, url, most_streams)
    post = ["POST"]
    routes = [
        Route("/", pages.index),
        Route("/events", pages.index_events),
        Route("/healthz", healthz),
        Route("/trend", pages.trend),
        Route("/runs/{run}", pages.run),
        Route("/runs/{run}/charts", pages.run_charts),
        Route("/runs/{run}/events", pages.run_events),
        Route("/runs/{run}/answers", pages.answers),
        Route("/runs/{run}/answers/{draw}", pages.answer),
        Route("/runs/{run}/certificate.json", pages.certificate),
        Route("/runs/{run}/report.html", pages.report),
        Route("/runs/{run}/verify", pages.verify, methods=post),
        Route("/runs/{run}/stop", pages.stop, methods=post),
        Route("/runs/{run}/resume", with_form(pages.resume), methods=post),
        Route("/label", pages.label_list),
        Route("/label/{run}", pages.label),
        Route("/label/{run}/rate", with_form(pages.rate), methods=post),
        Route("/label/{run}/undo", with_form(pages.undo), methods=post),
        Route("/static/page.css", stylesheet),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    refusals: Mapping[Any, Callable[..., Any]] = {CerevalError: pages.refuse, HTTPException: pages.refuse}
    guard = Middleware(Guard, host=host, keys=keys)
    return Starlette(routes=routes, middleware=[guard], exception_handlers=refusals)


async def healthz(request: Request) -> Response:  # noqa: ARG001
    """Answer at once, also where every thread waits for the store."""
    return PlainTextResponse("ok\n")


def stylesheet(request: Request) -> Response:  # noqa: ARG001
    return Response((files("cereval.report") / "page.css").read_text("utf-8"), media_type="text/css")


class Pages:
    def __init__(self, store: SqlStore, url: str, most_streams: int) -> None:
        self.store, self.browser, self.actions = store, Browser(store), Actions(store, url)
        self.following, self.desk = Following(store), Desk(store)
        self.runs = RunList(store, self.following)
        self.templates = environment(str(HERE / "templates"))
        self.streams, self.most_streams = 0, most_streams

    def render(self, request: Request, name: str, **values: Any) -> str:
        return self.templates.get_template(name).render(path=request.url.path, **values)

    def page(self, request: Request, name: str, code: int = 200, **values: Any) -> Response:
        return HTMLResponse(self.render(request, name, **values), code)

    def refuse(self, request: Request, error: Exception) -> Response:
        text = error.detail if isinstance(error, HTTPException) else str(error)
        code = error.status_code if isinstance(error, HTTPException) else 409
        code = next((number for kind, number in CODES.items() if isinstance(error, kind)), code)
        name = "refusal.html" if _is_part(request) else "error.html"
        return self.page(request, name, code, status=code, text=text)

    # -- the lists ----------------------------------------------------------------------------------------------------

    def index(self, request: Request) -> Response:
        query = request.query_params
        text, skip, parts = query.get("q", ""), _number(query.get("skip")), "parts" in query
        shown: dict[str, Any] = {"q": text, "skip": skip, "parts": parts, "address": str(request.url.query)}
        found = self.runs.page(text, skip, parts=parts)
        return self.page(request, "rows.html" if _is_part(request) else "index.html", found=found, **shown)

    async def index_events(self, request: Request) -> Response:
        """Send the rows of runs that go on, and all rows where runs have come or ended."""
        query = request.query_params
        asked = (query.get("q", ""), _number(query.get("skip")))

        async def changes() -> Events:
            version, sent = None, dict[str, str]()
            while True:
                found = await run_in_threadpool(self.runs.page, *asked, parts="parts" in query)
                if version not in (None, found.version):
                    yield "rows", self.render(request, "row_list.html", found=found)
                version = found.version
                for row in await run_in_threadpool(self.runs.live, found.rows):
                    cells = self.render(request, "row.html", row=row)
                    if sent.get(row["run_id"]) != cells:
                        sent[row["run_id"]] = cells
                        yield f"run-{row['run_id']}", cells
                yield "", ""

        return self._stream(changes())

    def trend(self, request: Request) -> Response:
        return self.page(request, "trend.html", **trend(self.store, request.query_params.get("data", "")))

    # -- one run ------------------------------------------------------------------------------------------------------

    def _shown(self, request: Request) -> Shown:
        return Shown.of(self.store, request.path_params["run"])

    def run(self, request: Request) -> Response:
        """Show the state of a run at once, and its charts when they are drawn."""
        shown = self._shown(request)
        run_id = shown.run.run_id
        if run_id != request.path_params["run"]:
            return RedirectResponse(f"/runs/{run_id}", 303)
        return self.page(
            request,
            "run.html",
            shown=shown,
            large=shown.is_large(self.store),
            certificates=not shown.kind.is_part and bool(self.store.certificates(run_id)),
            error=self.actions.error(run_id),
            **run_page.answers_page(self.browser, shown, {}),
        )

    def run_charts(self, request: Request) -> Response:
        followed = self.following.now(self._shown(request).run.run_id)
        return self.page(request, "charts.html", **run_page.state_of(followed))

    async def run_events(self, request: Request) -> Response:
        """Send the state of a run whenever it changes, and its charts as often as drawing them allows."""
        run_id = (await run_in_threadpool(self._shown, request)).run.run_id
        clock = asyncio.get_running_loop()

        async def changes() -> Events:
            version, due = -1, 0.0
            while True:
                followed = await run_in_threadpool(self.following.now, run_id)
                if followed.version != version and clock.time() >= due:
                    began, version = clock.time(), followed.version
                    state = await run_in_threadpool(run_page.state_of, followed)
                    yield "charts", self.render(request, "charts.html", **state)
                    error = self.actions.error(run_id)
                    yield "actions", self.render(request, "actions.html", error=error, **state)
                    due = clock.time() + SLOW * (clock.time() - began)
                yield "", ""

        return self._stream(changes())

    def answers(self, request: Request) -> Response:
        shown = self._shown(request)
        found = run_page.answers_page(self.browser, shown, request.query_params)
        return self.page(request, "more_answers.html", shown=shown, **found)

    def answer(self, request: Request) -> Response:
        shown, part = self._shown(request), request.query_params.get("part", "")
        draw = request.path_params["draw"]
        row = run_page.one_answer(self.browser, shown, part, int(draw)) if _is_number(draw) else None
        if row is None:
            raise HTTPException(404, "there is no such answer")
        return self.page(request, "answer.html", shown=shown, part=part, row=row)

    def certificate(self, request: Request) -> Response:
        run_id = self._shown(request).run.run_id
        found = self.store.certificates(run_id)
        if not found:
            raise HTTPException(404, "there is no certificate yet")
        return _file(f"certificate-{run_id}.json", json.dumps(found[-1], indent=1), "application/json")

    def report(self, request: Request) -> Response:
        """Hand out the static page, to be kept or sent."""
        page = page_of(self.store, self._shown(request).run.run_id)
        return _file(f"{page.run_id}.html", page.html, "text/html; charset=utf-8")

    def verify(self, request: Request) -> Response:
        verdict = run_page.verify_newest(self.store, self._shown(request).run.run_id)
        return self.page(request, "verdict.html", verdict=verdict)

    def stop(self, request: Request) -> Response:
        shown = self._shown(request)
        self.actions.stop(shown.run)
        return RedirectResponse(f"/runs/{shown.run.run_id}", 303)

    def resume(self, request: Request, form: Mapping[str, str]) -> Response:
        shown = self._shown(request)
        self.actions.resume(shown.run, form.get("eps", ""), form.get("max_calls", ""))
        return RedirectResponse(f"/runs/{shown.run.run_id}", 303)

    # -- labels -------------------------------------------------------------------------------------------------------

    def _card(
        self, request: Request, shown: Shown, rater: str, card: Card | None, note: str = ""
    ) -> Response:
        """Show a card; None: the next one."""
        card = card or (self.desk.next_card(shown, rater) if rater else None)
        values: dict[str, Any] = {"shown": shown, "rater": rater, "card": card, "note": note}
        name = "card.html" if _is_part(request) else "label.html"
        return self.page(request, name, **values, **self.desk.standing(shown, rater))

    def label_list(self, request: Request) -> Response:
        return self.page(request, "label_list.html", found=self.desk.runs())

    def label(self, request: Request) -> Response:
        return self._card(request, self._shown(request), request.query_params.get("rater", ""), None)

    def rate(self, request: Request, form: Mapping[str, str]) -> Response:
        shown, rater, note = self._shown(request), form.get("rater", ""), ""
        draw, label = form.get("draw", ""), form.get("label", "")
        if not _is_number(draw):
            raise InvalidInput("draw", "a whole number >= 0", draw)
        try:
            self.desk.rate(shown, rater, form.get("part", ""), int(draw), label)
        except Misuse as error:
            # Somebody else's label came first, as after a restart: nothing is lost, the next answer is shown.
            note = f"not needed any more: {error}"
        return self._card(request, shown, rater, None, note)

    def undo(self, request: Request, form: Mapping[str, str]) -> Response:
        shown, rater = self._shown(request), form.get("rater", "")
        card = self.desk.undo(shown, rater)
        note = "" if card else "there was nothing to take back: labels count after a few seconds"
        return self._card(request, shown, rater, card, note)

    # -- events -------------------------------------------------------------------------------------------------------

    def _stream(self, changes: Events) -> Response:
        """Send changes as server-sent events; between two looks at the store there is a pause.

        They end where there is nothing to tell any more, such as of a run that was deleted; the browser asks again.
        """
        if self.streams >= self.most_streams:
            raise HTTPException(503, "too many pages are open; close some and load this one again")

        async def lines() -> AsyncIterator[str]:
            self.streams += 1
            try:
                with contextlib.suppress(CerevalError):
                    quiet_since = time.monotonic()
                    yield "retry: 1000\n\n"
                    async for name, text in changes:
                        if name:
                            data = "".join(f"data: {line}\n" for line in text.splitlines())
                            yield f"event: {name}\n{data}\n"
                        else:
                            await asyncio.sleep(TICK_S)
                            if time.monotonic() - quiet_since < SILENCE_S:
                                continue
                            yield ": still here\n\n"
                        quiet_since = time.monotonic()
            finally:
                self.streams -= 1

        return StreamingResponse(lines(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def with_form(method: Callable[[Request, Mapping[str, str]], Response]) -> Callable[[Request], Any]:
    """Return the page that reads a form, a small one, and then runs a method in a thread."""

    async def page(request: Request) -> Response:
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > LARGEST_FORM:
                raise HTTPException(413, "the form is too large")
        try:
            fields = parse_qsl(body.decode("utf-8", "replace"), max_num_fields=MOST_FIELDS)
        except ValueError:
            raise HTTPException(413, f"the form has more than {MOST_FIELDS} fields") from None
        return await run_in_threadpool(method, request, dict(fields))

    return page


def _file(name: str, content: str, media_type: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(content.encode("utf-8", "replace"), media_type=media_type, headers=headers)


def _is_part(request: Request) -> bool:
    """Tell whether a page asks for a part of itself."""
    return "hx-request" in request.headers


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _number(text: str | None) -> int:
    return int(text) if text is not None and _is_number(text) else 0


# -- the server -------------------------------------------------------------------------------------------------------


def serve(
    store: SqlStore, url: str, host: str, port: int, *, browser: bool, say: Callable[[str], None]
) -> None:
    """Serve until Ctrl-C; tell the address first."""
    with contextlib.suppress(KeyboardInterrupt), listen(host, port) as listening:
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listening.getsockname()[1]}"
        keys = Keys(view_secret(), lambda token: say(f"for another browser: {address}/?token={token}"))
        connections = max(_most_open_files() - OWN_FILES, 8)
        app = make_app(store, url, host=host, keys=keys, most_streams=min(connections // 2, 500))
        settings: dict[str, Any] = {"log_level": "error", "access_log": False, "server_header": False}
        settings |= {"limit_concurrency": connections, "backlog": BACKLOG, "timeout_graceful_shutdown": 1}
        # Where no file is free, asyncio would write a traceback for each connection that waits, every second.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        first = f"{address}/?token={keys.token}"
        say(first)
        with tempfile.TemporaryDirectory() as folder:
            if browser and is_loopback(host):
                # The browser is given a file to open: others can read what is on its command line.
                page = Path(folder) / "cereval.html"
                page.write_text(f'<meta http-equiv="refresh" content="0;url={escape(first)}">', "utf-8")
                webbrowser.open(page.as_uri())
            uvicorn.Server(uvicorn.Config(app, **settings)).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    name = host.strip("[]")
    try:
        return socket.create_server((name, port), family=socket.AF_INET6 if ":" in name else socket.AF_INET)
    except OSError as error:
        raise Misuse(
            f"cannot listen at {host}:{port} ({error.strerror}); choose another --host or --port"
        ) from None


def _most_open_files() -> int:
    try:
        import resource
    except ImportError:  # on Windows
        return 512
    return min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 4096)


LONGEST_ERROR = 2000


class Actions:
    """Stop and resume runs; a run is resumed by a process of its own, as from the command line.

    What a stored plan may run or call is decided by `cereval resume` there (`cereval.runner.trust`): the page cannot
    confirm anything.
    """

    def __init__(self, store: SqlStore, url: str) -> None:
        self.store, self.url = store, url
        self._errors: dict[str, str] = {}

    def error(self, run_id: str) -> str:
        """Return the last words of a process that could not resume a run."""
        return self._errors.get(run_id, "")

    def stop(self, run: Run) -> None:
        """Ask the process that works on a run to stop it, as Ctrl-C does."""
        if run.status != "running":
            raise Misuse(f"run {run.run_id} is {run.status}: nobody works on it")
        self.store.mark(run.run_id, STOPPING)

    def resume(self, run: Run, eps: str = "", max_calls: str = "") -> None:
        """Go on with a run, towards a closer goal or within another budget."""
        if run.status in GOING:
            raise Misuse(f"run {run.run_id} is {run.status}")
        given = []
        # Nothing but numbers reaches the command line.
        if eps:
            given += ["--eps", str(_typed_number("--eps", eps, float))]
            Estimate(float(given[-1]))
        if max_calls:
            given += ["--max-calls", str(_typed_number("--max-calls", max_calls, int))]
            if int(given[-1]) < 1:
                raise InvalidInput("--max-calls", "a whole number >= 1", max_calls)
        self._errors.pop(run.run_id, None)
        threading.Thread(target=self._carry_out, args=(run.run_id, given), daemon=True).start()

    def _carry_out(self, run_id: str, given: list[str]) -> None:
        # The password goes through the environment: others can read a command line.
        address, environment = make_url(self.url), dict(os.environ)
        if address.password is not None:
            environment["PGPASSWORD"] = str(address.password)
            address = address.set(password=None)
        where = ["--store", address.render_as_string(hide_password=False), "--display", "none"]
        # -P: a file of the current folder must not stand in for a module. A session of its own: the Ctrl-C that ends
        # the server does not end the run.
        command = [sys.executable, "-P", "-m", "cereval", "resume", run_id, *where, *given]
        with tempfile.TemporaryFile() as output:
            code = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                check=False,
            ).returncode
            output.seek(0)
            text = output.read().decode("utf-8", "replace").strip()
        if code == 1:
            self._errors[run_id] = text[-LONGEST_ERROR:] or "it could not run"


def _typed_number(name: str, value: str, kind: type[float] | type[int]) -> float:
    try:
        return kind(value)
    except ValueError:
        raise InvalidInput(name, "a number", value) from None
