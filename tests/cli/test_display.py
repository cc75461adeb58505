"""The live display: what it shows, that it fits, and that nothing hostile reaches the terminal."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from cereval.cli.display import (
    MOST_MOMENTS,
    PlainDisplay,
    RichDisplay,
    facts,
    funnel,
    observer_for,
    picture,
    title,
)
from cereval.cli.main import main
from cereval.cli.output import print_table
from cereval.questions.mean.goal import Estimate, Threshold
from cereval.records import Result, Step
from cereval.runner.progress import Progress, Silent, Subject
from cereval.text import printable

WITHIN = Estimate(0.05)
HOSTILE = "\x1b[2J\x1b]0;owned\x07[bold red]name\u202e\ud800\r\n"


def subject(
    name: str = "openai/gpt", data: str = "mmlu.jsonl", goal: Estimate | Threshold = WITHIN
) -> Subject:
    return Subject("r", name, data, 2000, goal.words, 0.95)


def step(calls: int, estimate: float = 0.5) -> Step:
    half = 0.5 / (1 + calls / 30)
    return Step(calls, estimate, 0.5 - half, 0.5 + half)


def progress(consumed: int = 120, **changes: object) -> Progress:
    values: dict[str, object] = {
        "run_id": "r",
        "n_items": 2000,
        "answered": consumed,
        "consumed": consumed,
        "in_flight": 8,
        "failures": 0,
        "step": step(consumed),
        "expected_calls": 400,
        "cost_usd": 0.0125,
        "elapsed_s": 9.5,
        "eta_s": 75.0,
    }
    return Progress(**{**values, **changes})  # type: ignore[arg-type]


def shown(width: int, subject: Subject, *moments: Progress) -> str:
    file = io.StringIO()
    display = RichDisplay(Console(file=file, width=width, force_terminal=False, color_system=None))
    display.on_start(subject, ("categories help",))
    for moment in moments:
        display.on_progress(moment)
    display.on_end(RESULT)
    return file.getvalue()


RESULT = Result(
    estimate=0.5,
    lower=0.45,
    upper=0.55,
    half_width=0.05,
    confidence=0.95,
    n_evaluated=400,
    n_items=2000,
    saved=0.8,
    stopped="goal",
    method="active",
    guarantee="anytime",
    target="benchmark",
    seed=0,
)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_it_fits_and_says_everything(width: int) -> None:
    text = shown(width, subject(), *(progress(n) for n in range(0, 130, 10)))
    assert max(map(len, text.splitlines())) <= width
    for part in ("openai/gpt", "within 5%", "50.0%  [", "120 of about 400 calls", "$0.0125"):
        assert part in text
    for part in ("0 failed", "8 in flight", "1 min 15 s to go", "categories help", "█"):
        assert part in text


def test_hostile_names_are_shown_and_do_nothing() -> None:
    text = shown(100, subject(HOSTILE, HOSTILE), progress())
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert "[bold red]name" in text


def test_plain_lines_hold_nothing_hostile(capsys: pytest.CaptureFixture[str]) -> None:
    display = PlainDisplay(every_s=0.0)
    display.on_start(subject(HOSTILE, HOSTILE), (HOSTILE,))
    display.on_progress(progress())
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)
    assert "[bold red]name" in lines[0]


def test_tables_hold_nothing_hostile(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([["model", HOSTILE]])
    assert "\x1b" not in capsys.readouterr().out


def test_hostile_errors_are_one_printable_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", f"{HOSTILE}.csv", "--model", "m"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()


def test_a_finished_run_has_nothing_to_go() -> None:
    assert facts(progress(400, eta_s=0.0, in_flight=0))[0] == "400 calls"
    assert not any("to go" in fact for fact in facts(progress(400, eta_s=0.0)))


def test_unknown_cost_is_not_shown_as_free() -> None:
    assert "cost unknown" in facts(progress(cost_usd=None))


def test_thresholds_have_a_title_too() -> None:
    assert "at least 80%" in title(subject(goal=Threshold(0.8))).plain


def test_memory_is_bounded() -> None:
    display = RichDisplay(Console(file=io.StringIO(), width=60))
    for n in range(3 * MOST_MOMENTS):
        display._remember(progress(n))
    assert len(display._steps) <= MOST_MOMENTS
    assert display._steps[-1].calls == 3 * MOST_MOMENTS - 1


def test_the_display_is_chosen_by_name() -> None:
    assert isinstance(observer_for("rich"), RichDisplay)
    assert isinstance(observer_for("none"), Silent)
    assert isinstance(observer_for("plain"), PlainDisplay)
    assert isinstance(observer_for(None), PlainDisplay), "stderr is no terminal here"


ends = st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted)


@given(st.lists(ends, min_size=1, max_size=30), st.integers(1, 90), st.integers(1, 9), st.integers(1, 50))
def test_any_history_makes_a_full_picture(
    history: list[list[float]], width: int, height: int, calls: int
) -> None:
    moments = [Step(n, low, low, high) for n, (low, high) in enumerate(history)]
    rows = funnel(moments, calls, width, height)
    assert [len(row) for row in rows] == [width] * height
    assert {cell.letter for row in rows for cell in row} <= set(" █▀▄")


def test_the_funnel_narrows_and_leaves_the_future_blank() -> None:
    moments = [step(n) for n in range(0, 201, 10)]
    rows = funnel(moments, calls=400, width=40, height=8)
    heights = [sum(row[column].letter != " " for row in rows) for column in range(40)]
    assert heights[:20] == sorted(heights[:20], reverse=True)
    assert set(heights[20:]) == {0}


@given(st.text(st.characters(exclude_categories=[]), max_size=60))
def test_printable_texts_hold_no_control_characters(text: str) -> None:
    safe = printable(text)
    safe.encode()
    assert safe.isprintable()


def test_the_first_calls_of_many_show_already() -> None:
    rows = funnel([Step(3, 0.5, 0.0, 1.0)], calls=4000, width=40, height=4)
    assert [row[0].letter for row in rows] == ["█"] * 4
    assert {row[1].letter for row in rows} == {" "}


def test_notes_go_above_the_picture() -> None:
    """What goes to stderr past the console would tear the live picture."""
    file = io.StringIO()
    display = RichDisplay(Console(file=file, width=80, force_terminal=True))
    display.on_start(subject())
    display.on_progress(progress())
    display.on_note("interrupted")
    display.on_end(RESULT)
    assert file.getvalue().index("interrupted") < file.getvalue().rindex("openai/gpt")


def test_the_picture_of_a_first_call_can_be_drawn() -> None:
    first = Step(0, 0.5, 0.0, 1.0)
    Console(file=io.StringIO(), width=20).print(
        picture(title(subject()), [first], progress(0, expected_calls=None), 60)
    )


def test_without_a_single_interval_the_standing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A ranking has no one interval to draw."""
    moment = progress(step=None, standing="2 of 3 pairs decided")
    assert "2 of 3 pairs decided" in shown(80, subject(), moment)
    display = PlainDisplay(every_s=0.0)
    display.on_progress(moment)
    assert "120 of about 400 calls, 2 of 3 pairs decided, 8 in flight" in capsys.readouterr().err
