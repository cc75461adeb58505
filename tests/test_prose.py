"""Docstrings say what a thing does: they start with a verb, not with an article or a question word.

Statements of theorems, and the rooms that are made of them, keep their own form.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "cereval"
NO_VERBS = (
    *("The", "A", "An", "One", "Every", "All", "Those", "These", "Its", "Their"),
    *("What", "Whether", "How", "Which", "Where", "When", "Who", "Why"),
)
THEOREMS = ("Theorem", "Proof", "Corollary", "Lemma", "martingale")
MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if "stats" not in path.parts]
DOCUMENTED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_docstrings_start_with_a_verb(path: Path) -> None:
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, DOCUMENTED)]
    texts = [text for node in nodes if (text := ast.get_docstring(node))]
    plain = [text for text in texts if not any(word in text for word in THEOREMS)]
    assert [text.splitlines()[0] for text in plain if text.split()[0] in NO_VERBS] == []
