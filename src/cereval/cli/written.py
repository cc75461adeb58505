"""The files that a command writes at its end: what cannot be written is refused before any work."""

from __future__ import annotations

import os
from pathlib import Path

import click

from cereval.cli.run_options import Option
from cereval.errors import InvalidInput


def can_be_written(path: Path) -> bool:
    """Whether a file can be made, or written over, at this path; folders on the way to it may be missing."""
    try:
        if path.exists():
            return path.is_file() and os.access(path, os.W_OK)
        folder = next(one for one in path.absolute().parents if one.exists())
        return folder.is_dir() and os.access(folder, os.W_OK)
    except OSError:  # such as a name that is too long, or a folder that may not be looked into
        return False


def writable(context: click.Context, option: click.Parameter, value: str | None) -> str | None:  # noqa: ARG001
    """A callback for options that name such a file."""
    if value is not None and not can_be_written(Path(value)):
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
