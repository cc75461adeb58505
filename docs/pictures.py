"""Draw the pictures of the documentation: `python -m docs.pictures`.

They come from replays of the example; how many questions others ask comes from the newest table of `benchmarks.peers`.
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cereval.datasets.bank import SCORES, example
from cereval.methods.active import Active
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session
from cereval.questions.replay import drive
from cereval.records import Step
from cereval.report.svg import Frame, narrowing
from cereval.stats.increments import Tally
from cereval.stats.information import Information
from cereval.stats.threshold import ThresholdTest

Floats = NDArray[np.float64]
MODEL = "heron"
IMAGES = Path(__file__).parent / "images"
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
AT_EVERY_LOOK = {
    "truescore, confidence sequence": "truescore",
    "hedged betting": "hedged betting",
    "evalsig, confidence sequence": "evalsig",
    "cereval uniform": "cereval, first run",
    "cereval active": "cereval, with earlier runs",
}
"""Methods of the table whose interval may be looked at after every answer, and their names in the picture."""
STYLE = (
    "<style>text{font:12px sans-serif;fill:#667}.end{text-anchor:end}.middle{text-anchor:middle}"
    ".band{fill:#4f7cff33}.line{fill:none;stroke:#2f5bea;stroke-width:2}.dot{fill:#2f5bea}"
    ".plain{fill:none;stroke:#999;stroke-width:2}"
    ".ours{fill:#2f5bea}.theirs{fill:#9aa3b5}"
    ".grid{stroke:#8884}.final{stroke:#2f5bea;stroke-dasharray:4 4}</style>"
)


def scores() -> tuple[Floats, Floats]:
    """Read the scores of one model of the example, and those of the eleven others."""
    rows = list(csv.reader(io.StringIO(example(SCORES))))
    table = np.array([[float(cell) for cell in row[1:]] for row in rows[1:]])
    model = rows[0].index(MODEL) - 1
    return table[:, model], np.delete(table, model, axis=1)


def steps_of(eps: float, *, history: bool) -> list[Step]:
    """Replay one model of the example, and note what was certified after every answer."""
    own, others = scores()
    session = Session(len(own), goal=Estimate(eps), history=others if history else None, seed=0)
    steps = [Step(0, 0.5, 0.0, 1.0)]

    def look(session: Session) -> None:
        result = session.result()
        steps.append(Step(result.n_evaluated, result.estimate, result.lower, result.upper))

    drive(session, own, 1, look)
    return steps


def svg(height: int, words: str, parts: list[str]) -> str:
    return (
        f'<svg viewBox="0 0 860 {height}" role="img" aria-label="{words}" width="860" height="{height}">'
        f"{''.join(parts)}</svg>"
    )


def draws() -> str:
    """Draw what is forecast of some questions after a hundred answers, and how probable each is to be drawn next."""
    own, others = scores()
    session = Session(len(own), goal=Estimate(0.03), history=others, seed=0)
    while session.n_evaluated < 100:
        for draw in session.ask(1):
            session.tell(draw, own[draw.item])
    assert isinstance(session.method, Active)
    tally = session.method.tally
    left = np.flatnonzero(tally.left)
    by_forecast = left[np.argsort(tally.outlook.mean[left], kind="stable")]
    shown = by_forecast[np.linspace(0, len(left) - 1, 20).astype(int)]
    chances = tally.outlook.weights[shown] / tally.outlook.weights[shown].max()
    parts = [
        '<text class="end" x="120" y="66">forecast</text>',
        '<text class="end" x="120" y="176">probability</text>',
    ]
    for number, (forecast, chance) in enumerate(zip(tally.outlook.mean[shown], chances, strict=True)):
        for style, value, bottom in (("theirs", forecast, 106), ("ours", chance, 216)):
            size = max(90 * value, 1.0)
            parts.append(
                f'<rect class="{style}" x="{132 + 36 * number}" y="{bottom - size:.1f}" width="28" '
                f'height="{size:.1f}"/>'
            )
    return svg(226, "Forecasts and probabilities of twenty questions", parts)


def bets() -> str:
    """Draw the money of three bettors that the mean is above a value: two small values, and the mean itself."""
    own, _ = scores()
    truth = float(own.mean())
    values = (0.6, 0.65, truth)
    tests = [ThresholdTest(value, 0.025) for value in values]
    tally, clock = Tally(np.full(len(own), 1 / len(own)), replacement=False), Information()
    money = [[1.0] for _ in values]
    for item in np.random.default_rng(0).permutation(len(own))[:400]:
        prospect = tally.prospect()
        for test in tests:
            test.stake(prospect, clock)
        increment = tally.settle(int(item), own[item], own[item])
        clock.add(increment.low, prospect.variance)
        for test, row in zip(tests, money, strict=True):
            test.settle(increment)
            row.append(float(np.exp(np.logaddexp.reduce(test._wealth[0]))))
    frame = Frame(760, 280, 400, -1.0, 4.0)
    parts = [
        f'<line class="grid" x1="46" x2="746" y1="{frame.y(at):.1f}" y2="{frame.y(at):.1f}"/>'
        f'<text class="end" x="38" y="{frame.y(at) + 4:.1f}">{10**at:g}</text>'
        for at in (-1, 0, 1, 2, 3, 4)
    ]
    needed = frame.y(np.log10(40))
    parts.append(f'<line class="final" x1="46" x2="746" y1="{needed:.1f}" y2="{needed:.1f}"/>')
    parts.append(f'<text x="52" y="{needed - 5:.1f}">above 40: ruled out</text>')
    for value, row in zip(values, money, strict=True):
        points = " ".join(f"{frame.x(call):.1f},{frame.y(np.log10(one)):.1f}" for call, one in enumerate(row))
        parts.append(f'<polyline class="{"plain" if value == truth else "line"}" points="{points}"/>')
        parts.append(f'<text x="752" y="{frame.y(np.log10(row[-1])) + 4:.1f}">R &gt; {value:.3g}</text>')
    return svg(280, "The money of bets against three values", parts)


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
    return svg(280, words, parts)


def peers() -> tuple[int, dict[str, int]]:
    """Read from the newest table how many questions MMLU has, and how many each method asked of them."""
    text = sorted(RESULTS.glob("peers-*.md"))[-1].read_text(encoding="utf-8")
    found = re.search(
        r"^### mmlu.*? N = ([\d,]+).*?\n(.*?)(?=^### |\Z)", text, flags=re.MULTILINE | re.DOTALL
    )
    assert found is not None
    asked = {}
    for name, words in AT_EVERY_LOOK.items():
        line = re.search(rf"^\| {re.escape(name)}[^|]*\| ([\d,]+) ", found[2], flags=re.MULTILINE)
        assert line is not None, name
        asked[words] = int(line[1].replace(",", ""))
    return int(found[1].replace(",", "")), asked


def bars() -> str:
    """Draw how many questions each method asks whose interval may be looked at after every answer."""
    size, asked = peers()
    rows = [("all questions", size), *asked.items()]
    parts = []
    for number, (name, count) in enumerate(rows):
        top, width = 10 + 32 * number, 520 * count / size
        style = "ours" if "cereval" in name else "theirs"
        parts.append(
            f'<text class="end" x="200" y="{top + 16}">{name}</text>'
            f'<rect class="{style}" x="212" y="{top}" width="{width:.0f}" height="22" rx="2"/>'
            f'<text x="{220 + width:.0f}" y="{top + 16}">{count:,}</text>'
        )
    words = "Questions of MMLU that methods ask whose interval may be looked at after every answer"
    return svg(10 + 32 * len(rows), words, parts)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    funnel = picture(narrowing(steps_of(0.03, history=True), 860))
    (IMAGES / "funnel.svg").write_text(funnel, encoding="utf-8")
    for draw_it in (bars, bets, draws, widths):
        (IMAGES / f"{draw_it.__name__}.svg").write_text(picture(draw_it()), encoding="utf-8")
