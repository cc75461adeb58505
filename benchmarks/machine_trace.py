"""Find where two machines part: follow every function of the engine, and compare what it was given and returned.

A rounding error is harmless as long as it stays one. So the trace of one evaluation keeps, for every call of a function
in `items`, `methods`, `stats` and `sessions`, a digest of all numbers that went in and came out; two traces are then
compared call by call. Where little goes in and much comes out, a function amplifies rounding; where one machine makes
calls that the other does not, a comparison of nearly equal numbers went the other way.

A digest is the largest number and sums with random signs. A difference at one place changes the sums by as much. For
tables there are also sums of X (X' r), which neither signs nor rotations of the columns change: axes of a principal
component analysis are as good in one direction as in the other.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cereval
from benchmarks.machine_kinds import evaluate
from cereval.records import Draw

Floats = NDArray[np.float64]

ENGINE = tuple(
    str(Path(cereval.__file__).parent / name) for name in ("items", "methods", "stats", "sessions")
)
SUMS = 3
LARGEST_TUPLE = 64
SMALLEST = 1e-5
"""Numbers below it are differences of larger ones: what they differ by is held against this."""
Key = tuple[int, str, int]
"""The draws so far, the function, and which of its calls since that draw it is."""


@dataclass(frozen=True, slots=True)
class Digest:
    """The shape and the size of some numbers, and sums that tell whether they are those of another digest."""

    shape: tuple[int, ...]
    size: float
    sums: tuple[float, ...]
    turned: tuple[float, ...] = ()


Digests = dict[str, Digest]


@dataclass(frozen=True, slots=True)
class Call:
    """What a call was given and what it returned."""

    key: Key
    given: Digests
    returned: Digests


@dataclass(frozen=True, slots=True)
class Trace:
    """The calls of one evaluation in the order in which they returned, and its draws."""

    calls: tuple[Call, ...]
    draws: tuple[tuple[int, float], ...]


def trace(job: tuple[str, int, int]) -> Trace:
    """Carry out an evaluation of a kind under a seed, and follow its first `most` draws."""
    kind, seed, most = job
    tracer = Tracer(most)
    sys.setprofile(tracer.notice)
    try:
        evaluate(kind, seed, tracer.watch)
    except EnoughSeen:
        pass
    finally:
        sys.setprofile(None)
    return Trace(tuple(tracer.calls), tuple(tracer.draws))


class EnoughSeen(Exception):
    """Raised to end an evaluation that was followed for long enough."""


class Tracer:
    """Note what the functions of the engine are given and return."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.calls: list[Call] = []
        self.draws: list[tuple[int, float]] = []
        self._given: dict[FrameType, Digests] = {}
        self._times: Counter[tuple[int, str]] = Counter()

    def watch(self, draw: Draw) -> None:
        if len(self.draws) >= self.most:
            raise EnoughSeen
        self.draws.append((draw.item, draw.probability))

    def notice(self, frame: FrameType, event: str, value: Any) -> None:
        """See `sys.setprofile`."""
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(ENGINE) or "<" in code.co_name:
            return
        if event == "call":
            self._given[frame] = dict(_digest_all(_arguments(frame)))
            return
        given = self._given.pop(frame, None)
        name = f"{Path(code.co_filename).stem}.{code.co_qualname}"
        place = len(self.draws), name
        self._times[place] += 1
        self.calls.append(Call((*place, self._times[place]), given or {}, dict(_digest_all({"": value}))))


def _arguments(frame: FrameType) -> dict[str, Any]:
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {name: frame.f_locals[name] for name in names if name != "self" and name in frame.f_locals}


def _digest_all(values: Mapping[str, Any]) -> Iterator[tuple[str, Digest]]:
    """Digest all numbers in some values, with the way to them as the name."""
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            if value.dtype.kind in "fiub" and value.size:
                yield name, _digest(value.astype(np.float64))
        elif isinstance(value, float | np.floating):
            yield name, _digest(np.array([value], dtype=np.float64))
        elif is_dataclass(value) and not isinstance(value, type):
            inner = {f"{name}.{one.name}": getattr(value, one.name) for one in fields(value)}
            yield from _digest_all(inner)
        elif isinstance(value, tuple | list) and 0 < len(value) <= LARGEST_TUPLE:
            yield from _digest_all({f"{name}[{place}]": one for place, one in enumerate(value)})
        elif isinstance(value, dict) and 0 < len(value) <= LARGEST_TUPLE:
            yield from _digest_all({f"{name}[{key}]": one for key, one in value.items()})


def _digest(values: Floats) -> Digest:
    finite = np.where(np.isfinite(values), values, 7.0)
    flat = finite.reshape(-1)
    sums = tuple(_add_up(flat * signs) for signs in _signs(len(flat)))
    turned: tuple[float, ...] = ()
    if finite.ndim == 2 and min(finite.shape) > 1:
        rows = _signs(len(finite))
        squared = [finite @ (finite.T @ row) for row in rows]
        turned = tuple(_add_up(one * row) for one, row in zip(squared, rows[::-1], strict=True))
    return Digest(values.shape, float(np.abs(flat).max()), sums, turned)


def _add_up(values: Floats) -> float:
    """Add numbers in an order that does not depend on the machine."""
    return float(np.add.accumulate(values)[-1])


@cache
def _signs(size: int) -> Floats:
    return np.random.default_rng(size).choice([-1.0, 1.0], size=(SUMS, size))


# -- comparing two traces ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """How far a call's numbers are apart, as a share of the largest: given, returned, and which were returned."""

    key: Key
    given: float
    returned: float
    turned: float
    """The same with columns turned alike."""
    where: str


def compare_traces(one: Trace, other: Trace) -> list[Difference]:
    """List the calls that both machines made, in the order of the first, with how far they are apart."""
    others = {call.key: call for call in other.calls}
    return [_difference(call, others[call.key]) for call in one.calls if call.key in others]


def _difference(one: Call, other: Call) -> Difference:
    given = max((_apart(digest, other.given.get(name)) for name, digest in one.given.items()), default=0.0)
    returned, where = max(
        ((_apart(digest, other.returned.get(name)), name) for name, digest in one.returned.items()),
        default=(0.0, ""),
    )
    turned = max(
        (_apart(digest, other.returned.get(name), turned=True) for name, digest in one.returned.items()),
        default=0.0,
    )
    return Difference(one.key, given, returned, turned, where)


def _apart(one: Digest, other: Digest | None, *, turned: bool = False) -> float:
    """Return the largest difference of two digests' sums, as a share of the largest number."""
    if other is None or one.shape != other.shape:
        return float("inf")
    power = 2 if turned and one.turned else 1
    left, right = (one.turned, other.turned) if power == 2 else (one.sums, other.sums)
    scale = max(one.size, other.size, SMALLEST)
    return max(abs(a - b) for a, b in zip(left, right, strict=True)) / (scale**power)


def find_new_paths(one: Trace, other: Trace) -> list[tuple[int, str, int, int]]:
    """List where a function was called more often on one machine: the draws so far, its name, and both counts."""
    counts = [
        Counter((draw, name) for draw, name, _ in (call.key for call in each.calls)) for each in (one, other)
    ]
    seen = dict.fromkeys(call.key[:2] for each in (one, other) for call in each.calls)
    return [
        (*place, counts[0][place], counts[1][place]) for place in seen if counts[0][place] != counts[1][place]
    ]


def first_draw_apart(one: Trace, other: Trace, tolerance: float) -> str | None:
    """Describe the first draw whose item differs, or whose probability does by more than a share."""
    for index, (left, right) in enumerate(zip(one.draws, other.draws, strict=False)):
        if left[0] != right[0] or abs(left[1] - right[1]) > tolerance * max(left[1], right[1]):
            return (
                f"draw {index}: item {left[0]} with probability {left[1]:.17g}, "
                f"item {right[0]} with probability {right[1]:.17g}"
            )
    return None


def tell_story(one: Trace, other: Trace, tolerance: float) -> Iterator[str]:
    """Describe in a few lines how rounding grew: every call that made a difference ten times as large as before.

    Then the functions that amplified most, and where one machine took another path.
    """
    draw = first_draw_apart(one, other, tolerance)
    yield draw or f"{len(one.draws)} draws: no draw differs by more than {tolerance:g}"
    differences = compare_traces(one, other)
    largest = 1e-15
    yield "how the difference grew (draws so far, function, given, returned, with columns turned alike):"
    for apart in differences:
        if apart.turned > 10 * largest and apart.turned > 10 * apart.given:
            largest = apart.turned
            yield _line(apart)
    yield f"calls that made more than {tolerance:g} out of less, first ones:"
    shown: Counter[str] = Counter()
    for apart in differences:
        if apart.turned > tolerance >= apart.given and shown[apart.key[1]] < 2:
            shown[apart.key[1]] += 1
            yield _line(apart)
    yield "calls that only one of them made, first ones (draws so far, function, calls on each):"
    for draws, name, left, right in find_new_paths(one, other)[:12]:
        yield f"  {draws:5}  {name}: {left}, {right}"


def _line(apart: Difference) -> str:
    draws, name, time = apart.key
    return (
        f"  {draws:5}  {name}{apart.where} (call {time}): {apart.given:.1e} -> {apart.returned:.1e}"
        f" ({apart.turned:.1e})"
    )
