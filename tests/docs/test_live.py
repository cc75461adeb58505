"""docs/cli.md is the program's own help, and the commands of docs/live.md run."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from tests.docs.help_page import help_page

from cereval.cli.main import COMMANDS, main
from cereval.datasets.bank import as_jsonl

DOCS = Path(__file__).parents[2] / "docs"
LIVE = (DOCS / "live.md").read_text(encoding="utf-8")


def test_the_command_line_page_is_the_programs_help() -> None:
    remedy = "python -m tests.docs.help_page > docs/cli.md"
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == help_page(), remedy


def test_every_command_is_on_the_page() -> None:
    for name in COMMANDS:
        assert f"## cereval {name}\n" in help_page()


def commands() -> list[tuple[list[str], int]]:
    """The command lines of the page, and the exit codes that their comments promise."""
    blocks = re.findall(r"```sh\n(.*?)```", LIVE, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("cereval ")]
    codes = [re.search(r"# exit (\d)", line) for line in lines]
    return [
        (shlex.split(line, comments=True)[1:], int(code[1]) if code else 0)
        for line, code in zip(lines, codes, strict=True)
    ]


def test_the_commands_of_the_walk_through_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "python -m cereval.datasets.bank > bank.jsonl" in LIVE
    lines = [f"{line}\n" for line in as_jsonl()]
    Path("bank.jsonl").write_text("".join(lines), encoding="utf-8")
    assert "head -n 1500 bank.jsonl > first.jsonl" in LIVE
    Path("first.jsonl").write_text("".join(lines[:1500]), encoding="utf-8")
    for arguments, code in commands():
        run = first_run(arguments, capsys)
        assert main([part.replace("RUN", run) for part in arguments]) == code, arguments
    assert Path("report.html").exists()


def first_run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The first run in the store that a command names."""
    store = arguments[arguments.index("--store") + 1] if "--store" in arguments else "sqlite:///cereval.db"
    if not Path(store.removeprefix("sqlite:///")).exists():
        return "none"
    capsys.readouterr()
    assert main(["runs", "--json", "--store", store]) == 0
    return str(json.loads(capsys.readouterr().out)[0]["run_id"])
