"""The example notebooks run from top to bottom, and results can be looked at in notebooks."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import cereval

NOTEBOOKS = Path(__file__).parents[2] / "examples" / "notebooks"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_it_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(NOTEBOOKS)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    from execute import executed  # type: ignore[import-not-found]

    shown = [output for cell in executed(path).cells for output in cell.get("outputs", ())]
    assert any("text/html" in output.get("data", {}) for output in shown)
    assert any("image/png" in output.get("data", {}) for output in shown)


def test_every_kind_has_parts_a_frame_and_a_picture() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    scores = [float(number % 4 > 0) for number in range(400)]
    results = [
        cereval.replay(scores, goal=cereval.Estimate(0.1), seed=0),
        cereval.replay({"a": scores, "b": scores[::-1]}, goal=cereval.Difference(0.1), seed=0),
        cereval.replay([[score, 0.0] for score in scores], goal=cereval.Order(), seed=0),
        cereval.replay(scores, groups=["law", "art"] * 200, goal=cereval.Macro(0.1), seed=0),
        cereval.replay(scores, versions=[300, 400], goal=cereval.Estimate(0.1), seed=0),
    ]
    for result in results:
        parts = result.parts()
        assert parts
        assert all(part.lower <= part.estimate <= part.upper for part in parts)
        assert list(result.to_frame()["name"]) == [part.name for part in parts]
        assert result.plot().get_title(loc="left") == result.headline()


def test_a_session_and_a_plan_show_themselves() -> None:
    session = cereval.Session(n_items=50, goal=cereval.Estimate(0.2), seed=0)
    assert "50 questions asked" in session._repr_html_()
    from cereval.plan import Plan, candidate_spec

    plan = Plan("estimate", {"goal": "estimate", "eps": 0.05}, "sha256:00", 10, (candidate_spec("<b>"),))
    assert "&lt;b&gt;" in plan._repr_html_()
