"""Report errors in the user's own words: the library names its parameter, the user typed a flag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from cereval.errors import InvalidInput

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
