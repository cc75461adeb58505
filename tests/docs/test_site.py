"""The documentation site builds strictly: every link leads somewhere, every name of the API is found."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy what the site is made of."""
    pytest.importorskip("zensical")
    pytest.importorskip("mkdocstrings")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    for name in ("docs", "src"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def test_the_site_builds_without_a_warning(copy: Path) -> None:
    built = build(copy)
    assert built.returncode == 0, built.stdout + built.stderr
    assert "Five minutes" in (copy / "site" / "index.html").read_text(encoding="utf-8")


def test_what_leads_nowhere_is_an_error(copy: Path) -> None:
    for page, line in (("faq.md", "[nothing](nowhere.md)"), ("api.md", "::: cereval.NoSuchName")):
        path = copy / "docs" / page
        path.write_text(f"{path.read_text(encoding='utf-8')}\n\n{line}\n", encoding="utf-8")
    built = build(copy)
    assert built.returncode != 0
    assert "page does not exist" in built.stderr
    assert "cereval.NoSuchName could not be found" in built.stderr
