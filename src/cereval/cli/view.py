"""Serve the store to a browser, and models to coding agents: `cereval view` and `cereval mcp`."""

from __future__ import annotations

import click

from cereval.cli.options import STORE


@click.command()
@STORE
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="H",
    help="The address to listen on.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8765,
    show_default=True,
    metavar="P",
    help="0: any that is free.",
)
@click.option("--no-browser", is_flag=True, help="Print the address and open nothing.")
def view(store: str | None, host: str, port: int, no_browser: bool) -> int:
    """Look at runs in a browser: live while they go on, every answer, certificates, people's labels.

    The printed address logs in one browser, for a week; for the next one a new address is printed. Programs send the
    secret of CEREVAL_VIEW_TOKEN as a Bearer token. Needs cereval[view].
    """
    from cereval.imports import optional
    from cereval.store.base import DEFAULT_URL, opened_store

    optional("starlette", "view")
    optional("uvicorn", "view")
    from cereval.store.sql import SqlStore
    from cereval.view.app import serve

    with opened_store(store, patient=False) as opened:
        assert isinstance(opened, SqlStore)
        serve(opened, store or DEFAULT_URL, host, port, browser=not no_browser, say=click.echo)
    return 0


@click.command()
@STORE
@click.option(
    "--max-calls",
    type=click.IntRange(1, 10**9),
    default=1000,
    show_default=True,
    metavar="N",
    help="Calls of models that the agent may spend in all.",
)
def mcp(store: str | None, max_calls: int) -> int:
    """Give a coding agent the tools run, gate, compare and show, on stdin and stdout (Model Context Protocol).

    Register the command `cereval mcp` with your agent, in the folder that has the questions. The agent can ask the
    models that cereval knows, on files in this folder. It cannot run Python code, read other files or send questions to
    another address, unless you have typed that in a command on this machine before.
    """
    from cereval.integrations.mcp import serve
    from cereval.store.base import DEFAULT_URL

    serve(store or DEFAULT_URL, max_calls)
    return 0
