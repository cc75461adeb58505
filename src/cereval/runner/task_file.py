"""Task files and candidate files (YAML): settings that somebody wrote down, merged with what is typed.

What a file names is not what this user typed: code, addresses, stores and files outside its folder that only a file
names need `--trust` once (`cereval.runner.trust`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cereval.errors import BadFile, InvalidInput
from cereval.files import is_file, read_yaml
from cereval.methods.registry import known_method
from cereval.models import PREFIXES
from cereval.questions.goals import Goal
from cereval.questions.mean.session import known_target
from cereval.runner.candidates import own_address
from cereval.runner.trust import (
    Named,
    named_by_judges,
    named_by_model,
    named_by_scorer,
    named_data,
    named_file,
    named_store,
    remember,
    require,
)
from cereval.settings import (
    ACCEPTED,
    EXCLUSIVE,
    GOAL_OPTIONS,
    Candidate,
    CandidateOptions,
    Settings,
    check_options,
    settings_of,
)
from cereval.text import did_you_mean

FROM_FILES = ("system", "template", "rubric", "judge_template")
"""Options whose text may be that of a file, as @FILE."""

CANDIDATES_FILE = "candidates.yaml"
"""Where named candidates are looked for, unless --candidates says otherwise."""


@dataclass(frozen=True, slots=True)
class Written:
    """What files say: options, candidates by name, the data; `names` is what only they name.

    shared: options of candidates, for all that have none of their own.
    """

    options: dict[str, Any] = field(default_factory=dict)
    shared: dict[str, Any] = field(default_factory=dict)
    candidates: dict[str, Candidate] = field(default_factory=dict)
    data: str | None = None
    names: tuple[Named, ...] = ()
    source: str = ""


def read_task(path: Path, kind: str) -> Written:
    """Return the settings in a YAML file: the options of a kind of question, `data`, and `model` or `candidates`."""
    values = _read_mapping(path, "settings such as `model: openai/NAME`, one per line")
    values = {str(key).replace("-", "_"): value for key, value in values.items()}
    data, model = values.pop("data", None), values.pop("model", None)
    entries = values.pop("candidates", {})
    if "trust" in values:
        raise InvalidInput(
            f"trust in {path}", "left out: only who runs the file can trust it", values["trust"]
        )
    if data is not None and not isinstance(data, str):
        raise InvalidInput(f"data in {path}", "the name of a file", data)
    if data and is_file(path.parent / data):
        data = str(path.parent / data)
    options = check_options(values, ACCEPTED[kind], str(path), ("data", "model", "candidates"))
    options, names = resolve_files(options, path.parent)
    shared = {name: options.pop(name) for name in CandidateOptions.__annotations__ if name in options}
    candidates, more = _candidates_in(entries, path)
    if model is not None and candidates:
        raise InvalidInput(f"model in {path}", "left out where `candidates` are given", model)
    if model is not None:
        candidates = {"": Candidate(model)}
    there = [] if data is None else named_data(data, path.parent)
    return Written(options, shared, candidates, data, (*names, *more, *there), str(path))


def read_candidates(path: Path) -> Written:
    """Return the candidates in a YAML file: name -> model, or a mapping with `model` and its options."""
    entries = _read_mapping(path, "candidates such as `a: openai/NAME`, one per line")
    candidates, names = _candidates_in(entries, path)
    return Written(candidates=candidates, names=tuple(names), source=str(path))


def _candidates_in(entries: Any, path: Path) -> tuple[dict[str, Candidate], list[Named]]:
    if not isinstance(entries, Mapping):
        raise InvalidInput(f"candidates in {path}", "names, each with a model or settings", entries)
    found, names = dict[str, Candidate](), list[Named]()
    for name, entry in entries.items():
        values = dict(entry) if isinstance(entry, Mapping) else {"model": entry}
        where = f"{path}, candidate {name}"
        model = values.pop("model", None)
        if not isinstance(model, str):
            raise InvalidInput(f"model in {where}", "a name such as openai/NAME", model)
        if str(name) != model and str(name).startswith(PREFIXES):
            # Whoever types it would ask, and certify, another model than is named.
            raise InvalidInput(f"the name of a candidate in {path}", "no model's, but for its own", str(name))
        options, more = resolve_files(check_options(values, CandidateOptions, where, ("model",)), path.parent)
        found[str(name)] = Candidate(model, name=str(name), **options)
        names += [*more, *named_by_candidate(found[str(name)])]
    return found, names


def resolve_files(options: Mapping[str, Any], folder: Path) -> tuple[dict[str, Any], list[Named]]:
    """Return options whose @FILE are looked for beside the file that names them; name those outside its folder."""
    names = list[Named]()
    found = dict(options)
    for option in (*FROM_FILES, "schema"):
        value = found.get(option)
        is_path = option == "schema" or (isinstance(value, str) and value.startswith("@"))
        if isinstance(value, str) and is_path:
            path = folder / value.removeprefix("@")
            found[option] = f"{'' if option == 'schema' else '@'}{path}"
            if not path.resolve().is_relative_to(folder.resolve()):
                names.append(named_file(path))
    return found, names


def _read_mapping(path: Path, wanted: str) -> Mapping[Any, Any]:
    values = read_yaml(path)
    if not isinstance(values, Mapping):
        raise BadFile(f"{path} must hold {wanted}")
    return values


# -- what is typed, with what is written ------------------------------------------------------------------------------


def merge_settings(
    kind: str,
    data: Sequence[str],
    typed: Sequence[Candidate],
    options: Mapping[str, Any],
    written: Written | None = None,
    *,
    chosen: Sequence[str] = (),
    shared: Mapping[str, Any] | None = None,
    goal: Goal | None = None,
) -> Settings:
    """Return the settings that a command or a call asks for; what is typed wins over what a file says.

    typed: candidates given here. chosen: names of candidates in the file. shared: options of a candidate that are typed
    without a model, for those in the file. Code and addresses that are typed are trusted from now on; those that only
    the file names must be trusted already, unless `trust` confirms them.
    """
    written, given = written or Written(), dict(options)
    trust = bool(given.pop("trust", False))
    candidates = _choose_candidates(written, typed, chosen, shared or {})
    merged = {**_not_replaced(kind, written.options, given, goal), **given}
    settings = settings_of(
        kind, tuple(data) or ((written.data,) if written.data else ()), candidates, merged, goal
    )
    _check(settings)
    in_file = [*written.names, *named_by_settings(settings)]
    if "store" in written.options and "store" not in given:
        in_file.append(named_store(settings["store"]))
    here = [name for one in typed for name in named_by_candidate(one)]
    here += [
        *named_by_options(given, typed[0] if typed else None),
        *named_by_model(None, (shared or {}).get("base_url")),
    ]
    if not written.source or trust:
        here += in_file
    remember(here)
    require(in_file, f"the task file {written.source}" if written.source else "the settings")
    return settings


def _not_replaced(
    kind: str, written: Mapping[str, Any], given: Mapping[str, Any], goal: Goal | None
) -> dict[str, Any]:
    """Return the options of a file without those that what is typed says in another way."""
    dropped = set[str]() if goal is None else set(GOAL_OPTIONS[kind])
    for ways in (EXCLUSIVE[kind], (("fresh",), ("max_age",))):
        typed = [way for way in ways if any(name in given for name in way)]
        dropped |= {name for way in ways if typed and way not in typed for name in way}
    return {name: value for name, value in written.items() if name not in dropped}


def _choose_candidates(
    written: Written, typed: Sequence[Candidate], chosen: Sequence[str], shared: Mapping[str, Any]
) -> tuple[Candidate, ...]:
    """Return the candidates that are asked: those typed and those chosen by name, else all that the file has."""
    for name in chosen:
        if name not in written.candidates:
            hint = did_you_mean(name, written.candidates)
            raise InvalidInput("candidate", f"one of {written.source or CANDIDATES_FILE} ({hint})", name)
    names = chosen or (() if typed else written.candidates)
    named = [written.candidates[name] for name in names]
    found = (
        *(
            Candidate(one.model, name=one.name, **{**written.shared, **one.options, **shared})
            for one in named
        ),
        *(Candidate(one.model, name=one.name, **{**written.shared, **one.options}) for one in typed),
    )
    if not found:
        raise InvalidInput("model", "given, such as openai/NAME or python:module:function", None)
    return found


def named_by_settings(settings: Settings) -> list[Named]:
    found = [name for one in settings.candidates for name in named_by_candidate(one)]
    return [*found, *named_by_options(settings.options, settings.candidates[0])]


def named_by_candidate(candidate: Candidate) -> tuple[Named, ...]:
    """Return what asking a candidate would run or call; an address in the environment is as good as typed."""
    if callable(candidate.model):
        return named_by_model(None, candidate.options.get("base_url"))
    return named_by_model(candidate.model, own_address(candidate))


def named_by_options(options: Mapping[str, Any], first: Candidate | None) -> list[Named]:
    scorer, judges = options.get("scorer"), options.get("judge") or []
    address = options.get("judge_base_url")
    if not address and any(one.startswith("openai/") for one in judges) and first is not None:
        address = own_address(first) or os.environ.get("OPENAI_BASE_URL")
    found = [*named_by_judges(judges, address)]
    return found if scorer is None or callable(scorer) else [*found, *named_by_scorer(scorer)]


def _check(settings: Settings) -> None:
    """Refuse before a run is created what can be refused without the data."""
    if settings["method"] is not None:
        known_method(settings["method"])
    if settings["target"] is not None:
        known_target(settings["target"])
