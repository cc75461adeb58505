"""Serve coding agents over the Model Context Protocol: `cereval mcp`."""

from __future__ import annotations

import click

from cereval.cli.options import STORE


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
