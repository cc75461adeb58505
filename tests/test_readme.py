"""The README's Python examples run, and the commands it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cereval.cli.main import COMMANDS

README = Path(__file__).parent.parent / "README.md"
TEXT = README.read_text(encoding="utf-8")


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL))
def test_python_examples_run(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_every_command_named_exists() -> None:
    named = set(re.findall(r"^cereval (\w+)", TEXT, flags=re.MULTILINE))
    assert {"run", "resume", "verify", "replay", "plan"} <= named <= set(COMMANDS)


def test_every_make_target_named_exists() -> None:
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", TEXT, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
