"""The page in headless Chromium: no sideways scrolling on a phone, nothing runs, it prints."""

from __future__ import annotations

import html
import shutil
import subprocess
from pathlib import Path

import pytest
from stories import Reply, pool, told

from cereval.report import render

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (apt-get install chromium)")

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
ATTACK = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">" + "W" * 300
MEASURE = """<!doctype html><title>?</title><iframe style="border:0;width:375px;height:800px"
onload="const root = this.contentDocument.documentElement;
document.title = root.scrollWidth > root.clientWidth ? 'too wide' : 'fits'" srcdoc="{}"></iframe>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    data = pool(categories=20, question=ATTACK)
    return render(told(folder, lambda item: Reply(ATTACK, float(item % 3 > 0)), data=data))


def chromium(folder: Path, content: str, *flags: str) -> str:
    file = folder / "page.html"
    file.write_text(content, encoding="utf-8")
    assert CHROMIUM is not None
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, file.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout


@pytest.mark.slow
def test_a_phone_need_not_scroll_sideways_and_nothing_runs(page: str, tmp_path: Path) -> None:
    found = chromium(tmp_path, MEASURE.format(html.escape(page)), "--dump-dom")
    assert "<title>fits</title>" in found


def test_hostile_answers_do_nothing(page: str, tmp_path: Path) -> None:
    found = chromium(tmp_path, page, "--dump-dom")
    assert "<title>owned" not in found
    assert "cereval</title>" in found


def test_it_prints(page: str, tmp_path: Path) -> None:
    chromium(tmp_path, page, f"--print-to-pdf={tmp_path / 'page.pdf'}", "--no-pdf-header-footer")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
