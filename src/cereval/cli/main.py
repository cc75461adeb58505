"""Run the `cereval` command. Subcommands are imported when they are used, so that `cereval --help` is instant."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path

import click

from cereval.errors import CerevalError, InvalidInput, shown
from cereval.text import did_you_mean, printable
from cereval.version import __version__

COULD_NOT_RUN = 1
INTERRUPTED = 130
LONGEST_ERROR = 2000


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Name a command that lives in `cereval.cli.<module>`, under its own name or the module's."""

    module: str
    summary: str
    name: str | None = None

    @property
    def exists(self) -> bool:
        return find_spec(f"cereval.cli.{self.module}") is not None

    def load(self) -> click.Command:
        command = getattr(import_module(f"cereval.cli.{self.module}"), self.name or self.module)
        assert isinstance(command, click.Command)
        return command


COMMANDS: Mapping[str, LazyCommand] = {
    "run": LazyCommand("run", "Evaluate a model with as few calls as a certified answer takes."),
    "resume": LazyCommand("resume", "Go on with a run after a crash, a Ctrl-C or a spent budget."),
    "gate": LazyCommand("run", "Check whether a model reaches a score: pass, fail or undecided.", "gate"),
    "view": LazyCommand("view", "Look at the runs in the store in a browser, live."),
    "runs": LazyCommand("runs", "List the runs in the store."),
    "seal": LazyCommand("seal", "Fix a run's plan before its first call, so that others can check it."),
    "verify": LazyCommand("verify", "Recompute a certificate, and say whether it holds."),
    "show": LazyCommand("show", "Show the prompts, answers and scores of a run."),
    "export": LazyCommand(
        "show", "Write the answers of a run, or what they prove, for other tools.", "export"
    ),
    "import": LazyCommand(
        "import_logs", "Turn logs of other evaluation tools into a table of scores.", "import_logs"
    ),
    "ask": LazyCommand("ask", "Hand out the next questions of a run to people or other systems."),
    "tell": LazyCommand("ask", "Take in scores of questions that were handed out.", "tell"),
    "rescore": LazyCommand("rescore", "Score the answers of a run again, without asking the model."),
    "judge": LazyCommand("judge", "Say how far a judge can be trusted, from the labels of people."),
    "trend": LazyCommand("trend", "Show every model and date on one data set, with intervals."),
    "delete": LazyCommand("delete", "Remove a run and its answers."),
    "report": LazyCommand("report", "Write a page about a run: the answer and what it rests on."),
    "replay": LazyCommand("replay", "Replay recorded scores: what would the evaluation have cost?"),
    "compare": LazyCommand("compare", "Compare two models: which is better, or is a new one not worse?"),
    "tasks": LazyCommand("tasks", "Evaluate many tasks at once: the macro mean, every task, a threshold."),
    "extend": LazyCommand("extend", "Evaluate a data set that grows: all versions certified at once."),
    "rank": LazyCommand("rank", "Put many models in a certified order."),
    "lm-eval": LazyCommand("lm_eval", "Run lm-evaluation-harness, certified: its own arguments after ours."),
    "fleet": LazyCommand("fleet", "Evaluate many models and data sets in one file, under one budget."),
    "mcp": LazyCommand("mcp", "Give a coding agent the tools run, gate, compare and show (MCP)."),
    "example": LazyCommand("example", "Write example questions and scores to try everything on."),
    "plan": LazyCommand("plan", "Forecast how many calls a goal will take."),
    "reproduce": LazyCommand("reproduce", "Reproduce the paper's figures and tables."),
}


class LazyGroup(click.Group):
    """List commands from a table and load them one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [name for name, command in COMMANDS.items() if command.exists]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return COMMANDS[cmd_name].load() if cmd_name in self.list_commands(ctx) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Say which command was probably meant where there is none of the name."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            ctx.fail(f"no such command {shown(args[0])}; {did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in self.list_commands(ctx)])


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
    from cereval.cli.spelling import in_flags

    command = COMMANDS[typed[0]].load() if typed and typed[0] in COMMANDS else None
    rest = list(typed[1:])
    if isinstance(command, click.Group):
        inner = command.commands.get(rest[0]) if rest else None
        rest, command = (rest[1:], inner) if inner is not None else (rest, command.commands.get("run"))
    return error if command is None else in_flags(error, command, rest)


def _refused(message: str) -> int:
    # A server's own words may be in it, and whatever they hold must not reach the terminal raw.
    click.echo("error: " + printable(" ".join(message.split()), LONGEST_ERROR), err=True)
    return COULD_NOT_RUN
