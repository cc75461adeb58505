"""Which module checks which kind of certificate: a certificate names its kind in `format`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from cereval.certificate.base import FORMAT, Verdict

CHECKERS: Mapping[str, str] = {
    FORMAT: "cereval.certificate.verify",
    "cereval-comparison/1": "cereval.certificate.comparison",
    "cereval-ranking/1": "cereval.certificate.ranking",
    "cereval-tasks/1": "cereval.certificate.tasks",
    "cereval-growing/1": "cereval.certificate.growing",
}
"""Format -> a module with `verify(content, stored=None, *, explain=False) -> Verdict`; imported when used."""


def checker(content: Any) -> Callable[..., Verdict]:
    """The check for a certificate of any kind; what names no kind is checked, and refused, as an evaluation."""
    kind = content.get("format") if isinstance(content, Mapping) else None
    module = CHECKERS.get(kind if isinstance(kind, str) else FORMAT, CHECKERS[FORMAT])
    found: Callable[..., Verdict] = import_module(module).verify
    return found
