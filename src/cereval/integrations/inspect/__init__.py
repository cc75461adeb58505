"""Inspect runs the samples; a session decides which comes next and when to stop. Docs: docs/inspect.md."""

from __future__ import annotations

from cereval.imports import optional

optional("inspect_ai", "inspect")

from cereval.integrations.inspect.certify import certify  # noqa: E402
from cereval.integrations.inspect.logs import certificate_of  # noqa: E402

__all__ = ["certificate_of", "certify"]
