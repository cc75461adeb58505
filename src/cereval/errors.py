"""List every error a user can meet, as one tree.

CerevalError
├── InvalidInput      a value outside its allowed range: names the field, the range and the value
├── Misuse            a call at the wrong moment: asking after the end, telling twice
├── LogMismatch       a log that the session it belongs to cannot have
├── BadFile           a file that cannot be read as what it should be
│   └── BadContent    it could be read, but does not hold what it should
├── Untrusted         a file names code or an address that nobody typed or confirmed on this machine
├── CallError         the model could not answer one question (after retries)
└── StoreError        the results database is locked, full, too new or not ours
    ├── NoSuchRun     it has no run of this id
    ├── Unreachable   its server does not answer now, and may later
    └── Busy          another process works on the run now
"""

from __future__ import annotations


class CerevalError(Exception):
    """Give all errors that cereval raises on purpose one base; the CLI prints them as one line."""


class InvalidInput(CerevalError, ValueError):
    """Report a parameter outside its allowed range.

    >>> str(InvalidInput("eps", "a number in (0, 1)", 1.5))
    'eps must be a number in (0, 1), got 1.5'
    >>> str(InvalidInput("--min", "given: the mean score to reach", None))
    '--min must be given: the mean score to reach'
    """

    def __init__(self, field: str, allowed: str, received: object) -> None:
        self.field = field
        self.allowed = allowed
        self.received = received
        missing = received is None and allowed.startswith("given")
        got = "" if missing else f", got {shown(received)}"
        super().__init__(f"{field} must be {allowed}{got}")


class Misuse(CerevalError, RuntimeError):
    """Report a call that makes no sense at this moment."""


class LogMismatch(CerevalError):
    """Report a log whose draws or probabilities are not those of its session: it was changed, or made by another
    engine."""


class BadFile(CerevalError):
    """Report a file that is missing, unreadable or not in the expected layout."""


class BadContent(BadFile):
    """Report a file that could be read but is broken or not in the expected layout."""


class Untrusted(CerevalError):
    """Refuse a store or a task file that names code or an address that nobody typed or confirmed on this machine."""


class CallError(CerevalError):
    """Report a model call that failed for good, after its retries.

    `finish_reason` and `cost_usd` are those of a reply that came but holds no answer; None: the cost is not known.
    """

    finish_reason: str = ""
    cost_usd: float | None = 0.0


class StoreError(CerevalError):
    """Report a results database that could not be opened, read or written."""


class Unreachable(StoreError):
    """Say that the server of the results database does not answer now, or went away in the middle."""


class Busy(StoreError):
    """Another process works on the run now."""


class NoSuchRun(StoreError):
    """Report a run that is not in the results database."""


class NotBegun(StoreError):
    """There is no such run to go on with, and none may be begun."""


def shown(value: object, limit: int = 80) -> str:
    """Return the `repr` of a value, cut to one short line, so that an error never floods the terminal."""
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."
