"""Flags: made from the options that `cereval.settings` declares, and a few that only the command line has."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from string import hexdigits
from typing import Any, Literal, TypeVar, get_args, get_origin

import click

from cereval.errors import InvalidInput
from cereval.files import is_file
from cereval.settings import (
    ACCEPTED,
    FROM_STORE,
    Candidate,
    CandidateOptions,
    Declared,
    FieldOptions,
    check_options,
    declared,
)

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Any], Any]

CANDIDATE_NAMES = tuple(CandidateOptions.__annotations__)


# -- from settings to flags -------------------------------------------------------------------------------------------


class Once(click.Option):
    """An option that takes one value: another one is refused, where click would keep the last in silence."""

    def __init__(self, *args: Any, callback: Callable[..., Any] | None = None, **settings: Any) -> None:
        super().__init__(*args, **{**settings, "multiple": True})
        self.check = callback

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        values = super().process_value(ctx, value)
        if len(set(values or ())) > 1:
            hint = (
                "" if self.name not in CANDIDATE_NAMES else " (`compare` and `rank` take several candidates)"
            )
            raise InvalidInput(max(self.opts, key=len), f"given once{hint}", ", ".join(map(str, values)))
        given = values[0] if values else None
        return given if self.check is None else self.check(ctx, self, given)


class NumberOr(click.ParamType):  # type: ignore[type-arg]
    """A number, or a word."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.name = f"number or {word}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self.word if str(value).lower() == self.word else click.FLOAT.convert(value, param, ctx)


class Pair(click.ParamType):  # type: ignore[type-arg]
    """KEY=JSON; a value that is no JSON is a text."""

    name = "pair"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        key, equals, text = str(value).partition("=")
        if not key or not equals:
            self.fail(f"{value!r} is not KEY=VALUE", param, ctx)
        try:
            return key, json.loads(text)
        except ValueError:
            return key, text


def take(accepted: type, *, several: bool = False, skip: Sequence[str] = ()) -> Callable[[Command], Command]:
    """Add a flag for every option of a typed dictionary.

    several: options of candidates may be given once for each.
    """
    options = [
        _option(one, several and name in CANDIDATE_NAMES)
        for name, one in declared(accepted).items()
        if name not in skip
    ]
    return apply(*(made for options_of_one in options for made in options_of_one))


def _option(one: Declared, several: bool) -> list[Option]:
    text, usual = one.option.help, one.option.default
    if usual is not None and "[default" not in text and usual not in (0, False):
        text = f"{text}  [default: {f'{usual:g}' if isinstance(usual, float) else usual}]"
    if one.name == "temperature":
        text = f"{text}  [default: 0]"
    flags, settings = one.flags, dict[str, Any]({"help": text, "metavar": one.option.metavar or None})
    if one.plain is bool:
        pair = f"{flags[0]}/{one.option.off}" if one.option.off else flags[0]
        return [click.option(pair, one.name, default=None, is_flag=True, help=text)]
    if one.plain is dict:
        return [click.option(*flags, one.name, type=Pair(), multiple=True, **settings)]
    if one.plain is list:
        bare: dict[str, Any] = {"is_flag": False, "flag_value": FROM_STORE} if one.option.off else {}
        made = [click.option(*flags, one.name, multiple=True, **bare, **settings)]
        off = click.option(one.option.off, f"no_{one.name}", is_flag=True, help="Use no history.")
        return [*made, off] if one.option.off else made
    kind = _click_type(one)
    if several:
        return [click.option(*flags, one.name, type=kind, multiple=True, **settings)]
    return [click.option(*flags, one.name, cls=Once, type=kind, **settings)]


def _click_type(one: Declared) -> Any:
    if get_origin(one.plain) is Literal:
        return click.Choice(list(get_args(one.plain)))
    words = [word for kind in get_args(one.plain) for word in get_args(kind) if isinstance(word, str)]
    other = NumberOr(words[0] if words else "none")
    return {int: int, float: float, str: str}.get(one.plain, str if one.plain is Any else other)


# -- from flags to settings -------------------------------------------------------------------------------------------


def given_options(flags: Mapping[str, Any], accepted: type) -> dict[str, Any]:
    """Return the options among flags that were given, checked, without those of candidates."""
    found = {}
    for name, one in declared(accepted).items():
        value = flags.get(name)
        if name in CANDIDATE_NAMES or value is None or value == ():
            continue
        found[name] = list(value) if one.plain is list else value
    if flags.get("no_history"):
        if found.get("history"):
            raise InvalidInput("--no-history", "left out where --history is given", found["history"][0])
        found["history"] = ["none"]
    return check_options(found, accepted)


def given_candidates(
    flags: Mapping[str, Any], models: Sequence[str], count: int | None
) -> tuple[list[Candidate], dict[str, Any]]:
    """Return the candidates that flags describe, and the candidate options that are given without any model.

    count: how many there are to be, None: as many as any flag says. A flag that is given once is for all.
    """
    values = {name: _values(flags.get(name)) for name in CANDIDATE_NAMES}
    requests = _requests(flags.get("request") or ())
    values["request"] = requests
    values = {name: given for name, given in values.items() if given}
    names = _values(flags.get("name"))
    lengths = {name: len(given) for name, given in (*values.items(), ("model", models), ("name", names))}
    wanted = max([*lengths.values(), 1]) if count is None else count
    for name, length in lengths.items():
        if (length > 1 and length != wanted) or (name == "name" and length not in (0, wanted)):
            times = f"once for each of the {wanted} candidates" if wanted > 1 else "once"
            all_of_them = "once for all candidates, or " if wanted > 1 and name != "name" else ""
            shown = f"{length} times: {', '.join(map(str, models if name == 'model' else values.get(name, names)))}"
            raise InvalidInput(f"--{name.replace('_', '-')}", f"given {all_of_them}{times}", shown)
    options = [
        {name: given[number if len(given) > 1 else 0] for name, given in values.items()}
        for number in range(wanted)
    ]
    options = [
        {name: None if value == "none" and name == "temperature" else value for name, value in one.items()}
        for one in options
    ]
    if not models:
        if wanted > 1:
            raise InvalidInput("--model", "given where an option is given for each candidate", None)
        return [], check_options(options[0], CandidateOptions)
    asked = list(models) if len(models) == wanted else [models[0]] * wanted
    return [
        Candidate(model, name=names[number] if names else "", **one)
        for number, (model, one) in enumerate(zip(asked, options, strict=True))
    ], {}


def _values(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _requests(pairs: Iterable[tuple[str, Any]]) -> list[dict[str, Any]]:
    """Return the fields of the requests: a field that is given once is for all, one that comes again for the next."""
    values: dict[str, list[Any]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    most = max(map(len, values.values()), default=0)
    for key, given in values.items():
        if len(given) not in (1, most):
            raise InvalidInput(
                f"--set {key}", f"given once, or once for each of the {most} candidates", given
            )
    return [
        {key: given[number if len(given) > 1 else 0] for key, given in values.items()}
        for number in range(most)
    ]


# -- what only the command line has -----------------------------------------------------------------------------------


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


def check_price(price: float | None) -> None:
    from cereval.models.prices import HIGHEST

    if price is not None and not 0 <= price <= HIGHEST:
        raise InvalidInput("--price", f"a number >= 0 and at most {HIGHEST:g}", price)


def one_option(name: str, accepted: type) -> Option:
    return _option(declared(accepted)[name], False)[0]


_COMMON = ACCEPTED["estimate"]
FIELDS: tuple[Option, ...] = tuple(one_option(name, FieldOptions) for name in FieldOptions.__annotations__)
STORE = one_option("store", _COMMON)
TRUST = one_option("trust", _COMMON)
WEIGHTING: tuple[Option, ...] = tuple(one_option(name, _COMMON) for name in ("weights", "mix"))
SCORING: tuple[Option, ...] = tuple(
    one_option(name, _COMMON)
    for name in (
        *(
            "scorer",
            "judge",
            "judge_base_url",
            "judge_template",
            "rubric",
            "judge_price_in",
            "judge_price_out",
        ),
    )
)


def output_flag(help: str, **more: Any) -> Option:
    """Return the flag of the file that a command writes."""
    return click.option("-o", "--output", callback=writable, metavar="FILE", help=help, **more)


def limit_flag(usual: int, help: str) -> Option:
    count = click.IntRange(1, 10**9)
    return click.option("-n", "--limit", type=count, default=usual, show_default=True, help=help)


JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
DISPLAY = click.option(
    "--display",
    cls=Once,
    type=click.Choice(["rich", "plain", "none"]),
    help="How to show progress on stderr.  [default: rich on a terminal, else plain]",
)
CERTIFICATE = click.option(
    "-o",
    "--output",
    "--certificate",
    "certificate",
    cls=Once,
    callback=writable,
    metavar="FILE",
    help="Write the certificate here; `cereval verify` recomputes it.",
)
REPORT = click.option(
    "--report", cls=Once, callback=writable, metavar="FILE", help="Write a page about the result (HTML)."
)
OUTPUT: tuple[Option, ...] = (CERTIFICATE, REPORT, DISPLAY, JSON)
MODEL_HELP = (
    "openai/NAME, anthropic/, deepseek/, gemini/, groq/, mistral/, openrouter/, together/ or xai/NAME, "
    "python:module:function, gguf:PATH, local/smollm2, given/FIELD (answers in the data), run/ID (those of a "
    "run), external/NAME (asked outside: `cereval ask` and `tell`), or the name of a candidate in --candidates."
)
MODELS = click.option(
    "--model", "models", multiple=True, metavar="NAME", help=f"The model to ask: {MODEL_HELP}"
)
NAME = click.option(
    "--name", multiple=True, metavar="NAME", help="What lists and results call the candidate; once for each."
)
CANDIDATES = click.option(
    "--candidates",
    "candidates_file",
    cls=Once,
    metavar="FILE",
    help="Named candidates (YAML), each a model or a mapping with `model` and options.  [default: candidates.yaml]",
)
CONFIG = click.option(
    "--config", cls=Once, metavar="FILE", help="Read settings from a task file (YAML); flags override it."
)
DRY_RUN = click.option("--dry-run", is_flag=True, help="Show what would be asked, and ask nothing.")
SEAL = click.option(
    "--seal",
    cls=Once,
    metavar="FILE",
    help="Carry out exactly the plan that `cereval seal` wrote to FILE, or refuse.",
)
ITEMS = click.option(
    "--items",
    cls=Once,
    metavar="ITEMS",
    help="With recorded scores: a table (parquet, csv, jsonl) with `item`, `text`, `category`.",
)
ASKING: tuple[Option, ...] = (MODELS, NAME, CANDIDATES)
"""Who is asked, for every command that asks."""


def apply(*groups: Option | tuple[Option, ...]) -> Callable[[Command], Command]:
    options = [one for group in groups for one in (group if isinstance(group, tuple) else (group,))]

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate
