"""Two small files of questions for fleets."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.serving import questions


@pytest.fixture
def data(tmp_path: Path) -> list[str]:
    paths = []
    for name, count in (("a", 500), ("b", 400)):
        (tmp_path / name).mkdir()
        made = questions(tmp_path / name, count, seed=count)
        paths.append(str(made.rename(tmp_path / f"{name}.jsonl")))
    return paths
