"""Counts by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cereval.certificate.audit import Audit, Equal
from cereval.questions.session import AskTell


class MajorityAudit(Audit):
    def check(self, certificate: Mapping[str, Any], session: AskTell, equal: Equal) -> str:  # noqa: ARG002
        scores = [entry["score"] for entry in certificate["log"]]
        unknown = certificate["settings"]["n_items"] - sum(score is not None for score in scores)
        right = sum(score for score in scores if score is not None)
        size, stated = certificate["settings"]["n_items"], certificate["result"]
        equal("result.lower (audit)", stated["lower"], float(right / size))
        equal("result.upper (audit)", stated["upper"], float((right + unknown) / size))
        return self.kind.audited
