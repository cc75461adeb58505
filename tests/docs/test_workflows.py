"""The workflows of the forge: pinned, with few rights, and about what exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
WORKFLOWS = [pytest.param(path.read_text(encoding="utf-8"), id=path.stem) for path in FILES]


def steps(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job.get("steps", [])]


@pytest.mark.parametrize("text", WORKFLOWS)
def test_every_action_has_a_whole_version(text: str) -> None:
    used = [step["uses"] for step in steps(yaml.safe_load(text)) if "uses" in step]
    assert [name for name in used if not re.search(r"@v\d+\.\d+\.\d+$", name)] == []


@pytest.mark.parametrize("text", WORKFLOWS)
def test_rights_are_named_and_write_rights_belong_to_one_job(text: str) -> None:
    workflow = yaml.safe_load(text)
    assert set(workflow["permissions"].values()) <= {"read"}
    with_code = [job for job in workflow["jobs"].values() if "checkout" in str(job)]
    assert not any("write" in str(job.get("permissions")) for job in with_code)
    checkouts = [step for step in steps(workflow) if "checkout" in step.get("uses", "")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@pytest.mark.parametrize("text", WORKFLOWS)
def test_no_script_is_put_together_from_what_others_write(text: str) -> None:
    """Values come in through the environment: put into the script they could be code."""
    assert [step["run"] for step in steps(yaml.safe_load(text)) if "${{" in step.get("run", "")] == []


@pytest.mark.parametrize("text", WORKFLOWS)
def test_what_is_named_exists(text: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"run: make (\w+)", text):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
    for place in re.findall(r"\btests/[\w/]+", text):
        assert (ROOT / place).exists(), place


def test_the_versions_tested_are_the_versions_promised() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))
    tested = workflow["jobs"]["everything"]["strategy"]["matrix"]["python"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    promised = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert tested == promised
    assert f">={promised[0]}" == project["requires-python"]


def test_the_citation_names_the_version() -> None:
    from cereval.version import __version__

    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == __version__
