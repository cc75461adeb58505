"""`requirements.lock`: versions with hashes of everything that cereval needs, and no address of any registry."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^ ;\\]+)", re.MULTILINE)


def test_the_lock_satisfies_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "requirements.lock").read_text()
    pinned = {canonicalize_name(name): version for name, version in PINNED.findall(text)}
    extras = [one for group in project["optional-dependencies"].values() for one in group]
    wanted = [Requirement(one) for one in (*project["dependencies"], *extras)]
    unmet = [
        str(one) for one in wanted if not one.specifier.contains(pinned.get(canonicalize_name(one.name), "0"))
    ]
    assert not unmet


def test_every_package_has_hashes_and_none_an_address() -> None:
    text = (ROOT / "requirements.lock").read_text()
    entries = re.split(r"\n(?=[A-Za-z0-9])", text)
    without = [
        entry.splitlines()[0] for entry in entries if PINNED.match(entry) and "--hash=sha256:" not in entry
    ]
    assert not without
    assert "://" not in text
    assert "index" not in re.sub(r"--hash=\S+", "", text)
