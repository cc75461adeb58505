"""Show progress on stderr: plain lines for logs (`runner.progress`), or the interval as it narrows for a terminal."""

from __future__ import annotations

import atexit
import math
import sys
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cereval.records import Certified, Step
from cereval.runner.progress import Observer, PlainDisplay, Progress, Silent, Subject, ends
from cereval.text import duration, percent, printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

ROWS = 6
WIDEST = 100
MOST_MOMENTS = 2000
BAND, ESTIMATE, QUIET = "cyan", "bold white on cyan", "dim"


def observer_for(display: str | None) -> Observer:
    kind = display or ("rich" if sys.stderr.isatty() else "plain")
    if kind == "rich":
        return RichDisplay()
    return Silent() if kind == "none" else PlainDisplay()


# -- on a terminal ----------------------------------------------------------------------------------------------------


class RichDisplay:
    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        self.console = console or Console(stderr=True, highlight=False)
        self._live = Live(console=self.console, auto_refresh=False)
        self._title = Text()
        self._steps: list[Step] = []

    def on_start(self, subject: Subject, notes: Sequence[str] = ()) -> None:
        self._title = title(subject)
        for note in notes:
            self.on_note(note)
        # Also when the run breaks: the cursor is hidden while the display lives.
        atexit.register(self._live.stop)
        self._live.start()

    def on_progress(self, progress: Progress) -> None:
        self._remember(progress)
        width = min(self.console.width, WIDEST)
        self._live.update(picture(self._title, self._steps, progress, width), refresh=True)

    def on_note(self, note: str) -> None:
        """Print a line above the picture: what is written past the console would tear it."""
        from rich.text import Text

        self.console.print(Text(printable(note), style=QUIET))

    def on_end(self, result: Certified) -> None:  # noqa: ARG002
        """Leave the last picture above the answer, which goes to stdout."""
        self._live.stop()
        atexit.unregister(self._live.stop)

    def _remember(self, progress: Progress) -> None:
        step = progress.step
        if step is None or (self._steps and step.calls == self._steps[-1].calls):
            return
        self._steps.append(step)
        if len(self._steps) > MOST_MOMENTS:
            self._steps = [*self._steps[:-1:2], self._steps[-1]]


def title(subject: Subject) -> Text:
    from rich.text import Text

    text = Text(printable(subject.model, 40), style="bold")
    text.append(f" on {subject.n_items:,} questions of {printable(subject.data, 40)}, ", style="not bold")
    return text.append(f"{subject.question} at {percent(subject.confidence)} confidence", style="not bold")


def picture(title: Text, steps: Sequence[Step], progress: Progress, width: int) -> RenderableType:
    from rich.console import Group

    head = title.copy()
    head.truncate(width, overflow="ellipsis")
    calls = max(progress.expected_calls or 0, progress.consumed, 1)
    chart = drawn(steps, calls, width) if steps else []
    return Group(head, *chart, answer_line(progress), *fact_lines(progress, width))


def drawn(steps: Sequence[Step], calls: int, width: int) -> list[Text]:
    from rich.text import Text

    low, high = value_range(steps)
    scale = [percent(high), *[""] * (ROWS - 2), percent(low)]
    lines = []
    for label, row in zip(scale, funnel(steps, calls, width - 6, ROWS), strict=True):
        line = Text(f"{label:>5} ", style=QUIET, no_wrap=True)
        for cell in row:
            line.append("━" if cell.estimate else cell.letter, style=ESTIMATE if cell.estimate else BAND)
        lines.append(line)
    return lines


def answer_line(progress: Progress) -> Text:
    from rich.text import Text

    step = progress.step
    if step is None:
        return Text("     ").append(progress.standing, style="bold")
    text = Text("     ").append(f"{step.estimate:.1%}", style="bold")
    return text.append(f"  {ends(step)}", style=QUIET)


def fact_lines(progress: Progress, width: int) -> list[Text]:
    from rich.text import Text

    lines, indent = [Text("     ", no_wrap=True)], 5
    for fact in facts(progress):
        line = lines[-1]
        if line.cell_len > indent and line.cell_len + len(fact) + 3 > width:
            line = Text(" " * indent, no_wrap=True)
            lines.append(line)
        line.append((" · " if line.cell_len > indent else "") + fact)
    return lines


def facts(progress: Progress) -> list[str]:
    expected = progress.expected_calls
    ahead = expected is not None and expected > progress.consumed
    each = progress.calls_each
    about = f" of about {each * expected:,}" if ahead and expected is not None else ""
    found = [f"{each * progress.consumed:,}{about} calls"]
    if progress.cost_usd is None or progress.cost_usd > 0:
        found.append("cost unknown" if progress.cost_usd is None else f"${progress.cost_usd:.4f}")
    found.append(f"{progress.failures:,} failed")
    found.append(f"{progress.in_flight} in flight")
    found.append(f"{duration(progress.elapsed_s)} so far")
    return [*found, f"{duration(progress.eta_s)} to go"] if ahead and progress.eta_s is not None else found


# -- the interval over the calls, in half-block characters ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cell:
    letter: str
    estimate: bool = False


def funnel(steps: Sequence[Step], calls: int, width: int, height: int) -> list[list[Cell]]:
    """Return rows of cells, the top first; the last column stands for `calls`, columns not reached yet are blank.

    >>> steps = [Step(0, 0.5, 0.0, 1.0), Step(4, 0.5, 0.25, 0.75)]
    >>> for row in funnel(steps, calls=4, width=4, height=2):
    ...     "".join(cell.letter for cell in row)
    '███▄'
    '███▀'
    """
    # The first column is there from the start: an empty picture would look broken.
    reached = [
        min(calls / width, steps[-1].calls),
        *(calls * (column + 2) / width for column in range(width - 1)),
    ]
    columns = [_at(steps, at) for at in reached]
    low, high = value_range(steps)
    return [[_cell(step, row, height, low, high) for step in columns] for row in range(height)]


def value_range(steps: Sequence[Step]) -> tuple[float, float]:
    """Return the range of the interval at a tenth of the moments, in steps of 5%: the first ones may leave the
    picture.
    """
    early = steps[len(steps) // 10]
    low, high = math.floor(early.lower * 20 + 1e-9) / 20, math.ceil(early.upper * 20 - 1e-9) / 20
    return low, max(high, low + 0.05)


def _at(steps: Sequence[Step], calls: float) -> Step | None:
    """Return the newest moment that a column reaches; None beyond the last."""
    if calls > steps[-1].calls:
        return None
    return steps[bisect_right(steps, calls, key=lambda step: step.calls) - 1]


def _cell(step: Step | None, row: int, height: int, low: float, high: float) -> Cell:
    if step is None:
        return Cell(" ")
    half = (high - low) / (2 * height)
    top = high - 2 * row * half
    upper, lower = (_covers(step, top - number * half - half, half) for number in (0, 1))
    inside = top - 2 * half < step.estimate <= top
    return Cell({(True, True): "█", (True, False): "▀", (False, True): "▄"}.get((upper, lower), " "), inside)


def _covers(step: Step, floor: float, size: float) -> bool:
    """Tell whether the middle of a half cell lies in the interval; a narrow one still fills the half it is in."""
    middle, centre = floor + size / 2, (step.lower + step.upper) / 2
    return step.lower <= middle <= step.upper or floor < centre <= floor + size
