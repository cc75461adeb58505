"""Draw the pictures of the documentation from replays of the example: `python -m docs.pictures`."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from cereval.datasets.example import example_scores
from cereval.goals import Estimate
from cereval.records import Step
from cereval.report.svg import narrowing
from cereval.sessions.mean import Session
from cereval.sessions.replay import drive

IMAGES = Path(__file__).parent / "images"
STYLE = (
    "<style>text{font:12px sans-serif;fill:#667}.end{text-anchor:end}.middle{text-anchor:middle}"
    ".band{fill:#4f7cff33}.line{fill:none;stroke:#2f5bea;stroke-width:2}.dot{fill:#2f5bea}"
    ".grid{stroke:#8884}.final{stroke:#2f5bea;stroke-dasharray:4 4}</style>"
)


def funnel() -> str:
    """Draw how the interval of one model narrows, with the scores of the other models as history."""
    rows = list(csv.reader(io.StringIO(example_scores())))
    table = np.array([[float(cell) for cell in row[1:]] for row in rows[1:]])
    model = rows[0].index("heron") - 1
    others = np.delete(table, model, axis=1)
    session = Session(len(table), goal=Estimate(0.03), history=others, seed=0)
    steps = [Step(0, 0.5, 0.0, 1.0)]

    def look(session: Session) -> None:
        result = session.result()
        steps.append(Step(result.n_evaluated, result.estimate, result.lower, result.upper))

    drive(session, table[:, model], 1, look)
    return narrowing(steps, 860).replace(">", f' xmlns="http://www.w3.org/2000/svg">{STYLE}', 1)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    (IMAGES / "funnel.svg").write_text(funnel() + "\n", encoding="utf-8")
