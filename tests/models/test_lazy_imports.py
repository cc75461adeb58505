"""`cereval --help` must not pay for packages that a command may never use."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    "openai",
    "sqlalchemy",
    "jinja2",
    "pyarrow",
    "yaml",
    "datasets",
    "xllamacpp",
    "math_verify",
    "psycopg",
    "genai_prices",
)
MODULES = (
    "models",
    "scorers",
    "datasets.read",
    "datasets.tables",
    "datasets.prompts",
    "store.base",
    "store.writer",
)


def test_the_contracts_import_nothing_heavy() -> None:
    imports = "; ".join(f"import cereval.{module}" for module in MODULES)
    code = f"import sys; {imports}; print([name for name in {HEAVY!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
