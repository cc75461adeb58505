"""`python -m cereval.cli.help_page > docs/cli.md`: every command's help, as the program prints it."""

from __future__ import annotations

import click

from cereval.cli.json_names import json_section
from cereval.cli.main import COMMANDS, cli

WIDTH = 110
HEAD = """# Command line

Written by `python -m cereval.cli.help_page > docs/cli.md`; a test holds it to the program.
How the commands work together is told in [Live evaluation](live.md).

## Exit codes

| code | meaning |
|---|---|
| 0 | goal reached, certified pass, decided; `verify`: valid |
| 1 | could not run: a wrong flag, a file, a server or the store; one line on stderr says why |
| 2 | certified fail (`gate`, `--at-least`, `--not-worse`); `verify`: invalid, or no certificate at all |
| 3 | undecided: the budget or the pool is spent, or a run was stopped by Ctrl-C |
| 130 | Ctrl-C before there was anything to show |

Where models are asked, the first Ctrl-C waits for the calls in flight, and the second (not for `rank`) gives them up.
Then what is certified so far is printed, with the code of that answer, as a rule 3. Every answer is in the store.
"""


def help_page() -> str:
    """The page: the group first, then each command in the order of the group's list."""
    parts = [_section("cereval", cli)]
    parts += [
        _section(f"cereval {name}", command.load()) for name, command in COMMANDS.items() if command.exists
    ]
    return "\n".join([HEAD, *parts, json_section()])


def _section(name: str, command: click.Command) -> str:
    context = click.Context(
        command,
        info_name=name,
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        help_option_names=["-h", "--help"],
    )
    return f"## {name}\n\n```text\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    click.echo(help_page(), nl=False)
