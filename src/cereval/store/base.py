"""The contract of a store, which keeps what a run paid for. `cereval.store.sql` has the one implementation.

- A method that writes returns only when the rows are durable: they survive `kill -9` and, on SQLite with
  `synchronous=FULL`, the loss of power.
- What is written is never changed, and only `delete` removes anything. The status of
  a run is the newest of its events; a run whose status says that a process works on it, while none holds it, is
  `interrupted`.
- Draws are stored before their calls go out; a draw has at most one answer.
- Numbers come back bit for bit. Texts come back whole; only NUL and lone surrogates become U+FFFD.
- Whatever goes wrong with the database is a `StoreError`: one line, what to do, and no password.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from cereval.arrays import Floats, Ints
from cereval.errors import BadFile, InvalidInput, StoreError
from cereval.files import is_file, is_folder
from cereval.version import ENGINE

if TYPE_CHECKING:
    from cereval.store.sql import SqlStore

Store: TypeAlias = "SqlStore"
"""A name for annotations: SQLAlchemy is imported only when a store is opened."""

DEFAULT_URL = "sqlite:///cereval.db"

# -- the events of a run ----------------------------------------------------------------------------------------------

STOPPING = "stopping"
"""Somebody asked the run to stop; the process that works on it does, as at Ctrl-C."""
GOING = ("running", STOPPING)
"""A process works on the run. If that process is gone, the run is `interrupted`."""
AT_WORK = ("created", *GOING)
ENDED = ("finished", "budget")
SUMMED_UP = (*ENDED, "interrupted")
"""The event has the run's result."""

CHANGED = "changed"
"""Records a new goal, budget or horizon."""
LEASED = "leased"
"""Records that questions were handed out."""
BATCH = "batch"
"""Records that answers are ordered, or were, as a provider's batch."""
SERVED = "served"
"""Records under which names a server answered, and how often."""
NOTED = "noted"
"""Records warnings that came up while a run asked."""
RECORDS = (CHANGED, LEASED, SERVED, BATCH, NOTED)
"""These events leave the status of the run as it is."""

COUNTS = ("answers", "failures", "cost_usd", "draws")
"""What the last event counts."""
TOGETHER = "together"
"""The key under which the last event of a run of several models counts all of them."""
GOAL_NOW = "goal"
"""The key under which the last event has the goal in words, if it was changed on the way."""

LARGEST_SUM = 1e200
"""Sums of money below this are still numbers."""


def is_summary(values: Mapping[str, Any]) -> bool:
    """Tell whether an event's result can be one: texts, and shares or their differences.

    >>> is_summary({"estimate": 0.5, "lower": 0.4, "upper": 0.6}), is_summary({"estimate": "x"})
    (True, False)
    """
    low, high = values.get("lower"), values.get("upper")
    numbers = [number for number in (values.get("estimate"), low, high) if number is not None]
    texts = [values.get(name) for name in ("answer", "priced_by", "goal")]
    return (
        len(numbers) in (0, 1, 3)
        and (low is None) == (high is None)
        and all(type(number) in (int, float) and -2 < number < 2 for number in numbers)
        and all(text is None or isinstance(text, str) for text in texts)
    )


def is_count(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and 0 <= value < LARGEST_SUM)


def moment(seconds: float) -> str:
    """Return seconds since 1970 as ISO 8601 in UTC, which sorts as it reads; "" for years that no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
    except (OverflowError, ValueError, OSError):
        return ""


def now() -> str:
    return moment(time.time())


# -- what a store returns ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Run:
    """A run, with its counts at the time of reading."""

    run_id: str
    plan: Mapping[str, Any]
    data_hash: str
    model: str
    status: str
    created_at: str
    changed_at: str
    draws: int = 0
    answers: int = 0
    failures: int = 0
    cost_usd: float | None = 0.0
    """None: the price of some answer is not known."""
    engine: int = ENGINE
    summary: Mapping[str, Any] = field(default_factory=dict)
    """The newest result, in words and numbers."""
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one draw: a score, or the reason why there is none.

    >>> Answer(draw=0, text="4", score=1.0).failure is None
    True
    """

    draw: int
    text: str = ""
    score: float | None = None
    failure: str | None = None
    detail: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    latency_s: float = 0.0
    attempts: int = 1
    finish_reason: str = ""
    kept: str = ""
    """The run that paid for it, if the answer was reused."""
    asked_at: float = 0.0
    """When it was given, in seconds since 1970; 0: when it is stored."""

    def __post_init__(self) -> None:
        if (self.score is None) == (self.failure is None):
            raise InvalidInput("answer", "either a score or a failure", (self.score, self.failure))
        if self.score is not None and not (isfinite(self.score) and 0 <= self.score <= 1):
            raise InvalidInput("score", "in [0, 1]", self.score)


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An earlier answer to an item: the run that paid for it, and when (seconds since 1970)."""

    item: int
    answer: Answer
    run_id: str
    at: float
    same_scorer: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class PastScores:
    """The scores of earlier runs: `values[k]` is the score of run `columns[k]` on item `items[k]`."""

    items: Ints
    columns: Ints
    values: Floats


# -- opening a store --------------------------------------------------------------------------------------------------


def open_store(url: str = DEFAULT_URL, *, reading: bool = False, patient: bool = True) -> Store:
    """Open or create the database at `sqlite:///FILE` or `postgresql://USER@HOST/NAME`.

    reading: write nothing. patient: wait for a server that went away; else fail at once.
    """
    from cereval.store.sql import SqlStore

    return SqlStore.open(url, reading=reading, patient=patient)


@contextmanager
def opened_store(
    url: str | None, *, create: bool = False, reading: bool = False, patient: bool = True
) -> Iterator[Store]:
    """Open a store and close it again. create: make a database that is not there; else that is an error."""
    wanted = url or DEFAULT_URL
    file = sqlite_file(wanted)
    if file is not None and create and not is_folder(file.parent):
        raise BadFile(f"there is no folder {file.parent} for the database; create it, or use another --store")
    if file is not None and not create and not is_file(file):
        raise StoreError(f"there is no database {file} yet: the first run makes it; --store names another")
    store = open_store(wanted, reading=reading, patient=patient)
    try:
        yield store
    finally:
        store.close()


def sqlite_file(url: str) -> Path | None:
    """Return the file behind a SQLite URL.

    >>> sqlite_file("sqlite:///runs/a.db"), sqlite_file("postgresql://host/db")
    (PosixPath('runs/a.db'), None)
    """
    from cereval.store.database import file_of, parse_url

    return file_of(parse_url(url))


def store_flag(store: Store) -> str:
    """Return the --store flag for a command that is suggested to the user; "" for the usual store."""
    return "" if store.url == DEFAULT_URL else f" --store {shlex.quote(store.url)}"
