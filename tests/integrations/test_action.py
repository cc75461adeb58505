"""The GitHub Action: its steps as they stand in action.yml, run in bash with a pretended `gh` and `pip`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ACTION = yaml.safe_load((Path(__file__).parents[2] / "action.yml").read_text(encoding="utf-8"))
STEPS = [step for step in ACTION["runs"]["steps"] if "run" in step]
PLACE = re.compile(r"\$\{\{ *([\w.-]+) *\}\}")
GH = """#!/usr/bin/env bash
printf '%s\\n' "$*" >> calls.txt
if [ "$1" = api ] && [ "$2" = user ]; then exit 1; fi
case "$*" in
  *--method*) ;;
  *--paginate*) cat existing.txt 2>/dev/null ;;
  *) exit "${GH_FAILS:-0}" ;;
esac
"""
PYTHON = f"""#!/usr/bin/env bash
if [[ "$*" == *"-m pip"* ]]; then printf '%s\\n' "$*" >> pip.txt; exit 0; fi
exec {sys.executable} "$@"
"""

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="the action's steps are bash")


class Workflow:
    """Runs the steps of the action one after the other, as GitHub does, up to the first that fails."""

    def __init__(self, folder: Path, inputs: dict[str, str], pull_request: str = "7") -> None:
        defaults = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()}
        self.folder = folder
        self.known = {f"inputs.{name}": value for name, value in {**defaults, **inputs}.items()}
        self.known |= {
            "github.token": "t0ken",
            "github.repository": "org/name",
            "github.action_path": "/the/action",
            "github.event.pull_request.number": pull_request,
            "github.workflow": "Nightly",
            "github.job": "eval",
        }
        tools = folder / "tools"
        tools.mkdir(exist_ok=True)
        for name, text in {"gh": GH, "python": PYTHON}.items():
            (tools / name).write_text(text, encoding="utf-8")
            (tools / name).chmod(0o755)
        self.path = f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"

    def value(self, text: object) -> str:
        return PLACE.sub(lambda found: self.value(self.known.get(found[1], "")), str(text))

    def run(self, **more: str) -> int:
        for step in STEPS:
            done = self._step(step, more)
            if done.returncode:
                self.said = done.stdout + done.stderr
                return done.returncode
            self.said = done.stdout + done.stderr
        return 0

    def _step(self, step: dict[str, Any], more: dict[str, str]) -> subprocess.CompletedProcess[str]:
        output = self.folder / "output.txt"
        output.write_text("", encoding="utf-8")
        env = {name: self.value(value) for name, value in step.get("env", {}).items()}
        env |= {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md")}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.folder,
            env={"HOME": str(self.folder), "PATH": self.path, **env, **more},
            capture_output=True,
            text=True,
            check=False,
        )
        for line in output.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition("=")
            self.known[f"steps.{step.get('id')}.outputs.{name}"] = value
        return done


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    rows = [json.dumps({"question": f"{n} + 1 =", "answer": str(n + 1)}) for n in range(300)]
    (tmp_path / "data set.jsonl").write_text("\n".join(rows), encoding="utf-8")
    return tmp_path


def inputs(model: str, **more: str) -> dict[str, str]:
    return {"data": "data set.jsonl", "model": model, "min": "0.6", "args": "--scorer exact --seed 1", **more}


def test_a_certified_pass_is_commented_and_summarised(questions: Path) -> None:
    work = Workflow(questions, inputs("scripted/0.9"))
    assert work.run() == 0, work.said
    assert (questions / "pip.txt").read_text().strip() == "-P -m pip install --quiet /the/action"
    table = (questions / "gate.md").read_text(encoding="utf-8")
    assert "certified pass" in table
    assert (questions / "summary.md").read_text(encoding="utf-8") == table
    assert (questions / "comment.md").read_text(
        encoding="utf-8"
    ) == f"<!-- cereval Nightly/eval  -->\n{table}"
    assert (questions / "calls.txt").read_text().splitlines()[-1] == "pr comment 7 --body-file comment.md"


def test_its_own_comment_is_edited_and_no_other(questions: Path) -> None:
    (questions / "existing.txt").write_text(
        "41\n43\n"
    )  # what `gh api --jq` prints: the ids of comments of its own
    assert Workflow(questions, inputs("scripted/0.9")).run() == 0
    listed, edited = (questions / "calls.txt").read_text().splitlines()[1:]
    assert "startswith(env.MARKER)" in listed
    assert "user.login == env.AUTHOR" in listed
    assert edited == "api --method PATCH repos/org/name/issues/comments/41 --field body=@comment.md"


def test_the_first_run_is_a_baseline_and_the_next_is_held_against_it(questions: Path) -> None:
    nightly = {"min": "", "baseline": "last", "not-worse": "0.1", "args": "--scorer exact --seed 1"}
    for code, model in ((0, "scripted/0.9"), (0, "scripted/0.9"), (2, "scripted/0.2")):
        work = Workflow(questions, inputs(model, **nightly))
        assert work.run() == code, work.said
    assert "is not worse than scripted/0.9" in (questions / "gate.md").read_text(encoding="utf-8")


def test_nothing_in_the_checkout_is_run(questions: Path) -> None:
    for name in ("json", "pip", "cereval", "click", "yaml", "sqlalchemy"):
        (questions / f"{name}.py").write_text("open('planted.txt', 'w').close()\n")
    assert Workflow(questions, inputs("scripted/0.9")).run() == 0
    assert not (questions / "planted.txt").exists()


def test_the_store_is_kept_from_one_workflow_to_the_next() -> None:
    caches = [step for step in ACTION["runs"]["steps"] if "uses" in step]
    assert [step["uses"].partition("@")[0] for step in caches] == [
        "actions/cache/restore",
        "actions/cache/save",
    ]
    assert caches[0]["with"]["key"] == caches[1]["with"]["key"]


def test_a_certified_fail_fails_even_where_comments_are_not_allowed(questions: Path) -> None:
    work = Workflow(questions, inputs("scripted/0.2"))
    assert work.run(GH_FAILS="1") == 2
    assert "certified fail" in work.said
    assert "certified fail" in (questions / "gate.md").read_text(encoding="utf-8")
    assert (questions / "calls.txt").read_text().splitlines()[-1].startswith("pr comment 7")


@pytest.mark.parametrize(
    ("undecided", "code", "comment", "pull_request"), [("fail", 3, "true", ""), ("pass", 0, "false", "7")]
)
def test_undecided_is_what_the_workflow_says(
    questions: Path, undecided: str, code: int, comment: str, pull_request: str
) -> None:
    spent = inputs("scripted/0.6", undecided=undecided, comment=comment)
    spent["args"] += " --max-calls 3"
    work = Workflow(questions, spent, pull_request)
    assert work.run() == code
    assert "undecided: the budget was spent" in work.said
    assert not (questions / "calls.txt").exists()  # nobody asked for a comment, or there is no pull request


def test_what_cannot_run_fails_without_a_comment(questions: Path) -> None:
    work = Workflow(questions, inputs("scripted/0.9", data="none.jsonl"))
    assert work.run() == 1
    assert not (questions / "calls.txt").exists()


def test_inputs_cannot_be_code(questions: Path) -> None:
    work = Workflow(
        questions, inputs('x"; touch broken; "', args="--scorer 'a b' $(touch broken) `touch broken`")
    )
    assert work.run() == 1
    assert not (questions / "broken").exists()
    for step in STEPS:
        assert "${{" not in step["run"], step["name"]
