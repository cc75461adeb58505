"""The Python examples of all pages run, and the commands, targets and pages that they name exist."""

from __future__ import annotations

import re
import textwrap
import tomllib
from pathlib import Path

import pytest
from docs.pictures import IMAGES, bars, picture

from cereval.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
}
ELSEWHERE = {"docs/inspect.md", "docs/lm-eval.md"}
"""Pages whose examples tests/integrations/test_host_docs.py runs, with the tools that they are about."""
EXAMPLE = re.compile(r"```python\n(.*?)```(?:\n\nIt prints\n\n((?:    [^\n]*\n)+))?", flags=re.DOTALL)
EXAMPLES = [
    pytest.param(name, *found.groups(), id=f"{name}-{number}")
    for name, text in PAGES.items()
    if name not in ELSEWHERE
    for number, found in enumerate(EXAMPLE.finditer(text))
]


@pytest.mark.parametrize(("name", "code", "shown"), EXAMPLES)
def test_python_examples_run(
    name: str, code: str, shown: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(code, name, "exec"), {})
    printed = capsys.readouterr().out
    assert printed.strip()
    assert shown is None or printed == textwrap.dedent(shown)


@pytest.mark.parametrize("name", PAGES)
def test_every_command_named_exists(name: str) -> None:
    assert set(re.findall(r"^(?:\$ )?cereval ([a-z][\w-]*)", PAGES[name], flags=re.MULTILINE)) <= set(
        COMMANDS
    )


def test_every_make_target_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^make (\w+)", PAGES["README.md"], flags=re.MULTILINE)
    assert {"demo", "test"} <= {*targets}
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


def test_every_extra_that_a_page_or_an_error_names_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    named = {
        name for text in (*PAGES.values(), *sources) for name in re.findall(r"cereval\[([a-z-]+)\]", text)
    }
    asked = {name for text in sources for name in re.findall(r'optional\("[\w.]+", "([\w-]+)"\)', text)}
    assert {"sign", "lm-eval"} <= named
    assert {"math", "wandb"} <= asked
    assert named | asked <= {*project["optional-dependencies"]}


def test_the_readme_fits_a_screen() -> None:
    assert len(PAGES["README.md"].split()) < 500


@pytest.mark.parametrize("name", PAGES)
def test_links_between_pages_lead_somewhere(name: str) -> None:
    folder = (ROOT / name).parent
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", PAGES[name]):
        assert (folder / link).exists(), link


@pytest.mark.parametrize("name", PAGES)
def test_modules_and_results_named_exist(name: str) -> None:
    inside = re.findall(r"`(\w+/[\w/]+\.py)`", PAGES[name])
    commands = re.findall(r"python -m ((?:benchmarks|docs)\.\w+)", PAGES[name])
    results = re.findall(r"`(benchmarks/results/[\w.-]+)`", PAGES[name])
    for place in [*results, *(f"{command.replace('.', '/')}.py" for command in commands)]:
        assert (ROOT / place).exists(), place
    for place in inside:
        assert (ROOT / place).exists() or (ROOT / "src" / "cereval" / place).exists(), place


def test_the_picture_of_others_shows_the_newest_table() -> None:
    made = picture(bars())
    assert (IMAGES / "bars.svg").read_text(encoding="utf-8") == made, "python -m docs.pictures makes it anew"
