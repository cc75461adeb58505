"""Every console block of the README and the documentation prints what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.console import BLOCK, commands, folder, shows

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if BLOCK.search(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_commands_of_a_page_print_what_it_shows(path: Path) -> None:
    remedy = f"if the new output is right: python -m tests.docs.console {path.relative_to(ROOT)}"
    with folder():
        for command in commands(path.read_text(encoding="utf-8")):
            code, printed = command.run()
            assert code == command.exit_code, (command.line, printed)
            assert shows(printed, command.shown) is None, (command.line, printed, remedy)


def test_a_line_that_is_not_printed_is_found() -> None:
    assert shows(["a", "b", "c"], ("a", "...", "c")) is None
    assert shows(["a", "b"], ("b", "a")) == "a"
    assert [one.exit_code for one in commands("```console\n$ cereval x  # exit 3\nno\n```")] == [3]
