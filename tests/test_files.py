"""The boundary for files: whatever is named, what comes back is a value or one line."""

from __future__ import annotations

import json
import os
import socket
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cereval import files
from cereval.errors import BadContent, BadFile
from cereval.files import (
    open_regular,
    parse_json,
    parse_yaml,
    read_bytes,
    read_json,
    read_text,
    read_yaml,
)

READERS: list[Callable[[Path], Any]] = [open_regular, read_bytes, read_text, read_json, read_yaml]


def said(call: Callable[[], Any]) -> str:
    """What a call complains about, in one line and in time."""
    started = time.process_time()  # not of the clock on the wall: other processes may be at work
    with pytest.raises(BadFile) as caught:
        call()
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert len(line) < 400
    assert time.process_time() - started < 5
    return line


@pytest.mark.parametrize("reader", READERS)
def test_only_regular_files_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: Callable[[Path], Any]
) -> None:
    monkeypatch.chdir(tmp_path)  # so that lines are as long wherever the tests run
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
    for name, says in {
        "fifo": "pipe",
        "socket": "socket",
        "": "directory",
        "/dev/zero": "device",
        "loop": "cannot be read",
        "none": "does not exist (No such file",
        "x" * 300: "cannot be read",
        "nul\0": "name of a file",
        "fifo/x": "Not a directory",
    }.items():
        assert says in said(lambda name=name: reader(Path(name)))  # type: ignore[misc]


def test_no_more_than_the_limit_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(b"x" * 11)
    assert read_text(path, limit=11) == "x" * 11
    assert "larger than 10 bytes" in said(lambda: read_text(path, limit=10))
    with path.open("r+b") as file:
        file.truncate(2 * files.JSON_LIMIT)
    assert "256 MiB" in said(lambda: read_json(path))
    # Files under /proc claim to have no bytes: what is read counts.
    monkeypatch.setattr(files, "_check_size", lambda path, size, limit: None)  # noqa: ARG005
    assert len(read_bytes(path, limit=5)) == 6


def test_text_is_utf8_with_plain_newlines(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\rc\n")
    assert read_text(path) == "a\nb\nc\n"
    path.write_bytes(b"a\nb\xff")
    assert "line 2 has the byte 0xff" in said(lambda: read_text(path))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "broken JSON (Expecting value)"),
        ('{"a": 1,\n"b": }', "line 2 column 6"),
        ("[" * 100_000, "nested too deeply"),
        ("[" * 500 + "]" * 500, "nested too deeply"),
        ('{"a": ' * 101 + "1" + "}" * 101, "nested too deeply"),
        ('{"a": %s}' % ("9" * 5000), "thousands of digits"),
        ('{"a": [1, {"b": NaN}]}', "the field 'a[1].b' is nan"),
        ('{"a": -Infinity}', "the field 'a' is -inf"),
        ('{"a": 1e999}', "the field 'a' is inf"),
        ('{"a": "\\ud800"}', "the field 'a' has half a pair"),
        ('{"a": 1, "b": 2, "a": 3}', "has the key 'a' twice"),
        ('{"\\u001b[31m": NaN}', "is nan"),
    ],
)
def test_json_that_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    line = said(lambda: read_json(path))
    assert says in line
    assert "c.json" in line


def test_json_is_told_from_a_file_that_cannot_be_had(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_bytes(b"\xff")
    with pytest.raises(BadContent):
        read_json(tmp_path / "c.json")
    with pytest.raises(BadFile) as caught:
        read_json(tmp_path)
    assert not isinstance(caught.value, BadContent)


def test_a_bomb_of_empty_lists_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_PARTS", 1000)
    assert "1,002 lists and objects" in said(lambda: parse_json("[" + "[]," * 1000 + "[]]", "f"))


def test_halves_of_pairs_are_mended_where_asked() -> None:
    assert parse_json('{"\\ud800": ["\\udc00x", "\\ud83d\\ude00"]}', "f", mend=True) == {
        "\ufffd": ["\ufffdx", "\U0001f600"]
    }


def test_a_key_may_be_there_twice_where_asked(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('{"a": 1, "a": 2}')
    assert read_json(tmp_path / "c.json", unique=False) == {"a": 2}


BOMB = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 60))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 20_000, "nested too deeply"),
        ("- " * 20_000, "nested too deeply"),
        ("[" * 150 + "]" * 150, "nested too deeply"),
        ("&a [*a]", "nested too deeply"),
        (BOMB, "aliases written out"),
        (MERGES, "aliases written out"),
        ("a: " + "9" * 5000, "a number of 5,000 characters"),
        ("a: 1" + ":1" * 100_000, "a number of 200,001 characters"),
        ("a: 1" + ":1" * 400 + ".5", "not valid YAML"),
        ("a: 2001-99-99", "month must be in 1..12"),
        ("a: !!int x", "not valid YAML"),
        ("a: !!bool x", "not valid YAML"),
        ('a: !!int ""', "not valid YAML"),
        ("a: !!timestamp x", "not valid YAML"),
        ("a: !!python/object/apply:os.system [ls]", "not valid YAML"),
        ("a: .nan", "the field 'a' is nan"),
        ('a: "\\ud800"', "half a pair"),
        ("a: 1\na: 2", "the key 'a' twice"),
        ("? [a]\n: b", "not valid YAML"),
        ("a: \x1b[31m", "not valid YAML"),
        ("a: b\n---\nc: d", "not valid YAML"),
        ("a: [", "not valid YAML"),
    ],
)
def test_yaml_that_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(text)
    line = said(lambda: read_yaml(path))
    assert says in line
    assert "t.yaml" in line


def test_yaml_that_people_write(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text("base: &b {eps: 0.05}\nrun:\n  <<: *b\n  model: ünï\n  list: [1, true, null]\n")
    assert read_yaml(path)["run"] == {"eps": 0.05, "model": "ünï", "list": [1, True, None]}
    path.write_text("")
    assert read_yaml(path) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    assert parse_json(json.dumps(value), "f", unique=True) == value


@given(st.text(st.sampled_from("[]{}:,&*!|>-?\"'\\ud8a01e.n \n\t#")))
def test_any_text_is_a_value_or_one_line(text: str) -> None:
    for parse in (parse_json, parse_yaml):
        try:
            parse(text, "f")
        except BadFile as error:
            line = str(error)
            assert len(line.splitlines()) == 1


def test_room_is_made_for_the_file_and_not_for_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "small"
    path.write_bytes(b"abc")
    tracemalloc.start()
    try:
        assert read_bytes(path) == b"abc"
        assert tracemalloc.get_traced_memory()[1] < 4 * files.MIB
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")
def test_a_file_that_claims_to_be_empty_is_read_whole_and_no_further_than_its_limit() -> None:
    assert b"VmRSS" in read_bytes("/proc/self/status")
    assert "larger than 9 bytes" in said(lambda: read_bytes("/proc/self/status", 9))
