"""Make the certificates of a later revision of the engine, beside those of the first.

Run once, from the repository's root, with the code of the revision that they are of:

    python -m tests.golden.make_revision

It writes revisions/ENGINE/NAME.json, and into revisions/ENGINE.json what each said. Later code has to say the same.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from unittest.mock import patch

from tests.golden.golden_cases import CASES
from tests.golden.lines import HOME, carried_out, folder_with_data, headline, read

from cereval.version import ENGINE

FOLDER = HOME / "revisions"
CHOSEN = (
    "estimate-estimate-auto",
    "estimate-estimate-uniform",
    "estimate-threshold-uniform",
    "estimate-threshold-active",
    "estimate-estimate-auto-history",
    "estimate-threshold-auto-history",
    "estimate-threshold-auto-gate-fail",
    "estimate-estimate-uniform-population",
    "estimate-estimate-active-expected",
    "estimate-estimate-auto-mix",
)
KINDS = ("compare", "rank", "tasks", "growing")
SINCE = {5: ("compare-not-worse-recorded", "compare-not-worse-recorded-worse")}
"""Cases that are kept from an engine on, which was the first to play them otherwise."""


def chosen(engine: int) -> list[str]:
    """The cases that later engines play otherwise, and the first three of every other kind."""
    others = [[name for name in CASES if name.startswith(kind)][:3] for kind in KINDS]
    since = [name for first, names in SINCE.items() if engine >= first for name in names]
    return [*CHOSEN, *(name for names in others for name in names), *since]


def make_revision() -> None:
    """Run each case in a folder of its own, and keep its certificate and what it printed."""
    folder = FOLDER / str(ENGINE)
    folder.mkdir()
    noted = {}
    for name in chosen(ENGINE):
        seeds = patch("cereval.sessions.base.randbits", lambda _: 0)
        with tempfile.TemporaryDirectory() as place, folder_with_data(Path(place)), seeds:
            printed = carried_out(name, CASES[name])
            shutil.copy(f"{name}.json", folder / f"{name}.json")
            engine = read(folder / f"{name}.json")["engine"]
            noted[name] = {"code": printed.code, "engine": engine, "printed": headline(printed.facts)}
    (FOLDER / f"{ENGINE}.json").write_text(json.dumps(noted, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    make_revision()
