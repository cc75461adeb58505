"""What the second engine certified stays valid, and the same commands still decide and say the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden.golden_cases import CASES
from tests.golden.lines import alike, called, carried_out, folder_with_data, headline, read
from tests.golden.make_second import FOLDER, SECOND, chosen

NOTED = read(SECOND)


def test_every_case_is_noted() -> None:
    assert sorted(NOTED) == sorted(chosen()) == sorted(path.stem for path in FOLDER.iterdir())


@pytest.mark.parametrize("name", NOTED)
def test_a_certificate_is_valid_under_its_engine(name: str) -> None:
    assert NOTED[name]["engine"] == 2
    printed = called("verify", str(FOLDER / f"{name}.json"))
    assert (printed.code, printed.facts["status"], printed.facts["reasons"]) == (0, "valid", [])


@pytest.mark.parametrize("name", NOTED)
def test_the_same_commands_decide_the_same_log(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cereval.methods.base.ENGINE", 2)
    with folder_with_data(tmp_path):
        printed = carried_out(name, CASES[name])
        assert (printed.code, alike(headline(printed.facts), NOTED[name]["printed"])) == (
            NOTED[name]["code"],
            True,
        )
        assert alike(read(tmp_path / f"{name}.json")["log"], read(FOLDER / f"{name}.json")["log"], near=1e-12)
