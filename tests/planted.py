"""Files that are named as the modules that cereval imports, and say so when they are run."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import cereval

PACKAGE = Path(cereval.__file__).parent


def imported_names() -> set[str]:
    """Return every top-level module that any file of the package imports."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py"))
    return {name.partition(".")[0] for tree in trees for name in _imports(tree)} - {"cereval", "__future__"}


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def plant(folder: Path, *, standard: bool = True) -> Path:
    """Put a file into the folder for each of them; return the file that those write to which were run.

    standard: also for modules of Python itself, which `python -m` imports from the current folder before any of ours.
    """
    told = folder / "planted.txt"
    names = imported_names() - (frozenset() if standard else sys.stdlib_module_names)
    assert {"yaml", "sqlalchemy", "numpy", "msgspec"} <= names
    for name in names:
        line = f"open({str(told)!r}, 'a').write({name!r} + '\\n')\n"
        (folder / f"{name}.py").write_text(line, encoding="utf-8")
    return told
