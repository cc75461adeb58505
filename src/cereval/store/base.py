"""State the contract of a store: what a run paid for is kept.

Obligations of every store:
- a method that writes returns only when the rows are durable: they survive `kill -9` and, on SQLite with
  `synchronous=FULL`, the loss of power;
- nothing is changed once written (but where a large file lies), nor removed but by `delete`: a run's status is the
  newest of its events, but for a `running` run that no process holds any more, which is `interrupted`;
- draws are stored before their calls go out, an answer at most once per draw;
- numbers come back bit for bit; texts come back whole but for NUL and lone surrogates, which become U+FFFD;
- whatever goes wrong with the database is a `StoreError` of one line with a remedy and no password.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cereval.errors import BadFile, InvalidInput, StoreError
from cereval.files import is_file, is_folder
from cereval.records import Draw
from cereval.version import ENGINE

DEFAULT_URL = "sqlite:///cereval.db"
COUNTS = ("answers", "failures", "cost_usd", "draws")
"""What is counted of a run."""
TOGETHER = "together"
"""Where a run of several models says at its end what was counted of them all."""
GOAL_NOW = "goal"
"""Where a run whose goal was changed on the way says, in words, what it was at its end."""


@dataclass(frozen=True, slots=True)
class Run:
    """Describe a run as the store knows it; the counts are those at the time of reading.

    cost_usd: None where an answer's price is not known. engine: the number of the rules that decide its draws.
    """

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
    engine: int = ENGINE
    summary: Mapping[str, Any] = field(default_factory=dict)
    """What the newest certificate comes to: the answer in words, and its numbers."""
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold what came of one draw: a score, or the reason why there is none.

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
    """The run that paid for it, where it was taken from the answer book."""
    asked_at: float = 0.0
    """When it was given, in seconds since 1970; 0: when it is stored."""

    def __post_init__(self) -> None:
        if (self.score is None) == (self.failure is None):
            raise InvalidInput("answer", "either a score or a failure", (self.score, self.failure))
        if self.score is not None and not (isfinite(self.score) and 0 <= self.score <= 1):
            raise InvalidInput("score", "in [0, 1]", self.score)


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """Hold an earlier answer to an item: the run that paid for it, and when (seconds since 1970)."""

    item: int
    answer: Answer
    run_id: str
    at: float
    same_scorer: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class PastScores:
    """Hold the scores of earlier runs on the same data: `values[k]` is run `columns[k]`'s on item `items[k]`.

    `cutoffs` (run id -> first draw that was left out) freezes what was seen: stores only grow, so that asking
    again with the same cutoffs gives the same scores however far those runs have gone since.
    """

    runs: tuple[str, ...]
    models: tuple[str, ...]
    cutoffs: Mapping[str, int]
    items: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.float64]

    def table(self, n_items: int) -> NDArray[np.float64]:
        """Return the scores as items x runs, NaN where a run did not ask."""
        table = np.full((n_items, len(self.runs)), np.nan)
        table[self.items, self.columns] = self.values
        return table


class Store(Protocol):
    """Keep everything a run needs to remember; see the obligations above."""

    @property
    def url(self) -> str: ...

    def create_run(
        self, run_id: str, plan: Mapping[str, Any], data_hash: str, model: str, engine: int = ENGINE
    ) -> Run:
        """Record a plan; a run that is there already is returned when its plan is the same, else refused."""

    def run(self, run_id: str) -> Run:
        """Return one run, by its id or by a beginning of it that no other run shares."""

    def runs(self) -> tuple[Run, ...]:
        """Return every run, oldest first."""

    def hold(self, run_id: str) -> AbstractContextManager[None]:
        """Hold a run for one process at a time, from before its past is read to its end; refuse one that another
        holds.
        """

    def mark(self, run_id: str, status: str, detail: Mapping[str, Any] | None = None) -> None:
        """Add an event: `running`, `interrupted`, `finished`, a changed setting."""

    def events(self, run_id: str) -> tuple[Mapping[str, Any], ...]:
        """Return the events of a run, oldest first: `status`, `at` and `detail`."""

    def finish(
        self,
        run_id: str,
        certificate: Mapping[str, Any],
        status: str = "finished",
        summary: Mapping[str, Any] | None = None,
    ) -> None:
        """Store a certificate and mark the run, in one transaction; `summary` is what lists show of it."""

    def label(self, run_id: str, labels: Sequence[str]) -> None:
        """Add labels to a run."""

    def delete(self, run_ids: Sequence[str]) -> None:
        """Remove runs with all that belongs to them; the only way in which anything is ever removed."""

    def rows(self, run_id: str) -> Iterator[tuple[Draw, Answer, float]]:
        """Yield every answer with its draw and the moment it was stored, in draw order, a few at a time in memory."""

    def certificates(self, run_id: str) -> tuple[Mapping[str, Any], ...]:
        """Return the certificates of a run, oldest first."""

    def add_items(self, data_hash: str, items: Iterable[Mapping[str, Any]]) -> None:
        """Keep a data set's items (JSON-able, with an `id`) in order; known ones are left alone."""

    def items(self, data_hash: str) -> tuple[Mapping[str, Any], ...]: ...

    def content_keys(self, data_hash: str) -> tuple[str, ...]:
        """Return the keys of a data set's items in order (`cereval.forecasts.pool`)."""

    def sharing(self, keys: Collection[str]) -> Mapping[str, int]:
        """Return the data sets that have items with these keys, and how many of them."""

    def data_of(self, run_ids: Collection[str]) -> Mapping[str, str]:
        """Return the data set of each of these runs that the store has."""

    def add_source(self, data_hash: str, source: Mapping[str, Any]) -> None:
        """Keep where the items of a large data set lie, instead of the items; one that is known is replaced."""

    def source(self, data_hash: str) -> Mapping[str, Any] | None:
        """Return where the items of a data set lie; None: here."""

    def add_draws(self, run_id: str, draws: Sequence[Draw]) -> None:
        """Commit draws, before their calls go out."""

    def draws(self, run_id: str) -> tuple[Draw, ...]: ...

    def add_answers(self, run_id: str, answers: Sequence[Answer]) -> None:
        """Commit answers, all or none."""

    def answers(self, run_id: str, *, texts: bool = True) -> tuple[Answer, ...]:
        """Return the answers in draw order; without `texts` the raw texts stay in the database."""

    def kept_answers(self, data_hash: str, runs: Sequence[str], since: float) -> tuple[KeptAnswer, ...]:
        """Return the answers that runs on the same data paid for since a moment, oldest first; failures are none."""

    def answered_at(self, run_id: str) -> tuple[float, ...]:
        """Return when each answer of a run was stored, oldest first."""

    def plans(self, data_hash: str | None = None) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        """Return the id and the plan of every run (on the same data), oldest first, without their counts."""

    def cutoffs(self, data_hash: str) -> Mapping[str, int]:
        """Return the first open draw of each run on the same data that has a score, without reading the scores."""

    def past_scores(
        self,
        data_hash: str,
        *,
        runs: Collection[str] | None = None,
        cutoffs: Mapping[str, int] | None = None,
    ) -> PastScores:
        """Return the scores of runs (None: all) on the same data, up to each one's first open draw, or to given
        `cutoffs`.
        """

    def close(self) -> None: ...


def store_flag(store: Store) -> str:
    """Return what a suggested command has to name the store by: nothing for the usual one."""
    return "" if store.url == DEFAULT_URL else f" --store {shlex.quote(store.url)}"


def open_store(url: str = DEFAULT_URL, *, reading: bool = False) -> Store:
    """Open or create the database at `sqlite:///FILE` or `postgresql://USER@HOST/NAME`; reading: nothing is
    written."""
    from cereval.store.sql import SqlStore

    return SqlStore.open(url, reading=reading)


@contextmanager
def opened_store(url: str | None, *, create: bool = False, reading: bool = False) -> Iterator[Store]:
    """Open a store and close it again; one that is not there is made only where `create` says so."""
    wanted = url or DEFAULT_URL
    file = sqlite_file(wanted)
    if file is not None and create and not is_folder(file.parent):
        raise BadFile(f"there is no folder {file.parent} for the database; create it, or use another --store")
    if file is not None and not create and not is_file(file):
        raise StoreError(f"there is no database {file}; name the one that the run was made in with --store")
    store = open_store(wanted, reading=reading)
    try:
        yield store
    finally:
        store.close()


def sqlite_file(url: str) -> Path | None:
    """Return the file behind a SQLite URL.

    >>> sqlite_file("sqlite:///runs/a.db"), sqlite_file("postgresql://host/db")
    (PosixPath('runs/a.db'), None)
    """
    from cereval.store.engine import parsed

    address = parsed(url)
    plain = address.get_backend_name() == "sqlite" and address.database not in (None, "", ":memory:")
    return Path(str(address.database)) if plain else None
