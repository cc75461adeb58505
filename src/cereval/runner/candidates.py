"""Candidates: from what the user says to what a plan keeps, and from there to models that can be asked."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cereval.datasets.base import Item
from cereval.datasets.prompts import Prompt
from cereval.errors import InvalidInput, StoreError
from cereval.files import read_json, read_text
from cereval.imports import code_digest, name_of
from cereval.models import ModelOptions, open_model
from cereval.models.base import Model, Settings
from cereval.models.openai_model import checked_url
from cereval.models.prices import FlatPrice
from cereval.models.python_model import open_python
from cereval.models.scripted import GivenModel, field_of, is_given
from cereval.plan import CandidateSpec, Plan, candidate_digest
from cereval.runner.trust import Named, named_by_model
from cereval.settings import Candidate
from cereval.text import did_you_mean

OUTSIDE = "external/"
"""How the name of a model begins that nobody can ask from here: its scores are told."""

RUN = "run/"
"""How the name of a candidate begins whose answers are those of an earlier run."""

BY_LOGPROBS = "logprobs"
"""The way of choosing by the log-probabilities of the letters."""

OF_A_CALL = ("price_in", "price_out", "timeout")
"""Options of a candidate that decide nothing about its answers: no part of a plan."""

Functions = Mapping[str, Callable[..., Any]]
"""Callables that were given in Python, by the digest of their code in the plan."""


# -- describing -------------------------------------------------------------------------------------------------------


def describe_candidates(
    candidates: Sequence[Candidate], examples: Sequence[Item], items: Sequence[Item], scorer: str
) -> tuple[CandidateSpec, ...]:
    """Return the candidates as a plan keeps them, each with a name of its own.

    examples: worked examples, of which each candidate shows as many as it asks for.
    """
    _refuse_useless_address(candidates)
    specs = [_describe(one, examples, items, scorer) for one in candidates]
    digests = [candidate_digest(spec) for spec in specs]
    for number, digest in enumerate(digests):
        if digest in digests[:number]:
            wanted = (
                "different: another model, prompt, address or setting for each, such as --system given twice"
            )
            raise InvalidInput("candidates", wanted, specs[number]["model"])
    for spec, name in zip(specs, name_candidates(candidates), strict=True):
        spec["name"] = name
    return tuple(specs)


def _describe(
    candidate: Candidate, examples: Sequence[Item], items: Sequence[Item], scorer: str
) -> CandidateSpec:
    options = candidate.options
    choose = _choose(options.get("choose"), scorer, items)
    longest = options.get("max_tokens", 1 if choose else None)
    extra = {**options.get("request", {}), **_answer_schema(options.get("schema"))}
    spec: CandidateSpec = {
        "name": candidate.name,
        "model": model_in_plan(candidate),
        "base_url": own_address(candidate),
        "prompt": {
            "template": text_of(options.get("template")),
            "system": text_of(options.get("system")),
            "examples": [one.as_dict() for one in examples[: options.get("few_shot", 0)]],
        },
        "settings": {
            "temperature": options.get("temperature", 0.0),
            "max_tokens": longest,
            **({"extra": extra} if extra else {}),
        },
    }
    if choose:
        spec["prompt"]["choose"] = BY_LOGPROBS
    if "revision" in options:
        spec["revision"] = options["revision"]
    if callable(candidate.model) or spec["model"].startswith("python:"):
        spec["code"] = _code_of(candidate)
    return spec


def model_in_plan(candidate: Candidate) -> str:
    """Return the model as a plan names it: a callable by the place of its code."""
    if isinstance(candidate.model, str):
        return candidate.model
    return f"python:{name_of(candidate.model)}"


def _code_of(candidate: Candidate) -> str:
    """Return a digest of a callable's code: edited code is another candidate."""
    model = candidate.model
    return code_digest(model if callable(model) else model.removeprefix("python:"))


def functions_of(candidates: Sequence[Candidate]) -> Functions:
    return {_code_of(one): one.model for one in candidates if callable(one.model)}


def _choose(choose: str | None, scorer: str, items: Sequence[Item]) -> bool:
    """Tell whether a choice is read from the log-probabilities of the letters, and not from the text."""
    if choose in (None, "text"):
        return False
    if scorer != "choice" or not all(item.choices for item in items):
        wanted = "left out where a question has no choices, or the scorer is not `choice`"
        raise InvalidInput("choose", wanted, choose)
    return True


def _answer_schema(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    schema = {"name": Path(path).stem, "strict": True, "schema": read_json(Path(path))}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def own_address(candidate: Candidate) -> str | None:
    """Return the address that a candidate is asked at, where it is not its provider's own.

    An address that was given once for several candidates is that of those which take one.
    """
    if not candidate.model_name.startswith("openai/"):
        return None
    address = candidate.options.get("base_url") or os.environ.get("OPENAI_BASE_URL") or None
    return None if address is None else checked_url(address)


def _refuse_useless_address(candidates: Sequence[Candidate]) -> None:
    used = {one.options.get("base_url") for one in candidates if one.model_name.startswith("openai/")}
    for one in candidates:
        address = one.options.get("base_url")
        if address and address not in used:
            wanted = f"left out for {one.model_name}: it is for models that are called openai/NAME"
            raise InvalidInput("base_url", wanted, address)


def text_of(value: str | None) -> str | None:
    if value is None or not value.startswith("@"):
        return value
    return read_text(Path(value[1:]))


LONGEST_VALUE = 24
"""Letters of a prompt that are shown in a candidate's name."""

TELLING = (
    "revision",
    "base_url",
    "system",
    "template",
    "few_shot",
    "temperature",
    "max_tokens",
    "request",
    "choose",
)
"""Options that may tell candidates with the same model apart, the most telling first."""


def name_candidates(candidates: Sequence[Candidate]) -> list[str]:
    """Return a name for each candidate: its own, or its model with what tells it apart from the others.

    >>> name_candidates([Candidate("m", system="@a.txt"), Candidate("m", system="@b.txt"), Candidate("n")])
    ['m (system a.txt)', 'm (system b.txt)', 'n']
    """
    names = [one.name or one.model_name for one in candidates]
    for option in TELLING:
        repeated = {name for name in names if names.count(name) > 1}
        values = [_shown_value(one, option) for one in candidates]
        for name in repeated:
            places = [
                place for place, other in enumerate(names) if other == name and not candidates[place].name
            ]
            if len({values[place] for place in places}) > 1:
                for place in places:
                    names[place] = extended(name, f"{option.replace('_', ' ')} {values[place]}")
    return [
        name if name not in names[:place] else extended(name, str(names[: place + 1].count(name)))
        for place, name in enumerate(names)
    ]


def extended(name: str, part: str) -> str:
    return f"{name[:-1]}, {part})" if name.endswith(")") and " (" in name else f"{name} ({part})"


def _shown_value(candidate: Candidate, option: str) -> str:
    value = candidate.options.get(option)
    if value is None:
        return "none"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    if text.startswith("@"):
        return Path(text[1:]).name
    if option == "base_url":
        return text.partition("://")[2] or text
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_VALUE else line[: LONGEST_VALUE - 1] + "…"


# -- opening ----------------------------------------------------------------------------------------------------------


def prompt_of(spec: CandidateSpec) -> Prompt:
    prompt = spec["prompt"]
    return Prompt(
        prompt["template"], prompt["system"], tuple(Item.from_dict(row) for row in prompt["examples"])
    )


def is_asked_outside(plan: Plan) -> bool:
    """Tell whether nobody can be asked from here: the scores of all candidates are told."""
    return all(spec["model"].startswith(OUTSIDE) for spec in plan.candidates)


def named_by_candidate(spec: CandidateSpec, moved: str | None = None) -> tuple[Named, ...]:
    """Return what asking a candidate would run or call. moved: its server's new address."""
    return tuple(named_by_model(spec["model"], address_of(spec, moved)))


def address_of(spec: CandidateSpec, moved: str | None = None) -> str | None:
    return (moved if spec["model"].startswith("openai/") else None) or spec["base_url"]


def open_candidate(
    spec: CandidateSpec,
    items: Sequence[Item],
    circumstances: Mapping[str, Any],
    number: int,
    functions: Functions,
) -> Model:
    """Open the model of a candidate: the one with this number among a plan's."""
    if "not_asked" in spec:
        return GivenModel(spec["name"])
    if is_given(spec["model"]):
        return _given(spec["model"], items)
    own = call_options(circumstances, number)
    function = functions.get(spec.get("code", ""))
    if function is not None:
        return open_python(function, timeout_s=own["timeout"], settings=Settings(**spec["settings"]))
    try:
        settings = Settings(**spec["settings"])
    except TypeError:
        raise StoreError(
            f"the settings of {spec['name']} in the store were changed; start a new run"
        ) from None
    options = ModelOptions(
        base_url=address_of(spec, circumstances.get("base_url")),
        settings=settings,
        price=price_of(own),
        timeout_s=own["timeout"],
        connections=circumstances["connections"],
        batch=bool(circumstances.get("batch")),
        answer_key=_answer_key(items) if spec["model"].startswith("scripted/") else None,
    )
    return open_model(spec["model"], options)


def call_options(circumstances: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return the prices and the patience of a candidate; what is given on the way is for all of them."""
    candidates = circumstances.get("candidates") or [{}]
    own = candidates[number] if number < len(candidates) else candidates[-1]
    return {
        name: circumstances.get(name) if circumstances.get(name) is not None else own.get(name)
        for name in OF_A_CALL
    }


def price_of(values: Mapping[str, Any], whose: str = "") -> FlatPrice | None:
    """Return what a model costs, or a judge (`judge_`), by its options; None: they do not say."""
    per_in, per_out = (values.get(f"{whose}price_{way}") for way in ("in", "out"))
    flags = f"--{whose.replace('_', '-')}price-in and -out"
    return None if per_in is None and per_out is None else FlatPrice(per_in or 0.0, per_out or 0.0, flags)


def _answer_key(items: Sequence[Item]) -> dict[str, str]:
    return {item.text: item.answer for item in items if item.answer is not None}


def _given(name: str, items: Sequence[Item]) -> Model:
    field = field_of(name)
    if not any(field in item.metadata for item in items):
        known = dict.fromkeys(key for item in items for key in item.metadata)
        raise InvalidInput("model", f"given/ and a field of the data ({did_you_mean(field, known)})", name)
    return GivenModel(name)
