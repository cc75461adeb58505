"""Describe a run: `Plan` is everything that decides what it asks and certifies (its hash is the run's id), `Known`
its arrays.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import numpy as np
from msgspec import Meta, ValidationError, convert
from numpy.typing import NDArray

from cereval.arrays import Floats, Ints, packed, unpacked
from cereval.errors import InvalidInput
from cereval.forecasts.pool import Pool
from cereval.records import Table, html_table
from cereval.version import ENGINE

PLAN_FORMAT = 1
RUN_ID = re.compile("[0-9a-f]{6,64}")
KNOWN = ("groups", "history", "embeddings")
"""What may be known of the items."""

DRAWN: Literal["drawn"] = "drawn"
LARGEST_COUNT = 2**53
MOST_ITEMS = 100_000_000
"""Items of one evaluation: 3 GB of numbers to keep of them."""

SCRIPTED = "scripted/"
"""How the name of a model begins whose answers are decided by a hash of the question."""

MOST_GROUPS = 200
ITEMS_PER_GROUP = 4
"""Fewer items than this per category, on average, teach nothing about the others."""


class PromptSpec(TypedDict):
    """How a candidate's prompt is made, with the texts themselves."""

    template: str | None
    system: str | None
    examples: list[dict[str, Any]]
    choose: NotRequired[str]


class CandidateSpec(TypedDict):
    """A candidate as a plan keeps it: everything that decides what its model is sent.

    settings: fields of the request. code: a digest of a callable's code and of the module that it lives in. run: the
    run whose answers are the candidate's, as they were given. not_asked: why it is asked nothing else; without this it
    is asked what the run lacks.
    """

    name: str
    model: str
    base_url: str | None
    prompt: PromptSpec
    settings: dict[str, Any]
    revision: NotRequired[str]
    code: NotRequired[str]
    run: NotRequired[str]
    not_asked: NotRequired[str]


@dataclass(frozen=True, slots=True)
class Plan:
    """Fix a run's identity: two runs with the same plan ask the same questions in the same order.

    kind: the kind of question (`cereval.questions`). data_hash: of the items, in order. scorer: as a spec, with its
    judges. side_information: which of `groups` and `history` steer the draws. history: how much of which earlier run
    was known at the start (run id -> first draw left out). weights: of the items in the target, packed, and where
    they came from; empty: all alike. tasks: the names of the tasks that the items' categories stand for, in the order
    of their numbers. growth: of growing data, how many items each version so far added (`sizes`) and the run of the
    version before (`after`). seed_source: `drawn` where nobody chose the seed. attempt: how often the very same plan
    was carried out before, afresh. nonce: random, of a plan that was sealed before its first call: hides the seed in
    the seal's commitment. engine: the number of the rules that decide draws and bets.

    >>> plan = Plan("estimate", {"goal": "estimate", "eps": 0.05}, "sha256:00", 10, (candidate_spec("m"),))
    >>> plan.run_id == Plan.from_dict(plan.as_dict()).run_id, len(plan.run_id)
    (True, 12)
    """

    kind: str
    goal: dict[str, Any]
    data_hash: str
    n_items: int
    candidates: tuple[CandidateSpec, ...]
    scorer: dict[str, Any] = field(default_factory=lambda: {"spec": {"name": "exact"}})
    data_name: str = ""
    confidence: float = 0.95
    target: str = "benchmark"
    method: str = "auto"
    seed: int = 0
    max_calls: int | None = None
    side_information: tuple[str, ...] = ()
    history: dict[str, Annotated[int, Meta(ge=0, le=LARGEST_COUNT)]] = field(default_factory=dict)
    weights: dict[str, Any] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    growth: dict[str, Any] = field(default_factory=dict)
    seed_source: Literal["", "drawn"] = ""
    attempt: Annotated[int, Meta(ge=0, le=LARGEST_COUNT)] = 0
    nonce: Annotated[str, Meta(pattern="^([0-9a-f]{64})?$")] = ""
    engine: int = ENGINE

    def _repr_html_(self) -> str:
        return html_table(
            Table(("setting", "value"), [(name, str(value)) for name, value in self.as_dict().items()])
        )

    @property
    def run_id(self) -> str:
        return digest_of(self.as_dict())[:12]

    @property
    def item_weights(self) -> Floats | None:
        """Return the weight of every item in the target; None: all alike."""
        return unpacked("weights", self.weights, "<f8", self.n_items) if self.weights else None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(candidate["name"] for candidate in self.candidates)

    @property
    def name(self) -> str:
        return (" against " if len(self.candidates) == 2 else ", ").join(self.names)

    @property
    def judges(self) -> list[str]:
        """Return the models behind the scorer; several are a panel."""
        return list(self.scorer.get("judge") or ())

    @property
    def scorer_words(self) -> str:
        """Name the scorer, with its judges; nothing where scores come from outside."""
        spec = self.scorer["spec"]
        if all(one["model"].startswith(("recorded/", "external/")) for one in self.candidates):
            return ""
        name = spec if isinstance(spec, str) else str(spec.get("name"))
        if isinstance(spec, Mapping) and name in ("regex", "python"):
            name = f"{name}:{spec.get('pattern', spec.get('function', ''))}"
        return f"{name} by {', '.join(self.judges)}" if self.judges else name

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as JSON, with a format number so that later versions can tell."""
        lists = {name: list(getattr(self, name)) for name in ("side_information", "tasks", "candidates")}
        return {"format": PLAN_FORMAT, **asdict(self), **lists}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Plan:
        """Return the plan that `as_dict` wrote; refuse anything else, since it may come from anybody."""
        if values.get("format") != PLAN_FORMAT:
            raise InvalidInput("plan format", str(PLAN_FORMAT), values.get("format"))
        names = {one.name for one in fields(cls)}
        if wrong := sorted((set(values) - {"format"}) ^ names):
            raise InvalidInput("plan", "made of the fields of Plan", wrong[0])
        try:
            plan = convert({name: values[name] for name in names}, cls)
        except ValidationError as error:
            raise InvalidInput("plan", f"as a run writes it ({error})", values.get("data_name")) from None
        _check_parts(plan)
        return plan

    @property
    def seed_drawn(self) -> bool:
        return self.seed_source == DRAWN

    @property
    def request(self) -> str:
        """Name what was asked for, whatever was known or drawn at the time: a repeated command has the same."""
        bare = replace(self, history={}, side_information=(), attempt=0)
        return (replace(bare, seed=0, seed_source=DRAWN) if self.seed_drawn else bare).run_id


def candidate_spec(model: str, name: str = "", **parts: Any) -> CandidateSpec:
    """Return a candidate as a plan keeps it.

    >>> candidate_spec("scripted/0.5")["name"]
    'scripted/0.5'
    """
    prompt: PromptSpec = {"template": None, "system": None, "examples": []}
    spec: CandidateSpec = {
        "name": name or model,
        "model": model,
        "base_url": None,
        "prompt": prompt,
        "settings": {"temperature": 0.0, "max_tokens": None},
    }
    return {**spec, **parts}  # type: ignore[typeddict-item]


def full_name(candidate: Mapping[str, Any]) -> str:
    """Return a candidate's name, with its model where the name does not say it.

    >>> full_name(candidate_spec("openai/m")), full_name(candidate_spec("openai/m", "brief"))
    ('openai/m', 'brief (openai/m)')
    """
    name, model = str(candidate["name"]), str(candidate["model"])
    own = name.removeprefix("python:")
    return name if model in name or model.endswith((f"/{own}", f":{own}")) else f"{name} ({model})"


def candidate_digest(candidate: CandidateSpec) -> str:
    """Name everything that decides what a candidate is sent, whatever it is called.

    >>> candidate_digest(candidate_spec("m", "a")) == candidate_digest(candidate_spec("m", "b"))
    True
    """
    return digest_of({key: value for key, value in candidate.items() if key != "name"})


def repeats_itself(candidate: CandidateSpec) -> bool:
    """Tell whether an answer is a fact about a candidate: it is asked at temperature 0, or scripted. A function is
    taken to repeat itself unless its temperature was set to `none`.
    """
    return candidate["settings"].get("temperature", 0) == 0 or candidate["model"].startswith(SCRIPTED)


def about_luck(plan: Plan) -> tuple[str, ...]:
    """Return what a result has to say where candidates answer anew at every call, and it is about these answers.

    >>> about_luck(Plan("estimate", {"goal": "estimate"}, "sha256:00", 10, (candidate_spec("m"),)))
    ()
    """
    random = [one["name"] for one in plan.candidates if not repeats_itself(one)]
    if plan.target != "benchmark" or not random:
        return ()
    return (
        f"warning: {', '.join(random)} may answer differently next time; the result is about the answers given now",
    )


def _check_parts(plan: Plan) -> None:
    if not isinstance(plan.goal.get("goal"), str):
        raise InvalidInput("goal of the plan", "an object with the name of a goal", plan.goal)
    if not plan.candidates:
        raise InvalidInput("candidates of the plan", "one or more", [])
    if not isinstance(plan.scorer.get("spec"), str | Mapping):
        raise InvalidInput("scorer of the plan", "a scorer's name or specification", plan.scorer)
    sizes, after = plan.growth.get("sizes"), plan.growth.get("after")
    counts = (
        isinstance(sizes, list | tuple)
        and bool(sizes)
        and all(type(one) is int and one >= 0 for one in sizes)
    )
    if plan.growth and not (counts and (after is None or isinstance(after, str))):
        raise InvalidInput(
            "growth of the plan", "the sizes of versions, and the run that it goes on from", plan.growth
        )


def as_file_name(run_id: str) -> str:
    """Return a run's id that came from a store, if it can be part of a file's name: ids are digests, and hold no
    path.

    >>> as_file_name("0123456789ab")
    '0123456789ab'
    """
    if not RUN_ID.fullmatch(run_id):
        raise InvalidInput("run id", "6 to 64 of the digits 0-9a-f, to name a file after it", run_id)
    return run_id


def digest_of(value: Any) -> str:
    """Return the SHA-256 of a JSON value with one spelling: sorted keys, no spaces, ASCII, shortest floats.

    >>> digest_of({"b": 1, "a": 0.1})[:8] == digest_of({"a": 0.1, "b": 1})[:8]
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """Hold what is known of the items. `groups`: one whole number per item. `history`: items x earlier runs, NaN
    where one was not asked. `embeddings`: a vector per item, of a replay with texts.

    >>> known = Known(groups=np.array([0, 1, 1]), history=np.array([[1.0], [np.nan], [0.0]]))
    >>> again = Known.from_dict(known.as_dict(), n_items=3)
    >>> again.groups.tolist(), again.fingerprint == known.fingerprint
    ([0, 1, 1], True)
    """

    groups: Ints | None = None
    history: Floats | None = None
    embeddings: NDArray[Any] | None = None

    @classmethod
    def of(cls, pool: Pool) -> Known:
        """Return what of a pool's side information a certificate has room for."""
        return cls(pool.groups, pool.history, pool.embeddings)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in KNOWN if getattr(self, name) is not None)

    @property
    def fingerprint(self) -> str:
        return digest_of(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        return {name: packed(getattr(self, name)) for name in self.names}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], n_items: int) -> Known:
        kinds = {"groups": ("<i8", 1), "history": ("<f8", 2), "embeddings": ("<f8", 2)}
        unknown = sorted(set(values) - set(kinds))
        if unknown:
            raise InvalidInput("side information", " or ".join(kinds), unknown[0])
        tables = {}
        for name, table in values.items():
            kind, dimensions = kinds[name]
            tables[name] = unpacked(name, table, kind, n_items, dimensions)
        return cls(**tables)


def groups_of(categories: Sequence[str | None]) -> Ints | None:
    """Return the categories as whole numbers; None where there is only one, or where there are too many to learn
    from.

    >>> groups_of(["b", "a", "b", "a", "b", "b", "a", "a"]).tolist()
    [1, 0, 1, 0, 1, 1, 0, 0]
    """
    names, codes = np.unique(
        np.array([category or "" for category in categories], dtype=np.str_), return_inverse=True
    )
    return np.asarray(codes, dtype=np.int64) if tell_apart(len(names), len(categories)) else None


def tell_apart(categories: int, items: int) -> bool:
    """Tell whether so many categories of items may teach something about one another's.

    >>> tell_apart(2, 8), tell_apart(1, 100), tell_apart(30, 100)
    (True, False, False)
    """
    return 1 < categories <= min(MOST_GROUPS, items // ITEMS_PER_GROUP)
