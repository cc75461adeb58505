"""How a certificate of any kind is checked: one check after the other, each a function that may object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isclose
from typing import Any, Protocol

from cereval import __version__
from cereval.certificate.base import Verdict, chained, digest
from cereval.errors import CerevalError, shown
from cereval.plan import digest_of

TOLERANCE = 1e-9
HASHES = DIGEST, RUN_ID, CHAIN = "digest", "run id", "hash chain of the log"

Check = tuple[str, Callable[[], None]]
"""What is checked, in words, and a function that raises `WrongError` where it does not hold."""


class Recomputed(Protocol):
    """The session behind a certificate, told its log once more."""

    def check_draws(self) -> None: ...
    def check_result(self) -> None: ...
    def check_audit(self) -> None: ...


class WrongError(Exception):
    """A check that does not hold; its text is the reason."""


def conclude(certificate: Any, checks: Sequence[Check], *, explain: bool = False) -> Verdict:
    """Every check in turn; the first that fails decides, because the later ones rest on it.

    explain: where only a hash is wrong, go on until a check says which field it is.
    """
    checked: list[str] = []
    reasons: list[str] = []
    for name, check in checks:
        reason = _reason(check)
        if reason is None:
            checked.append(name)
            continue
        reasons.append(reason)
        if not (explain and name in HASHES):
            break
    hashes = {name for name, _ in checks if name in HASHES}
    return _verdict(certificate, tuple(reasons), tuple(checked), intact=hashes <= {*checked})


def _reason(check: Callable[[], None]) -> str | None:
    try:
        check()
    except WrongError as wrong:
        return str(wrong)
    except (CerevalError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        return f"it cannot be read as a certificate: {type(error).__name__}: {shown(str(error))}"
    return None


def _verdict(
    certificate: Any, reasons: tuple[str, ...], checked: tuple[str, ...], *, intact: bool
) -> Verdict:
    """Another version may bet and draw differently: what it made is intact, but only it can recompute it."""
    if not reasons:
        return Verdict("valid", (), checked)
    if intact and certificate["versions"].get("cereval") != __version__:
        made = shown(certificate["versions"].get("cereval"))
        advice = f"made by cereval {made}, this is {__version__}: check it with that version"
        return Verdict("unchecked", (f"{advice} ({reasons[0]})",), checked)
    return Verdict("invalid", reasons, checked)


def check_fields(certificate: Any, kind: str, fields: frozenset[str]) -> None:
    """A mapping of this format, with these fields and no others."""
    if not isinstance(certificate, Mapping) or certificate.get("format") != kind:
        raise WrongError(f"it is no {kind}")
    if set(certificate) != fields:
        odd = sorted(set(certificate) ^ fields)
        raise WrongError(f"it has other fields than a certificate: {', '.join(map(str, odd))}")


def check_digest(certificate: Mapping[str, Any]) -> None:
    """The hash of everything but itself."""
    if certificate["digest"] != digest(certificate):
        raise WrongError("the digest does not fit the content: something was changed")


def check_chain(certificate: Mapping[str, Any], start: str = "settings") -> None:
    """The chain of the log, which begins with the hash of the field `start`."""
    if certificate["chain"] != chained(digest_of(certificate[start]), certificate["log"]):
        raise WrongError(f"the hash chain does not fit the log: an entry or the {start} were changed")


def check_recorded(
    certificate: Any,
    kind: str,
    fields: frozenset[str],
    recomputed: Recomputed,
    audited: str,
    *,
    hashes: Sequence[Check] = (),
    more: Sequence[Check] = (),
    explain: bool,
) -> Verdict:
    """The checks of every kind that has settings. audited: what the slow path recomputes. `more` come last."""
    checks: list[Check] = [
        ("format", lambda: check_fields(certificate, kind, fields)),
        (DIGEST, lambda: check_digest(certificate)),
        *hashes,
        (CHAIN, lambda: check_chain(certificate)),
        ("draws decided again from the seed", recomputed.check_draws),
        ("every field of the result", recomputed.check_result),
        (audited, recomputed.check_audit),
        *more,
    ]
    return conclude(certificate, checks, explain=explain)


def equal(name: str, stated: Any, found: Any) -> None:
    """Objects where what is stated is not what was recomputed; floats may differ in their last digits."""
    same = close(stated, found) if isinstance(found, float) else stated == found
    if not same or isinstance(stated, bool) != isinstance(found, bool):
        raise WrongError(f"{name} is {shown(stated)}, recomputed {shown(found)}")


def close(stated: Any, found: float) -> bool:
    """Whether two numbers are the same up to rounding."""
    number = isinstance(stated, int | float) and not isinstance(stated, bool)
    return number and isclose(stated, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
