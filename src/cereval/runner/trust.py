"""Decide whether code and addresses that a file names may be used: what this user typed or confirmed, nothing else.

A store, a task file or a certificate may come from somebody else, and in a team's store every writer can name what
the next `resume` calls. So every model and scorer that is opened from a plan is looked up here first. What was typed
(flags, arguments in Python, OPENAI_BASE_URL) is remembered; what only a file says needs `--trust` once.

What is remembered is a digest in `trusted.json` in the user's folder of settings, with what it stands for beside it:

- code (`python:` models, judges and scorers): the spec and the file that it leads to from here. Not the file's
  content: people edit their own code. The same spec in another folder leads to another file and is asked for again;
- `gguf:` files: the resolved path, since llama.cpp parses them in this process;
- addresses: the whole URL, which receives the questions and the key in OPENAI_API_KEY. OpenAI's own is built in, and
  so are those of `anthropic/NAME` and the other providers (`cereval.models.openai_model`), which take no other.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cereval.errors import InvalidInput, Untrusted
from cereval.files import settings_folder, write_whole
from cereval.imports import origin_of
from cereval.scorers import code_of
from cereval.store.base import sqlite_file
from cereval.text import printable

FORMAT = 1
BUILT_IN = "https://api.openai.com/v1"
LARGEST = 4 * 2**20
LONGEST_SHOWN = 160
MOST_SHOWN = 4

VERBS = {
    "code": "run",
    "gguf": "load",
    "address": "send questions and the API key to",
    "store": "keep answers in",
    "file": "read and send",
}
"""What would be done with each kind of thing."""

_unwritten: set[str] = set()
"""Digests that could not be written down: they hold while the process lives."""


@dataclass(frozen=True, slots=True)
class Named:
    """Name something that a plan or a request would run or call. where: the file it leads to from here."""

    kind: str
    what: str
    where: str = ""

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps([self.kind, self.what, self.where]).encode()).hexdigest()

    def __str__(self) -> str:
        verb = VERBS[self.kind]
        what = printable(self.what, LONGEST_SHOWN)
        return f"{verb} {what}" + (f" ({printable(self.where, LONGEST_SHOWN)})" if self.where else "")


# -- what is named ----------------------------------------------------------------------------------------------------


def named_by_model(name: Any, address: Any = None) -> tuple[Named, ...]:
    """Return what opening a model would run or call.

    >>> [one.kind for one in named_by_model("python:math:sqrt")], named_by_model("openai/gpt-4o")
    (['code'], ())
    >>> [str(one) for one in named_by_model("openai/m", "HTTP://Host/v1/")]
    ['send questions and the API key to http://host/v1']
    """
    if name is not None and not isinstance(name, str):
        raise InvalidInput("model", "a text", name)
    found: tuple[Named, ...] = ()
    if name is not None and name.startswith("python:"):
        found = (_code(name.removeprefix("python:")),)
    elif name is not None and name.startswith("gguf:"):
        found = (Named("gguf", name, _resolved(name.removeprefix("gguf:"))),)
    return (*found, *_addresses(address))


def named_by_judges(names: Sequence[str] | None, address: Any) -> tuple[Named, ...]:
    return tuple(one for name in names or (None,) for one in named_by_model(name, address))


def named_by_scorer(spec: Any) -> tuple[Named, ...]:
    """Return what building a scorer would run.

    >>> [one.what for one in named_by_scorer({"name": "python", "function": "mine:score"})]
    ['python:mine:score']
    """
    if not isinstance(spec, str | Mapping):
        raise InvalidInput("scorer", "a text or a mapping", spec)
    code = code_of(spec)
    return () if code is None else (_code(code),)


def named_store(url: str) -> Named:
    """Return a store that a file names: answers are written there, and a server is sent a password."""
    from cereval.store.database import name_of, parse_url

    file = sqlite_file(url)
    return Named("store", name_of(parse_url(url)), "" if file is None else _resolved(str(file)))


def named_file(path: Path) -> Named:
    """Return a file outside the folder of the file that names it: its text would be sent to a model."""
    return Named("file", str(path), _resolved(str(path)))


def named_data(data: str, folder: Path) -> list[Named]:
    """Return data that a file in this folder names, where they lie neither there nor in the current folder."""
    where = "" if data.startswith("hf:") else _resolved(data)
    homes = (folder.resolve(), Path.cwd())
    return [named_file(Path(data))] if where and not any(map(Path(where).is_relative_to, homes)) else []


def _code(spec: str) -> Named:
    return Named("code", f"python:{spec}", origin_of(spec))


def _resolved(path: str) -> str:
    try:
        return str(Path(path).resolve())
    except (OSError, ValueError):  # such as a name that no file can have
        return ""


def _addresses(address: Any) -> tuple[Named, ...]:
    if address is None or address == "":
        return ()
    if not isinstance(address, str):
        raise InvalidInput("base_url", "an address such as http://localhost:8000/v1", address)
    found = _normal(address)
    return () if found == BUILT_IN else (Named("address", found),)


def _normal(address: str) -> str:
    """Return one spelling of an address: what differs only in case of the host or a last slash is the same place."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return address
    return parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower()).geturl().rstrip("/")


# -- what is trusted --------------------------------------------------------------------------------------------------


def remember(names: Iterable[Named]) -> None:
    """Trust what this user typed or confirmed, now and later; where nothing can be written, while the process lives."""
    fresh = {one.digest: one for one in names}
    if not fresh or fresh.keys() <= _known().keys():
        return
    path = trusted_file()
    try:
        if path is None:
            raise OSError
        with _alone(path):
            known = {**_known(), **{digest: _entry(one) for digest, one in fresh.items()}}
            write_whole(path, json.dumps({"format": FORMAT, "trusted": known}, indent=1) + "\n")
    except OSError:
        _unwritten.update(fresh)


def require(names: Iterable[Named], source: str) -> None:
    """Refuse in one line what nobody typed or confirmed on this machine; `source` says where it is named."""
    own = _normal(os.environ.get("OPENAI_BASE_URL") or BUILT_IN)
    wanted = [one for one in dict.fromkeys(names) if (one.kind, one.what) != ("address", own)]
    known = _known().keys() | _unwritten if wanted else set()
    unknown = [one for one in wanted if one.digest not in known]
    if not unknown:
        return
    shown = [str(one) for one in unknown[:MOST_SHOWN]]
    shown += [f"{len(unknown) - MOST_SHOWN} more"] if len(unknown) > MOST_SHOWN else []
    raise Untrusted(
        f"{printable(source)} would {'; '.join(shown)}: nobody typed or confirmed that on this machine, and nothing "
        "was run or sent. If you trust it, repeat with --trust (in Python: trust=True), which is remembered"
    )


def trusted_file() -> Path | None:
    """Return where this user's trust is written down; None for users without a home."""
    folder = settings_folder()
    return None if folder is None else folder / "trusted.json"


def _known() -> dict[str, Any]:
    """Return what is written down, by digest; nothing from a file that is broken, or that others may write to."""
    path = trusted_file()
    if path is None:
        return {}
    try:
        with path.open("rb") as file:
            if not _ours(os.fstat(file.fileno())):
                return {}
            content = json.loads(file.read(LARGEST))
        return dict(content["trusted"]) if content["format"] == FORMAT else {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def _ours(status: os.stat_result) -> bool:
    if not stat.S_ISREG(status.st_mode):
        return False
    return not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)


def _entry(one: Named) -> dict[str, str]:
    return {
        "kind": one.kind,
        "what": one.what,
        "where": one.where,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait for other processes that write the same file: what they add must not be lost."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(
        path.with_name("trusted.lock"), os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600
    )
    try:
        with suppress(ImportError):
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
