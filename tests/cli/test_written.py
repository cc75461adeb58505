"""Files that cannot be written are refused before any work, with the flag and the path."""

from __future__ import annotations

from pathlib import Path

import pytest

from cereval.cli.main import main
from cereval.cli.options import can_be_written


@pytest.mark.parametrize("path", ["/", ".", "x" * 300, "/dev/null/x"])
def test_what_is_no_place_for_a_file_cannot_be_written(path: str) -> None:
    assert not can_be_written(Path(path))


def test_missing_folders_are_made(tmp_path: Path) -> None:
    assert can_be_written(tmp_path / "new" / "folder" / "page.html")


@pytest.mark.parametrize("command", ["tasks", "rank", "compare", "extend"])
@pytest.mark.parametrize("flag", ["--certificate", "--report"])
def test_a_path_through_a_file_is_refused(
    command: str, flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    wrong = str(tmp_path / "file" / "page.html")
    assert main([command, "missing.csv", flag, wrong]) == 1
    assert f"{flag} must be a file in a folder that can be written to, got " in capsys.readouterr().err
