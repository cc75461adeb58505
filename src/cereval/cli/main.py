"""Run the `cereval` command. Subcommands are imported when they are used, so that `cereval --help` is instant."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path

import click

from cereval.errors import CerevalError, InvalidInput, shown
from cereval.text import did_you_mean, printable
from cereval.version import __version__

COULD_NOT_RUN = 1
INTERRUPTED = 130
LONGEST_ERROR = 2000


COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("run", "Evaluate a model with as few calls as a certified answer takes."),
    "resume": ("resume", "Go on with a run after a crash, a Ctrl-C or a spent budget."),
    "gate": ("run", "Check whether a model reaches a score: pass, fail or undecided."),
    "view": ("view", "Look at the runs in the store in a browser, live."),
    "runs": ("runs", "List the runs in the store."),
    "seal": ("seal", "Fix a run's plan before its first call, so that others can check it."),
    "verify": ("verify", "Recompute a certificate, and say whether it holds."),
    "show": ("runs", "Show the prompts, answers and scores of a run."),
    "export": ("runs", "Write the answers of a run, or what they prove, for other tools."),
    "import": ("import_logs", "Turn logs of other evaluation tools into a table of scores."),
    "ask": ("ask", "Hand out the next questions of a run to people or other systems."),
    "tell": ("ask", "Take in scores of questions that were handed out."),
    "rescore": ("resume", "Score the answers of a run again, without asking the model."),
    "judge": ("runs", "Say how far a judge can be trusted, from the labels of people."),
    "trend": ("runs", "Show every model and date on one data set, with intervals."),
    "delete": ("runs", "Remove a run and its answers."),
    "report": ("runs", "Write a page about a run: the answer and what it rests on."),
    "replay": ("replay", "Replay recorded scores: what would the evaluation have cost?"),
    "compare": ("run", "Compare two models: which is better, or is a new one not worse?"),
    "tasks": ("run", "Evaluate many tasks at once: the macro mean, every task, a threshold."),
    "extend": ("run", "Evaluate a data set that grows: all versions certified at once."),
    "rank": ("run", "Put many models in a certified order."),
    "lm-eval": ("lm_eval", "Run lm-evaluation-harness, certified: its own arguments after ours."),
    "fleet": ("fleet", "Evaluate many models and data sets in one file, under one budget."),
    "mcp": ("view", "Give a coding agent the tools run, gate, compare and show (MCP)."),
    "example": ("example", "Write example questions and scores to try everything on."),
    "plan": ("plan", "Forecast how many calls a goal will take."),
    "reproduce": ("reproduce", "Reproduce the paper's figures and tables."),
}
"""Each with the module of `cereval.cli` that it lives in, and what it does."""


def load_command(name: str) -> click.Command:
    """Return a command; its function has its name, but for words that Python has taken."""
    module = import_module(f"cereval.cli.{COMMANDS[name][0]}")
    command = getattr(module, {"import": "import_logs"}.get(name, name.replace("-", "_")))
    assert isinstance(command, click.Command)
    return command


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        return load_command(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            ctx.fail(f"no such command {shown(args[0])}; {did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="cereval")
def cli() -> None:
    """Evaluate language models with the fewest calls that prove the answer.

    Exit codes: 0 goal reached or certified pass, 1 could not run, 2 certified fail, 3 undecided, 130 interrupted.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code; errors made by users are one line on stderr."""
    typed = sys.argv[1:] if arguments is None else list(arguments)
    _open_stdout()
    try:
        code = cli.main(args=typed, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return COULD_NOT_RUN
    except click.ClickException as error:
        return _refused(error.format_message())
    except InvalidInput as error:
        return _refused(str(_named(error, typed)))
    except CerevalError as error:
        return _refused(str(error))
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output (`| head`) has seen enough; Python would complain once more at exit.
        sys.stderr.close()
        return COULD_NOT_RUN
    except OSError as error:
        return _not_printed(error)
    try:
        sys.stdout.flush()
    except OSError as error:
        return _not_printed(error)
    return code if isinstance(code, int) else 0


def _open_stdout() -> None:
    """Have a stdout that takes every text, also where whoever started us has closed it."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        # As stderr does of itself: the name of a file may be no Unicode.
        sys.stdout.reconfigure(errors="backslashreplace")


def _not_printed(error: OSError) -> int:
    """Say that the answer could not be written to stdout; what was asked is in the store."""
    # What is left in the buffer would fail once more at exit.
    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    return _refused(
        f"the output could not be written ({error.strerror or error}); answers are kept in the store"
    )


def _named(error: InvalidInput, typed: Sequence[str]) -> InvalidInput:
    command = load_command(typed[0]) if typed and typed[0] in COMMANDS else None
    rest = list(typed[1:])
    if isinstance(command, click.Group):
        inner = command.commands.get(rest[0]) if rest else None
        rest, command = (rest[1:], inner) if inner is not None else (rest, command.commands.get("run"))
    return error if command is None else in_flags(error, command, rest)


def _refused(message: str) -> int:
    # A server's own words may be in it, and whatever they hold must not reach the terminal raw.
    click.echo("error: " + printable(" ".join(message.split()), LONGEST_ERROR), err=True)
    return COULD_NOT_RUN


# -- errors in the user's own words ------------------------------------------------------------------------------------


FLAGS: Mapping[str, tuple[str, ...]] = {
    "threshold": ("min", "which_fail", "threshold"),
    "eps": ("eps", "within", "not_worse", "each_eps"),
    "each": ("each_eps",),
    "tie": ("tie",),
    "budget": ("budget", "max_calls"),
    "model": ("models", "model", "beats", "judge", "history"),
    "baseline": ("beats",),
    "base_url": ("base_url", "judge_base_url"),
    "shots": ("few_shot",),
    "max_connections": ("connections",),
    "n_items": ("items",),
}
"""The options that a parameter may come from, where they have another name."""

PARTS: Mapping[str, str] = {
    "pattern": "scorer",
    "tolerance": "scorer",
    "accuracy": "model",
    "examples": "few_shot",
    "masses": "groups",
    "variances": "groups",
}
"""Parameters that are a part of what an option says."""


def in_flags(error: InvalidInput, command: click.Command, arguments: Sequence[str]) -> InvalidInput:
    """Return the error with the flag as it was typed in place of the parameter; unchanged where it came from no flag.

    Of several flags it is the one that was given the value refused, else the first that was given.

    >>> command = click.Command("run", params=[click.Option(["--min"], type=float)])
    >>> str(in_flags(InvalidInput("threshold", "a number in (0, 1)", 2.0), command, ["--min", "2"]))
    '--min must be a number in (0, 1), got 2.0'
    """
    whole = PARTS.get(error.field)
    names = (whole,) if whole else FLAGS.get(error.field, (error.field,))
    context = command.make_context("cereval", list(arguments), resilient_parsing=True)
    options = {str(one.name): one for one in command.params if isinstance(one, click.Option)}
    known = [name for name in names if name in options]
    given = [name for name in known if context.params[name] not in (None, ())]
    found = [name for name in given if _holds(context.params[name], error.received)] or given or known
    if not found:
        return error
    flag = _typed(options[found[0]].opts, arguments)
    return InvalidInput(f"{error.field} in {flag}" if whole else flag, error.allowed, error.received)


def _holds(given: object, received: object) -> bool:
    """Tell whether a value is the one refused, or one of several that were given in one flag or one flag after
    another."""
    if isinstance(given, tuple):
        return any(_holds(one, received) for one in given)
    return given == received or (isinstance(given, str) and received in given.split(","))


def _typed(spellings: Sequence[str], arguments: Sequence[str]) -> str:
    words = {word.partition("=")[0] for word in arguments}
    return next((one for one in spellings if one in words), max(spellings, key=len))
