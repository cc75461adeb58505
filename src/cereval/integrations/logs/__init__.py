"""Read logs of other evaluation tools: one file a tool, found by what a file holds and not by its name alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from cereval.errors import BadContent, BadFile, shown
from cereval.files import is_folder
from cereval.integrations.logs import alpaca_eval, helm, inspect_ai, lighteval, lm_eval, promptfoo
from cereval.integrations.logs.base import Content, Log, Tool

TOOLS: tuple[Tool, ...] = (
    inspect_ai.TOOL,
    lm_eval.TOOL,
    helm.TOOL,
    promptfoo.TOOL,
    lighteval.TOOL,
    alpaca_eval.TOOL,
)
ENDINGS = (".eval", ".json", ".jsonl", ".parquet")
MOST_FOLDERS = 2000
MOST_FILES = 100_000
"""Files in one folder that is searched."""


def read_log(path: Path, metric: str | None = None) -> Log:
    """Read the log of whichever tool wrote it. metric: the tool's own name of a score; None takes its first."""
    content = Content(path)
    if not os.path.lexists(path):
        raise BadFile(f"{path} does not exist; check the path")
    for tool in TOOLS:
        if tool.claims(content):
            try:
                return tool.read(content, metric)
            except (TypeError, AttributeError, KeyError, ValueError, RecursionError) as error:
                # Written by strangers: a list where a text should be, and whatever else one can think of.
                said = f"{type(error).__name__}: {shown(str(error))}"
                raise BadContent(f"{path} is not laid out as a log of {tool.name} ({said})") from None
    known = ", ".join(tool.name for tool in TOOLS)
    raise BadContent(f"{path} is no log of samples that is known here ({known})")


def found_in(paths: Sequence[Path]) -> Iterator[Path]:
    """List the files that may be logs: those named, and those in the folders named, in a fixed order."""
    for path in paths:
        if is_folder(path) and not helm.is_run(path):
            yield from _inside(path)
        else:
            yield path


def _inside(folder: Path) -> Iterator[Path]:
    seen = 0
    for number, (where, folders, files) in enumerate(os.walk(folder)):
        if number > MOST_FOLDERS:
            raise BadFile(f"{folder} has more than {MOST_FOLDERS:,} folders; name those with logs")
        folders.sort()
        if helm.is_run(Path(where)):
            yield Path(where)
            folders.clear()
            continue
        names = [name for name in sorted(files) if name.endswith(ENDINGS)]
        seen += len(names)
        if seen > MOST_FILES:
            raise BadFile(f"{folder} has more than {MOST_FILES:,} files; name those that are logs")
        yield from (Path(where, name) for name in names)
