"""Store runs in SQL: one implementation for SQLite and PostgreSQL."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np
from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL

from cereval.arrays import Floats
from cereval.errors import NoSuchRun, StoreError
from cereval.files import is_file
from cereval.forecasts.pool import content_keys
from cereval.records import Draw
from cereval.store import database
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
    LARGEST,
    OF_A_RUN,
    Rows,
    check_schema,
    checked,
    create_schema,
    execute,
    insert_rows,
    mapping,
    patiently,
    plain_errors,
    whole,
)
from cereval.store.locks import Lease, lock_run, locked_runs
from cereval.text import did_you_mean, storable
from cereval.version import ENGINE

MOST_NAMED = 500
"""How many values one query may name."""

RUNS = """
SELECT runs.*, events.status, events.detail, events.recorded_at
FROM runs JOIN events ON events.run_id = runs.run_id AND events.number = (
    SELECT max(number) FROM events WHERE run_id = runs.run_id AND status NOT IN :records)
"""
"""Every run with the newest event that is its status."""

COUNTED = """
SELECT run_id, count(*) AS draws, count(answers.text) AS answers, count(failure) AS failures,
    CASE WHEN count(answers.text) = count(cost_usd) THEN coalesce(sum(cost_usd), 0.0) END AS cost_usd
FROM draws LEFT JOIN answers USING (run_id, draw) WHERE run_id IN :runs GROUP BY run_id
"""
"""The counts of runs; the cost is NULL if the price of some answer is not known."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SqlStore:
    """The store (see `cereval.store.base`), over SQLAlchemy; safe to use from several threads."""

    address: URL
    engine: Engine = field(repr=False)
    patient: bool = True
    """Whether to wait for a server that went away."""
    leases: dict[str, Lease] = field(default_factory=dict, repr=False, compare=False)
    """The runs that are locked here, on a server."""

    @classmethod
    def open(cls, url: str, *, reading: bool = False, patient: bool = True) -> SqlStore:
        address = database.parse_url(url)
        file = database.file_of(address)
        is_there = file is not None and is_file(file)
        if file is not None and not is_there:
            database.create_private(file)
        reading = file is not None and is_there and (reading or database.is_read_only(file))
        with plain_errors(address):
            store = cls(address, database.connect(address, reading=reading), patient)
        with store.reading() if reading else store.writing() as connection:
            (check_schema if reading else create_schema)(connection, store.name)
        return store

    @property
    def url(self) -> str:
        return self.address.render_as_string(hide_password=True)

    @property
    def name(self) -> str:
        return database.name_of(self.address)

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

    @patiently
    def read(self, sql: str, /, **values: Any) -> Rows:
        with self.reading() as connection:
            return checked(execute(connection, sql, **values).mappings().all(), self.name)

    # -- runs ---------------------------------------------------------------------------------------------------------

    @patiently
    def create_run(
        self, run_id: str, plan: Mapping[str, Any], data_hash: str, model: str, engine: int = ENGINE
    ) -> Run:
        """Record a plan; a run that is there already is returned if its plan is the same, else refused."""
        row = {"run_id": run_id, "plan": _json(plan), "data_hash": data_hash, "model": storable(model)}
        with self.writing() as connection:
            there = (
                execute(connection, "SELECT * FROM runs WHERE run_id = :run", run=run_id).mappings().first()
            )
            if there is None:
                insert_rows(connection, "runs", [row | {"created_at": now(), "engine": engine}])
                self._append(connection, "events", run_id, status="created", detail="{}")
            elif any(there[name] != value for name, value in row.items()):
                raise StoreError(f"{self.name} has another plan under the run id {run_id}")
        return self.run(run_id)

    def run(self, run_id: str) -> Run:
        """Return one run: by its id, by a name or tag (the newest), or by a beginning of its id that is its own."""
        ids = [row["run_id"] for row in self.read("SELECT run_id FROM runs")]
        found = [run_id] if run_id in ids else self._named(run_id)
        found = found or [one for one in ids if one.startswith(run_id)]
        if len(found) != 1 or not run_id:
            labels = [str(row["label"]) for row in self.read("SELECT DISTINCT label FROM labels")]
            hint = did_you_mean(run_id, found or [*labels, *ids])
            raise NoSuchRun(f"{self.name} has no single run {run_id!r}; {hint}")
        known = self._runs(f"{RUNS} WHERE runs.run_id = :run", run=found[0])
        if not known:
            raise StoreError(f"{self.name} is damaged: run {found[0]} has no events")
        return known[0]

    def _named(self, label: str) -> list[str]:
        sql = (
            "SELECT runs.run_id FROM runs JOIN labels ON labels.run_id = runs.run_id WHERE labels.label = :label "
            "ORDER BY runs.created_at DESC, runs.run_id DESC LIMIT 1"
        )
        return [row["run_id"] for row in self.read(sql, label=label)]

    def runs(self) -> tuple[Run, ...]:
        return self._runs(f"{RUNS} ORDER BY created_at, runs.run_id")

    def plans(self, data_hash: str | None = None) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        """Return the id and the plan of every run (on the same data), oldest first; quicker than `runs`."""
        where = "" if data_hash is None else "WHERE data_hash = :data"
        sql = f"SELECT run_id, plan FROM runs {where} ORDER BY created_at, run_id"
        rows = self.read(sql) if data_hash is None else self.read(sql, data=data_hash)
        return tuple((row["run_id"], self._mapping(row, "plan")) for row in rows)

    def data_of(self, run_ids: Collection[str]) -> Mapping[str, str]:
        wanted = set(run_ids)
        rows = self.read("SELECT run_id, data_hash FROM runs") if wanted else ()
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
            self._append(connection, "events", run_id, status=status, detail=_json(detail or {}))

    def events(self, run_id: str) -> tuple[Mapping[str, Any], ...]:
        rows = self.read("SELECT * FROM events WHERE run_id = :run ORDER BY number", run=run_id)
        return tuple(
            {"status": row["status"], "at": row["recorded_at"], "detail": self._mapping(row, "detail")}
            for row in rows
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
            self._append(connection, "certificates", run_id, content=_json(certificate))
            self._append(connection, "events", run_id, status=status, detail=_json(summary or {}))

    def certificates(self, run_id: str) -> tuple[Mapping[str, Any], ...]:
        rows = self.read("SELECT content FROM certificates WHERE run_id = :run ORDER BY number", run=run_id)
        return tuple(self._mapping(row, "content") for row in rows)

    @patiently
    def label(self, run_id: str, labels: Sequence[str]) -> None:
        """Add labels to a run; those that it has stay."""
        if labels:
            rows = [{"run_id": run_id, "label": storable(label)} for label in labels]
            with self.writing() as connection:
                insert_rows(connection, "labels", rows, ignore_known=True)

    @patiently
    def delete(self, run_ids: Sequence[str]) -> None:
        """Remove runs with all that belongs to them; nothing else ever removes anything."""
        with self.writing() as connection:
            for table in OF_A_RUN:
                execute(connection, f"DELETE FROM {table} WHERE run_id IN :runs", runs=list(run_ids))

    # -- items --------------------------------------------------------------------------------------------------------

    @patiently
    def add_items(self, data_hash: str, items: Iterable[Mapping[str, Any]]) -> None:
        """Keep a data set's items (JSON-able, with an `id`) in order; known ones are left alone."""
        with self.writing() as connection:
            if execute(connection, "SELECT item FROM items WHERE data_hash = :data", data=data_hash).first():
                return
            found = list(items)
            rows = [
                {"data_hash": data_hash, "item": number, "content": _json(item), "content_key": key}
                for number, (item, key) in enumerate(zip(found, content_keys(found), strict=True))
            ]
            if rows:
                # Another process may begin on the same data at this very moment.
                insert_rows(connection, "items", rows, ignore_known=True)

    def items(self, data_hash: str) -> tuple[Mapping[str, Any], ...]:
        sql = "SELECT content FROM items WHERE data_hash = :data ORDER BY item"
        return tuple(self._mapping(row, "content") for row in self.read(sql, data=data_hash))

    def content_keys(self, data_hash: str) -> tuple[str, ...]:
        """Return the keys of a data set's items in order (`cereval.forecasts.pool`)."""
        rows = self.read(
            "SELECT content_key FROM items WHERE data_hash = :data ORDER BY item", data=data_hash
        )
        return tuple(row["content_key"] for row in rows)

    def sharing(self, keys: Collection[str]) -> Mapping[str, int]:
        sql = "SELECT data_hash, count(*) AS shared FROM items WHERE content_key IN :keys GROUP BY data_hash"
        found = Counter[str]()
        for some in in_pieces(list(keys)):
            found.update({row["data_hash"]: row["shared"] for row in self.read(sql, keys=some)})
        return found

    # -- draws and answers --------------------------------------------------------------------------------------------

    @patiently
    def add_draws(self, run_id: str, draws: Sequence[Draw]) -> None:
        """Commit draws, before their calls go out."""
        names, at = ("run_id", "draw", "item", "probability", "at"), time.time()
        rows = [(run_id, int(one.index), int(one.item), float(one.probability), at) for one in draws]
        self._insert(run_id, "draws", [dict(zip(names, row, strict=True)) for row in rows])

    def draws(self, run_id: str) -> tuple[Draw, ...]:
        rows = self.read(
            "SELECT draw, item, probability FROM draws WHERE run_id = :run ORDER BY draw", run=run_id
        )
        return tuple(Draw(row["draw"], row["item"], row["probability"]) for row in rows)

    @patiently
    def add_answers(self, run_id: str, answers: Sequence[Answer]) -> None:
        """Commit answers, all or none."""
        at = time.time()
        self._insert(run_id, "answers", [answer_row(run_id, answer, at) for answer in answers])

    def answers(
        self, run_id: str, *, texts: bool = True, only: Sequence[int] | None = None
    ) -> tuple[Answer, ...]:
        """Return the answers in draw order. texts: with their texts. only: to these draws; None: to all."""
        names = (
            ", ".join(ANSWER_COLUMNS) if texts else ", ".join(ANSWER_COLUMNS).replace("text", "'' AS text", 1)
        )
        sql = f"SELECT {names} FROM answers WHERE run_id = :run"
        if only is None:
            return tuple(map(answer_from, self.read(f"{sql} ORDER BY draw", run=run_id)))
        pieces = (
            self.read(f"{sql} AND draw IN :some ORDER BY draw", run=run_id, some=some)
            for some in in_pieces(only)
        )
        return tuple(answer_from(row) for rows in pieces for row in rows)

    def count_cut_off(self, run_id: str) -> int:
        """Count the answers that a limit of tokens ended, and that are not quite right."""
        sql = "SELECT count(*) AS count FROM answers WHERE run_id = :run AND score < 1 AND finish_reason = 'length'"
        return int(self.read(sql, run=run_id)[0]["count"])

    def answered_at(self, run_id: str) -> tuple[float, ...]:
        rows = self.read("SELECT at FROM answers WHERE run_id = :run ORDER BY at", run=run_id)
        return tuple(row["at"] for row in rows)

    def kept_answers(self, data_hash: str, runs: Sequence[str], since: float) -> tuple[KeptAnswer, ...]:
        """Return the answers that runs on the same data paid for since a moment, oldest first, without failures."""
        sql = """
            SELECT draws.item, answers.* FROM runs JOIN draws USING (run_id) JOIN answers USING (run_id, draw)
            WHERE data_hash = :data AND runs.run_id IN :runs AND failure IS NULL AND answers.at >= :since
            ORDER BY answers.at"""
        rows = self.read(sql, data=data_hash, runs=list(runs), since=since)
        return tuple(KeptAnswer(row["item"], answer_from(row), row["run_id"], row["at"]) for row in rows)

    def rows(self, run_id: str) -> Iterator[tuple[Draw, Answer, float]]:
        """Yield every answer with its draw and the moment it was stored, in draw order, a few at a time in memory."""
        sql = """
            SELECT draws.item, draws.probability, answers.* FROM draws JOIN answers USING (run_id, draw)
            WHERE run_id = :run ORDER BY draw"""
        with self.reading() as connection:
            found = execute(connection.execution_options(yield_per=1000), sql, run=run_id).mappings()
            for rows in found.partitions(1000):
                for row in checked(rows, self.name):
                    yield Draw(row["draw"], row["item"], row["probability"]), answer_from(row), row["at"]

    # -- the scores of earlier runs -----------------------------------------------------------------------------------

    def cutoffs(self, data_hash: str) -> Mapping[str, int]:
        """Return, for each run on the same data with a score, its first draw without an answer.

        What lies before it can never change.
        """
        sql = """
            SELECT run_id, coalesce(min(CASE WHEN text IS NULL THEN draw END), max(draw) + 1) AS cutoff
            FROM runs JOIN draws USING (run_id) LEFT JOIN answers USING (run_id, draw)
            WHERE data_hash = :data GROUP BY run_id HAVING count(score) > 0"""
        rows = self.read(sql, data=data_hash)
        return {row["run_id"]: whole(row["cutoff"], "draw", self.name) for row in rows}

    def past_scores(self, data_hash: str, cutoffs: Mapping[str, int]) -> PastScores:
        """Return the scores of runs on the same data, each up to its cutoff: the first draw that is left out.

        Stores only grow, so that the same cutoffs always give the same scores. columns: places among the cutoffs.
        """
        known = {
            row["run_id"]
            for row in self.read("SELECT run_id FROM runs WHERE data_hash = :data", data=data_hash)
        }
        if lost := [run for run in cutoffs if run not in known]:
            raise StoreError(
                f"the run {lost[0]} is history of this one but not in this store; use the store it was made in"
            )
        # One array a run: a loop over every score would take longer than reading them.
        arrays = [self._scores(run, end) for run, end in cutoffs.items()]
        scores = np.vstack([np.empty((0, 2)), *arrays])
        columns = np.repeat(np.arange(len(arrays)), list(map(len, arrays)))
        return PastScores(scores[:, 0].astype(np.int64), columns.astype(np.int64), scores[:, 1])

    @patiently
    def _scores(self, run_id: str, cutoff: int) -> Floats:
        sql = """
            SELECT item, score FROM draws JOIN answers USING (run_id, draw)
            WHERE run_id = :run AND draw < :cutoff AND score IS NOT NULL ORDER BY draw"""
        with self.reading() as connection:
            # Plain tuples of the driver: a million rows of the library would take twice as long.
            rows = execute(connection, sql, run=run_id, cutoff=cutoff).cursor.fetchall()
        try:
            table = np.array(rows, dtype=np.float64).reshape(-1, 2)
        except (TypeError, ValueError):
            table = np.full((1, 2), np.nan)
        number = table[:, 0]
        if (
            not np.isfinite(table).all()
            or (np.abs(number) > LARGEST).any()
            or (number != np.rint(number)).any()
        ):
            checked([{"item": item, "score": score} for item, score in rows], self.name)
            for item, _ in rows:
                whole(item, "item", self.name)
        return table

    # -- pieces -------------------------------------------------------------------------------------------------------

    def _insert(self, run_id: str, table: str, rows: Rows) -> None:
        if rows:
            with self.writing(run_id) as connection:
                # At a second attempt they may have been committed just before the connection was lost.
                insert_rows(connection, table, rows, ignore_known=AGAIN.get())

    def _append(self, connection: Connection, table: str, run_id: str, **values: str) -> None:
        newest = f"SELECT * FROM {table} WHERE run_id = :run ORDER BY number DESC LIMIT 1"
        row = execute(connection, newest, run=run_id).mappings().first()
        number = 0 if row is None else whole(row["number"], "number", self.name)
        if AGAIN.get() and row is not None and all(row[name] == value for name, value in values.items()):
            return  # it was committed just before the connection was lost
        added = {"run_id": run_id, "number": number + 1, "recorded_at": now()}
        insert_rows(connection, table, [added | values])

    def _mapping(self, row: Mapping[Any, Any], name: str) -> dict[str, Any]:
        return mapping(row[name], name, self.name)

    def _runs(self, sql: str, **values: Any) -> tuple[Run, ...]:
        rows = self.read(sql, records=list(RECORDS), **values)
        # The event that ended a run has its counts. Those of the others are counted: they may be going on.
        uncounted = [row["run_id"] for row in rows if f'"{COUNTS[0]}"' not in row["detail"]]
        counts = {
            row["run_id"]: row for some in in_pieces(uncounted) for row in self.read(COUNTED, runs=some)
        }
        labels: dict[str, tuple[str, ...]] = {}
        for row in self.read("SELECT run_id, label FROM labels ORDER BY label"):
            labels[row["run_id"]] = (*labels.get(row["run_id"], ()), row["label"])
        found = [
            replace(self._run(row, counts.get(row["run_id"], {})), labels=labels.get(row["run_id"], ()))
            for row in rows
        ]
        with self.reading() as connection:
            at_work = locked_runs(connection, (run.run_id for run in found if run.status in GOING))
        return tuple(
            replace(run, status="interrupted") if run.status in GOING and run.run_id not in at_work else run
            for run in found
        )

    def _run(self, row: Mapping[Any, Any], counted: Mapping[Any, Any]) -> Run:
        summary = self._mapping(row, "detail") if row["status"] in SUMMED_UP else {}
        counts = {name: summary.pop(name) for name in COUNTS if name in summary}
        if not (is_summary(summary) and all(map(is_count, counts.values()))):
            summary, counts = {}, {}
        plain = {
            name: row[name] for name in ("run_id", "data_hash", "model", "status", "created_at", "engine")
        }
        plan, changed_at = self._mapping(row, "plan"), row["recorded_at"]
        counts |= {name: counted[name] for name in COUNTS if name in counted}
        return Run(plan=plan, changed_at=changed_at, summary=summary, **plain, **counts)


def in_pieces(values: Sequence[T], most: int = MOST_NAMED) -> Iterator[list[T]]:
    """Divide values into pieces that one query may name."""
    return (list(values[start : start + most]) for start in range(0, len(values), most))


ANSWER_COLUMNS = tuple(one.name for one in fields(Answer) if one.name != "asked_at")
answer_values = itemgetter(*ANSWER_COLUMNS)


def answer_row(run_id: str, answer: Answer, at: float) -> dict[str, Any]:
    # `asdict` would copy every value, at a third of what the whole insert costs.
    row = {name: getattr(answer, name) for name in ANSWER_COLUMNS}
    texts = {name: storable(value) for name, value in row.items() if isinstance(value, str)}
    return row | texts | {"run_id": run_id, "at": answer.asked_at or at}


def answer_from(row: Mapping[Any, Any]) -> Answer:
    return Answer(*answer_values(row))


def _json(value: Any) -> str:
    # ASCII escapes carry any text, also one that the database would refuse.
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
