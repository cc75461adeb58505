"""lm-evaluation-harness builds prompts, filters and tables; a session decides which documents the model is asked.

Docs: docs/lm-eval.md.
"""

from __future__ import annotations

from cereval.imports import optional

optional("lm_eval", "lm-eval")

from cereval.integrations.lm_eval.harness import certifying  # noqa: E402
from cereval.integrations.lm_eval.model import CertifiedLM  # noqa: E402

__all__ = ["CertifiedLM", "certifying"]
