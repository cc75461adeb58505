"""The flags that `run` and `gate` share, and those that `resume` takes over from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from cereval.cli.weighting import OPTIONS as WEIGHTING

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Any], Any]

STORE = click.option(
    "--store", metavar="URL", help="sqlite:///FILE or postgresql://...  [default: sqlite:///cereval.db]"
)
OUTPUT: tuple[Option, ...] = (
    click.option("-o", "--output", metavar="FILE", help="Where the certificate goes."),
    click.option(
        "--display",
        type=click.Choice(["rich", "plain", "none"]),
        help="Progress on stderr.  [default: rich on a terminal, else plain]",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
)
LIMITS: tuple[Option, ...] = (
    click.option(
        "-j", "--max-connections", "connections", type=int, metavar="N", help="Calls at a time.  [default: 8]"
    ),
    click.option("--max-calls", type=int, metavar="N", help="Ask at most N questions."),
    click.option(
        "--max-usd",
        type=float,
        metavar="USD",
        help="Spend at most this, calls in flight reckoned as dear as the dearest so far.",
    ),
    click.option("--max-minutes", type=float, metavar="M", help="Take at most this long."),
)
PRICES: tuple[Option, ...] = (
    click.option("--price-in", type=float, metavar="USD", help="Per million input tokens."),
    click.option("--price-out", type=float, metavar="USD", help="Per million output tokens."),
    click.option("--timeout", type=float, metavar="S", help="Seconds for one answer.  [default: 120]"),
)
FIELDS: tuple[Option, ...] = tuple(
    click.option(f"--{part}", metavar="FIELD", help=f"The field with {what}.")
    for part, what in {
        "input": "the question",
        "answer": "the right answer",
        "choices": "the choices, or several as A,B,C,D",
        "category": "the category",
        "id": "the item's id",
    }.items()
)
MODEL: tuple[Option, ...] = (
    click.option(
        "--model", metavar="NAME", help="openai/NAME, python:module:function, gguf:PATH, local/smollm2."
    ),
    click.option("--base-url", metavar="URL", help="An OpenAI-compatible server, usually ending in /v1."),
    click.option("--temperature", type=float, help="[default: 0]"),
    click.option("--max-tokens", type=int, metavar="N", help="Longest answer."),
    click.option("--template", help="The prompt in Jinja2, such as 'Q: {{ question }}', or @FILE."),
    click.option("--system", help="The system prompt, or @FILE."),
    click.option("--few-shot", type=int, metavar="N", help="Worked examples, taken out of the data."),
)
SCORING: tuple[Option, ...] = (
    click.option(
        "--scorer",
        metavar="NAME",
        help="exact, contains, regex:PATTERN, choice, numeric, math, f1, python:..., grade, prefer.",
    ),
    click.option("--judge", metavar="MODEL", help="The model behind the scorers grade and prefer."),
    click.option("--judge-base-url", metavar="URL", help="Its address.  [default: that of --base-url]"),
)
STATISTICS: tuple[Option, ...] = (
    click.option("--confidence", type=float, help="[default: 0.95]"),
    click.option("--method", help="auto, uniform, active, or one of the paper's.  [default: auto]"),
    click.option(
        "--target", help="benchmark, population or expected: the mean over what.  [default: benchmark]"
    ),
    *WEIGHTING,
    click.option("--seed", type=int, help="[default: 0]"),
    click.option(
        "--history/--no-history",
        default=None,
        help="Learn from earlier runs on the same data.  [default: yes]",
    ),
)


def apply(*groups: Option | tuple[Option, ...]) -> Callable[[Command], Command]:
    """Adds options in the order in which they are listed."""
    options = [one for group in groups for one in (group if isinstance(group, tuple) else (group,))]

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def names_of(options: Iterable[Option]) -> tuple[str, ...]:
    """The parameters that options set, in their order.

    >>> names_of(LIMITS)
    ('connections', 'max_calls', 'max_usd', 'max_minutes')
    """

    @apply(tuple(options))
    def probe() -> None:
        """Takes the options."""

    return tuple(str(parameter.name) for parameter in click.command()(probe).params)


TASK: tuple[Option, ...] = (
    *MODEL,
    *SCORING,
    *FIELDS,
    *STATISTICS,
    *LIMITS,
    *PRICES,
    STORE,
    click.option("--config", metavar="FILE", help="A task file (YAML); flags win over it."),
    click.option("--dry-run", is_flag=True, help="Show what would be asked, and ask nothing."),
    *OUTPUT,
)
