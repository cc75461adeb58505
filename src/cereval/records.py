"""Describe the frozen records that layers hand to one another, and the frame of every result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from html import escape
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from msgspec import Meta

from cereval.forms import Count, Positive, Share
from cereval.imports import optional
from cereval.text import SIDES, estimate_in_interval, interval, percent

Guarantee = Literal["anytime", "fixed-n", "heuristic"]
"""What the theorem behind a result promises: at every moment, at one planned n, or nothing proven."""

Stopped = Literal["goal", "exhausted", "budget", "contradiction", "running"]
"""Why a session ended (`running`: it has not)."""

Target = Literal["benchmark", "population", "expected", "weighted"]
"""Which mean a result is about (docs/guarantee.md)."""

ABOUT: Mapping[str, str] = {
    "population": "about all questions of this kind",
    "expected": "about all answers the model could give",
    "weighted": "about the weighted mean",
}
"""What a result of a target is about; of `benchmark`, the questions that were counted."""

PASSED, FAILED, UNDECIDED = 0, 2, 3
"""Exit codes: goal reached or certified pass, certified fail, undecided."""

FAILS = frozenset({"below", "worse", "some-fail"})
"""Decisions that are a certified fail."""


@dataclass(frozen=True, slots=True)
class Draw:
    """Name one question: the `index`-th draw puts item number `item` to the models numbered `models`.

    `probability` is the chance with which the item was drawn among those not drawn before it.

    >>> Draw(0, 7, 0.1).model
    0
    """

    index: int
    item: int
    probability: float
    models: tuple[int, ...] = (0,)

    @property
    def model(self) -> int:
        return self.models[0]


Scored = tuple[float | None, ...]
"""What came of a draw: the score of each of its models, None where the call failed for good."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Hold a closed interval [lower, upper] inside [0, 1] that holds the target with the stated confidence."""

    lower: float
    upper: float

    @property
    def half_width(self) -> float:
        return (self.upper - self.lower) / 2

    @property
    def middle(self) -> float:
        return (self.upper + self.lower) / 2

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper


@dataclass(frozen=True, slots=True)
class Step:
    """Record what was certified after so many results, on the scale that people are shown."""

    calls: int
    estimate: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Table:
    """Hold rows of text for people; `numbers`: columns aligned to the right, `names`: columns that may be shortened."""

    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    numbers: tuple[int, ...] = ()
    names: tuple[int, ...] = ()
    extra: int | None = None
    """A column that is left out where there is no room."""


Rows = list[tuple[str, str]]

INCHES_PER_PART = 0.32


class Part(NamedTuple):
    """Name one certified interval of a result: a mean, a task, a model, a version, a difference."""

    name: str
    estimate: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Certified(ABC):
    """Give every result its frame: what it rests on, and how it is told to people, scripts and pages.

    `goal`, `models` and `scorer` say what was asked of whom; they are part of the JSON form only where a kind says so.
    """

    confidence: Share
    n_evaluated: Count
    n_items: Positive
    saved: Annotated[
        float, Meta(le=1, description="Of the items; below 0 where items are asked more than once.")
    ]
    stopped: Stopped
    method: str
    guarantee: Guarantee
    target: Target
    seed: Count
    failures: Annotated[
        int, Meta(ge=0, description="Calls that failed for good, which may only widen intervals.")
    ] = 0
    decision: str | None = None
    notes: tuple[str, ...] = ()
    goal: Mapping[str, Any] = field(default_factory=dict, compare=False)
    models: tuple[str, ...] = field(default=(), compare=False)
    scorer: str = field(default="", compare=False)
    """The scorer in a few words; empty where scores were recorded."""

    silent: ClassVar[frozenset[str]] = frozenset({"goal", "models", "scorer"})
    """Fields that are not part of the JSON form."""

    @abstractmethod
    def answer(self) -> str:
        """Return the answer in a few words."""

    def asked(self) -> str:
        if self.target == "expected":
            return f"{self.n_evaluated:,} calls on {self.n_items:,} questions"
        return f"{self.n_evaluated:,} of {self.n_items:,} questions asked"

    def sureness(self) -> str:
        if self.method == "all" and self.target != "population":
            return "certain"
        return f"{percent(self.confidence)} confidence"

    def headline(self) -> str:
        """Return the answer in one line: what holds, how surely, from how much, by which scorer, and about what."""
        scorer = f"scorer {self.scorer}" if self.scorer else ""
        parts = (self.answer(), self.sureness(), self.asked(), scorer, ABOUT.get(self.target, ""))
        return ", ".join(part for part in parts if part)

    def rows(self) -> Rows:
        return []

    def table(self) -> Table | None:
        return None

    def lines(self) -> list[str]:
        """Return what is said in words below the table, a line each."""
        return []

    def parts(self) -> list[Part]:
        """Return every interval that is certified, with its name and estimate; they all hold at once."""
        return []

    def to_frame(self) -> Any:
        """Return the certified intervals as a pandas DataFrame: name, estimate, lower, upper."""
        return optional("pandas", "plots").DataFrame(self.parts(), columns=Part._fields)

    def plot(self, axes: Any = None) -> Any:
        """Draw the certified intervals below one another with matplotlib (extra `plots`); return the axes."""
        parts = self.parts()
        if axes is None:
            pyplot = optional("matplotlib.pyplot", "plots")
            _, axes = pyplot.subplots(figsize=(7.0, 1.2 + INCHES_PER_PART * len(parts)), layout="constrained")
        places = range(len(parts))[::-1]
        lengths = [[one.estimate - one.lower for one in parts], [one.upper - one.estimate for one in parts]]
        axes.errorbar([one.estimate for one in parts], places, xerr=lengths, fmt="o", capsize=3, markersize=4)
        axes.set_yticks(places, [one.name for one in parts])
        axes.set_ylim(-0.6, len(parts) - 0.4)
        axes.set_title(self.headline(), fontsize="medium", loc="left", wrap=True)
        axes.grid(axis="x", alpha=0.3)
        return axes

    @property
    def exit_code(self) -> int:
        """Return the exit code: 0 goal reached or certified pass, 2 certified fail, 3 undecided."""
        if self.decision in FAILS:
            return FAILED
        spent = self.stopped == "budget" and self.goal.get("goal") == "finest"
        return PASSED if spent or self.stopped == "goal" else UNDECIDED

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-able values: the answer's own first, then what all results have."""
        values = asdict(self)
        shared = [one.name for one in fields(Certified)]
        names = [name for name in values if name not in shared] + [name for name in shared if name in values]
        return {name: plain(values[name]) for name in names if name not in self.silent}

    def __str__(self) -> str:
        return self.headline()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.headline()}>"

    def _repr_html_(self) -> str:
        table = self.table()
        facts = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in self.rows())
        parts = "" if table is None else html_table(table)
        return f"<p><b>{escape(self.headline())}</b></p>{parts}<table>{facts}</table>"


def html_table(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def plain(value: Any) -> Any:
    """Turn tuples into lists and mappings into dictionaries, at any depth."""
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Result(Certified):
    """Hold what a session certifies of one mean: the estimate, its interval and what they rest on.

    >>> numbers = dict(estimate=0.82, lower=0.802, upper=0.838, half_width=0.018, saved=0.86184)
    >>> counts = dict(confidence=0.95, n_evaluated=1940, n_items=14042, seed=0)
    >>> words = dict(stopped="goal", method="uniform", guarantee="anytime", target="benchmark")
    >>> Result(**numbers, **counts, **words)
    <Result: 82.0% (80.2% to 83.8%), 95% confidence, 1,940 of 14,042 questions asked>
    """

    estimate: Share
    lower: Share
    upper: Share
    half_width: Share
    decision: Literal["above", "below"] | None = None

    def answer(self) -> str:
        if self.goal.get("goal") == "threshold":
            verdict = f"at least {percent(self.goal['value'])}: {SIDES[self.decision]}"
            return f"{verdict}, {estimate_in_interval(self)}"
        return estimate_in_interval(self)

    def parts(self) -> list[Part]:
        return [Part(self.models[0] if self.models else "mean", self.estimate, self.lower, self.upper)]

    def rows(self) -> Rows:
        named = [("model", self.models[0])] if self.models else []
        return [
            *named,
            ("interval", interval(self.lower, self.upper)),
            ("method", f"{self.method} ({self.guarantee})"),
            ("target", self.target),
        ]
