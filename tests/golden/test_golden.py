"""What 8578b89 published keeps working: its certificates verify, its runs are listed, shown, resumed and continued.

`expected.json` holds what 8578b89 said of every file; `make.py` tells how all of it was made.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.golden.lines import (
    EXPECTED,
    HOME,
    STORE,
    alike,
    asking,
    called,
    carried_out,
    folder_with_data,
    gone_on,
    headline,
    log_digest,
    read,
    replayed,
)

NOTED = read(EXPECTED)
CERTIFICATES: dict[str, Any] = NOTED["certificates"]
RUNS: list[dict[str, Any]] = NOTED["store"]["runs"]
STORIES: dict[str, Any] = NOTED["store"]["stories"]
OLDER = "engine-51283a0"
LASTING = [name for name in CERTIFICATES if not ("compare" in name and "live" in name)]
"""Live comparisons were sessions of (1 + first - second)/2; now they are those of recorded scores, and draw alike."""
SHORT = [name for name in LASTING if len(CERTIFICATES[name]["commands"]) == 1]
RERUN = LASTING if os.environ.get("GOLDEN_ALL") else SHORT[::2]
"""Every second command, to save time: `verify` has decided all logs again, and the store has history and changes."""
BY_RESUME = {run["resume"]["command"] for run in RUNS}
FURTHER = [
    pytest.param(one, id=f"{name}-{number}")
    for name, story in STORIES.items()
    for number, one in enumerate(story["further"])
    if one["command"] not in BY_RESUME
]
LED_TO = ("code", "printed", "run_id", "asked")
RESUMED = [pytest.param(run, id=f"{run['story']}-{run['run_id']}") for run in RUNS if run["kind"] != "rank"]
PARTS = [pytest.param(run, id=f"{run['story']}-{run['run_id']}") for run in RUNS if run["kind"] == "rank"]


@pytest.fixture(autouse=True)
def first_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """New runs are begun under the engine of these files; what they hold names its own."""
    monkeypatch.setattr("cereval.methods.base.ENGINE", 1)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A working folder with the data and the models."""
    with folder_with_data(tmp_path):
        yield tmp_path


@pytest.fixture
def store(folder: Path) -> Path:
    """A copy of the store: opening the one that is kept would change it."""
    return Path(shutil.copy(STORE, folder / "cereval.db"))


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One copy for all commands that only look."""
    return Path(shutil.copy(STORE, tmp_path_factory.mktemp("shown") / "cereval.db"))


# -- certificates --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CERTIFICATES)
def test_a_certificate_is_valid_and_is_what_it_was(name: str) -> None:
    noted, path = CERTIFICATES[name], HOME / CERTIFICATES[name]["file"]
    content = read(path)
    assert log_digest(content["log"]) == noted["log"]
    assert headline(content["result"]) == noted["result"]
    printed = called("verify", str(path))
    assert (printed.code, printed.facts["status"], printed.facts["reasons"]) == (0, "valid", [])


def test_every_certificate_is_noted() -> None:
    files = sorted(f"certificates/{path.name}" for path in (HOME / "certificates").iterdir())
    assert files == sorted(noted["file"] for noted in CERTIFICATES.values())


@pytest.mark.parametrize("name", RERUN)
def test_the_same_commands_decide_the_same_log(name: str, folder: Path) -> None:
    noted = CERTIFICATES[name]
    printed = carried_out(name, noted["commands"])
    assert printed.code == noted["code"]
    assert alike(headline(printed.facts), noted["printed"])
    assert alike(read(folder / f"{name}.json")["log"], read(HOME / noted["file"])["log"], near=1e-12)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", NOTED["replays"])
def test_a_replay_comes_to_the_same(name: str) -> None:
    noted = NOTED["replays"][name]
    printed = called(*noted["command"].split())
    assert printed.code == noted["code"]
    assert alike(headline(printed.facts), noted["printed"])


@pytest.mark.parametrize("name", NOTED["python"])
def test_a_replay_in_python_comes_to_the_same(name: str) -> None:
    assert alike(replayed(name), NOTED["python"][name])


# -- the store -----------------------------------------------------------------------------------------------------


def test_the_store_lists_its_runs(shown: Path) -> None:
    printed = called("runs", "--store", f"sqlite:///{shown}")
    assert_listed(printed.facts, [run["listed"] for run in RUNS])


def assert_listed(found: list[dict[str, Any]], noted: list[dict[str, Any]]) -> None:
    """Hold a listing to what it was: the question is told in words, which may become clearer; new names may come."""
    names = [name for name in noted[0] if name != "goal"]
    assert [{name: one[name] for name in names} for one in found] == [
        {name: one[name] for name in names} for one in noted
    ]


@pytest.mark.parametrize("run", RESUMED)
def test_a_page_tells_a_run(run: dict[str, Any], shown: Path) -> None:
    page = shown.parent / "page.html"
    printed = called("report", run["run_id"], "--store", f"sqlite:///{shown}", "-o", str(page))
    found, noted = headline(printed.facts), dict(run["report"]["printed"])
    if found["stopped"] == "budget":
        # Money ended it, as its certificate says; pages of one mean said `running`, those of tasks `budget`.
        noted["stopped"] = "budget"
    # The page of a comparison tells the difference; `--json` gave (1 + difference)/2, which need not stay.
    wanted = ("stopped", "n_evaluated", "failures") if run["kind"] == "compare" else tuple(noted)
    assert printed.code == 0
    assert alike({name: found[name] for name in wanted}, {name: noted[name] for name in wanted})
    assert page.read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html>")


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("run", RESUMED)
def test_resume_ends_as_it_did(run: dict[str, Any]) -> None:
    killed = STORIES[run["story"]]["end"] == "killed"
    again = gone_on(run["resume"]["command"], verified=killed)
    wanted = (*LED_TO, "verify") if killed else LED_TO
    assert alike({name: again[name] for name in wanted}, {name: run["resume"][name] for name in wanted})


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("noted", FURTHER)
def test_going_on_leads_where_it_did(noted: dict[str, Any]) -> None:
    again = gone_on(noted["command"], verified=False)
    # A ranking had no run of its own, only those of its models.
    wanted = [name for name in LED_TO if name != "run_id" or noted["run_id"] is not None]
    assert alike({name: again[name] for name in wanted}, {name: noted[name] for name in wanted})


@pytest.mark.parametrize("run", PARTS)
def test_a_part_of_a_ranking_is_resumed_by_its_ranking_alone(run: dict[str, Any], shown: Path) -> None:
    printed = called(*asking(run["resume"]["command"]), "--store", f"sqlite:///{shown}")
    assert printed.code == 1
    assert "repeat `cereval rank`" in printed.errors


# -- another engine ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "with its store"])
def test_an_honest_certificate_of_an_earlier_engine_is_never_invalid(beside: bool, tmp_path: Path) -> None:
    path = shutil.copy(HOME / f"{OLDER}.json", tmp_path)
    if beside:
        shutil.copy(HOME / f"{OLDER}.db", tmp_path)
    printed = called("verify", str(path))
    assert (printed.code, printed.facts["verdict"]) == (1, "unchecked")
    assert "engine" in printed.facts["reasons"][0]
    assert "0.1.0" in printed.facts["reasons"][0]


def test_the_store_of_an_earlier_engine_is_listed(tmp_path: Path) -> None:
    kept = shutil.copy(HOME / f"{OLDER}.db", tmp_path)
    assert_listed(called("runs", "--store", f"sqlite:///{kept}").facts, NOTED["older"]["runs"])


def test_resuming_a_run_of_an_earlier_engine_says_so_and_asks_nothing(folder: Path) -> None:
    kept = Path(shutil.copy(HOME / f"{OLDER}.db", folder))
    run_id = read(HOME / f"{OLDER}.json")["run_id"]
    printed = called("resume", run_id, "--store", f"sqlite:///{kept}")
    assert printed.code == 1
    assert "another engine" in printed.errors
    assert "nothing was asked" in printed.errors
