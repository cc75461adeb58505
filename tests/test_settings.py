"""Every option is declared once, in settings.py: flags, keywords and files say the same of it."""

from __future__ import annotations

import ast
import inspect
import typing
from pathlib import Path

import click
import pytest

import cereval
from cereval import settings
from cereval.cli.main import cli
from cereval.errors import InvalidInput
from cereval.settings import (
    CompareOptions,
    ExtendOptions,
    GateOptions,
    RankOptions,
    RunOptions,
    TasksOptions,
    check_options,
    declared,
)

KINDS = {
    "run": RunOptions,
    "gate": GateOptions,
    "compare": CompareOptions,
    "rank": RankOptions,
    "tasks": TasksOptions,
    "extend": ExtendOptions,
}


def test_no_option_is_declared_twice() -> None:
    """In no two typed dictionaries that a command takes together, nor twice with different words."""
    tree = ast.parse(Path(settings.__file__).read_text(encoding="utf-8"))
    fields: dict[str, list[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name.endswith("Options"):
            for line in node.body:
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                    fields.setdefault(line.target.id, []).append(ast.unparse(line.annotation))
    repeated = {name: said for name, said in fields.items() if len(set(said)) < len(said)}
    assert len(fields) > 50
    assert not repeated


@pytest.mark.parametrize("command", KINDS)
def test_flags_come_from_the_declarations(command: str) -> None:
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    flags = {flag for one in found.params if isinstance(one, click.Option) for flag in one.opts}
    missing = {
        name
        for name, one in declared(KINDS[command]).items()
        if not {f"--{name.replace('_', '-')}", *one.option.flags} & flags
    }
    assert missing == set()


def test_keywords_of_python_are_the_flags() -> None:
    accepted = typing.get_type_hints(cereval.evaluate)
    assert "options" in inspect.signature(cereval.evaluate).parameters
    assert "Unpack" in str(inspect.signature(cereval.evaluate).parameters["options"].annotation), accepted


@pytest.mark.parametrize(("given", "says"), [
    ({"sede": 1}, "did you mean 'seed'"),
    ({"max_cals": 1}, "did you mean 'max_calls'"),
    ({"eps": "narrow"}, "eps"),
    ({"max_calls": -1}, "max_calls"),
    ({"max_calls": 1.5}, "max_calls"),
    ({"confidence": 2}, "confidence"),
])  # fmt: skip
def test_wrong_options_are_refused_in_one_line(given: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_options(given, RunOptions)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
