"""The certificate: a JSON object that holds an answer and everything needed to recompute it.

Obligations:
- it depends on the plan, the results and the changes alone: no clock, no path, no order of arrival, so that a
  run that was killed and resumed has the same certificate, bit for bit, as one that was not;
- `digest` is the hash of all the rest and `chain` runs over the log entry by entry, so that no field can be
  changed alone;
- it holds no secret: a plan has none.

`schema.json` in this folder is its published form.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from cereval.plan import digest_of

FORMAT = "cereval-certificate/1"

Status = Literal["valid", "invalid", "unchecked"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One consumed result: which item, with which chance it was drawn, and its score (None: failed)."""

    item: int
    probability: float
    score: float | None

    def as_dict(self) -> dict[str, Any]:
        return {"item": self.item, "probability": self.probability, "score": self.score}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of checking a certificate: `reasons` say what is wrong or missing, `checked` what held."""

    status: Status
    reasons: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        return self.status == "valid"


def chained(start: str, log: Sequence[Mapping[str, Any]]) -> str:
    """The last link of a chain in which every link is the hash of the one before and of one entry.

    >>> chained("a", [{"item": 1}, {"item": 2}]) == chained("a", [{"item": 2}, {"item": 1}])
    False
    """
    link = start
    for entry in log:
        text = json.dumps(entry, sort_keys=True, separators=(",", ":"), allow_nan=False)
        link = hashlib.sha256(f"{link}{text}".encode()).hexdigest()
    return link


def digest(certificate: Mapping[str, Any]) -> str:
    """The hash of everything but the digest itself."""
    return digest_of({key: value for key, value in certificate.items() if key != "digest"})


def schema() -> dict[str, Any]:
    """The published JSON schema of certificates."""
    found: dict[str, Any] = json.loads((files(__package__) / "schema.json").read_text(encoding="utf-8"))
    return found
