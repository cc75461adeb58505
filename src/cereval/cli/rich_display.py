"""Progress on a terminal: the interval as it narrows, and what the calls have come to."""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from cereval.cli.funnel import Moment, funnel, value_range
from cereval.goals.words import in_words
from cereval.plan import Plan
from cereval.runner.progress import Progress
from cereval.sessions import AnyResult
from cereval.text import duration, interval, percent, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

ROWS = 6
WIDEST = 100
MOST_MOMENTS = 2000
BAND, ESTIMATE, QUIET = "cyan", "bold white on cyan", "dim"


class RichDisplay:
    """An `Observer` that redraws a few lines on stderr. goal: the one now pursued, where it is not that of the plan."""

    def __init__(self, console: Console | None = None, goal: Mapping[str, Any] | None = None) -> None:
        self._goal = goal
        self.console = console or Console(stderr=True, highlight=False)
        self._live = Live(console=self.console, auto_refresh=False)
        self._title = Text()
        self._moments: list[Moment] = []

    def on_start(self, plan: Plan, n_items: int, notes: Sequence[str] = ()) -> None:
        self._title = title(plan, n_items, self._goal)
        for note in notes:
            self.on_note(note)
        # Also when the run breaks: the cursor is hidden while the display lives.
        atexit.register(self._live.stop)
        self._live.start()

    def on_progress(self, progress: Progress) -> None:
        self._remember(progress)
        width = min(self.console.width, WIDEST)
        self._live.update(picture(self._title, self._moments, progress, width), refresh=True)

    def on_note(self, note: str) -> None:
        """Above the picture: what is written past the console would tear it."""
        self.console.print(Text(printable(note), style=QUIET))

    def on_end(self, result: AnyResult) -> None:  # noqa: ARG002
        """The answer itself goes to stdout; the last picture stays above it."""
        self._live.stop()
        atexit.unregister(self._live.stop)

    def _remember(self, progress: Progress) -> None:
        if self._moments and progress.consumed == self._moments[-1].calls:
            return
        self._moments.append(Moment(progress.consumed, progress.estimate, progress.interval))
        if len(self._moments) > MOST_MOMENTS:
            self._moments = [*self._moments[:-1:2], self._moments[-1]]


def title(plan: Plan, n_items: int, goal: Mapping[str, Any] | None = None) -> Text:
    """Who is asked what, and to which end."""
    text = Text(printable(plan.model_name, 40), style="bold")
    text.append(f" on {n_items:,} items of {printable(plan.data_name or 'data', 40)}, ", style="not bold")
    return text.append(
        f"{in_words(goal or plan.goal)} at {percent(plan.confidence)} confidence", style="not bold"
    )


def picture(title: Text, moments: Sequence[Moment], progress: Progress, width: int) -> RenderableType:
    """All lines of one moment, none wider than `width`."""
    head = title.copy()
    head.truncate(width, overflow="ellipsis")
    calls = max(progress.expected_calls or 0, progress.consumed, 1)
    return Group(head, *drawn(moments, calls, width), answer_line(progress), *fact_lines(progress, width))


def drawn(moments: Sequence[Moment], calls: int, width: int) -> list[Text]:
    """The funnel with its scale at the left."""
    low, high = value_range(moments)
    scale = [percent(high), *[""] * (ROWS - 2), percent(low)]
    lines = []
    for label, row in zip(scale, funnel(moments, calls, width - 6, ROWS), strict=True):
        line = Text(f"{label:>4} ", style=QUIET, no_wrap=True)
        for cell in row:
            line.append("━" if cell.estimate else cell.letter, style=ESTIMATE if cell.estimate else BAND)
        lines.append(line)
    return lines


def answer_line(progress: Progress) -> Text:
    """The estimate, how far it may be off, and the interval."""
    ends = progress.interval
    reach = max(progress.estimate - ends.lower, ends.upper - progress.estimate)
    text = Text("     ").append(f"{progress.estimate:.1%} ± {reach:.1%}", style="bold")
    return text.append(f"  {interval(ends.lower, ends.upper)}", style=QUIET)


def fact_lines(progress: Progress, width: int) -> list[Text]:
    """The facts in as few lines as fit."""
    lines, indent = [Text("     ", no_wrap=True)], 5
    for fact in facts(progress):
        line = lines[-1]
        if line.cell_len > indent and line.cell_len + len(fact) + 3 > width:
            line = Text(" " * indent, no_wrap=True)
            lines.append(line)
        line.append((" · " if line.cell_len > indent else "") + fact)
    return lines


def facts(progress: Progress) -> list[str]:
    """Calls, savings, money, trouble and time, in order of interest."""
    expected = progress.expected_calls
    ahead = expected is not None and expected > progress.consumed
    about = f" of about {expected:,}" if ahead else ""
    found = [f"{progress.consumed:,}{about} calls"]
    if expected is not None:
        found.append(f"{max(1 - expected / progress.n_items, 0):.0%} saved")
    if progress.cost_usd is None or progress.cost_usd > 0:
        found.append("cost unknown" if progress.cost_usd is None else f"${progress.cost_usd:.4f}")
    found.append(f"{progress.failures:,} failed")
    found.append(f"{progress.in_flight} in flight")
    found.append(f"{duration(progress.elapsed_s)} so far")
    return [*found, f"{duration(progress.eta_s)} to go"] if ahead and progress.eta_s is not None else found
