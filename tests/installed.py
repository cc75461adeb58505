"""The wheel, installed into an empty environment, does what the README says: `make installed`.

Not among the tests of `make test`: it fetches everything that the package needs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from tests.docs.console import commands, shows

from cereval.version import __version__

ROOT = Path(__file__).parents[1]


def run(*arguments: str | Path, folder: Path, expect: int = 0) -> str:
    """Run a program as somebody who has nothing but it: an empty home, and none of our folders on the path."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
    environment = kept | {"HOME": str(folder), "PATH": "/usr/bin:/bin", "COLUMNS": "110"}
    done = subprocess.run(
        [str(part) for part in arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == expect, (arguments, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source archive, and the wheel from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--quiet", "--outdir", folder, ROOT, folder=folder)
    (made,) = folder.glob("*.whl")
    assert len(list(folder.glob("*.tar.gz"))) == 1
    return made


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of programs of an environment that has the wheel, and what it asks for."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=True)
    run(place / "bin" / "python", "-m", "pip", "install", "--quiet", wheel, folder=place)
    return place / "bin"


def test_every_command_of_the_readme_prints_what_it_shows(programs: Path, tmp_path: Path) -> None:
    run(programs / "cereval", "example", folder=tmp_path)
    found = list(commands((ROOT / "README.md").read_text(encoding="utf-8")))
    assert len(found) >= 5
    for command in found:
        printed = run(programs / "cereval", *command.arguments, folder=tmp_path, expect=command.exit_code)
        assert shows(printed.splitlines(), command.shown) is None, (command.line, printed)


def test_both_ways_to_start_it_name_the_version(programs: Path, tmp_path: Path) -> None:
    assert __version__ in run(programs / "cereval", "--version", folder=tmp_path)
    assert __version__ in run(programs / "python", "-m", "cereval", "--version", folder=tmp_path)
