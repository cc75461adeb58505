"""Define a fleet as a file, or as a dictionary, describes it: models x data sets x goals, each with its settings."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypedDict

from msgspec import Meta

from cereval.errors import BadFile, InvalidInput
from cereval.files import is_file, read_yaml
from cereval.fleet.limits import ALL, ServerLimits
from cereval.models import prefix_of
from cereval.models.openai_model import server_of
from cereval.questions import all_goals, kind_for
from cereval.questions.goals import checked_confidence, goal_from_spec
from cereval.runner.candidates import OUTSIDE, name_candidates, own_address
from cereval.runner.task_file import named_by_candidate, named_by_options, resolve_files
from cereval.runner.trust import Named, named_data, named_store, remember, require
from cereval.scorers import named
from cereval.settings import (
    ACCEPTED,
    FROM_STORE,
    Candidate,
    CandidateOptions,
    Count,
    Declared,
    Number,
    Option,
    Positive,
    RunOptions,
    Text,
    check_options,
    checked_value,
    option_name,
)
from cereval.text import did_you_mean

WORDS = {"run": "estimate", "gate": "threshold", "compare": "sign", "rank": "order", "tasks": "macro"}
"""The questions by the names of their commands, and the goal that each stands for."""

OF_A_MODEL = frozenset(CandidateOptions.__annotations__)
"""Settings that, as a list, have one value for each model; the others have one for each data set."""

LARGEST_SEED = 2**32


class FleetOptions(TypedDict, total=False):
    """What all runs of a fleet have together."""

    max_calls: Annotated[Count, Option("Calls of all runs.")]
    max_usd: Annotated[Positive, Option("What all runs may spend.")]
    max_minutes: Annotated[Positive, Option("How long the fleet may take.")]
    workers: Annotated[Count, Option("Runs at a time.")]
    together: Annotated[Count, Option("Runs on one data set at a time.")]
    seed: Annotated[
        int, Meta(ge=0, description="a whole number >= 0"), Option("Decides the seeds of all runs.")
    ]
    store: Annotated[Text, Option("Where the runs are kept.")]


class LimitsOfServer(TypedDict, total=False):
    """What one server is asked at most."""

    connections: Annotated[Count, Option("Calls at a time.")]
    requests_per_minute: Annotated[Count, Option("Calls a minute.")]
    tokens_per_minute: Annotated[Count, Option("Tokens a minute.")]


OWN = ("models", "data", "goals", "limits", *FleetOptions.__annotations__)
"""What a fleet has beside the settings of its runs."""

PRIORITY = Declared("priority", Number, Option("The highest goes first."))


@dataclass(frozen=True, slots=True)
class Entry:
    """Hold one run of a fleet: who is asked, on what, to which goal, how. number: its place in the file."""

    number: int
    candidates: tuple[Mapping[str, Any], ...]
    data: str
    goal: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    priority: float = 0.0

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(name_candidates(self.asked))

    @property
    def asked(self) -> tuple[Candidate, ...]:
        return tuple(Candidate(**one) for one in self.candidates)

    @property
    def servers(self) -> tuple[str, ...]:
        first, judge = own_address(self.asked[0]), self.settings.get("judge")
        theirs = [server_of(one.model_name, own_address(one)) for one in self.asked]
        if judge:
            theirs.append(server_of(str(judge), self.settings.get("judge_base_url") or first))
        return tuple(dict.fromkeys(one.rstrip("/") for one in theirs if one))

    @property
    def model(self) -> str:
        return (" against " if len(self.models) == 2 else ", ").join(self.models)

    @property
    def learns(self) -> bool:
        method, target = self.settings.get("method", "auto"), self.settings.get("target", "benchmark")
        steered = method in ("auto", "active", "memory", "partition") and target != "population"
        return FROM_STORE in self.settings.get("history", (FROM_STORE,)) and steered

    @property
    def is_mean(self) -> bool:
        return kind_for(str(self.goal["goal"])).name == "estimate"


@dataclass(frozen=True, slots=True)
class Fleet:
    """Hold all runs, and what they may take. together: how many on one data set at a time; None: what is cheaper."""

    entries: tuple[Entry, ...]
    max_calls: int | None = None
    max_usd: float | None = None
    max_minutes: float | None = None
    workers: int | None = None
    limits: Mapping[str, ServerLimits] = field(default_factory=dict)
    store: str | None = None
    together: int | None = None


def read_fleet(
    source: str | Path | Mapping[str, Any], *, trust: bool = False, typed_store: bool = False
) -> Fleet:
    """Read a fleet from a YAML file, or from a dictionary of the same shape, which is trusted as typed.

    typed_store: another store was typed, in place of the file's.

    >>> fleet = read_fleet({"models": ["scripted/0.6", "scripted/0.7"], "data": "bank.jsonl", "eps": 0.05})
    >>> [(entry.model, entry.goal["eps"]) for entry in fleet.entries]
    [('scripted/0.6', 0.05), ('scripted/0.7', 0.05)]
    """
    if isinstance(source, Mapping):
        fleet = _fleet(source, "the fleet", Path())
        remember(_named_by(fleet))
        return fleet
    values = read_yaml(Path(source))
    if not isinstance(values, dict):
        raise BadFile(f"{source} must hold a fleet: `models`, `data` and settings, one per line")
    fleet, names = _beside(_fleet(values, str(source), Path(source).parent), Path(source).parent)
    names += _named_by(fleet)
    if fleet.store is not None and not typed_store:
        names.append(named_store(fleet.store))
    if trust:
        remember(names)
    require(names, f"the fleet file {source}")
    return fleet


def _beside(fleet: Fleet, folder: Path) -> tuple[Fleet, list[Named]]:
    """Return a fleet whose @FILE are looked for beside its own file, and name those outside its folder."""
    names, entries = list[Named](), list[Entry]()
    for entry in fleet.entries:
        (settings, more), *candidates = (
            resolve_files(one, folder) for one in (entry.settings, *entry.candidates)
        )
        names += [*more, *named_data(entry.data, folder)]
        for _, theirs in candidates:
            names += theirs
        resolved = tuple(one for one, _ in candidates)
        entries.append(replace(entry, settings=settings, candidates=resolved))
    return replace(fleet, entries=tuple(entries)), names


def _named_by(fleet: Fleet) -> Iterator[Named]:
    for entry in fleet.entries:
        for one in entry.asked:
            yield from named_by_candidate(one)
        yield from named_by_options(entry.settings, entry.asked[0])


def _fleet(values: Mapping[Any, Any], source: str, folder: Path) -> Fleet:
    named = _named(values, source)
    # As a list, a limit is that of each run on a data set; as one value, that of the whole fleet.
    each = [name for name in ("max_calls", "max_usd", "max_minutes") if isinstance(named.get(name), list)]
    own = {key: value for key, value in named.items() if key in OWN and key not in each}
    rest = {key: value for key, value in named.items() if key not in own}
    for name in ("models", "data"):
        if not own.get(name):
            raise InvalidInput(f"{name} in {source}", "given: one, or a list", own.get(name))
    models = [_part(one, "model", source) for one in _listed(own["models"])]
    data = [_part(one, "data", source, folder) for one in _listed(own["data"])]
    if "model" in rest:
        raise InvalidInput(f"model in {source}", "given as `models`", rest["model"])
    spread = _Spread(source, rest, models, data)
    goals = [_goal(one, source) for one in _listed(own.get("goals", "run"))]
    whole = {name: value for name, value in own.items() if name in FleetOptions.__annotations__}
    whole = check_options(whole, FleetOptions, source)
    seed = whole.pop("seed", None)
    entries = tuple(_seeded(list(_entries(goals, spread, source)), seed))
    return Fleet(entries, limits=_limits(own.get("limits"), source), **whole)


# -- parts of the file ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    settings: Mapping[str, Any]
    priority: float
    title: str = ""
    """What results and goals call it, where that is not its name."""

    @property
    def called(self) -> str:
        return self.title or self.name


def _part(value: Any, kind: str, source: str, folder: Path | None = None) -> _Part:
    own = _named(value, source) if isinstance(value, Mapping) else {kind: value}
    name = own.pop(kind, None)
    priority = checked_value(PRIORITY, own.pop("priority", 0), f"priority in {source}")
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"{kind} in {source}", "a name, or settings with one under `" + kind + "`", value)
    if folder is not None and is_file(folder / name):
        name = str(folder / name)
    for taken in ("model", "data", "store", "seed"):
        if taken in own:
            raise InvalidInput(
                f"{taken} in {source}, {kind} {name}", "left out: it is the fleet's", own[taken]
            )
    title = own.pop("name", "") if folder is None else ""
    settings = check_options(own, RunOptions, f"{source}, {kind} {name}", (kind, "priority"))
    return _Part(name, settings, priority, str(title))


@dataclass(frozen=True, slots=True)
class _Spread:
    source: str
    shared: Mapping[str, Any]
    models: Sequence[_Part]
    data: Sequence[_Part]

    def settings(self, model: int, data: int) -> dict[str, Any]:
        """Return those of one pair: the data set's own win over the model's own, and these over the fleet's."""
        chosen = {key: self._chosen(key, value, model, data) for key, value in self.shared.items()}
        common = check_options(chosen, RunOptions, self.source, OWN)
        return {**common, **self.models[model].settings, **self.data[data].settings}

    def _chosen(self, key: str, value: Any, model: int, data: int) -> Any:
        if not isinstance(value, list):
            return value
        place, parts, of = (
            (model, self.models, "model") if key in OF_A_MODEL else (data, self.data, "data set")
        )
        if len(value) != len(parts):
            raise InvalidInput(
                f"{key} in {self.source}", f"one value, or one for each {of} ({len(parts)})", value
            )
        return value[place]


@dataclass(frozen=True, slots=True)
class _Goal:
    word: str
    options: Mapping[str, Any]
    models: tuple[str, ...] | None
    data: tuple[str, ...] | None
    baseline: str | None
    priority: float


def _goal(value: Any, source: str) -> _Goal:
    own = _named(value, source) if isinstance(value, Mapping) else {"goal": value}
    word = own.pop("goal", None)
    if word not in WORDS and word not in all_goals():
        names = [*WORDS, *all_goals()]
        raise InvalidInput(
            f"goal in {source}", f"one of {', '.join(names)} ({did_you_mean(str(word), names)})", word
        )
    models, data = (own.pop(name, None) for name in ("models", "data"))
    kind = kind_for(WORDS.get(word, word))
    baseline = own.pop("baseline", None) if kind.asks == "two" or word == "beats" else None
    return _Goal(
        word,
        own,
        None if models is None else tuple(map(str, _listed(models))),
        None if data is None else tuple(map(str, _listed(data))),
        None if baseline is None else str(baseline),
        checked_value(PRIORITY, own.pop("priority", 0), f"priority in {source}"),
    )


def _entries(goals: Sequence[_Goal], spread: _Spread, source: str) -> Iterator[Entry]:
    number = 0
    for goal in goals:
        for asked in _asked(goal, spread, source):
            for place in _places(goal.data, spread.data, "data", source):
                yield _entry(number, goal, asked, place, spread)
                number += 1


def _entry(number: int, goal: _Goal, asked: Sequence[int], place: int, spread: _Spread) -> Entry:
    names = tuple(spread.models[model].called for model in asked)
    whole = [spread.settings(model, place) for model in asked]
    candidates = [
        {
            "model": spread.models[model].name,
            "name": spread.models[model].title,
            **{name: value for name, value in one.items() if name in OF_A_MODEL},
        }
        for model, one in zip(asked, whole, strict=True)
    ]
    each = [{name: value for name, value in one.items() if name not in OF_A_MODEL} for one in whole]
    for one, name in zip(each[1:], names[1:], strict=True):
        if one != each[0]:
            raise InvalidInput(
                f"settings of {name}", f"those of {names[0]}, where both are asked in one run", one
            )
    settings = dict(each[0])
    aims: dict[str, Any] = {name: settings.pop(name) for name in ("eps", "min") if name in settings}
    priority = max(spread.models[model].priority for model in asked)
    total = goal.priority + spread.data[place].priority + priority
    data = spread.data[place].name
    try:
        _check([spread.models[model].name for model in asked], settings)
        spec = _spec(goal, names, aims)
        check_options(settings, ACCEPTED[kind_for(spec["goal"]).name], "a run of this kind")
        return Entry(number, tuple(candidates), data, spec, settings, total)
    except InvalidInput as error:
        raise _placed(error, goal, f"{spread.source} ({goal.word}: {', '.join(names)} on {data})") from None


def _check(names: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Refuse before the first call what would fail a run in the middle of a fleet, or only once it is its turn."""
    if "confidence" in settings:
        checked_confidence(settings["confidence"])
    for name in names:
        if not name.startswith(OUTSIDE):
            prefix_of(name)
    if isinstance(settings.get("scorer"), str | Mapping):
        named(settings["scorer"])


def _placed(error: InvalidInput, goal: _Goal, where: str) -> InvalidInput:
    gate = goal.word == "gate"
    field = "min" if gate and error.field in ("threshold", "value") else error.field
    allowed = error.allowed.replace("'value'", "'min'") if gate else error.allowed
    return InvalidInput(f"{field} in {where}", allowed, error.received)


def _spec(goal: _Goal, names: Sequence[str], aims: Mapping[str, Any]) -> dict[str, Any]:
    word, options = WORDS.get(goal.word, goal.word), dict(goal.options)
    if goal.word in ("run", "gate", "tasks") and not options:
        if None not in (aims.get("eps"), aims.get("min")):
            raise InvalidInput("eps", "left out where min is given", aims["eps"])
        options = {name: value for name, value in aims.items() if value is not None}
        options = {"eps": options["eps"]} if goal.word != "gate" and "eps" in options else options
    if "min" in options:
        word = "all-at-least" if goal.word == "tasks" else "threshold"
        options["value"] = options.pop("min")
    if goal.word == "beats" and goal.baseline is not None:
        options["baseline"] = names.index(goal.baseline)
    return dict(goal_from_spec({"goal": word, **options}).spec())


def _asked(goal: _Goal, spread: _Spread, source: str) -> list[tuple[int, ...]]:
    chosen = _places(goal.models, spread.models, "models", source)
    kind = kind_for(WORDS.get(goal.word, goal.word))
    if kind.asks == "all":
        return [tuple(chosen)]
    if kind.asks == "one":
        return [(one,) for one in chosen]
    if goal.baseline is not None:
        base = _places((goal.baseline,), spread.models, "baseline", source)[0]
        return [(one, base) for one in chosen if one != base]
    if len(chosen) != 2:
        names = [spread.models[one].called for one in chosen]
        raise InvalidInput(
            f"models of compare in {source}", "two, or a `baseline` that the others are held to", names
        )
    return [tuple(chosen)]


def _places(wanted: Sequence[str] | None, parts: Sequence[_Part], field: str, source: str) -> list[int]:
    names = [part.called for part in parts]
    if wanted is None:
        return list(range(len(parts)))
    for name in wanted:
        if names.count(name) > 1:
            several = "a name that one of them has alone: give each a `name`"
            raise InvalidInput(f"{field} of a goal in {source}", several, name)
    short = {Path(name).name: place for place, name in enumerate(names)} if field == "data" else {}
    known = {**short, **{name: place for place, name in enumerate(names)}}
    for name in wanted:
        if name not in known:
            raise InvalidInput(
                f"{field} of a goal in {source}", f"some of the fleet's ({', '.join(names)})", name
            )
    return [known[name] for name in wanted]


def _seeded(entries: Sequence[Entry], seed: int | None) -> Iterator[Entry]:
    """Give each run a seed of its own, so that none is drawn in another's order; none where the fleet has none."""
    if len(
        {(str(entry.candidates), entry.data, str(entry.goal), str(entry.settings)) for entry in entries}
    ) < len(entries):
        raise InvalidInput("the fleet", "made of runs that differ", "the same model, data and goal twice")
    seen: Counter[str] = Counter()
    for entry in entries:
        if seed is None:
            yield entry
            continue
        named = f"{seed}|{entry.model}|{Path(entry.data).name}|{sorted(entry.goal.items())}"
        seen[named] += 1
        digest = hashlib.sha256(f"{named}|{seen[named]}".encode()).digest()
        own = int.from_bytes(digest[:8]) % LARGEST_SEED
        yield replace(entry, settings={**entry.settings, "seed": own})


def _limits(value: Any, source: str) -> dict[str, ServerLimits]:
    of_all = isinstance(value, Mapping) and not any(isinstance(one, Mapping) for one in value.values())
    servers = {ALL: value} if of_all else value or {}
    if not isinstance(servers, Mapping) or not all(isinstance(one, Mapping) for one in servers.values()):
        wanted = "limits by the address of a server, or for all of them"
        raise InvalidInput(f"limits in {source}", wanted, value)
    found = {}
    for server, one in servers.items():
        where = f"limits in {source}" if of_all else f"limits of {server} in {source}"
        found[str(server).rstrip("/")] = ServerLimits(**check_options(one, LimitsOfServer, where))
    return found


def _named(values: Mapping[Any, Any], source: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = option_name(key, RunOptions) or str(key).replace("-", "_")
        if name in found:
            raise InvalidInput(f"{key} in {source}", f"left out where {name} is given", value)
        found[name] = value
    return found


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
