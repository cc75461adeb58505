"""Wait for a server that went away: what is done to the store again once it is back, as if nothing had been."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from cereval.errors import Unreachable

PATIENCE_S = 300.0
"""How long a server is waited for that has answered before: time for a restart, or for a stand-by to take over."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0

AGAIN: ContextVar[bool] = ContextVar("again", default=False)
"""Whether this is done once more: the first time may have been committed, though nobody was told."""


class Waiting(Protocol):
    """Go on after an outage: a store that can wait."""

    def back(self) -> None:
        """Take again what was held, or refuse to go on."""


S = TypeVar("S", bound=Waiting)
P = ParamSpec("P")
R = TypeVar("R")


def patiently(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Have a method wait for its server, with pauses that double, and be called again; it must bear that."""

    @wraps(method)
    def waiting(self: S, /, *given: P.args, **named: P.kwargs) -> R:
        try:
            return method(self, *given, **named)
        except Unreachable as error:
            logging.getLogger("cereval").warning("%s; waiting for it", error)
        return _again(self, lambda: method(self, *given, **named))

    return waiting


def _again(store: Waiting, call: Callable[[], R]) -> R:
    until, pause = time.monotonic() + PATIENCE_S, FIRST_PAUSE_S
    mark = AGAIN.set(True)
    try:
        while True:
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)
            try:
                store.back()
                return call()
            except Unreachable:
                if time.monotonic() > until:
                    raise
    finally:
        AGAIN.reset(mark)
