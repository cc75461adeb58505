"""What a later engine certified stays valid, and the same commands still decide and say the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden.golden_cases import CASES
from tests.golden.lines import alike, called, carried_out, folder_with_data, headline, read
from tests.golden.make_revision import FOLDER, chosen
from tests.golden.make_traces import TRACES, traced

from cereval.version import ENGINES

NOTED = {engine: read(FOLDER / f"{engine}.json") for engine in ENGINES[1:]}
CERTIFICATES = [(engine, name) for engine in NOTED for name in NOTED[engine]]


@pytest.mark.parametrize("engine", NOTED)
def test_every_case_is_noted(engine: int) -> None:
    kept = sorted(path.stem for path in (FOLDER / str(engine)).iterdir())
    assert sorted(NOTED[engine]) == sorted(chosen(engine)) == kept


@pytest.mark.parametrize(("engine", "name"), CERTIFICATES)
def test_a_certificate_is_valid_under_its_engine(engine: int, name: str) -> None:
    assert NOTED[engine][name]["engine"] == engine
    printed = called("verify", str(FOLDER / str(engine) / f"{name}.json"))
    assert (printed.code, printed.facts["status"], printed.facts["reasons"]) == (0, "valid", [])


@pytest.mark.parametrize(("engine", "name"), CERTIFICATES)
def test_the_same_commands_decide_the_same_log(
    engine: int, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cereval.methods.base.ENGINE", engine)
    noted, kept = NOTED[engine][name], read(FOLDER / str(engine) / f"{name}.json")
    with folder_with_data(tmp_path):
        printed = carried_out(name, CASES[name])
        assert (printed.code, alike(headline(printed.facts), noted["printed"])) == (noted["code"], True)
        assert alike(read(tmp_path / f"{name}.json")["log"], kept["log"], near=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
def test_intervals_narrow_as_they_did(engine: int) -> None:
    assert alike(traced(engine), read(TRACES)[str(engine)], near=1e-9)
