"""Store runs in SQL: one implementation for SQLite and PostgreSQL."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Engine, Select, Table, case, delete, func, insert, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL

from cereval.errors import StoreError
from cereval.files import is_file
from cereval.forecasts.pool import content_keys
from cereval.records import Draw
from cereval.store.base import (
    COUNTS,
    GOING,
    RECORDS,
    SUMMED_UP,
    Answer,
    KeptAnswer,
    PastScores,
    Run,
    is_count,
    is_summary,
    now,
)
from cereval.store.database import (
    AGAIN,
    connect,
    create_private,
    file_of,
    is_read_only,
    name_of,
    parse_url,
    patiently,
    plain_errors,
)
from cereval.store.locks import Lease, lock_run, locked_runs
from cereval.store.tables import (
    LARGEST,
    Rows,
    answers,
    certificates,
    check_schema,
    checked,
    create_schema,
    draws,
    events,
    items,
    labels,
    mapping,
    metadata,
    read,
    runs,
    whole,
)
from cereval.text import did_you_mean
from cereval.version import ENGINE

ELSEWHERE = -1
"""The item number of the row that says where the items of a large data set lie."""

MOST_NAMED = 500
"""How many values one query may name."""

IGNORE_KNOWN: Mapping[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
"""The inserts that can skip rows that are there."""

T = TypeVar("T")

_answer_of_draw = (answers.c.run_id == draws.c.run_id) & (answers.c.draw == draws.c.draw)


@dataclass(frozen=True, slots=True)
class SqlStore:
    """The store (see `cereval.store.base`), through SQLAlchemy Core; safe to use from several threads."""

    address: URL
    engine: Engine = field(repr=False)
    patient: bool = True
    """Whether to wait for a server that went away."""
    leases: dict[str, Lease] = field(default_factory=dict, repr=False, compare=False)
    """The runs that are locked here, on a server."""

    @classmethod
    def open(cls, url: str, *, reading: bool = False, patient: bool = True) -> SqlStore:
        address = parse_url(url)
        file = file_of(address)
        if file is not None and is_file(file):
            reading = reading or is_read_only(file)
        else:
            reading = False
            if file is not None:
                create_private(file)
        with plain_errors(address):
            store = cls(address, connect(address, reading=reading), patient)
        with store.reading() if reading else store.writing() as connection:
            (check_schema if reading else create_schema)(connection, store.name)
        return store

    @property
    def url(self) -> str:
        return self.address.render_as_string(hide_password=True)

    @property
    def name(self) -> str:
        """The database in messages."""
        return name_of(self.address)

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def writing(self, run_id: str = "") -> Iterator[Connection]:
        """Open a transaction; on a run that is locked here, one that makes sure of the lock."""
        with plain_errors(self.address), self.engine.begin() as connection:
            if run_id in self.leases:
                self.leases[run_id].confirm(connection)
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with plain_errors(self.address), self.engine.connect() as connection:
            yield connection.execution_options(reading=True)

    # -- runs ---------------------------------------------------------------------------------------------------------

    @patiently
    def create_run(
        self, run_id: str, plan: Mapping[str, Any], data_hash: str, model: str, engine: int = ENGINE
    ) -> Run:
        """Record a plan; a run that is there already is returned if its plan is the same, else refused."""
        row = {"run_id": run_id, "plan": _json(plan), "data_hash": data_hash, "model": storable(model)}
        with self.writing() as connection:
            there = connection.execute(select(runs).where(runs.c.run_id == run_id)).mappings().first()
            if there is None:
                connection.execute(insert(runs).values(**row, created_at=now(), engine=engine))
                self._append(connection, events, run_id, status="created", detail="{}")
            elif any(there[name] != value for name, value in row.items()):
                raise StoreError(f"{self.name} has another plan under the run id {run_id}")
        return self.run(run_id)

    @patiently
    def run(self, run_id: str) -> Run:
        """Return one run, by its id or by a beginning of it that no other run shares."""
        with self.reading() as connection:
            ids = [row["run_id"] for row in read(connection, select(runs.c.run_id), self.name)]
            found = [run_id] if run_id in ids else [one for one in ids if one.startswith(run_id)]
            if len(found) != 1 or not run_id:
                hint = did_you_mean(run_id, found or ids)
                raise StoreError(f"{self.name} has no single run {run_id!r}; {hint}")
            known = self._runs(connection, _newest_events().where(runs.c.run_id == found[0]))
            if not known:
                raise StoreError(f"{self.name} is damaged: run {found[0]} has no events")
            return known[0]

    @patiently
    def runs(self) -> tuple[Run, ...]:
        """Return every run, oldest first."""
        with self.reading() as connection:
            return self._runs(connection, _newest_events())

    def plans(self, data_hash: str | None = None) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        """Return the id and the plan of every run (on the same data), oldest first; quicker than `runs`."""
        query = select(runs.c.run_id, runs.c.plan).order_by(runs.c.created_at, runs.c.run_id)
        rows = self._all(query if data_hash is None else query.where(runs.c.data_hash == data_hash))
        return tuple((row["run_id"], self._mapping(row, "plan")) for row in rows)

    def data_of(self, run_ids: Collection[str]) -> Mapping[str, str]:
        """Return the data set of each of these runs that the store has."""
        wanted = set(run_ids)
        rows = self._all(select(runs.c.run_id, runs.c.data_hash)) if wanted else ()
        return {row["run_id"]: row["data_hash"] for row in rows if row["run_id"] in wanted}

    @contextmanager
    def hold(self, run_id: str, what: str = "") -> Iterator[None]:
        """Lock a run for this process, from before its past is read to its end; refuse one that another works on."""
        with ExitStack() as stack:
            lease = self._lock(run_id, what or f"run {run_id}", stack)
            if lease is not None:
                self.leases[run_id] = lease
                stack.callback(self.leases.pop, run_id, None)
            yield

    def hold_request(self, request: str) -> AbstractContextManager[None]:
        """Let one process at a time find or begin the run of a request; two that begin at once would pay twice."""
        return self.hold(f"request {request}", "the same command")

    @patiently
    def _lock(self, run_id: str, what: str, stack: ExitStack) -> Lease | None:
        with plain_errors(self.address):
            return stack.enter_context(lock_run(self.engine, run_id, what))

    def hold_again(self) -> None:
        """Take every lock again after an outage; refuse where another process took a run over."""
        for lease in tuple(self.leases.values()):
            with plain_errors(self.address):
                lease.take_again()

    @patiently
    def mark(self, run_id: str, status: str, detail: Mapping[str, Any] | None = None) -> None:
        """Add an event: a status such as `running` and `interrupted`, or a record such as a changed goal."""
        with self.writing(run_id) as connection:
            self._append(connection, events, run_id, status=status, detail=_json(detail or {}))

    def events(self, run_id: str) -> tuple[Mapping[str, Any], ...]:
        """Return the events of a run, oldest first: `status`, `at` and `detail`."""
        rows = self._all(select(events).where(events.c.run_id == run_id).order_by(events.c.number))
        return tuple(
            {"status": row["status"], "at": row["at"], "detail": self._mapping(row, "detail")} for row in rows
        )

    @patiently
    def finish(
        self,
        run_id: str,
        certificate: Mapping[str, Any],
        status: str = "finished",
        summary: Mapping[str, Any] | None = None,
    ) -> None:
        """Store a certificate and the event of the end in one transaction; summary: what lists show of the run."""
        with self.writing(run_id) as connection:
            self._append(connection, certificates, run_id, content=_json(certificate))
            self._append(connection, events, run_id, status=status, detail=_json(summary or {}))

    def certificates(self, run_id: str) -> tuple[Mapping[str, Any], ...]:
        """Return the certificates of a run, oldest first."""
        query = select(certificates.c.content).where(certificates.c.run_id == run_id)
        return tuple(
            self._mapping(row, "content") for row in self._all(query.order_by(certificates.c.number))
        )

    @patiently
    def label(self, run_id: str, names: Sequence[str]) -> None:
        """Add labels to a run; those that it has stay."""
        rows = [{"run_id": run_id, "label": storable(one)} for one in dict.fromkeys(names)]
        if rows:
            with self.writing() as connection:
                connection.execute(_ignoring_known(connection, labels), rows)

    @patiently
    def delete(self, run_ids: Sequence[str]) -> None:
        """Remove runs with all that belongs to them; nothing else ever removes anything."""
        with self.writing() as connection:
            for table in reversed(metadata.sorted_tables):
                if "run_id" in table.c:
                    connection.execute(delete(table).where(table.c.run_id.in_(list(run_ids))))

    # -- items --------------------------------------------------------------------------------------------------------

    @patiently
    def add_items(self, data_hash: str, added: Iterable[Mapping[str, Any]]) -> None:
        """Keep a data set's items (JSON-able, with an `id`) in order; known ones are left alone."""
        with self.writing() as connection:
            if connection.execute(select(items.c.item).where(items.c.data_hash == data_hash)).first():
                return
            found = list(added)
            rows = [
                {"data_hash": data_hash, "item": number, "content": _json(item), "content_key": key}
                for number, (item, key) in enumerate(zip(found, content_keys(found), strict=True))
            ]
            if rows:
                # Another process may begin on the same data at this very moment.
                connection.execute(_ignoring_known(connection, items), rows)

    def items(self, data_hash: str) -> tuple[Mapping[str, Any], ...]:
        kept = (items.c.data_hash == data_hash) & (items.c.item >= 0)
        rows = self._all(select(items.c.content).where(kept).order_by(items.c.item))
        return tuple(self._mapping(row, "content") for row in rows)

    def content_keys(self, data_hash: str) -> tuple[str, ...]:
        """Return the keys of a data set's items in order (`cereval.forecasts.content`)."""
        query = select(items.c.content_key).where(items.c.data_hash == data_hash).order_by(items.c.item)
        with self.reading() as connection:
            return tuple(connection.execute(query).scalars())

    def sharing(self, keys: Collection[str]) -> Mapping[str, int]:
        """Return the data sets that have items with these keys, and how many of them."""
        found = Counter[str]()
        with self.reading() as connection:
            for some in in_pieces(list(keys)):
                query = select(items.c.data_hash, func.count()).where(items.c.content_key.in_(some))
                found.update(
                    {row[0]: row[1] for row in connection.execute(query.group_by(items.c.data_hash))}
                )
        return found

    @patiently
    def add_source(self, data_hash: str, source: Mapping[str, Any]) -> None:
        """Keep where the items of a large data set lie, instead of the items; one that is known is replaced."""
        if self.source(data_hash) == source:
            return
        row = {"data_hash": data_hash, "item": ELSEWHERE, "content": _json(source), "content_key": ""}
        here = (items.c.data_hash == data_hash) & (items.c.item == ELSEWHERE)
        with self.writing() as connection:
            connection.execute(delete(items).where(here))
            connection.execute(_ignoring_known(connection, items), [row])

    def source(self, data_hash: str) -> Mapping[str, Any] | None:
        """Return where the items of a data set lie; None: here."""
        here = (items.c.data_hash == data_hash) & (items.c.item == ELSEWHERE)
        rows = self._all(select(items.c.content).where(here))
        return self._mapping(rows[0], "content") if rows else None

    # -- draws and answers --------------------------------------------------------------------------------------------

    @patiently
    def add_draws(self, run_id: str, drawn: Sequence[Draw]) -> None:
        """Commit draws, before their calls go out."""
        at = time.time()
        rows = [
            {
                "run_id": run_id,
                "draw": int(draw.index),
                "item": int(draw.item),
                "probability": float(draw.probability),
                "at": at,
            }
            for draw in drawn
        ]
        self._insert(run_id, draws, rows)

    def draws(self, run_id: str) -> tuple[Draw, ...]:
        rows = self._all(select(draws).where(draws.c.run_id == run_id).order_by(draws.c.draw))
        return tuple(Draw(row["draw"], row["item"], row["probability"]) for row in rows)

    @patiently
    def add_answers(self, run_id: str, given: Sequence[Answer]) -> None:
        """Commit answers, all or none."""
        at = time.time()
        self._insert(run_id, answers, [answer_row(run_id, answer, at) for answer in given])

    def answers(
        self, run_id: str, *, texts: bool = True, only: Sequence[int] | None = None
    ) -> tuple[Answer, ...]:
        """Return the answers in draw order. texts: with their texts. only: to these draws; None: to all."""
        columns = [column for column in answers.c if texts or column.name != "text"]
        query = select(*columns).where(answers.c.run_id == run_id).order_by(answers.c.draw)
        pieces = (
            [query] if only is None else [query.where(answers.c.draw.in_(some)) for some in in_pieces(only)]
        )
        return tuple(answer_from(row) for piece in pieces for row in self._all(piece))

    def answered_at(self, run_id: str) -> tuple[float, ...]:
        """Return when each answer of a run was stored, oldest first."""
        return tuple(
            row["at"]
            for row in self._all(
                select(answers.c.at).where(answers.c.run_id == run_id).order_by(answers.c.at)
            )
        )

    def kept_answers(self, data_hash: str, run_ids: Sequence[str], since: float) -> tuple[KeptAnswer, ...]:
        """Return the answers that runs on the same data paid for since a moment, oldest first, without failures."""
        query = (
            select(draws.c.item, answers)
            .join(answers, _answer_of_draw)
            .join(runs, runs.c.run_id == draws.c.run_id)
            .where(runs.c.data_hash == data_hash, draws.c.run_id.in_(list(run_ids)))
            .where(answers.c.failure.is_(None), answers.c.at >= since)
            .order_by(answers.c.at)
        )
        return tuple(
            KeptAnswer(row["item"], answer_from(row), row["run_id"], row["at"]) for row in self._all(query)
        )

    def rows(self, run_id: str) -> Iterator[tuple[Draw, Answer, float]]:
        """Yield every answer with its draw and the moment it was stored, in draw order, a few at a time in memory."""
        query = (
            select(draws.c.item, draws.c.probability, answers)
            .join(answers, _answer_of_draw)
            .where(draws.c.run_id == run_id)
            .order_by(draws.c.draw)
        )
        with self.reading() as connection:
            found = connection.execution_options(yield_per=1000).execute(query).mappings()
            for some in found.partitions():
                for row in checked(some, query, self.name):
                    yield Draw(row["draw"], row["item"], row["probability"]), answer_from(row), row["at"]

    # -- the scores of earlier runs -----------------------------------------------------------------------------------

    @patiently
    def cutoffs(self, data_hash: str) -> Mapping[str, int]:
        """Return, for each run on the same data with a score, its first draw without an answer.

        What lies before it can never change.
        """
        waiting = func.min(case((answers.c.draw.is_(None), draws.c.draw)))
        query = (
            select(draws.c.run_id, func.coalesce(waiting, func.max(draws.c.draw) + 1))
            .select_from(
                draws.join(runs, runs.c.run_id == draws.c.run_id).outerjoin(answers, _answer_of_draw)
            )
            .where(runs.c.data_hash == data_hash)
            .group_by(draws.c.run_id)
            .having(func.count(answers.c.score) > 0)
        )
        with self.reading() as connection:
            return {run_id: whole(end, "draw", self.name) for run_id, end in connection.execute(query)}

    def past_scores(
        self,
        data_hash: str,
        *,
        runs: Collection[str] | None = None,
        cutoffs: Mapping[str, int] | None = None,
    ) -> PastScores:
        """Return the scores of runs (None: all) on the same data, each up to its first draw without an answer.

        cutoffs: of these runs, up to these draws instead.
        """
        models, used = self._models(data_hash), cutoffs
        if used is None:
            ends = self.cutoffs(data_hash)
            used = {run: ends[run] for run in models if run in ends and (runs is None or run in runs)}
        if lost := [run for run in used if run not in models]:
            raise StoreError(
                f"the run {lost[0]} is history of this one but not in this store; use the store it was made in"
            )
        # One array a run: a loop over every score would take longer than reading them.
        arrays = {run: self._scores(run, end) for run, end in used.items()}
        if cutoffs is None:
            arrays = {run: array for run, array in arrays.items() if len(array)}
        scores = np.vstack([np.empty((0, 2)), *arrays.values()])
        return PastScores(
            runs=tuple(arrays),
            models=tuple(models[run] for run in arrays),
            cutoffs={run: used[run] for run in arrays},
            items=scores[:, 0].astype(np.int64),
            columns=np.repeat(np.arange(len(arrays)), [len(array) for array in arrays.values()]).astype(
                np.int64
            ),
            values=scores[:, 1],
        )

    def _models(self, data_hash: str) -> dict[str, str]:
        query = select(runs.c.run_id, runs.c.model).where(runs.c.data_hash == data_hash)
        return {
            row["run_id"]: row["model"] for row in self._all(query.order_by(runs.c.created_at, runs.c.run_id))
        }

    @patiently
    def _scores(self, run_id: str, cutoff: int) -> NDArray[np.float64]:
        """Return the items and scores of one run, two columns."""
        query = (
            select(draws.c.item, answers.c.score)
            .join(answers, _answer_of_draw)
            .where(draws.c.run_id == run_id, draws.c.draw < cutoff, answers.c.score.is_not(None))
            .order_by(draws.c.draw)
        )
        with self.reading() as connection:
            # Plain tuples of the driver: a million rows of the library would take twice as long.
            cursor = connection.execute(query).cursor
            rows = cursor.fetchall() if cursor is not None else []
        try:
            table = np.array(rows, dtype=np.float64).reshape(-1, 2)
        except (TypeError, ValueError):
            table = np.full((1, 2), np.nan)
        item = table[:, 0]
        if not (
            np.isfinite(table).all() and (np.abs(item) <= LARGEST).all() and (item == np.rint(item)).all()
        ):
            checked([{"item": item, "score": score} for item, score in rows], query, self.name)
            for item, _ in rows:
                whole(item, "item", self.name)
        return table

    # -- pieces -------------------------------------------------------------------------------------------------------

    def _insert(self, run_id: str, table: Table, rows: list[dict[str, Any]]) -> None:
        if rows:
            with self.writing(run_id) as connection:
                # At a second attempt they may have been committed just before the connection was lost.
                connection.execute(_ignoring_known(connection, table) if AGAIN.get() else insert(table), rows)

    def _append(self, connection: Connection, table: Table, run_id: str, **values: str) -> None:
        newest = select(func.coalesce(func.max(table.c.number), 0)).where(table.c.run_id == run_id)
        number = whole(connection.execute(newest).scalar_one(), "number", self.name)
        if AGAIN.get():
            there = select(table).where(table.c.run_id == run_id, table.c.number == number)
            row = connection.execute(there).mappings().first()
            if row is not None and all(row[name] == value for name, value in values.items()):
                return  # it was committed just before the connection was lost
        connection.execute(insert(table).values(run_id=run_id, number=number + 1, at=now(), **values))

    @patiently
    def _all(self, query: Select[Any]) -> Rows:
        with self.reading() as connection:
            return read(connection, query, self.name)

    def _mapping(self, row: Mapping[Any, Any], name: str) -> dict[str, Any]:
        return mapping(row[name], name, self.name)

    def _runs(self, connection: Connection, query: Select[Any]) -> tuple[Run, ...]:
        rows = read(connection, query, self.name)
        # The event that ended a run has its counts. Those of the others are counted: they may be going on.
        uncounted = [row["run_id"] for row in rows if f'"{COUNTS[0]}"' not in row["detail"]]
        counts: dict[str, Mapping[str, Any]] = {}
        for some in in_pieces(uncounted):
            counted = connection.execute(_counts().where(draws.c.run_id.in_(some))).mappings()
            counts |= {row["run_id"]: {name: row[name] for name in COUNTS} for row in counted}
        names: dict[str, tuple[str, ...]] = {}
        for row in read(connection, select(labels).order_by(labels.c.run_id, labels.c.label), self.name):
            names[row["run_id"]] = (*names.get(row["run_id"], ()), row["label"])
        found = [
            replace(self._run(row), **counts.get(row["run_id"], {}), labels=names.get(row["run_id"], ()))
            for row in rows
        ]
        at_work = locked_runs(connection, (run.run_id for run in found if run.status in GOING))
        return tuple(
            replace(run, status="interrupted") if run.status in GOING and run.run_id not in at_work else run
            for run in found
        )

    def _run(self, row: Mapping[Any, Any]) -> Run:
        summary = self._mapping(row, "detail") if row["status"] in SUMMED_UP else {}
        counts = {name: summary.pop(name) for name in COUNTS if name in summary}
        if not (is_summary(summary) and all(map(is_count, counts.values()))):
            summary, counts = {}, {}
        plain = {name: value for name, value in row.items() if name != "detail"}
        return Run(**(plain | {"plan": self._mapping(row, "plan"), "summary": summary} | counts))


def _newest_events() -> Select[Any]:
    """Return every run with the newest event that is its status, oldest run first."""
    newest = (
        select(func.max(events.c.number))
        .where(events.c.run_id == runs.c.run_id, events.c.status.not_in(RECORDS))
        .correlate(runs)
        .scalar_subquery()
    )
    return (
        select(runs, events.c.status, events.c.at.label("changed_at"), events.c.detail)
        .join(events, (events.c.run_id == runs.c.run_id) & (events.c.number == newest))
        .order_by(runs.c.created_at, runs.c.run_id)
    )


def _counts() -> Select[Any]:
    """Return what is counted of each run; the cost is NULL if the price of some answer is not known."""
    answered, cost = func.count(answers.c.draw), answers.c.cost_usd
    known = case((answered == func.count(cost), func.coalesce(func.sum(cost), 0.0)), else_=None)
    return (
        select(
            draws.c.run_id,
            func.count().label("draws"),
            answered.label("answers"),
            func.count(answers.c.failure).label("failures"),
            known.label("cost_usd"),
        )
        .select_from(draws.outerjoin(answers, _answer_of_draw))
        .group_by(draws.c.run_id)
    )


def _ignoring_known(connection: Connection, table: Table) -> Any:
    return IGNORE_KNOWN[connection.dialect.name](table).on_conflict_do_nothing()


def in_pieces(values: Sequence[T], most: int = MOST_NAMED) -> Iterator[Sequence[T]]:
    """Divide values into pieces that one query may name."""
    return (values[start : start + most] for start in range(0, len(values), most))


_UNSTORABLE = re.compile("[\ud800-\udfff\0]")
_ANSWER_COLUMNS = tuple(one.name for one in fields(Answer) if one.name != "asked_at")


def storable(text: str) -> str:
    """Return a text that both databases take: U+FFFD for NUL and for halves of surrogate pairs.

    >>> storable("a\\0b\\ud800")
    'a\ufffdb\ufffd'
    """
    return _UNSTORABLE.sub("\ufffd", text)


def answer_row(run_id: str, answer: Answer, at: float) -> dict[str, Any]:
    # `asdict` would copy every value, at a third of what the whole insert costs.
    row = {name: getattr(answer, name) for name in _ANSWER_COLUMNS}
    texts = {name: storable(value) for name, value in row.items() if isinstance(value, str)}
    return row | texts | {"run_id": run_id, "at": answer.asked_at or at}


def answer_from(row: Mapping[Any, Any]) -> Answer:
    return Answer(**{name: row[name] for name in _ANSWER_COLUMNS if name in row})


def _json(value: Any) -> str:
    # ASCII escapes carry any text, also one that the database would refuse.
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
