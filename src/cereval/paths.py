"""Look whether a path leads anywhere: names come from files and flags, and not every text can be a name."""

from __future__ import annotations

from pathlib import Path


def is_file(path: Path) -> bool:
    """Tell whether a path leads to a regular file; a name that no file can have does not.

    >>> is_file(Path("x" * 5000)), is_file(Path("a\\0b")), is_file(Path(__file__))
    (False, False, True)
    """
    try:
        return path.is_file()
    except OSError:  # too long, or in a folder that may not be looked into
        return False


def is_folder(path: Path) -> bool:
    """Tell whether a path leads to a folder; a name that no folder can have does not.

    >>> is_folder(Path("x" * 5000)), is_folder(Path(__file__).parent)
    (False, True)
    """
    try:
        return path.is_dir()
    except OSError:
        return False
