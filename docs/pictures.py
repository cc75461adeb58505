"""Draw the pictures of the documentation from replays of the example: `python -m docs.pictures`."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from cereval.datasets.bank import SCORES, example
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session
from cereval.questions.replay import drive
from cereval.records import Step
from cereval.report.svg import Frame, narrowing

IMAGES = Path(__file__).parent / "images"
STYLE = (
    "<style>text{font:12px sans-serif;fill:#667}.end{text-anchor:end}.middle{text-anchor:middle}"
    ".band{fill:#4f7cff33}.line{fill:none;stroke:#2f5bea;stroke-width:2}.dot{fill:#2f5bea}"
    ".plain{fill:none;stroke:#999;stroke-width:2}"
    ".grid{stroke:#8884}.final{stroke:#2f5bea;stroke-dasharray:4 4}</style>"
)


def steps_of(eps: float, *, history: bool) -> list[Step]:
    """Replay one model of the example, and note what was certified after every answer."""
    rows = list(csv.reader(io.StringIO(example(SCORES))))
    table = np.array([[float(cell) for cell in row[1:]] for row in rows[1:]])
    model = rows[0].index("heron") - 1
    others = np.delete(table, model, axis=1) if history else None
    session = Session(len(table), goal=Estimate(eps), history=others, seed=0)
    steps = [Step(0, 0.5, 0.0, 1.0)]

    def look(session: Session) -> None:
        result = session.result()
        steps.append(Step(result.n_evaluated, result.estimate, result.lower, result.upper))

    drive(session, table[:, model], 1, look)
    return steps


def picture(drawing: str) -> str:
    """Make a drawing a file of its own."""
    return drawing.replace(">", f' xmlns="http://www.w3.org/2000/svg">{STYLE}', 1) + "\n"


def widths() -> str:
    """Draw how the half-width falls with the answers, without history and with it."""
    plain, informed = steps_of(0.03, history=False), steps_of(0.03, history=True)
    frame = Frame(860, 280, plain[-1].calls, 0.0, 0.3)
    parts = [
        f'<line class="grid" x1="46" x2="846" y1="{frame.y(at):.1f}" y2="{frame.y(at):.1f}"/>'
        f'<text class="end" x="38" y="{frame.y(at) + 4:.1f}">±{at:.0%}</text>'
        for at in (0.03, 0.1, 0.2, 0.3)
    ]
    for steps, style, words in ((plain, "plain", "no history"), (informed, "line", "eleven past models")):
        points = " ".join(
            f"{frame.x(step.calls):.1f},{frame.y((step.upper - step.lower) / 2):.1f}" for step in steps
        )
        x, last = frame.x(steps[-1].calls), steps[-1].calls
        parts.append(f'<polyline class="{style}" points="{points}"/>')
        parts.append(f'<text class="end" x="{x:.1f}" y="{frame.y(0.03) + 18:.1f}">{words}: {last}</text>')
    words = "Half-width of the certified interval over the answers"
    return (
        f'<svg viewBox="0 0 860 280" role="img" aria-label="{words}" width="860" height="280">'
        f"{''.join(parts)}</svg>"
    )


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    funnel = picture(narrowing(steps_of(0.03, history=True), 860))
    (IMAGES / "funnel.svg").write_text(funnel, encoding="utf-8")
    (IMAGES / "widths.svg").write_text(picture(widths()), encoding="utf-8")
