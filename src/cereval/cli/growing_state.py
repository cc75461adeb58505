"""A growing session on disk: the settings, the item ids, and every result; resuming is replaying."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cereval.cli.growing_tables import GrowingTable
from cereval.errors import BadFile, InvalidInput, Misuse
from cereval.sessions.growing import Growing

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Kept:
    """A session as it was saved, and the ids of its items in their order."""

    session: Growing
    items: tuple[str, ...]


def load(file: str | None, flags: Mapping[str, Any]) -> Kept | None:
    """The session in a file, if there is one; settings given again must be those it was started with."""
    if file is None or not Path(file).exists():
        return None
    try:
        content = json.loads(Path(file).read_text(encoding="utf-8"))
        session, items = Growing.restore(content["session"]), tuple(map(str, content["items"]))
        model = content["model"]
    except OSError as error:
        raise BadFile(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, Misuse) as error:
        raise BadFile(f"{file} is no saved session of `cereval extend`: {error}") from None
    if len(items) != session.n_items:
        raise BadFile(f"{file} names {len(items)} items for a session of {session.n_items}")
    started = {
        "model": model,
        "eps": session.goal.eps,
        **{name: getattr(session, name) for name in ("confidence", "target", "seed")},
    }
    for name, value in started.items():
        if flags[name] is not None and flags[name] != value:
            raise InvalidInput(
                f"--{name}", f"{value}, as the session in {file} was started with", flags[name]
            )
    return Kept(session, items)


def save(file: str | None, session: Growing, model: str, table: GrowingTable) -> None:
    """Whole or not at all: an interrupted write leaves the old session."""
    if file is None:
        return
    path = Path(file)
    partial = path.with_name(path.name + ".partial")
    content = {"model": model, "items": list(table.items[: session.n_items]), "session": session.state()}
    try:
        partial.write_text(json.dumps(content, allow_nan=False) + "\n", encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise BadFile(f"the session cannot be saved to {path} ({error.strerror})") from None
