"""`python -m cereval.cli.help_page > docs/cli.md`: every command's help, as the program prints it."""

from __future__ import annotations

import click

from cereval.cli.main import COMMANDS, cli

WIDTH = 110
HEAD = """# Command line

Written by `python -m cereval.cli.help_page > docs/cli.md`; a test holds it to the program.
How the commands work together is told in [Live evaluation](live.md).
"""


def help_page() -> str:
    """The page: the group first, then each command in the order of the group's list."""
    parts = [_section("cereval", cli)]
    parts += [
        _section(f"cereval {name}", command.load()) for name, command in COMMANDS.items() if command.exists
    ]
    return "\n".join([HEAD, *parts])


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
