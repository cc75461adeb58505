"""Files of every format that cereval reads, changed so that they are nearly what they should be."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import os
import random
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tests.fuzz.values import NUMBERS, TEXTS, hostile, mutated

Change = Callable[[Path, random.Random], None]


def spoil(path: Path, rng: random.Random) -> None:
    """Change one file: its structure as a rule, its bytes at times, and what kind of file it is now and then."""
    chance = rng.random()
    change = BY_SUFFIX.get(path.suffix, scrambled)
    if chance < 0.06:
        change = not_a_file
    elif chance < 0.2:
        change = scrambled
    change(path, rng)


def not_a_file(path: Path, rng: random.Random) -> None:
    """Put something else in the place of a file."""
    content = path.read_bytes()
    path.unlink()
    kind = rng.randrange(7)
    if kind == 0:
        path.mkdir()
    elif kind == 1:
        os.mkfifo(path)
    elif kind == 2:
        path.symlink_to(rng.choice(("/dev/zero", "/dev/random", "/proc/self/mem", "/dev/stdin", path.name)))
    elif kind == 3:
        path.write_bytes(b"")
    elif kind == 4:
        path.write_bytes(gzip.compress(content))
    elif kind == 5:
        with path.open("wb") as file:
            file.truncate(3 * 2**30)  # sparse: it takes no room
    # 6: it is missing


def scrambled(path: Path, rng: random.Random) -> None:
    """Change bytes without a thought for what they stand for."""
    content = bytearray(path.read_bytes())
    size = max(1, len(content))
    for _ in range(rng.choice((1, 3, 20))):
        start = rng.randrange(size)
        kind = rng.randrange(6)
        if kind == 0:
            content[start : start + 1] = rng.randbytes(1)
        elif kind == 1:
            del content[start:]
        elif kind == 2:
            content[start:start] = content[: rng.randrange(200)]
        elif kind == 3:
            content[start : start + 8] = b"\xff" * 8
        elif kind == 4:
            content[start:start] = rng.choice(
                (b"\x00", b"\xef\xbb\xbf", b"\xed\xa0\x80", b'"', b"\r", b"\n\n", b"[" * 3000)
            )
        else:
            del content[start : start + rng.randrange(60)]
        size = max(1, len(content))
    if rng.random() < 0.05:
        with suppress(UnicodeDecodeError):
            content = bytearray(bytes(content).decode().encode("utf-16"))
    path.write_bytes(content)


def written_json(value: Any, rng: random.Random) -> bytes:
    """JSON as careless programs write it: NaN, lone halves of pairs as escapes or raw, keys twice."""
    text = json.dumps(value, ensure_ascii=rng.random() < 0.7)
    if rng.random() < 0.03 and text.startswith("{") and len(text) > 2:
        text = '{"format": 1, ' + text[1:]
    return text.encode("utf-8", "surrogatepass")


# -- JSON: certificates, seals, saved sessions ------------------------------------------------------------------------


def changed_json(path: Path, rng: random.Random) -> None:
    """Change a certificate, a seal or a session; mostly its hashes are made to fit again."""
    value = mutated(json.loads(path.read_text()), rng)
    if isinstance(value, dict) and rng.random() < 0.7:
        with suppress(Exception):
            value = resealed(value)
    path.write_bytes(written_json(value, rng))


def resealed(value: dict[str, Any]) -> dict[str, Any]:
    """Compute run id, chain and digest anew, as whoever forges a certificate would."""
    from cereval.certificate.format import chained, digest
    from cereval.plan import Plan, digest_of
    from cereval.questions import formats

    if "plan" in value and "run_id" in value and "commitment" not in value:
        value["run_id"] = Plan.from_dict(value["plan"]).run_id
    if "chain" in value:
        start = formats()[value["format"]].begins_with
        value["chain"] = chained(digest_of(value[start]), value["log"])
    if "digest" in value:
        value["digest"] = digest({key: one for key, one in value.items() if key != "signature"})
    return value


# -- tables and questions ---------------------------------------------------------------------------------------------


def changed_rows(path: Path, rng: random.Random) -> None:
    """Change rows of JSONL, or write them as something else that readers know."""
    rows = [json.loads(line) for line in path.read_text().splitlines() if line]
    rows = spoilt_rows(rows, rng)
    if rng.random() < 0.15:
        path.write_bytes(written_json(rng.choice((rows, {"data": rows}, rows[:1], rows and rows[0])), rng))
        return
    lines = [written_json(row, rng) for row in rows]
    path.write_bytes(rng.choice((b"\n", b"\r\n", b"\n\n", b"\n")).join(lines))


def spoilt_rows(rows: list[Any], rng: random.Random) -> list[Any]:
    """Change some rows, a whole column, or how many there are."""
    kind = rng.randrange(6)
    if kind == 0 and rows:
        name, value = rng.choice(list(rows[0]) or ["a"]), hostile(rng)
        return [{**row, name: value} for row in rows]
    if kind == 1:
        return rng.choice(([], rows[:1], rows * 3, rows[:2] * 5))
    if kind == 2 and rows:
        name = rng.choice(list(rows[0]) or ["a"])
        return [{key: value for key, value in row.items() if key != name} for row in rows]
    if kind == 3:
        return [{f"c{number}": 1 for number in range(rng.choice((500, 3000)))}, *rows]
    found = list(rows)
    for _ in range(rng.choice((1, 2, 10))):
        if found:
            place = rng.randrange(len(found))
            found[place] = mutated(found[place], rng, 1)
    return found


def changed_table(path: Path, rng: random.Random) -> None:
    """Change a CSV or TSV file: cells, headers, widths, quotes."""
    tab = "\t" if path.suffix == ".tsv" else ","
    rows = [list(row) for row in csv.reader(io.StringIO(path.read_text()), delimiter=tab)]
    for _ in range(rng.choice((1, 1, 3, 12))):
        _changed_cells(rows, rng)
    text = io.StringIO()
    csv.writer(text, delimiter=tab, lineterminator=rng.choice(("\n", "\r\n"))).writerows(rows)
    content = text.getvalue().encode("utf-8", "surrogatepass")
    path.write_bytes(content if rng.random() < 0.9 else content.replace(b'"', b"").replace(b"1", b'"', 1))


def _changed_cells(rows: list[list[str]], rng: random.Random) -> None:
    if not rows or not rows[0]:
        rows.insert(0, ["item"])
    row, column = rng.choice(rows), rng.randrange(len(rows[0]))
    kind = rng.randrange(8)
    if kind <= 2 and column < len(row):
        row[column] = str(hostile(rng) if kind else rng.choice(NUMBERS[:18]))
    elif kind == 3:
        rows[0][column] = rng.choice((*rows[0], *TEXTS))
    elif kind == 4:
        row[:] = rng.choice(([], row[:1], row * 2, [*row, ""]))
    elif kind == 5:
        value = str(hostile(rng))
        for one in rows[1:]:
            one[column : column + 1] = [value]
    elif kind == 6:
        rows[:] = rng.choice((rows[:1], rows[:2], [*rows, *rows[1:]], rows[1:] or rows))
    else:
        for number, one in enumerate(rows):
            one += [f"c{index}" if not number else "1" for index in range(rng.choice((1, 1500)))]


def changed_parquet(path: Path, rng: random.Random) -> None:
    """Write a table of the same names with a column of another type."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    column = rng.randrange(table.num_columns)
    size = rng.choice((table.num_rows, table.num_rows, 0, 1))
    table = table.slice(0, size)
    odd = rng.choice(_columns(pa, size))
    name = rng.choice((table.column_names[column], table.column_names[column], *TEXTS[:4], "category"))
    table = table.set_column(column, name.encode("utf-8", "replace").decode(), odd)
    pq.write_table(table, path, row_group_size=rng.choice((None, 1)) if size else None)


def _columns(pa: Any, size: int) -> list[Any]:
    made: list[tuple[Any, Any]] = [
        (None, pa.null()),
        (2**62, pa.timestamp("us")),
        (-(2**62), pa.timestamp("ns", tz="Europe/Berlin")),
        (2**31 - 1, pa.date32()),
        (2**62, pa.duration("s")),
        (10**9, pa.time64("ns")),
        (b"\xff\xfe", pa.binary()),
        ([1.0, None, float("nan")], pa.list_(pa.float64())),
        ({"a": [{"b": None}]}, pa.struct([("a", pa.list_(pa.struct([("b", pa.int8())])))])),
        ([("k", 1), ("k", 2)], pa.map_(pa.string(), pa.int64())),
        (float("nan"), pa.float32()),
        (float("inf"), pa.float64()),
        (2**64 - 1, pa.uint64()),
        (True, pa.bool_()),
        ("x" * 50_000, pa.large_string()),
        ("", pa.string()),
    ]
    found = []
    for value, kind in made:
        plain = pa.int64() if pa.types.is_temporal(kind) and kind != pa.date32() else kind
        plain = pa.int32() if kind == pa.date32() else plain
        column = pa.array([value] * size, plain)
        found.append(column.view(kind) if plain != kind else column)
    return [*found, pa.array(["a"] * size).dictionary_encode()]


# -- settings, templates ----------------------------------------------------------------------------------------------

YAMLS = (
    "[" * 5000,
    "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\n"
    "c: &c [*b, *b, *b, *b, *b, *b, *b, *b]\n"
    "d: &d [*c, *c, *c, *c, *c, *c, *c, *c]\ne: [*d, *d, *d, *d, *d, *d, *d, *d]",
    "model: !!python/object/apply:os.getcwd []",
    "eps: !!int x",
    "eps: 1:1:1:1:1:1",
    "? [a, b]\n: c",
    "a: &a\n  <<: *a",
    "--- a\n--- b",
    "eps: 2026-13-45",
    "eps: !!timestamp 9999999999",
    "- a\n- b",
    "%YAML 9.9\n---\na: b",
    'a: "\\ud800"',
    "model: |\n  x\n y",
    "eps: .nan",
    "seed: 0b" + "1" * 4000,
)


def changed_yaml(path: Path, rng: random.Random) -> None:
    """Change settings, or write one of the texts that YAML has traps in."""
    import yaml

    if rng.random() < 0.3:
        path.write_text(rng.choice((rng.choice(YAMLS), path.read_text() + rng.choice(YAMLS))))
        return
    value = mutated(yaml.safe_load(path.read_text()), rng)
    # JSON is YAML, and has room for all that Python can hold.
    content = written_json(value, rng) if rng.random() < 0.5 else b""
    if not content:
        with suppress(RecursionError):  # what is nested too deeply for YAML's writer is an empty file
            content = yaml.safe_dump(value).encode("utf-8", "replace")
    path.write_bytes(content)


def changed_template(path: Path, rng: random.Random) -> None:
    """Write a prompt that is too long, too slow or broken."""
    path.write_text(rng.choice(TEMPLATES))


TEMPLATES = (
    "{% for i in range(10**9) %}x{% endfor %}",
    "{% for i in range(30000) %}{% for j in range(30000) %}{{ question }}{% endfor %}{% endfor %}",
    "{{ 'x' * 10**10 }}",
    "{{ question * 10**8 }}",
    "{{ [0] * 10**10 }}",
    "{{ (9**9)**9**9 }}",
    "{{ 9**(9**9) }}",
    "{{ '%9999999999d' % 1 }}",
    "{{ '{:>9999999999}'.format(1) }}",
    "{{ 'a'.ljust(10**10) }}",
    "{{ question.__class__.__mro__ }}",
    "{{ ''.__class__.__base__.__subclasses__() }}",
    "{{ lipsum(n=10**9) }}",
    "{{ range(10**12) | list }}",
    "{{ range(10**12) | sum }}",
    "{{ 'x' | center(10**10) }}",
    "{{ 'ab' | indent(10**10) }}",
    "{{ question | replace('', 'x' * 10**6) | replace('', 'x' * 10**6) }}",
    "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "{% set ns = namespace(a='xx') %}{% for i in range(60) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}{{ ns.a }}",
    "{% include 'x' %}",
    "{% import 'os' as os %}",
    "{{ undefined.x.y }}",
    "{{",
    "{% raw %}",
    "{% if " + "(" * 500 + "1" + ")" * 500 + " %}x{% endif %}",
    "{{ " + "-" * 3000 + "1 }}",
    "{{ question }}" * 5000,
    "{question!r:>9999999999} {answer}",
    "{question.__class__} {0} {}",
    "{question[0][0][0]}",
    "{answer:{question}}",
    "",
    "\x00{{ question }}\x1b[31m",
)


# -- logs of other tools ----------------------------------------------------------------------------------------------


def unpacked(path: Path) -> dict[str, Any]:
    """The JSON values inside a log of Inspect."""
    from cereval.integrations.logs.base import Archive

    with Archive(path) as archive:
        return {name: archive.json(name) for name in sorted(archive.names)}


def packed(path: Path, parts: dict[str, bytes]) -> None:
    """Write a log of Inspect."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def changed_log(path: Path, rng: random.Random) -> None:
    """Change parts of a log of Inspect, leave one out, or name one otherwise."""
    parts = {name: json.dumps(value).encode() for name, value in unpacked(path).items()}
    for _ in range(rng.choice((1, 1, 3))):
        name = rng.choice([*parts, "header.json"]) if "header.json" in parts else rng.choice(list(parts))
        kind = rng.random()
        if kind < 0.8:
            with suppress(ValueError, RecursionError):
                parts[name] = written_json(mutated(json.loads(parts[name]), rng), rng)
        elif kind < 0.9:
            parts[rng.choice((*parts, "../x.json", "samples/x.json", "\x1b[31m"))] = parts.pop(name)
        else:
            parts[name] = rng.choice((b"", b"[" * 5000, b"\xff", b" " * 2**25))
    packed(path, parts)


# -- stores -----------------------------------------------------------------------------------------------------------


def changed_store(path: Path, rng: random.Random) -> None:
    """Edit cells, rows and tables of a database; plans that were changed mostly get the id that fits them."""
    with closing(sqlite3.connect(path)) as store:
        store.text_factory = bytes
        store.execute("pragma journal_mode=delete")
        tables = [
            name.decode() for (name,) in store.execute("select name from sqlite_master where type='table'")
        ]
        for _ in range(rng.choice((1, 1, 2, 5))):
            with suppress(sqlite3.Error, OverflowError, UnicodeError, ValueError):
                _changed_table_of_store(store, rng.choice(tables), rng)
        store.commit()


def _changed_table_of_store(store: sqlite3.Connection, table: str, rng: random.Random) -> None:
    names = [row[1].decode() for row in store.execute(f"pragma table_info({table})")]
    rows = store.execute(f"select rowid, * from {table}").fetchall()
    kind = rng.random()
    if kind < 0.04:
        store.execute(
            rng.choice(
                (f"drop table {table}", f"delete from {table}", f"alter table {table} add column more")
            )
        )
    elif kind < 0.08:
        store.execute(f"alter table {table} rename column {rng.choice(names)} to other")
    elif kind < 0.16 and rows:
        store.execute(f"delete from {table} where rowid = ?", (rng.choice(rows)[0],))
    elif rows:
        row, column = rng.choice(rows), rng.randrange(len(names))
        old = row[column + 1]
        new = _cell(old, rng)
        store.execute(f"update {table} set {names[column]} = ? where rowid = ?", (new, row[0]))
        if names[column] == "plan" and isinstance(new, str) and rng.random() < 0.7:
            _renamed(store, row[1 + names.index("run_id")], new)


def _cell(old: Any, rng: random.Random) -> Any:
    if isinstance(old, bytes) and old[:1] in (b"{", b"[") and rng.random() < 0.85:
        with suppress(ValueError, RecursionError):
            return written_json(mutated(json.loads(old), rng), rng).decode("utf-8", "replace")
    value = hostile(rng)
    if isinstance(value, str):
        return (
            value.encode("utf-8", "surrogatepass")
            if rng.random() < 0.2
            else value.encode("utf-8", "replace").decode()
        )
    if isinstance(value, list | dict):
        return json.dumps(value)
    return float(value) if isinstance(value, int) and abs(value) >= 2**63 and value < 10**300 else value


def _renamed(store: sqlite3.Connection, old: bytes, plan: Any) -> None:
    """Give a run whose plan was changed the id that it would have."""
    with suppress(ValueError, RecursionError):
        plan = json.dumps(json.loads(plan), sort_keys=True, separators=(",", ":"))
    new = hashlib.sha256(plan.encode()).hexdigest()[:12]
    for table in ("runs", "events", "draws", "answers", "certificates", "labels"):
        store.execute(f"update {table} set run_id = ? where run_id = ?", (new, old.decode()))


BY_SUFFIX: dict[str, Change] = {
    ".json": changed_json,
    ".jsonl": changed_rows,
    ".csv": changed_table,
    ".tsv": changed_table,
    ".parquet": changed_parquet,
    ".yaml": changed_yaml,
    ".txt": changed_template,
    ".db": changed_store,
    ".eval": changed_log,
}
