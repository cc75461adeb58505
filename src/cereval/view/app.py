"""Serve the web view, pages over the store: `make_app` gives an ASGI application, `serve` runs it on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import webbrowser
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import jinja2
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from cereval.errors import CerevalError, InvalidInput, Misuse, StoreError
from cereval.report import environment, page_of
from cereval.runner.listing import is_of_one_model, trend_facts
from cereval.store.browsing import Browser
from cereval.store.sql import SqlStore
from cereval.view import charts, run_page
from cereval.view.actions import Actions
from cereval.view.following import Following
from cereval.view.labels import Card, Desk, Labelled
from cereval.view.runs import RunList
from cereval.view.security import Guard, is_loopback, view_token

HERE = Path(__file__).parent
LARGEST_FORM = 2**16
TICK_S = 0.5
"""How often the store is looked at while somebody watches."""
SILENCE_S = 15.0
"""A line is sent at least so often, so that a connection that is gone is noticed."""
SLOW = 8
"""The charts are drawn again after so many times as long as they took."""


@dataclass(frozen=True, slots=True)
class View:
    """Say what all pages share."""

    store: SqlStore
    following: Following
    runs: RunList
    browser: Browser
    actions: Actions
    desk: Desk
    templates: jinja2.Environment = field(default_factory=lambda: environment(str(HERE / "templates")))

    def page(self, request: Request, name: str, **values: Any) -> HTMLResponse:
        return HTMLResponse(self.render(request, name, **values))

    def render(self, request: Request, name: str, **values: Any) -> str:
        may_act = bool(request.scope["state"]["may_act"])
        return self.templates.get_template(name).render(may_act=may_act, path=request.url.path, **values)


def make_app(store: SqlStore, url: str, *, host: str = "127.0.0.1", token: str) -> Starlette:
    """Make the application over an open store; `url` is what `cereval resume` is given."""
    following = Following(store)
    view = View(store, following, RunList(store, following), Browser(store), Actions(store, url), Desk(store))
    pages = Pages(view)
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
        Route("/runs/{run}/verify", pages.verify, methods=["POST"]),
        Route("/runs/{run}/stop", pages.stop, methods=["POST"]),
        Route("/runs/{run}/resume", pages.resume, methods=["POST"]),
        Route("/label", pages.label_list),
        Route("/label/{run}", pages.label),
        Route("/label/{run}/rate", pages.rate, methods=["POST"]),
        Route("/label/{run}/undo", pages.undo, methods=["POST"]),
        Route("/static/page.css", pages.stylesheet),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    refusals: dict[Any, Callable[..., Any]] = {
        CerevalError: pages.refused,
        HTTPException: pages.refused,
    }
    guard = Middleware(Guard, host=host, token=token)
    return Starlette(routes=routes, middleware=[guard], exception_handlers=refusals)


def healthz(request: Request) -> Response:  # noqa: ARG001
    """Say that the server is there."""
    return PlainTextResponse("ok\n")


class Pages:
    """Make the pages, a method each. Those that read the store are plain functions, which Starlette runs in
    threads."""

    def __init__(self, view: View) -> None:
        self.view = view

    # -- the list -----------------------------------------------------------------------------------------------------

    def index(self, request: Request) -> Response:
        """List the runs."""
        query = request.query_params
        found = self.view.runs.page(query.get("q", ""), _whole(query.get("skip")), parts="parts" in query)
        name = "rows.html" if "hx-request" in request.headers else "index.html"
        return self.view.page(
            request,
            name,
            found=found,
            q=query.get("q", ""),
            skip=_whole(query.get("skip")),
            parts="parts" in query,
            address=str(request.url.query),
        )

    async def index_events(self, request: Request) -> Response:
        """Send the rows of runs that go on, and all rows where runs have come or ended."""
        query = request.query_params
        asked = (query.get("q", ""), _whole(query.get("skip")))

        async def changes() -> AsyncIterator[tuple[str, str]]:
            version, sent = None, dict[str, str]()
            while True:
                found = await run_in_threadpool(self.view.runs.page, *asked, parts="parts" in query)
                if version not in (None, found.version):
                    yield "rows", self.view.render(request, "row_list.html", found=found)
                version = found.version
                for row in await run_in_threadpool(self.view.runs.live, found.rows):
                    cells = self.view.render(request, "row.html", row=row)
                    if sent.get(row["run_id"]) != cells:
                        sent[row["run_id"]] = cells
                        yield f"run-{row['run_id']}", cells
                yield "", ""

        return _stream(changes())

    def trend(self, request: Request) -> Response:
        """Show every model and date on one data set."""
        runs = [run for run in self.view.store.runs() if is_of_one_model(run)]
        names = dict.fromkeys(str(run.plan.get("data_name")) for run in reversed(runs))
        data = request.query_params.get("data") or next(iter(names), "")
        found = [trend_facts(run, self.view.store) for run in runs if run.plan.get("data_name") == data]
        drawn = charts.trend(found)
        return self.view.page(request, "trend.html", names=list(names), data=data, found=found, drawn=drawn)

    # -- one run ------------------------------------------------------------------------------------------------------

    def _shown(self, request: Request) -> run_page.Shown:
        try:
            return run_page.Shown.of(self.view.store, request.path_params["run"])
        except StoreError as error:
            raise HTTPException(404, str(error)) from None

    def run(self, request: Request) -> Response:
        """Show a run: its state at once, its charts when they are drawn."""
        shown = self._shown(request)
        if shown.run.run_id != request.path_params["run"]:
            return RedirectResponse(f"/runs/{shown.run.run_id}", 303)
        large = run_page.is_large(self.view.store, shown)
        paged = run_page.answers_page(
            self.view.browser, shown, run_page.wanted_from({}, paired=shown.paired is not None)
        )
        return self.view.page(
            request,
            "run.html",
            shown=shown,
            large=large,
            certificates=bool(shown.kind.format) and bool(self.view.store.certificates(shown.run.run_id)),
            said=self.view.actions.said(shown.run.run_id),
            **paged,
        )

    def run_charts(self, request: Request) -> Response:
        """Draw the state and the charts of a run as it stands."""
        followed = self.view.following.now(self._shown(request).run.run_id)
        return self.view.page(request, "charts.html", **run_page.state_of(followed))

    async def run_events(self, request: Request) -> Response:
        """Send the state of a run whenever it changes, and its charts as often as drawing them allows."""
        run_id = (await run_in_threadpool(self._shown, request)).run.run_id
        clock = asyncio.get_running_loop()

        async def changes() -> AsyncIterator[tuple[str, str]]:
            version, due = -1, 0.0
            while True:
                followed = await run_in_threadpool(self.view.following.now, run_id)
                if followed.version != version and clock.time() >= due:
                    began, version = clock.time(), followed.version
                    state = await run_in_threadpool(run_page.state_of, followed)
                    yield "charts", self.view.render(request, "charts.html", **state)
                    yield (
                        "actions",
                        self.view.render(
                            request,
                            "actions.html",
                            run=state["run"],
                            said=self.view.actions.said(run_id),
                            kind=followed.begun.kind,
                        ),
                    )
                    due = clock.time() + SLOW * (clock.time() - began)
                yield "", ""

        return _stream(changes())

    def answers(self, request: Request) -> Response:
        """Give one page of answers."""
        shown, query = self._shown(request), request.query_params
        part = query.get("part", "")
        wanted = run_page.wanted_from(query, paired=shown.paired is not None and not part)
        paged = run_page.answers_page(self.view.browser, shown, wanted, part)
        return self.view.page(request, "more_answers.html", shown=shown, **paged)

    def answer(self, request: Request) -> Response:
        """Show one answer whole."""
        shown, part = self._shown(request), request.query_params.get("part", "")
        draw = request.path_params["draw"]
        row = run_page.one_answer(self.view.browser, shown, part, int(draw)) if _is_whole(draw) else None
        if row is None:
            raise HTTPException(404, "there is no such answer")
        return self.view.page(request, "answer.html", shown=shown, part=part, row=row)

    def certificate(self, request: Request) -> Response:
        """Hand out the newest certificate."""
        run_id = self._shown(request).run.run_id
        found = self.view.store.certificates(run_id)
        if not found:
            raise HTTPException(404, "there is no certificate yet")
        name = f'attachment; filename="certificate-{run_id}.json"'
        content = json.dumps(found[-1], indent=1)
        return Response(content, media_type="application/json", headers={"content-disposition": name})

    def report(self, request: Request) -> Response:
        """Hand out the static page, to be kept or sent."""
        page = page_of(self.view.store, self._shown(request).run.run_id)
        name = f'attachment; filename="{page.run_id}.html"'
        return Response(
            page.html.encode("utf-8", "replace"),
            media_type="text/html; charset=utf-8",
            headers={"content-disposition": name},
        )

    # -- actions ------------------------------------------------------------------------------------------------------

    def verify(self, request: Request) -> Response:
        """Verify the newest certificate against the store."""
        verdict = run_page.verdict_on(self.view.store, self._shown(request).run.run_id)
        return self.view.page(request, "verdict.html", verdict=verdict)

    def stop(self, request: Request) -> Response:
        """Have the process that works on a run stop it."""
        shown = self._shown(request)
        self.view.actions.stop(shown.run)
        return RedirectResponse(f"/runs/{shown.run.run_id}", 303)

    async def resume(self, request: Request) -> Response:
        """Go on with a run in a process of its own, towards a closer goal where one is given."""
        shown = await run_in_threadpool(self._shown, request)
        given = await form_of(request)
        eps, calls = given.get("eps", ""), given.get("max_calls", "")
        await run_in_threadpool(self.view.actions.resume, shown.run, eps, calls)
        return RedirectResponse(f"/runs/{shown.run.run_id}", 303)

    # -- labels -------------------------------------------------------------------------------------------------------

    def label_list(self, request: Request) -> Response:
        """List the runs that people score."""
        return self.view.page(request, "label_list.html", found=self.view.desk.runs())

    def label(self, request: Request) -> Response:
        """Show somebody the next answer to label."""
        labelled, rater = self._labelled(request), request.query_params.get("rater", "")
        may_act = bool(request.scope["state"]["may_act"])
        card = self.view.desk.next_card(labelled, rater) if rater and may_act else None
        return self._card(request, labelled, rater, card)

    async def rate(self, request: Request) -> Response:
        """Take a label in, and show the next answer."""
        return await run_in_threadpool(self._rated, request, await form_of(request))

    def _rated(self, request: Request, form: Mapping[str, str]) -> Response:
        labelled, rater, note = self._labelled(request), form.get("rater", ""), ""
        try:
            place = _whole(form.get("draw"))
            self.view.desk.rate(labelled, rater, form.get("part", ""), place, form.get("label", ""))
        except Misuse as error:
            # Somebody else's label came first, as after a restart: nothing is lost, the next answer is shown.
            note = f"not needed any more: {error}"
        return self._card(request, labelled, rater, self.view.desk.next_card(labelled, rater), note)

    async def undo(self, request: Request) -> Response:
        """Take somebody's last label back, and show its answer again."""
        return await run_in_threadpool(self._undone, request, await form_of(request))

    def _undone(self, request: Request, form: Mapping[str, str]) -> Response:
        labelled, rater = self._labelled(request), form.get("rater", "")
        card = self.view.desk.undo(labelled, rater)
        note = "" if card else "there was nothing to take back: labels count after a few seconds"
        return self._card(request, labelled, rater, card or self.view.desk.next_card(labelled, rater), note)

    def _labelled(self, request: Request) -> Labelled:
        try:
            return Labelled.of(self.view.store, request.path_params["run"])
        except StoreError as error:
            raise HTTPException(404, str(error)) from None

    def _card(
        self, request: Request, labelled: Labelled, rater: str, card: Card | None, note: str = ""
    ) -> Response:
        standing = self.view.desk.standing(labelled, rater)
        name = "card.html" if "hx-request" in request.headers else "label.html"
        values = {"labelled": labelled, "rater": rater, "card": card, "note": note}
        return self.view.page(request, name, **values, **standing)

    # -- the rest -----------------------------------------------------------------------------------------------------

    def stylesheet(self, request: Request) -> Response:  # noqa: ARG002
        """Give the style of the static pages, which these share."""
        from importlib.resources import files

        return Response(
            (files("cereval.report") / "page.css").read_text(encoding="utf-8"), media_type="text/css"
        )

    def refused(self, request: Request, error: Exception) -> Response:
        """Say in one line what went wrong."""
        code = (
            error.status_code
            if isinstance(error, HTTPException)
            else 400
            if isinstance(error, InvalidInput)
            else 409
        )
        text = error.detail if isinstance(error, HTTPException) else str(error)
        if "hx-request" in request.headers:
            return HTMLResponse(self.view.render(request, "refusal.html", text=text), code)
        return HTMLResponse(self.view.render(request, "error.html", code=code, text=text), code)


async def form_of(request: Request) -> dict[str, str]:
    """Read a form, a small one."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST_FORM:
            raise HTTPException(413, "the form is too large")
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20))


def _whole(text: str | None) -> int:
    return int(text) if text is not None and _is_whole(text) else 0


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _stream(changes: AsyncIterator[tuple[str, str]]) -> Response:
    """Send changes as server-sent events; between two looks at the store there is a pause.

    They end where there is nothing to tell any more, such as of a run that was deleted; the browser asks again.
    """

    async def lines() -> AsyncIterator[str]:
        with contextlib.suppress(CerevalError):
            async for line in events():
                yield line

    async def events() -> AsyncIterator[str]:
        quiet = 0.0
        yield "retry: 1000\n\n"
        async for name, text in changes:
            if name:
                quiet = 0.0
                data = "".join(f"data: {line}\n" for line in text.splitlines())
                yield f"event: {name}\n{data}\n"
                continue
            await asyncio.sleep(TICK_S)
            quiet += TICK_S
            if quiet >= SILENCE_S:
                quiet = 0.0
                yield ": still here\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def serve(
    store: SqlStore, url: str, host: str, port: int, *, browser: bool, say: Callable[[str], None]
) -> None:
    """Serve until Ctrl-C; tell the address first."""
    token = view_token()
    app = make_app(store, url, host=host, token=token)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=1,
        server_header=False,
    )
    listening = listening_at(host, port)
    server = _Server(config, host, token, browser, say)
    with contextlib.suppress(KeyboardInterrupt), listening:
        server.run(sockets=[listening])


def listening_at(host: str, port: int) -> socket.socket:
    """Listen at an address, or say in one line why not."""
    name = host.strip("[]")
    try:
        return socket.create_server((name, port), family=socket.AF_INET6 if ":" in name else socket.AF_INET)
    except OSError as error:
        raise Misuse(
            f"cannot listen at {host}:{port} ({error.strerror}); choose another --host or --port"
        ) from None


class _Server(uvicorn.Server):
    """Serve, and tell the address once it listens."""

    def __init__(
        self, config: uvicorn.Config, host: str, token: str, browser: bool, say: Callable[[str], None]
    ) -> None:
        super().__init__(config)
        self._told = (host, token, browser, say)

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if not self.started:
            return
        host, token, browser, say = self._told
        port = self.servers[0].sockets[0].getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{port}/?token={token}"
        say(address)
        if browser and is_loopback(host):
            webbrowser.open(address)
