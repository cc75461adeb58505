"""The group itself: lazy, fast, one-line errors, one exit code for all that could not run."""

from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest

from cereval import __version__
from cereval.cli.main import COMMANDS, cli, load_command, main

HEAVY = ("numpy", "scipy", "pyarrow", "rich", "openai", "sqlalchemy")


def test_help_loads_nothing_heavy_and_is_fast() -> None:
    """0.1 s, of the processor's time: a busy machine may take longer."""
    code = (
        "import sys; from cereval.cli.main import main; code = main(['--help']); "
        f"sys.exit(code or ','.join(m for m in {HEAVY!r} if m in sys.modules) or 0)"
    )
    before = os.times()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    after = os.times()
    assert after.children_user + after.children_system - before.children_user - before.children_system < 5
    for name in ("replay", "plan"):
        assert name in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_loads(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert isinstance(command, click.Command)
    assert command.help


@pytest.mark.parametrize("name", ["replay", "plan"])
def test_every_option_of_a_command_is_explained(name: str) -> None:
    obvious = {"confidence", "seed", "target"}
    for option in load_command(name).params:
        if isinstance(option, click.Option) and option.name not in obvious:
            assert option.help, option.name


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["evaporate"], "no such command 'evaporate'"),
        (["plan"], "--items must be a whole number >= 1, or a file of the questions, got None"),
        (
            ["plan", "--items", "many"],
            "--items must be a whole number >= 1, or a file of the questions, got 'many'",
        ),
        (["plan", "--items", "10", "--nonsense"], "No such option"),
        (["replay", "nowhere.csv", "--model", "m"], "nowhere.csv"),
    ],
)
def test_what_cannot_run_is_one_line_and_exit_code_one(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not click's 2: that means a certified fail here."""
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert says in captured.err


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 1
    assert "Usage: " in capsys.readouterr().err


def test_ctrl_c_leaves_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(load_command("plan"), "callback", interrupted)
    assert main(["plan", "--items", "10"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_name_that_is_no_unicode_can_be_printed() -> None:
    code = (
        "import click; from cereval.cli.main import cli, main;"
        "cli.get_command = lambda *_: click.Command('say', callback=lambda: click.echo('wrote \\udcff'));"
        "main(['runs'])"
    )
    done = subprocess.run([sys.executable, "-X", "utf8", "-c", code], capture_output=True, check=False)
    assert done.stdout.decode().strip() == "wrote \\udcff", done.stderr
