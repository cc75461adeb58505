"""Describe a request: what somebody wants evaluated, from flags, a YAML file, Python, or all of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from cereval.errors import BadFile, InvalidInput
from cereval.files import is_file, read_yaml
from cereval.methods.registry import known_method
from cereval.questions.goals import checked_confidence
from cereval.questions.mean.goal import Estimate, Threshold
from cereval.questions.mean.session import known_target
from cereval.questions.session import whole
from cereval.runner.trust import Named, named_by_model, named_by_scorer, remember, require
from cereval.text import did_you_mean

TRUSTED = ("model", "base_url", "judge", "judge_base_url", "scorer")
"""Settings that name code or addresses."""

ALIASES = {"j": "connections", "max_connections": "connections", "threshold": "at_least", "min": "at_least"}


@dataclass(frozen=True, slots=True)
class Request:
    """Hold every setting of a run; the names are those of the flags and of the YAML file's keys."""

    data: str | None = None
    model: str | None = None
    base_url: str | None = None
    scorer: str | None = None
    judge: str | None = None
    judge_base_url: str | None = None
    judge_template: str | None = None
    rubric: str | None = None
    raters: int | None = None
    judge_price_in: float | None = None
    judge_price_out: float | None = None
    input: str | None = None
    answer: str | None = None
    choices: str | None = None
    category: str | None = None
    id: str | None = None
    eps: float | None = None
    at_least: float | None = None
    confidence: float = 0.95
    method: str = "auto"
    target: str = "benchmark"
    weights: str | None = None
    mix: str | None = None
    seed: int | None = None
    store: str = "sqlite:///cereval.db"
    connections: int = 8
    max_calls: int | None = None
    max_usd: float | None = None
    max_minutes: float | None = None
    template: str | None = None
    system: str | None = None
    few_shot: int = 0
    choose: str | None = None
    samples: int | None = None
    pass_at: int | None = None
    temperature: float | None = 0.0
    max_tokens: int | None = None
    price_in: float | None = None
    price_out: float | None = None
    timeout: float = 120.0
    history: bool = True
    fresh: bool = False
    max_age: str | None = None
    revision: str | None = None

    @property
    def goal(self) -> Estimate | Threshold:
        """Return the goal of one mean that the settings ask for."""
        if self.at_least is not None:
            return Threshold(self.at_least)
        return Estimate() if self.eps is None else Estimate(self.eps)


def request_from(data: str | None, config: str | None, flags: Mapping[str, Any]) -> Request:
    """Return the request that a command line describes: flags win over the file; DATA may itself be the file.

    Code and addresses among the flags are trusted from now on (`cereval.runner.trust`); those that only the file
    names must be trusted already, unless the flag `trust` confirms them.
    """
    if data is not None and config is None and Path(data).suffix in (".yaml", ".yml"):
        data, config = None, data
    request = Request() if config is None else read_request(Path(config))
    given = {key: value for key, value in flags.items() if value is not None}
    trust = bool(given.pop("trust", False))
    known = {field.name for field in fields(Request)}
    for name in sorted(given.keys() - known):
        raise InvalidInput("settings", f"those of `cereval run` ({did_you_mean(name, known)})", name)
    if given.get("eps") is not None and "at_least" not in given:
        request = replace(request, at_least=None)
    if given.get("at_least") is not None and "eps" not in given:
        request = replace(request, eps=None)
    if given.get("fresh") and "max_age" not in given:
        request = replace(request, max_age=None)
    if "max_age" in given and "fresh" not in given:
        request = replace(request, fresh=False)
    request = replace(request, **given) if data is None else replace(request, data=data, **given)
    request = _complete(request)
    names = _named(request)
    typed: dict[str, Any] = {name: given.get(name) for name in TRUSTED}
    remember(names if trust else _named(replace(request, **typed), request))
    require(names, f"the task file {config}" if config is not None else "the request")
    return request


def _named(request: Request, whole: Request | None = None) -> list[Named]:
    """Return what a request would run or call; an address in the environment is as good as typed, if no file has
    another."""
    address = request.base_url
    if not (whole or request).base_url and str((whole or request).model).startswith("openai/"):
        address = os.environ.get("OPENAI_BASE_URL")
    names = [*named_by_model(request.model, address), *named_by_model(request.judge, request.judge_base_url)]
    return names if request.scorer is None else [*names, *named_by_scorer(request.scorer)]


def read_request(path: Path) -> Request:
    """Return the request in a YAML file; data and template files are looked for beside it too."""
    request = Request(**settings_from(_mapping(path), str(path)))
    beside = path.parent / request.data if request.data else path
    return replace(request, data=str(beside)) if request.data and is_file(beside) else request


def settings_from(values: Mapping[Any, Any], source: str, also: Sequence[str] = ()) -> dict[str, Any]:
    """Settings as a file has them, under their names and of their kinds; also: other names that may be meant."""
    named = {setting_name(key): value for key, value in values.items()}
    known = {field.name for field in fields(Request)}
    for key in named:
        if key not in known:
            raise BadFile(
                f"{source} has an unknown setting {key!r}; {did_you_mean(str(key), [*known, *also])}"
            )
    hints = get_type_hints(Request)
    return {key: _typed(source, key, value, hints[key]) for key, value in named.items()}


def confirmed(requests: Iterable[Request], source: str, *, trust: bool) -> None:
    """Refuse code and addresses that only a file names, unless they are trusted already, or confirmed now."""
    names = [name for request in requests for name in _named(request)]
    if trust:
        remember(names)
    require(names, source)


def _mapping(path: Path) -> Mapping[Any, Any]:
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise BadFile(f"{path} must hold settings such as `model: openai/NAME`, one per line")
    return values


def setting_name(key: Any) -> str:
    """Return the name of a setting, as flags and files may write it."""
    name = str(key).replace("-", "_")
    return ALIASES.get(name, name)


def _typed(source: str, key: str, value: Any, kind: Any) -> Any:
    """Refuse a value that is not what its setting is: YAML knows 1, 1.0, true and text."""
    allowed = [one for one in (bool, int, float, str) if one in (kind, *getattr(kind, "__args__", ()))]
    if isinstance(value, int) and not isinstance(value, bool) and float in allowed:
        try:
            return float(value)
        except OverflowError:
            raise InvalidInput(f"{key} in {source}", "a number below 1e308", value) from None
    if type(value) not in allowed and not (value is None and type(None) in getattr(kind, "__args__", ())):
        names = " or ".join(one.__name__ for one in allowed)
        raise InvalidInput(f"{key} in {source}", f"of the kind {names}", value)
    return value


def _complete(request: Request) -> Request:
    """Refuse before a run is created what can be refused without the data."""
    if request.data is None:
        raise InvalidInput("DATA", "a file (jsonl, csv, parquet), hf:org/name, or a task file (yaml)", None)
    if request.model is None:
        raise InvalidInput("--model", "given, such as openai/NAME or python:module:function", None)
    if request.eps is not None and request.at_least is not None:
        raise InvalidInput("--eps", "left out when --at-least is given", request.eps)
    checked_confidence(request.confidence)
    if request.seed is not None:
        whole("seed", request.seed, 0)
    if request.max_calls is not None:
        whole("budget", request.max_calls, 1)
    known_method(request.method)
    known_target(request.target)
    return request
