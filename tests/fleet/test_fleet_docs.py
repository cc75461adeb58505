"""The example of docs/fleet.md runs."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from tests.docs.help_page import NAMES, fits
from tests.fleet.fleets import here

from cereval.cli.main import main
from cereval.datasets.bank import as_jsonl
from cereval.fleet import workers

PAGE = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text(encoding="utf-8")


def test_the_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workers, "processes", here)
    found = re.search(r"```yaml\n# fleet.yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    assert found is not None
    Path("fleet.yaml").write_text(found[1], encoding="utf-8")
    assert "python -m cereval.datasets.bank > bank.jsonl\nhead -n 600 bank.jsonl > short.jsonl" in PAGE
    lines = [f"{line}\n" for line in as_jsonl()]
    Path("bank.jsonl").write_text("".join(lines), encoding="utf-8")
    Path("short.jsonl").write_text("".join(lines[:600]), encoding="utf-8")
    commands = re.findall(
        r"^cereval .*$", "".join(re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)), re.M
    )
    assert len(commands) == 4
    printed = {}
    for command in commands:
        arguments = shlex.split(command, comments=True)[1:]
        assert main(arguments) == 0, command
        printed[arguments[-1]] = capsys.readouterr().out
    assert "nothing is asked; 7 runs" in printed["--plan"]
    facts = json.loads(printed["--json"])
    assert fits(NAMES["fleet"], set(facts))
    assert (len(facts["runs"]), facts["asked"]) == (7, 0)
    assert facts["calls"] == sum(run["calls"] for run in facts["runs"])
    assert {"model", "data", "run_id", "estimate", "lower", "upper", "n_evaluated"} <= facts["runs"][0].keys()
    page = Path("fleet.html").read_text(encoding="utf-8")
    assert page.count("<section>") == 2
    assert "scripted/0.9 against scripted/0.7" in page
