"""List the flags that commands share, in groups."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from string import hexdigits
from typing import Any, TypeVar

import click

from cereval.errors import InvalidInput
from cereval.files import is_file

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Any], Any]


def can_be_written(path: Path) -> bool:
    """Tell whether a file can be made, or written over, at this path; folders on the way to it may be missing."""
    try:
        if path.exists():
            return path.is_file() and os.access(path, os.W_OK)
        folder = next(one for one in path.absolute().parents if one.exists())
        return folder.is_dir() and os.access(folder, os.W_OK)
    except OSError:  # such as a name that is too long, or a folder that may not be looked into
        return False


def writable(context: click.Context, option: click.Parameter, value: str | None) -> str | None:  # noqa: ARG001
    """Refuse a file that cannot be written before any work is done: a callback for options."""
    if value is not None and not can_be_written(Path(value)):
        raise InvalidInput(str(option.name), "a file in a folder that can be written to", value)
    return value


def names_a_run(text: str) -> bool:
    """Tell whether an argument is the id of a run, or the beginning of one, and not a file.

    >>> names_a_run("ba27b93c9ad3"), names_a_run("run.certificate.json")
    (True, False)
    """
    return bool(text) and set(text) <= set(hexdigits) and not is_file(Path(text))


def checked_price(price: float | None) -> None:
    """Refuse a price of one call that is none."""
    from cereval.models.prices import HIGHEST

    if price is not None and not 0 <= price <= HIGHEST:
        raise InvalidInput("--price", f"a number >= 0 and at most {HIGHEST:g}", price)


STORE = click.option(
    "--store",
    metavar="URL",
    help="Results database: sqlite:///FILE or postgresql://...  [default: sqlite:///cereval.db]",
)
TRUST = click.option(
    "--trust",
    is_flag=True,
    default=None,
    help="Run the Python code and call the addresses that the store or a task file names; this consent is remembered.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
DISPLAY = click.option(
    "--display",
    type=click.Choice(["rich", "plain", "none"]),
    help="How to show progress on stderr.  [default: rich on a terminal, else plain]",
)
CERTIFICATE = click.option(
    "-o",
    "--output",
    "--certificate",
    "certificate",
    callback=writable,
    metavar="FILE",
    help="Write the certificate here; `cereval verify` recomputes it.",
)
REPORT = click.option(
    "--report", callback=writable, metavar="FILE", help="Write a page about the result (HTML)."
)
MAX_CALLS = click.option(
    "--max-calls", "--budget", "max_calls", type=int, metavar="N", help="Ask at most N questions."
)
SEED = click.option(
    "--seed",
    type=int,
    help="Number that decides the draws; set it to repeat a run.  [default: drawn at random, recorded]",
)
OUTPUT: tuple[Option, ...] = (CERTIFICATE, REPORT, DISPLAY, JSON)
CONNECTIONS = click.option(
    "-j",
    "--max-connections",
    "connections",
    type=int,
    metavar="N",
    help="Make at most N calls at a time.  [default: 8]",
)
SPENDING: tuple[Option, ...] = (
    click.option(
        "--max-usd",
        type=float,
        metavar="USD",
        help="Spend at most this; each call in flight is counted at the highest cost of a call so far.",
    ),
    click.option("--max-minutes", type=float, metavar="M", help="Stop after M minutes."),
)
LIMITS: tuple[Option, ...] = (CONNECTIONS, MAX_CALLS, *SPENDING)
PRICES: tuple[Option, ...] = (
    click.option(
        "--price-in",
        type=float,
        metavar="USD",
        help="Price of a million input tokens.  [default: prices.yaml in the folder of settings, else list prices]",
    ),
    click.option("--price-out", type=float, metavar="USD", help="Price of a million output tokens."),
    click.option(
        "--timeout", type=float, metavar="S", help="Wait at most S seconds for one answer.  [default: 120]"
    ),
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
MODEL = click.option(
    "--model",
    metavar="NAME",
    help="The model to ask: openai/NAME, anthropic/, deepseek/, gemini/, groq/, mistral/, openrouter/, together/ or "
    "xai/NAME, python:module:function, gguf:PATH, local/smollm2, given/FIELD (answers in the data), external/NAME "
    "(asked outside: `cereval ask` and `tell`).",
)
CHOOSE = click.option(
    "--choose",
    type=click.Choice(["text", "logprobs"]),
    help="How a choice is read: from the answer's text, or as the likeliest letter, where the server sends "
    "log-probabilities.  [default: text]",
)
ASKING_A_MODEL: tuple[Option, ...] = (
    click.option(
        "--base-url", metavar="URL", help="Address of an OpenAI-compatible server, usually ending in /v1."
    ),
    click.option("--temperature", type=float, help="Sampling temperature of the model.  [default: 0]"),
    click.option("--max-tokens", type=int, metavar="N", help="Longest answer, in tokens."),
    click.option("--template", help="The prompt in Jinja2, such as 'Q: {{ question }}', or @FILE."),
    click.option("--system", help="The system prompt, or @FILE."),
    click.option(
        "--few-shot",
        type=int,
        metavar="N",
        help="Put N worked examples, taken out of the data, before each question.",
    ),
    CHOOSE,
)
SAMPLING: tuple[Option, ...] = (
    click.option(
        "--samples",
        type=int,
        metavar="N",
        help="Ask every question drawn N times (--temperature above 0); its score is the mean.",
    ),
    click.option(
        "--pass-at",
        type=int,
        metavar="K",
        help="Its score is pass@K instead: the chance that the best of K answers is right, from N answers (default K).",
    ),
)
SCORING: tuple[Option, ...] = (
    click.option(
        "--scorer",
        metavar="NAME",
        help="How answers are scored: exact, contains, regex:PATTERN, choice, numeric, math, f1, python:..., grade, "
        "prefer, people, people:scale, people:prefer.",
    ),
    click.option(
        "--raters",
        type=int,
        metavar="N",
        help="With --scorer people: labels by different people that an answer needs.  [default: 1]",
    ),
    click.option(
        "--judge",
        metavar="MODEL",
        help="The model behind the scorers grade and prefer; with people, it grades all answers first, to find where "
        "labels are worth most.",
    ),
    click.option(
        "--judge-base-url", metavar="URL", help="The judge's address.  [default: that of --base-url]"
    ),
    click.option(
        "--judge-template",
        metavar="TEXT|@FILE",
        help="The judge's prompt. For grade it has {question}, {answer}, {reference}, {criteria}; the judge must end "
        "with a grade from 1 to 10 as [[5]], and the score is (grade - 1)/9. For prefer it has {question}, {first}, "
        "{second}; the judge must answer m or M and give log-probabilities.",
    ),
    click.option(
        "--rubric",
        metavar="TEXT|@FILE",
        help="Criteria for the judge, put into its template, and for people.",
    ),
    click.option(
        "--judge-price-in", type=float, metavar="USD", help="Price of a million input tokens of the judge."
    ),
    click.option(
        "--judge-price-out", type=float, metavar="USD", help="Price of a million output tokens of the judge."
    ),
)
REUSE: tuple[Option, ...] = (
    click.option(
        "--fresh/--reuse",
        default=None,
        help="Ask every question again, or reuse stored answers of the same model to the same prompt (only at "
        "temperature 0).  [default: --reuse; --fresh for `gate`]",
    ),
    click.option("--max-age", metavar="AGE", help="Reuse no answer older than this, such as 12h or 7d."),
    click.option(
        "--revision",
        metavar="NAME",
        help="Name of the checkpoint, where several are served under one model name.",
    ),
)
LABELS: tuple[Option, ...] = (
    click.option(
        "--name", metavar="NAME", help="A name for the run, by which `cereval runs --tag` finds it."
    ),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag for the run; may be repeated."),
)
SEAL = click.option(
    "--seal", metavar="FILE", help="Carry out exactly the plan that `cereval seal` wrote to FILE, or refuse."
)
WEIGHTING: tuple[Option, ...] = (
    click.option(
        "--weights",
        metavar="FILE|COLUMN",
        help="Weights of the items in the mean: a file with `item` and `weight`, or a column of the items.",
    ),
    click.option(
        "--mix",
        metavar="NAME=SHARE,...|FILE",
        help="Shares of the categories in the mean, such as law=0.7,art=0.3, or a file with `category` and `share`; "
        "shares are relative.",
    ),
)
STATISTICS: tuple[Option, ...] = (
    click.option(
        "--confidence", type=float, help="Probability with which the answer holds, at least.  [default: 0.95]"
    ),
    click.option(
        "--method",
        help="How questions are chosen: auto, uniform, active, or one of the paper's.  [default: auto]",
    ),
    click.option(
        "--target",
        help="What the mean is over: these items (benchmark), the population they came from, or also the model's own "
        "randomness (expected).  [default: benchmark]",
    ),
    *WEIGHTING,
    SEED,
    click.option(
        "--history/--no-history",
        default=None,
        help="Learn from earlier runs of other models on the same questions.  [default: yes]",
    ),
)
ASKING: tuple[Option, ...] = (
    *ASKING_A_MODEL,
    *SCORING,
    *FIELDS,
    *REUSE,
    CONNECTIONS,
    *SPENDING,
    *PRICES,
    TRUST,
)
"""The options that make sense only where models are asked; none has a default."""

RUN: tuple[Option, ...] = (
    MODEL,
    *ASKING_A_MODEL,
    *SAMPLING,
    *SCORING,
    *FIELDS,
    *STATISTICS,
    *REUSE,
    *LIMITS,
    *PRICES,
    STORE,
    TRUST,
    click.option(
        "--config", metavar="FILE", help="Read settings from a task file (YAML); flags override it."
    ),
    click.option("--dry-run", is_flag=True, help="Show what would be asked, and ask nothing."),
    SEAL,
    *LABELS,
    *OUTPUT,
)
"""All options of `run` and `gate` but the goal."""

LIVE: tuple[Option, ...] = (*ASKING, STORE, *LABELS, DISPLAY)
"""What `compare`, `rank`, `tasks` and `extend` take where models are asked."""


def apply(*groups: Option | tuple[Option, ...]) -> Callable[[Command], Command]:
    """Add options in the order in which they are listed."""
    options = [one for group in groups for one in (group if isinstance(group, tuple) else (group,))]

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def names_of(options: Iterable[Option]) -> tuple[str, ...]:
    """Return the parameters that options set, in their order.

    >>> names_of(LIMITS)
    ('connections', 'max_calls', 'max_usd', 'max_minutes')
    """

    @apply(tuple(options))
    def probe() -> None:
        """Take the options."""

    return tuple(str(parameter.name) for parameter in click.command()(probe).params)


def asking_flags(flags: Mapping[str, Any], *more: str) -> dict[str, Any]:
    """Return those of a command's flags that are settings of a request."""
    names = (*names_of(ASKING), "store", "confidence", "seed", "max_calls", *more)
    return {name: flags[name] for name in names if name in flags}


def refuse_asking(context: click.Context, flags: Mapping[str, Any]) -> None:
    """Refuse options that only make sense where models are asked: passing over them in silence would mislead."""
    if flags.get("seal") is not None:
        raise InvalidInput(
            "--seal", "left out where nothing is asked: recorded scores are no run", "recorded scores"
        )
    asking = (*names_of(ASKING), *names_of(LABELS))
    for name in (str(parameter.name) for parameter in context.command.params):
        if name in asking and flags[name] not in (None, ()):
            raise InvalidInput(name, "given only where models are asked", flags[name])


def refuse_recorded(flags: Mapping[str, Any], *names: str, usual: str = "store") -> None:
    """Refuse options that only recorded scores have, and histories that only they know; usual: the one unasked."""
    for name in names:
        if flags[name] is not None:
            raise InvalidInput(f"--{name}", "left out where models are asked", flags[name])
    if set(flags.get("history") or ()) - {"store", "none"}:
        known = " or ".join(f"`{one}`{' (the default)' * (one == usual)}" for one in ("store", "none"))
        raise InvalidInput("--history", f"{known} where models are asked", flags["history"][0])


def are_asked(data: str, models: Iterable[str]) -> bool:
    """Tell whether the models are to be asked: they are named as models are, and no table has columns of the
    names."""
    from cereval.datasets.tables import read_scores
    from cereval.errors import CerevalError
    from cereval.models import KINDS
    from cereval.runner.outside import OUTSIDE

    names = set(models)
    prefixes = tuple(
        kind.partition(":")[0] + ":" if ":" in kind else kind.partition("/")[0] + "/" for kind in KINDS
    )
    if not all(name.startswith((*prefixes, OUTSIDE)) for name in names):
        return False
    if Path(data).suffix not in (".csv", ".parquet"):
        return True
    try:
        return not names <= set(read_scores(data).models)
    except CerevalError:
        return True
