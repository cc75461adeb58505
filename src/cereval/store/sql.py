"""Store runs in SQL: one implementation for SQLite and PostgreSQL."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any

from sqlalchemy import Connection, Engine, Select, Table, case, delete, func, insert, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL

from cereval.errors import StoreError
from cereval.forecasts.pool import content_keys
from cereval.records import Draw
from cereval.store import schema
from cereval.store.base import COUNTS, Answer, KeptAnswer, PastScores, Run
from cereval.store.cells import checked, is_count, is_summary, mapping, read, whole
from cereval.store.engine import connected, connected_reading, is_file, is_read_only, made_private, parsed
from cereval.store.faults import place, translated
from cereval.store.history import first_open, past_scores
from cereval.store.holds import Lease, held, holding
from cereval.store.patience import AGAIN, patiently
from cereval.store.schema import check_schema, create_schema, now
from cereval.store.status import GOING, RECORDS, SUMMED_UP
from cereval.text import did_you_mean
from cereval.version import ENGINE

ELSEWHERE = -1
"""The number under which is kept where the items of a large data set lie."""

MOST_NAMED = 500
"""Runs named in one query."""


@dataclass(frozen=True, slots=True)
class SqlStore:
    """Keep runs through SQLAlchemy Core, as a `Store`; safe to use from several threads."""

    address: URL
    engine: Engine = field(repr=False)
    leases: dict[str, Lease] = field(default_factory=dict, repr=False, compare=False)
    """Those of the runs that are held here, on a server."""

    @classmethod
    def open(cls, url: str, *, reading: bool = False) -> SqlStore:
        address = parsed(url)
        if is_read_only(address) or (reading and is_file(address)):
            return cls._open_reading(address)
        made_private(address)
        store = cls(address, connected(address))
        with store.writing() as connection:
            create_schema(connection, place(address))
        return store

    @classmethod
    def _open_reading(cls, address: URL) -> SqlStore:
        """Open a file that cannot be written to, or is only to be read."""
        with translated(address):
            store = cls(address, connected_reading(address))
        with store.reading() as connection:
            check_schema(connection, place(address))
        return store

    @property
    def url(self) -> str:
        return self.address.render_as_string(hide_password=True)

    def close(self) -> None:
        self.engine.dispose()

    @patiently
    def create_run(
        self, run_id: str, plan: Mapping[str, Any], data_hash: str, model: str, engine: int = ENGINE
    ) -> Run:
        row = {"run_id": run_id, "plan": _json(plan), "data_hash": data_hash, "model": storable(model)}
        with self.writing() as connection:
            there = (
                connection.execute(select(schema.runs).where(schema.runs.c.run_id == run_id))
                .mappings()
                .first()
            )
            if there is None:
                connection.execute(insert(schema.runs).values(**row, created_at=now(), engine=engine))
                self._append(connection, schema.events, run_id, status="created", detail="{}")
            elif any(there[name] != value for name, value in row.items()):
                raise StoreError(f"{place(self.address)} holds another plan under the run id {run_id}")
        return self.run(run_id)

    @patiently
    def run(self, run_id: str) -> Run:
        with self.reading() as connection:
            rows = read(connection, select(schema.runs.c.run_id), place(self.address))
            ids = [row["run_id"] for row in rows]
            found = [known for known in ids if known == run_id] or [k for k in ids if k.startswith(run_id)]
            if len(found) != 1 or not run_id:
                hint = did_you_mean(run_id, found or ids)
                raise StoreError(f"{place(self.address)} has no single run {run_id!r}; {hint}")
            whole = self._runs(connection, _summaries().where(schema.runs.c.run_id == found[0]))
            if not whole:
                raise StoreError(f"{place(self.address)} is damaged: run {found[0]} has no events")
            return whole[0]

    @patiently
    def runs(self) -> tuple[Run, ...]:
        with self.reading() as connection:
            return self._runs(connection, _summaries())

    @contextmanager
    def hold(self, run_id: str) -> Iterator[None]:
        with ExitStack() as stack:
            lease = self._held(run_id, stack)
            if lease is not None:
                self.leases[run_id] = lease
                stack.callback(self.leases.pop, run_id, None)
            yield

    @patiently
    def _held(self, run_id: str, stack: ExitStack) -> Lease | None:
        with translated(self.address):
            return stack.enter_context(holding(self.engine, run_id))

    def back(self) -> None:
        """Hold again, after an outage, what was held; refuse where another process took it over."""
        for lease in tuple(self.leases.values()):
            with translated(self.address):
                lease.take_again()

    @patiently
    def mark(self, run_id: str, status: str, detail: Mapping[str, Any] | None = None) -> None:
        with self.writing(run_id) as connection:
            self._append(connection, schema.events, run_id, status=status, detail=_json(detail or {}))

    def events(self, run_id: str) -> tuple[Mapping[str, Any], ...]:
        rows = self._all(
            select(schema.events).where(schema.events.c.run_id == run_id).order_by(schema.events.c.number)
        )
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
        with self.writing(run_id) as connection:
            self._append(connection, schema.certificates, run_id, content=_json(certificate))
            self._append(connection, schema.events, run_id, status=status, detail=_json(summary or {}))

    @patiently
    def label(self, run_id: str, labels: Sequence[str]) -> None:
        table = schema.labels
        with self.writing() as connection:
            there = set(connection.execute(select(table.c.label).where(table.c.run_id == run_id)).scalars())
            rows = [
                {"run_id": run_id, "label": storable(one)}
                for one in dict.fromkeys(labels)
                if one not in there
            ]
            if rows:
                connection.execute(insert(table), rows)

    @patiently
    def delete(self, run_ids: Sequence[str]) -> None:
        tables = (
            schema.answers,
            schema.draws,
            schema.certificates,
            schema.events,
            schema.labels,
            schema.leases,
            schema.replies,
            schema.ratings,
            schema.runs,
        )
        with self.writing() as connection:
            for table in tables:
                connection.execute(delete(table).where(table.c.run_id.in_(list(run_ids))))

    def rows(self, run_id: str) -> Iterator[tuple[Draw, Answer, float]]:
        drawn, told = schema.draws, schema.answers
        query = (
            select(drawn.c.item, drawn.c.probability, told)
            .join(told, (told.c.run_id == drawn.c.run_id) & (told.c.draw == drawn.c.draw))
            .where(drawn.c.run_id == run_id)
            .order_by(drawn.c.draw)
        )
        with self.reading() as connection:
            found = connection.execution_options(yield_per=1000).execute(query).mappings()
            for rows in found.partitions():
                for row in checked(rows, query, place(self.address)):
                    yield Draw(row["draw"], row["item"], row["probability"]), answer_from(row), row["at"]

    def certificates(self, run_id: str) -> tuple[Mapping[str, Any], ...]:
        table = schema.certificates
        rows = self._all(select(table.c.content).where(table.c.run_id == run_id).order_by(table.c.number))
        return tuple(self._mapping(row, "content") for row in rows)

    @patiently
    def add_items(self, data_hash: str, items: Iterable[Mapping[str, Any]]) -> None:
        table = schema.items
        with self.writing() as connection:
            known = select(func.count()).select_from(table).where(table.c.data_hash == data_hash)
            if connection.execute(known).scalar_one():
                return
            found = list(items)
            rows = [
                {"data_hash": data_hash, "item": number, "content": _json(item), "content_key": key}
                for number, (item, key) in enumerate(zip(found, content_keys(found), strict=True))
            ]
            if rows:
                # Another process may begin on the same data at this very moment.
                made = _NEW[connection.dialect.name](table).on_conflict_do_nothing()
                connection.execute(made, rows)

    def items(self, data_hash: str) -> tuple[Mapping[str, Any], ...]:
        table = schema.items
        kept = (table.c.data_hash == data_hash) & (table.c.item >= 0)
        rows = self._all(select(table.c.content).where(kept).order_by(table.c.item))
        return tuple(self._mapping(row, "content") for row in rows)

    def content_keys(self, data_hash: str) -> tuple[str, ...]:
        table = schema.items
        query = select(table.c.content_key).where(table.c.data_hash == data_hash).order_by(table.c.item)
        with self.reading() as connection:
            return tuple(connection.execute(query).scalars())

    def sharing(self, keys: Collection[str]) -> Mapping[str, int]:
        table, wanted, found = schema.items, list(keys), Counter[str]()
        with self.reading() as connection:
            for start in range(0, len(wanted), MOST_NAMED):
                among = table.c.content_key.in_(wanted[start : start + MOST_NAMED])
                query = select(table.c.data_hash, func.count()).where(among).group_by(table.c.data_hash)
                found.update({row[0]: row[1] for row in connection.execute(query)})
        return found

    def data_of(self, run_ids: Collection[str]) -> Mapping[str, str]:
        wanted = set(run_ids)
        rows = self._all(select(schema.runs.c.run_id, schema.runs.c.data_hash)) if wanted else ()
        return {row["run_id"]: row["data_hash"] for row in rows if row["run_id"] in wanted}

    @patiently
    def add_source(self, data_hash: str, source: Mapping[str, Any]) -> None:
        if self.source(data_hash) == source:
            return
        table = schema.items
        here = (table.c.data_hash == data_hash) & (table.c.item == ELSEWHERE)
        with self.writing() as connection:
            connection.execute(delete(table).where(here))
            made = _NEW[connection.dialect.name](table).on_conflict_do_nothing()
            row = {"data_hash": data_hash, "item": ELSEWHERE, "content": _json(source), "content_key": ""}
            connection.execute(made, [row])

    def source(self, data_hash: str) -> Mapping[str, Any] | None:
        table = schema.items
        rows = self._all(
            select(table.c.content).where(table.c.data_hash == data_hash, table.c.item == ELSEWHERE)
        )
        return self._mapping(rows[0], "content") if rows else None

    @patiently
    def add_draws(self, run_id: str, draws: Sequence[Draw]) -> None:
        at = time.time()
        rows = [
            {
                "run_id": run_id,
                "draw": int(draw.index),
                "item": int(draw.item),
                "probability": float(draw.probability),
                "at": at,
            }
            for draw in draws
        ]
        self._insert(run_id, schema.draws, rows)

    def draws(self, run_id: str) -> tuple[Draw, ...]:
        table = schema.draws
        rows = self._all(select(table).where(table.c.run_id == run_id).order_by(table.c.draw))
        return tuple(Draw(row["draw"], row["item"], row["probability"]) for row in rows)

    @patiently
    def add_answers(self, run_id: str, answers: Sequence[Answer]) -> None:
        at = time.time()
        self._insert(run_id, schema.answers, [answer_row(run_id, answer, at) for answer in answers])

    def answers(self, run_id: str, *, texts: bool = True) -> tuple[Answer, ...]:
        table = schema.answers
        columns = [column for column in table.c if texts or column.name != "text"]
        rows = self._all(select(*columns).where(table.c.run_id == run_id).order_by(table.c.draw))
        return tuple(map(answer_from, rows))

    def kept_answers(self, data_hash: str, runs: Sequence[str], since: float) -> tuple[KeptAnswer, ...]:
        drawn, told = schema.draws, schema.answers
        query = (
            select(drawn.c.item, told)
            .join(told, (told.c.run_id == drawn.c.run_id) & (told.c.draw == drawn.c.draw))
            .join(schema.runs, schema.runs.c.run_id == drawn.c.run_id)
            .where(schema.runs.c.data_hash == data_hash, drawn.c.run_id.in_(list(runs)))
            .where(told.c.failure.is_(None), told.c.at >= since)
            .order_by(told.c.at)
        )
        return tuple(
            KeptAnswer(row["item"], answer_from(row), row["run_id"], row["at"]) for row in self._all(query)
        )

    def answered_at(self, run_id: str) -> tuple[float, ...]:
        table = schema.answers
        rows = self._all(select(table.c.at).where(table.c.run_id == run_id).order_by(table.c.at))
        return tuple(row["at"] for row in rows)

    def plans(self, data_hash: str | None = None) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        table = schema.runs
        query = select(table.c.run_id, table.c.plan).order_by(table.c.created_at, table.c.run_id)
        rows = self._all(query if data_hash is None else query.where(table.c.data_hash == data_hash))
        return tuple((row["run_id"], self._mapping(row, "plan")) for row in rows)

    @patiently
    def cutoffs(self, data_hash: str) -> Mapping[str, int]:
        with self.reading() as connection:
            return first_open(connection, data_hash, place(self.address))

    @patiently
    def past_scores(
        self,
        data_hash: str,
        *,
        runs: Collection[str] | None = None,
        cutoffs: Mapping[str, int] | None = None,
    ) -> PastScores:
        with self.reading() as connection:
            return past_scores(connection, data_hash, runs, cutoffs, place(self.address))

    def _insert(self, run_id: str, table: Table, rows: list[dict[str, Any]]) -> None:
        if rows:
            with self.writing(run_id) as connection:
                made = insert(table)
                if AGAIN.get():
                    # They may have been committed just before the connection was lost.
                    made = _NEW[connection.dialect.name](table).on_conflict_do_nothing()
                connection.execute(made, rows)

    def _append(self, connection: Connection, table: Table, run_id: str, **values: str) -> None:
        newest = select(func.coalesce(func.max(table.c.number), 0)).where(table.c.run_id == run_id)
        number = whole(connection.execute(newest).scalar_one(), "number", place(self.address))
        if AGAIN.get():
            there = select(table).where(table.c.run_id == run_id, table.c.number == number)
            row = connection.execute(there).mappings().first()
            if row is not None and all(row[name] == value for name, value in values.items()):
                return  # it was committed just before the connection was lost
        connection.execute(insert(table).values(run_id=run_id, number=number + 1, at=now(), **values))

    @patiently
    def _all(self, query: Select[Any]) -> Sequence[Mapping[Any, Any]]:
        with self.reading() as connection:
            return read(connection, query, place(self.address))

    def _mapping(self, row: Mapping[Any, Any], name: str) -> dict[str, Any]:
        return mapping(row[name], name, place(self.address))

    def _runs(self, connection: Connection, query: Select[Any]) -> tuple[Run, ...]:
        where = place(self.address)
        rows = read(connection, query, where)
        uncounted = [row["run_id"] for row in rows if f'"{COUNTS[0]}"' not in row["detail"]]
        counts, labels = _counted(connection, uncounted), _labelled(connection, where)
        found = [
            replace(self._run(row), **counts.get(row["run_id"], {}), labels=labels.get(row["run_id"], ()))
            for row in rows
        ]
        at_work = held(connection, (run.run_id for run in found if run.status in GOING))
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

    @contextmanager
    def writing(self, run_id: str = "") -> Iterator[Connection]:
        """Open a transaction; on a run that is held here, one that confirms the hold."""
        with translated(self.address), self.engine.begin() as connection:
            if run_id in self.leases:
                self.leases[run_id].confirm(connection)
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a connection that only reads."""
        with translated(self.address), self.engine.connect() as connection:
            yield connection.execution_options(reading=True)


_NEW: Mapping[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
"""Inserts that can pass over what is there."""

_UNSTORABLE = re.compile("[\ud800-\udfff\0]")
_COLUMNS = tuple(field.name for field in fields(Answer) if field.name != "asked_at")


def storable(text: str) -> str:
    """Return a text that both databases take: U+FFFD for NUL and for halves of surrogate pairs.

    >>> storable("a\\0b\\ud800")
    'a\ufffdb\ufffd'
    """
    return _UNSTORABLE.sub("\ufffd", text)


def answer_row(run_id: str, answer: Answer, at: float) -> dict[str, Any]:
    # `asdict` would copy every value, at a third of what the whole insert costs.
    row = {name: getattr(answer, name) for name in _COLUMNS}
    texts = {name: storable(value) for name, value in row.items() if isinstance(value, str)}
    return row | texts | {"run_id": run_id, "at": answer.asked_at or at}


def answer_from(row: Mapping[Any, Any]) -> Answer:
    return Answer(
        **{key: value for key, value in row.items() if key not in ("run_id", "at", "item", "probability")}
    )


def _summaries() -> Select[Any]:
    """Return every run with the newest event that is its status, oldest run first."""
    runs, events = schema.runs, schema.events
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


def _counted(connection: Connection, run_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the answers of runs counted one by one, for those whose newest event does not say: they may be going
    on."""
    found: dict[str, dict[str, Any]] = {}
    table = schema.answers
    for start in range(0, len(run_ids), MOST_NAMED):
        query = (
            select(
                table.c.run_id, func.count().label("answers"), func.count(table.c.failure).label("failures")
            )
            .add_columns(_cost().label("cost_usd"))
            .where(table.c.run_id.in_(run_ids[start : start + MOST_NAMED]))
            .group_by(table.c.run_id)
        )
        for row in connection.execute(query).mappings():
            found[row["run_id"]] = {name: row[name] for name in COUNTS if name in row}
        drawn = (
            select(schema.draws.c.run_id, func.count().label("draws"))
            .where(schema.draws.c.run_id.in_(run_ids[start : start + MOST_NAMED]))
            .group_by(schema.draws.c.run_id)
        )
        for row in connection.execute(drawn).mappings():
            found.setdefault(row["run_id"], {})["draws"] = row["draws"]
    return found


def _labelled(connection: Connection, where: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    query = select(schema.labels).order_by(schema.labels.c.run_id, schema.labels.c.label)
    for row in read(connection, query, where):
        found[row["run_id"]] = (*found.get(row["run_id"], ()), row["label"])
    return found


def _cost() -> Any:
    """Return what the answers cost together; NULL from the first one on whose price is not known."""
    cost = schema.answers.c.cost_usd
    known = func.count() == func.count(cost)
    return case((known, func.coalesce(func.sum(cost), 0.0)), else_=None)


def _json(value: Any) -> str:
    # ASCII escapes carry any text, also one that the database would refuse.
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
