"""The files that a command writes at its end: what cannot be written is refused before any work."""

from __future__ import annotations

import os
from pathlib import Path

import click

from cereval.cli.run_options import Option
from cereval.errors import InvalidInput


def writable(context: click.Context, option: click.Parameter, value: str | None) -> str | None:  # noqa: ARG001
    """A path at which a file can be made; folders on the way to it may be missing."""
    if value is None:
        return None
    path = Path(value)
    folder = next(one for one in path.absolute().parents if one.exists())
    if path.is_dir() or not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise InvalidInput(option.opts[-1], "a file in a folder that can be written to", value)
    return value


CERTIFICATE = click.option(
    "-o",
    "--certificate",
    callback=writable,
    metavar="FILE",
    help="Write a certificate that `cereval verify` recomputes.",
)


def report_option(about: str) -> Option:
    """`--report FILE`, with what the page is about."""
    return click.option("--report", callback=writable, metavar="FILE", help=about)
