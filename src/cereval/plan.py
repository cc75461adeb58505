"""Describe a run: `Plan` is everything that decides what it asks and certifies (its hash is the run's id), `Known`
its arrays.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cereval.arrays import packed, unpacked
from cereval.errors import InvalidInput
from cereval.forecasts.pool import Pool
from cereval.records import Table, html_table
from cereval.version import ENGINE

PLAN_FORMAT = 1
RUN_ID = re.compile("[0-9a-f]{6,64}")
DRAWN = "drawn"
LARGEST_COUNT = 2**53
MOST_ITEMS = 100_000_000
"""Items of one evaluation: 3 GB of numbers to keep of them."""

MOST_GROUPS = 200
ITEMS_PER_GROUP = 4
"""Fewer items than this per category, on average, teach nothing about the others."""

WIDEN = "widen"
"""A call that failed for good counts as unknown: score 0 from below, 1 from above."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Fix a run's identity: two runs with the same plan ask the same questions in the same order.

    data_hash: of the pool's items, in order. model: name, address and generation settings. prompt: template,
    system prompt and worked examples. scorer: as a spec. side_information: which of `groups` and `history`
    steer the draws. history: how much of which earlier run was known at the start (run id -> first draw left
    out). weights: of the items in the target, packed, and where they came from; empty: all alike. tasks: the names
    of the tasks that the items' categories stand for, in the order of their numbers; empty: one mean is asked for.
    growth: of growing data, how many items each version so far added (`sizes`) and the run of the version before
    (`after`). kind: the kind of question, where the other fields do not tell (`cereval.questions`). seed_source:
    `drawn` where nobody chose the seed. attempt: how often the very same plan was carried out before, afresh.
    nonce: random, of a plan that was sealed before its first call: hides the seed in the seal's commitment.
    engine: the number of the rules that decide draws and bets.

    >>> plan = Plan({"goal": "estimate", "eps": 0.05}, "sha256:00", n_items=10, model={"name": "m"})
    >>> plan.run_id == Plan.from_dict(plan.as_dict()).run_id, len(plan.run_id)
    (True, 12)
    """

    goal: Mapping[str, Any]
    data_hash: str
    n_items: int
    model: Mapping[str, Any]
    scorer: Mapping[str, Any] = field(default_factory=lambda: {"name": "exact"})
    prompt: Mapping[str, Any] = field(default_factory=dict)
    data_name: str = ""
    confidence: float = 0.95
    target: str = "benchmark"
    method: str = "auto"
    seed: int = 0
    max_calls: int | None = None
    failure_rule: str = WIDEN
    side_information: tuple[str, ...] = ()
    history: Mapping[str, int] = field(default_factory=dict)
    weights: Mapping[str, Any] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    growth: Mapping[str, Any] = field(default_factory=dict)
    kind: str = ""
    seed_source: str = ""
    attempt: int = 0
    nonce: str = ""
    engine: int = ENGINE

    def _repr_html_(self) -> str:
        """Return what the plan fixes, as notebooks show it."""
        return html_table(
            Table(("setting", "value"), [(name, str(value)) for name, value in self.as_dict().items()])
        )

    @property
    def run_id(self) -> str:
        return digest_of(self.as_dict())[:12]

    @property
    def item_weights(self) -> NDArray[np.float64] | None:
        """Return the weight of every item in the target; None: all alike."""
        return unpacked("weights", self.weights, "<f8", self.n_items) if self.weights else None

    @property
    def model_name(self) -> str:
        return str(self.model["name"])

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as JSON, with a format number so that later versions can tell."""
        lists = {"side_information": list(self.side_information), "tasks": list(self.tasks)}
        return {"format": PLAN_FORMAT, **asdict(self), **lists}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Plan:
        """Return the plan that `as_dict` wrote."""
        if values.get("format") != PLAN_FORMAT:
            raise InvalidInput("plan format", str(PLAN_FORMAT), values.get("format"))
        known = {name.name for name in fields(cls)}
        unknown = sorted(set(values) - known - {"format"})
        if unknown:
            raise InvalidInput("plan", "made of the fields of Plan", unknown[0])
        given = {key: value for key, value in values.items() if key in known}
        missing = sorted(known - set(given))
        if missing:
            raise InvalidInput("plan", f"one with the field {missing[0]}", sorted(given))
        _check_types(given)
        return cls(**{**given, **{name: tuple(given[name]) for name in ("side_information", "tasks")}})

    @property
    def seed_drawn(self) -> bool:
        """Tell whether nobody chose the seed."""
        return self.seed_source == DRAWN

    @property
    def request(self) -> str:
        """Name what was asked for, whatever was known or drawn at the time: a repeated command has the same."""
        bare = replace(self, history={}, side_information=(), attempt=0)
        return (replace(bare, seed=0, seed_source=DRAWN) if self.seed_drawn else bare).run_id


_KINDS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("goal", "model", "scorer", "prompt", "history", "weights", "growth"), (Mapping,)),
    **dict.fromkeys(("data_hash", "data_name", "target", "method", "failure_rule"), (str,)),
    **dict.fromkeys(("kind", "seed_source", "nonce"), (str,)),
    **dict.fromkeys(("side_information", "tasks"), (list, tuple)),
    **dict.fromkeys(("n_items", "seed", "attempt", "engine"), (int,)),
    "confidence": (float, int),
    "max_calls": (int, type(None)),
}
"""What each field of a plan is: one that was read may come from anybody."""


def _check_types(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if not isinstance(value, _KINDS[name]) or isinstance(value, bool):
            raise InvalidInput(f"{name} of the plan", f"of the kind {_KINDS[name][0].__name__}", value)
        allowed, fits = _PARTS.get(name, ("", None))
        if fits is not None and not fits(value):
            raise InvalidInput(f"{name} of the plan", allowed, value)


def _has_name(model: Any) -> bool:
    """Tell whether a value names a model, with its settings where it has some."""
    return (
        isinstance(model, Mapping)
        and isinstance(model.get("name"), str)
        and isinstance(model.get("settings", {}), Mapping)
    )


def _is_model(model: Mapping[str, Any]) -> bool:
    several = model.get("models")
    listed = several is None or (isinstance(several, list | tuple) and bool(several))
    return _has_name(model) and listed and all(map(_has_name, several or ()))


def _is_prompt(prompt: Mapping[str, Any]) -> bool:
    texts, examples = (prompt.get("template"), prompt.get("system")), prompt.get("examples", ())
    return (
        all(text is None or isinstance(text, str) for text in texts)
        and isinstance(examples, list | tuple)
        and all(isinstance(example, Mapping) for example in examples)
    )


def _is_growth(growth: Mapping[str, Any]) -> bool:
    sizes, after = growth.get("sizes"), growth.get("after")
    return not growth or (
        isinstance(sizes, list | tuple)
        and bool(sizes)
        and all(map(_is_count, sizes))
        and (after is None or isinstance(after, str))
    )


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST_COUNT


def _are_texts(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


_PARTS: Mapping[str, tuple[str, Callable[[Any], object]]] = {
    "goal": ("an object with the name of a goal", lambda goal: isinstance(goal.get("goal"), str)),
    "model": ("one with a name, or several, each with a name", _is_model),
    "scorer": (
        "a scorer's name or specification",
        lambda one: isinstance(one.get("spec", one), str | Mapping),
    ),
    "prompt": ("texts, and a list of examples", _is_prompt),
    "history": ("numbers of draws by run", lambda history: all(map(_is_count, history.values()))),
    "growth": ("the sizes of versions, and the run that it goes on from", _is_growth),
    "side_information": ("a list of texts", _are_texts),
    "tasks": ("a list of texts", _are_texts),
    "seed_source": (f"{DRAWN} or empty", lambda source: source in ("", DRAWN)),
    "nonce": ("empty or 64 hex digits", re.compile("([0-9a-f]{64})?").fullmatch),
    "attempt": ("a count", _is_count),
}
"""What the fields that are made of others hold."""


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
    where one was not asked.

    >>> known = Known(groups=np.array([0, 1, 1]), history=np.array([[1.0], [np.nan], [0.0]]))
    >>> again = Known.from_dict(known.as_dict(), n_items=3)
    >>> again.groups.tolist(), again.fingerprint == known.fingerprint
    ([0, 1, 1], True)
    """

    groups: NDArray[np.int64] | None = None
    history: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, pool: Pool) -> Known:
        """Return what of a pool's side information a certificate has room for."""
        return cls(pool.groups, pool.history)

    @property
    def names(self) -> tuple[str, ...]:
        """Return what of it there is, as a plan names it."""
        return tuple(name for name in ("groups", "history") if getattr(self, name) is not None)

    @property
    def fingerprint(self) -> str:
        return digest_of(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """Return the arrays as JSON, whole: zlib in base64, little-endian."""
        return {name: packed(getattr(self, name)) for name in self.names}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], n_items: int) -> Known:
        kinds = {"groups": ("<i8", 1), "history": ("<f8", 2)}
        unknown = sorted(set(values) - set(kinds))
        if unknown:
            raise InvalidInput("side information", "groups or history", unknown[0])
        tables = {}
        for name, table in values.items():
            kind, dimensions = kinds[name]
            tables[name] = unpacked(name, table, kind, n_items, dimensions)
        return cls(**tables)


def groups_of(categories: Sequence[str | None]) -> NDArray[np.int64] | None:
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
