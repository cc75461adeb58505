"""docs/inspect.md and docs/lm-eval.md: every command and every example runs, in their order."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.serving import served

from cereval.cli.main import main

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = Path(__file__).parent / "page_of_commands.py"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)


def commands(page: str) -> list[tuple[list[str], int]]:
    """The command lines of a page, without installing, and the exit codes that their comments promise."""
    lines = [
        line for block in blocks(page, "sh") for line in block.splitlines() if not line.startswith("pip ")
    ]
    codes = [re.search(r"# exit (\d)", line) for line in lines]
    return [
        (shlex.split(line, comments=True), int(code[1]) if code else 0)
        for line, code in zip(lines, codes, strict=True)
    ]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_on_inspect(here: Path) -> None:
    pytest.importorskip("inspect_ai", reason="needs cereval[inspect]")
    rows = [
        {"question": f"{n} plus {n}?", "answer": str(2 * n), "category": "ab"[n % 2]} for n in range(100, 220)
    ]
    (here / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    key = {row["question"]: row["answer"] for row in rows}
    (here / "key.json").write_text(json.dumps(key), encoding="utf-8")
    task, example = blocks("inspect.md", "python")
    (here / "quiz.py").write_text(task, encoding="utf-8")
    with served(here / "key.json") as url:
        told = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": url}
        quiet = {"INSPECT_DISPLAY": "none", "INSPECT_EVAL_NO_LOG_REALTIME": "true"}
        page = [sys.executable, str(PAGE), json.dumps(commands("inspect.md")), example]
        ended = subprocess.run(page, env={**os.environ, **told, **quiet}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert "120 questions asked" in ended.stdout
    assert_headlines(here)


def assert_headlines(here: Path) -> None:
    """Every log of the page is certified, and verifies."""
    from inspect_ai.log import read_eval_log

    logs = sorted([*(here / "logs").glob("*.eval"), *(here / "set").glob("*.eval")])
    assert len(logs) == 7
    for log in logs:
        head: Any = read_eval_log(str(log), header_only=True)
        assert head.status == "success"
        assert head.results.headline.metric == "certified"
        assert main(["verify", str(log)]) == 0


def test_the_page_on_lm_eval(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lm_eval", reason="needs cereval[lm-eval]")
    from lm_eval.tasks import TaskManager

    # Without the harness's own tasks: to read their files takes four seconds for each command.
    monkeypatch.setattr(TaskManager.__init__, "__defaults__", (None, None, False, None))
    os.environ.setdefault("TQDM_DISABLE", "1")
    (task,) = blocks("lm-eval.md", "yaml")
    for name in ("sums", "facts"):
        rows = [{"question": f"{name} {n}", "choices": ["yes", "no"], "answer": n % 2} for n in range(400)]
        (here / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        (here / f"{name}.yaml").write_text(task.replace("sums", name), encoding="utf-8")
    for (program, *arguments), code in commands("lm-eval.md"):
        assert program == "cereval"
        assert main(arguments) == code, arguments
    said = capsys.readouterr().out
    assert "acc_certified_lower" in said
    assert "sums: at least 90%: certified fail" in said
    (example,) = blocks("lm-eval.md", "python")
    exec(compile(example, "docs/lm-eval.md", "exec"), {})
    assert "questions asked" in capsys.readouterr().out
