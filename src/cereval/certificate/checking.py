"""How a certificate of any kind is checked: one check after the other, each a function that may object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isclose
from typing import Any

from cereval import __version__
from cereval.certificate.base import Verdict
from cereval.errors import CerevalError, shown

TOLERANCE = 1e-9
HASHES = DIGEST, RUN_ID, CHAIN = "digest", "run id", "hash chain of the log"

Check = tuple[str, Callable[[], None]]
"""What is checked, in words, and a function that raises `WrongError` where it does not hold."""


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


def equal(name: str, stated: Any, found: Any) -> None:
    """Objects where what is stated is not what was recomputed; floats may differ in their last digits."""
    same = close(stated, found) if isinstance(found, float) else stated == found
    if not same or isinstance(stated, bool) != isinstance(found, bool):
        raise WrongError(f"{name} is {shown(stated)}, recomputed {shown(found)}")


def close(stated: Any, found: float) -> bool:
    """Whether two numbers are the same up to rounding."""
    number = isinstance(stated, int | float) and not isinstance(stated, bool)
    return number and isclose(stated, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
