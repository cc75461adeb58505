"""Check the golden files on this machine, or on those that it can play.

    python -m tests.golden.check                        # the files of every machine, here
    python -m tests.golden.check haswell                # of this one alone
    OPENBLAS_CORETYPE=Haswell python -m tests.golden.check

Every certificate is valid; every unfinished run has a page, goes on, and ends with a valid certificate.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.golden.lines import HOME, asking, called, folder_with_data, read
from tests.golden.make import MACHINES, STORE, UNFINISHED


@contextmanager
def golden_files(machine: str) -> Iterator[Path]:
    """Unpack what a machine made into a folder."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.unpack_archive(HOME / f"{machine}.zip", folder)
        yield Path(folder)


def check_certificates(machine: str) -> list[str]:
    """Verify every certificate that a machine made; return what is wrong."""
    with golden_files(machine) as made:
        found = {path.name: called("verify", str(path)).facts for path in sorted(made.glob("*.json"))}
    assert len(found) > len(UNFINISHED), "there are golden certificates"
    return [f"{machine}, {name}: {told['reasons']}" for name, told in found.items() if not told["valid"]]


def check_store(machine: str) -> list[str]:
    """Go on with every unfinished run of a machine's store, on a copy; return what is wrong."""
    wrong: list[str] = []
    with golden_files(machine) as made, tempfile.TemporaryDirectory() as place, folder_with_data(Path(place)):
        shutil.copy(made / "store.db", STORE)
        for name, run in unfinished_runs(made).items():
            wrong += [f"{machine}, {name}: {reason}" for reason in go_on(run, UNFINISHED[name][1])]
    return wrong


def unfinished_runs(made: Path) -> dict[str, str]:
    """Return the runs to go on with: those of the certificates, and the one that was killed, which has none."""
    runs = {name: read(path)["run_id"] for name in UNFINISHED if (path := made / f"{name}.json").exists()}
    (killed,) = (run["run_id"] for run in called("runs").facts if "slow" in run["model"])
    return {**runs, "killed": killed}


def go_on(run: str, line: str) -> list[str]:
    """Show a run's page, go on with it, and verify what that leads to; return what is wrong."""
    page = called("report", run, "-o", "page.html")
    (before,) = (one["calls"] for one in called("runs").facts if one["run_id"] == run)
    # The store was made elsewhere: what it names must be confirmed here.
    later = called(*asking(line.replace("RUN", run)), "-o", "later.json", "--trust")
    if page.code or later.facts is None:
        return [f"report: {page.errors}; going on: {later.errors}"]
    if later.facts["run_id"] != run or later.facts["calls"] <= before:
        return [f"it did not go on: {later.facts}"]
    told = called("verify", "later.json").facts
    return [] if told["valid"] else told["reasons"]


def check_kernel() -> None:
    """Refuse to check where the environment asks for a kernel that OpenBLAS has not loaded."""
    import numpy as np  # noqa: F401
    from threadpoolctl import threadpool_info

    loaded = [one["architecture"] for one in threadpool_info() if one["user_api"] == "blas"]
    wanted = os.environ.get("OPENBLAS_CORETYPE")
    print(f"computing as {' and '.join(loaded)} do")
    if wanted is not None and wanted not in [*loaded, *(["Prescott"] if "Katmai" in loaded else [])]:
        raise SystemExit(f"OPENBLAS_CORETYPE={wanted} has no effect here: {loaded} are loaded")


def main() -> None:
    check_kernel()
    wrong = [
        reason
        for machine in sys.argv[1:] or MACHINES
        for check in (check_certificates, check_store)
        for reason in check(machine)
    ]
    print("\n".join(wrong) or "every golden certificate is valid, and every golden run goes on")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
