"""Read files at the one boundary for them, and write them whole or not at all.

Obligations of every function that reads:
- a FIFO, a device, a socket or a folder is refused at once, and nothing is read past its limit;
- every foreign error becomes one line with the place: `BadFile` where the file cannot be had, its subclass
  `BadContent` where it was read but does not hold what it should;
- values that come back can be stored, hashed and sent: finite numbers, whole Unicode, at most `DEEPEST` levels.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from cereval.errors import BadContent, BadFile, shown
from cereval.text import REPLACEMENT, printable

MIB = 2**20
TEXT_LIMIT = 16 * MIB
"""Bytes of a template, a prompt or another text."""

YAML_LIMIT = 1 * MIB
"""Bytes of a settings file: they are a few hundred as a rule, and the parser takes some 10 s for each MiB."""

JSON_LIMIT = 256 * MIB
"""Bytes of a certificate or a seal."""

DATA_LIMIT = 1024 * MIB
"""Bytes of a table or a data set, which is held in memory."""

DEEPEST = 100
"""Levels of lists and mappings: Python's own limit is near 1,000, and whoever walks the value needs some of it."""

MOST_PARTS = 5_000_000
"""Lists and mappings in one JSON value: three bytes of `[],` take seventy in memory."""

MOST_NODES = 100_000
"""Values of a YAML file with its aliases written out: nine short lines can stand for a billion."""

LONGEST_NUMBER = 1000
"""Characters of a number in YAML, which also knows `1:1:1...` to the base 60, at quadratic cost."""

PathLikeText = str | PathLike[str]


def open_regular(path: PathLikeText, limit: int = DATA_LIMIT) -> BinaryIO:
    """Open a regular file of at most `limit` bytes for reading; anything else is refused without waiting for it."""
    # Without O_NONBLOCK the mere opening of a FIFO waits for a writer, for ever.
    flags = (
        os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    )
    try:
        _check_kind(path, Path(path).stat().st_mode)
        number = os.open(path, flags)
    except FileNotFoundError as error:
        raise BadFile(f"{path} does not exist ({error.strerror}); check the path{_from_here(path)}") from None
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise BadFile(f"{shown(str(path))} cannot be the name of a file: {error}") from None
    file = os.fdopen(number, "rb")
    try:
        # Again, on what was opened: the name may have changed hands.
        status = os.fstat(number)
        _check_kind(path, status.st_mode)
        _check_size(path, status.st_size, limit)
    except BadFile:
        file.close()
        raise
    return file


def read_bytes(path: PathLikeText, limit: int = DATA_LIMIT) -> bytes:
    with open_regular(path, limit) as file:
        try:
            # As much as it claims: room would be made for all that is allowed. Then up to one byte more than allowed,
            # for some files of the system claim to be empty.
            content = file.read(min(os.fstat(file.fileno()).st_size, limit) + 1)
            while more := file.read(min(MIB, limit + 1 - len(content))):
                content += more
        except OSError as error:
            raise BadFile(f"{path} cannot be read: {error.strerror or error}") from None
    _check_size(path, len(content), limit)
    return content


def read_text(path: PathLikeText, limit: int = TEXT_LIMIT) -> str:
    """Read a file of UTF-8 text, with or without a byte order mark; every line ends in a plain newline."""
    text = decoded(read_bytes(path, limit), str(path))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: PathLikeText, limit: int = JSON_LIMIT, *, unique: bool = True) -> Any:
    """Read the JSON value in a file; with `unique` a key that is there twice is refused."""
    return parse_json(decoded(read_bytes(path, limit), str(path)), str(path), unique=unique)


def read_yaml(path: PathLikeText, limit: int = YAML_LIMIT) -> Any:
    """Read the YAML document in a file: plain values, each key once, aliases as far as they stay small."""
    return parse_yaml(read_text(path, limit), str(path))


def decoded(content: bytes, place: str, first_line: int = 1) -> str:
    """Decode UTF-8; what is not UTF-8 is named by its line, counted from `first_line`.

    >>> decoded(b"\\xef\\xbb\\xbfabc", "f")
    'abc'
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + first_line
        byte = content[error.start]
        raise BadContent(
            f"{place} is not UTF-8 text (line {line} has the byte 0x{byte:02x}); convert it first"
        ) from None


def parse_json(
    text: str, place: str, *, unique: bool = False, mend: bool = False, loose: bool = False, hint: str = ""
) -> Any:
    """Parse one JSON value that came from `place`; `mend` puts U+FFFD for half a pair instead of refusing it.

    `loose` reads NaN as None, and leaves all else as it is. `hint` ends the line that says that it is no JSON.

    >>> parse_json('{"a": [1.5, "x"]}', "f")
    {'a': [1.5, 'x']}
    """
    parts = text.count("[") + text.count("{")
    if parts > MOST_PARTS:
        raise BadContent(
            f"{place}: {parts:,} lists and objects in one JSON value; at most {MOST_PARTS:,} are read"
        )
    try:
        value = json.loads(
            text,
            object_pairs_hook=unique_keys if unique else None,
            parse_constant=(lambda _: None) if loose else None,
        )
    except _Flaw as flaw:
        raise BadContent(f"{place}: broken JSON ({flaw.reason}){hint}") from None
    except json.JSONDecodeError as error:
        where = f", line {error.lineno} column {error.colno}" if "\n" in text.strip() else ""
        raise BadContent(f"{place}: broken JSON ({error.msg}{where}){hint}") from None
    except RecursionError:
        raise BadContent(f"{place}: broken JSON (nested too deeply){hint}") from None
    except ValueError:
        # What is left: Python's guard against numbers that take quadratic time.
        raise BadContent(f"{place}: broken JSON (a whole number with thousands of digits){hint}") from None
    return value if loose else cleaned(value, place, mend=mend)


def parse_yaml(text: str, place: str) -> Any:
    """Parse one YAML document that came from `place` into plain values.

    >>> parse_yaml("model: openai/m\\neps: 0.05", "f")
    {'model': 'openai/m', 'eps': 0.05}
    """
    try:
        value = _document(text)
    except RecursionError:
        raise BadContent(f"{place} is not valid YAML: nested too deeply") from None
    except Exception as error:
        # Tags such as `!!int x` reach Python's own functions, which raise whatever they like.
        said = printable(" ".join(str(error).split()), 200) or type(error).__name__
        raise BadContent(f"{place} is not valid YAML: {said}") from None
    return cleaned(value, place)


def _document(text: str) -> Any:
    """Build the values of a YAML document, measured before aliases and merges are worked out."""
    import yaml

    # Not the C loader: it recurses on the machine's own stack, whose end is no exception.
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _Nodes().check(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def cleaned(value: Any, place: str, *, mend: bool = False) -> Any:
    """Copy a value from `place`; a number that is not finite is refused, and so is half a Unicode pair unless mended.

    >>> cleaned({"a": ["\\ud800"]}, "f", mend=True)
    {'a': ['�']}
    """
    try:
        return _clean(value, _mended if mend else _whole, DEEPEST)
    except _Flaw as flaw:
        raise BadContent(f"{place}: {flaw}") from None


class _Flaw(BadContent):
    """Report what is wrong with a value, and the way to it from outside in, filled in on the way out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.way: list[str] = []

    def __str__(self) -> str:
        field = "".join(reversed(self.way)).removeprefix(".")
        return f"the field {printable(field, 80)!r} {self.reason}" if field else f"it {self.reason}"


def _clean(value: Any, text: Callable[[str], str], spare: int) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else text(value)
    if isinstance(value, float) and not isfinite(value):
        raise _Flaw(f"is {value}, which is no number that JSON has; leave it out, or write null")
    if not isinstance(value, dict | list | tuple):
        return value
    if spare == 0:
        raise _Flaw(f"is nested too deeply; at most {DEEPEST} levels are read")
    if isinstance(value, dict):
        return {_key(key, text): _part(inner, text, spare, key) for key, inner in value.items()}
    return [_part(inner, text, spare, number) for number, inner in enumerate(value)]


def _part(value: Any, text: Callable[[str], str], spare: int, key: Any) -> Any:
    try:
        return _clean(value, text, spare - 1)
    except _Flaw as flaw:
        flaw.way.append(f"[{key}]" if isinstance(key, int) else f".{key}")
        raise


def _key(key: Any, text: Callable[[str], str]) -> Any:
    return text(key) if isinstance(key, str) and not key.isascii() else key


def _mended(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(REPLACEMENT if "\ud800" <= letter <= "\udfff" else letter for letter in text)
    return text


def _whole(text: str) -> str:
    if _mended(text) != text:
        raise _Flaw(
            f"has half a pair of Unicode (a lone surrogate) in {shown(text, 40)}; write the whole letter"
        )
    return text


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of JSON, as a hook of `json.loads`; a key that is there twice is refused."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Flaw(f"has the key {_twice([key for key, _ in pairs])} twice")
    return found


def _twice(keys: list[str]) -> str:
    return shown(Counter(keys).most_common(1)[0][0], 40)


class _Nodes:
    """Count the nodes of a YAML document, before aliases and merges are worked out."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.open: set[int] = set()

    def check(self, node: Any, spare: int = DEEPEST) -> int:
        """Count the values under a node as if every alias were written out; refuse what is too many or too deep."""
        if id(node) in self.sizes:
            return self.sizes[id(node)]
        if spare == 0 or id(node) in self.open:
            raise _Flaw(f"is nested too deeply; at most {DEEPEST} levels are read")
        self.open.add(id(node))
        size = 1 + sum(self.check(part, spare - 1) for part in _parts(node))
        if size > MOST_NODES:
            raise _Flaw(f"has more than {MOST_NODES:,} values, aliases written out")
        self.open.discard(id(node))
        self.sizes[id(node)] = size
        return size


def _parts(node: Any) -> list[Any]:
    """List the nodes right under a node; numbers and keys are checked on the way."""
    if isinstance(node.value, str):
        # Texts may be long; only what will be made a number may not.
        if len(node.value) > LONGEST_NUMBER and node.tag.rpartition(":")[2] in ("int", "float", "timestamp"):
            raise _Flaw(f"has a number of {len(node.value):,} characters; at most {LONGEST_NUMBER} are read")
        return []
    if not node.value or not isinstance(node.value[0], tuple):
        return list(node.value)
    keys = [key.value for key, _ in node.value if isinstance(key.value, str) and key.value != "<<"]
    if len(set(keys)) != len(keys):
        raise _Flaw(f"has the key {_twice(keys)} twice")
    return [part for pair in node.value for part in pair]


def _check_kind(path: PathLikeText, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise BadFile(f"{path} is a directory; name one file in it")
    kinds = {
        stat.S_IFIFO: "a pipe (FIFO)",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a disk",
    }
    raise BadFile(f"{path} is {kinds.get(stat.S_IFMT(mode), 'no plain file')}; only regular files are read")


def _check_size(path: PathLikeText, size: int, limit: int) -> None:
    if size > limit:
        raise BadFile(f"{path} is larger than {_amount(limit)}; no more is read of a file of this kind")


def _amount(size: int) -> str:
    return f"{size // MIB:,} MiB" if size >= MIB else f"{size:,} bytes"


def _from_here(path: PathLikeText) -> str:
    return "" if Path(path).is_absolute() else f" (it is relative to {Path.cwd()})"


def is_file(path: Path) -> bool:
    """Tell whether a path leads to a regular file; a name that no file can have does not.

    >>> is_file(Path("x" * 5000)), is_file(Path("a\\0b")), is_file(Path(__file__))
    (False, False, True)
    """
    try:
        return path.is_file()
    except OSError:  # too long, or in a folder that may not be looked into
        return False


def is_folder(path: Path) -> bool:
    """Tell whether a path leads to a folder; a name that no folder can have does not.

    >>> is_folder(Path("x" * 5000)), is_folder(Path(__file__).parent)
    (False, True)
    """
    try:
        return path.is_dir()
    except OSError:
        return False


PRIVATE = 0o600
"""The mode of new files: for their owner alone."""

LONGEST_STEM = 100


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file beside its place, and move it there at the end: a reader never meets half of it. Folders are made.

    The new file must not exist before: a link under its name would lead elsewhere. Errors are those of the system.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name[:LONGEST_STEM]}.{secrets.token_hex(4)}.partial")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    with os.fdopen(os.open(partial, flags, PRIVATE), "wb") as file:
        try:
            yield file
            file.flush()
            partial.replace(path)
        except BaseException:
            with suppress(OSError):
                partial.unlink()
            raise


def write_whole(path: Path, text: str) -> None:
    """Write a text as `whole_file` does; lone surrogates, which UTF-8 has no form for, cannot stop it."""
    with whole_file(path) as file:
        file.write(text.encode("utf-8", "replace"))


def settings_folder() -> Path | None:
    """Return the folder of this user's settings; None for users without a home."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    if given and Path(given).is_absolute():
        return Path(given) / "cereval"
    try:
        return Path.home() / ".config" / "cereval"
    except RuntimeError:
        return None
