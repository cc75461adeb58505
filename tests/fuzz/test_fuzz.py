"""Every command on input that is nearly right: one line or an answer, soon and within memory. The long version:

python -m tests.fuzz --inputs 20000
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from tests.fuzz.commands import SCENES
from tests.fuzz.drive import Fuzzer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs fork, pidfd and /proc")
INPUTS = 120


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Fuzzer:
    return Fuzzer(tmp_path_factory.mktemp("fuzz"))


def test_no_input_ends_in_anything_but_an_answer_or_one_line(fuzzer: Fuzzer) -> None:
    wrong = [outcome for outcome in fuzzer.outcomes(range(INPUTS)) if outcome.wrong]
    assert not wrong


def test_every_command_has_a_line_that_works() -> None:
    from cereval.cli.main import COMMANDS

    elsewhere = {"lm-eval", "mcp"}  # they run or serve another tool, and have tests of their own
    assert {line.split()[0] for _, line in SCENES} == set(COMMANDS) - elsewhere


def test_what_is_wrong_is_found(fuzzer: Fuzzer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge itself: a traceback, an odd exit code, a loop without end, too much memory."""
    for work, says in (
        (lambda _: 1 / 0, "ZeroDivisionError"),
        (lambda _: 7, "exit code 7"),
        (lambda _: 1, "0 lines of error"),
        (lambda _: len(bytearray(2**31)), "MemoryError"),
        (lambda _: _endless(), "processor|no answer"),
    ):
        monkeypatch.setattr("cereval.cli.main.main", work)
        if says.startswith("processor"):
            monkeypatch.setattr("tests.fuzz.drive.SECONDS", 1)
        number = next(
            number for number in range(10**6, 2 * 10**6) if not (fuzzer.folder / str(number)).exists()
        )
        assert re.search(says, fuzzer.run(number).wrong)


def _endless() -> int:
    while True:
        Path.cwd()
