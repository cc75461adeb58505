"""The examples of docs/pytest.md, docs/import.md, docs/export.md and docs/tutorials/gate.md fit the program."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cereval.cli.main import main

DOCS = Path(__file__).parent.parent / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def lines(text: str) -> list[tuple[list[str], int]]:
    """The command lines of a page, and the exit codes that their comments promise."""
    found = [line for block in blocks(text, "sh") for line in block.splitlines() if line.strip()]
    codes = [re.search(r"# exit (\d)", line) for line in found]
    return [
        (shlex.split(line, comments=True), int(code[1]) if code else 0)
        for line, code in zip(found, codes, strict=True)
    ]


def run_python(text: str) -> None:
    for block in blocks(text, "py"):
        exec(compile(block, "example", "exec"), {"__name__": "example"})


def test_the_pytest_page(pytester: pytest.Pytester) -> None:
    text = page("pytest.md")
    (example,) = blocks(text, "py")
    pytester.makepyfile(test_model=example)
    for (program, *arguments), code in lines(text):
        assert program == "pytest"
        if "-n" in arguments or "--no-certify" in arguments:
            continue  # xdist has a test of its own, and thousands of ordinary tests take their time
        result = pytester.runpytest_inprocess(*arguments, "--certify-seed=1")
        assert result.ret == code, arguments
    told = re.search(r"    (test_model.py::test_sums: .*)", text)
    assert told is not None
    assert told[1] in result.outlines


def test_the_import_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page("import.md")
    run_python(text)
    for (program, *arguments), code in lines(text):
        assert program == "cereval"
        assert main(arguments) == code, arguments
        if arguments[0] == "import":
            told = re.findall(
                r"^    (\S.*)$", text.partition("what not:")[2].partition("##")[0], re.MULTILINE
            )
            assert capsys.readouterr().out.splitlines() == told


def test_the_export_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = page("export.md")
    code = "".join(blocks(text, "py")) + "\nprint(result.run_id)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    run = done.stdout.split()[-1]
    for (program, *arguments), expected in lines(text):
        assert program == "cereval"
        assert main([part.replace("RUN", run) for part in arguments]) == expected, arguments
    assert Path(".eval_results/sums.yaml").exists()


def test_the_workflows_use_inputs_that_the_action_has() -> None:
    action = yaml.safe_load((DOCS.parent / "action.yml").read_text(encoding="utf-8"))
    workflow, step_alone = map(yaml.safe_load, blocks(page("tutorials/gate.md"), "yaml"))
    (step,) = [one for one in workflow["jobs"]["gate"]["steps"] if "cereval" in one["uses"]]
    for used in (step, *step_alone):
        assert set(used["with"]) <= set(action["inputs"])
        assert {name for name, one in action["inputs"].items() if one.get("required")} <= set(used["with"])
