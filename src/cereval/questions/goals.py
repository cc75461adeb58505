"""State the contract of a goal: what to work towards, and whether it has been reached; read goals from their specs.

Each kind of question has goals of its own (`Kind.goals`). A goal's class is its published form too: `tag` is its name
in a spec, its fields are the parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from msgspec import NODEFAULT, Struct, to_builtins
from msgspec.structs import fields, force_setattr

from cereval.errors import InvalidInput
from cereval.forms import OpenShare, ShareBelowOne
from cereval.methods.base import Aim
from cereval.questions import all_goals, goal_name, kind_for
from cereval.text import did_you_mean

LEAST_CONFIDENCE = 1e-12
"""What is smaller leaves a chance to miss that rounds to 1, which no bet can be planned for."""

SMALLEST = 1e-100
"""What is smaller is no half-width, and its square is 0."""

ROUNDING = 1e-12
"""Means of all items nearer than this to one another are equal. It need not grow with their number: once all items are
in, their sum is correctly rounded (`math.fsum`), and each score's own rounding is at most 2^-53."""


class Goal(Struct, frozen=True, forbid_unknown_fields=True, tag_field="goal"):
    """Say what a run works towards; its shares are checked when it is made.

    The goals of tasks and rankings have what their sessions need in place of `aim`.
    """

    decides: ClassVar[bool] = True
    """Whether there is an answer to be found; else the question is how much."""
    called: ClassVar[Mapping[str, str]] = {}
    """What users call a parameter, where that is not its name."""

    def __post_init__(self) -> None:
        for one in fields(type(self)):
            value, check = getattr(self, one.name), _CHECKS.get(one.type)
            if check is not None and (value is not None or one.type in (OpenShare, ShareBelowOne)):
                self._set(**{one.name: check(self.called.get(one.name, one.name), value)})

    @property
    def words(self) -> str:
        raise NotImplementedError

    def aim(self, budget: int | None) -> Aim:
        """Return what the method's bets and draws should work towards."""
        raise NotImplementedError

    def decision(self, method: Any) -> str | None:  # noqa: ARG002
        """Return the answer to a question that is to be decided, if it has one yet."""
        return None

    def reached(self, method: Any) -> bool:
        """Tell whether the results consumed so far certify the goal."""
        return self.decision(method) is not None

    def spec(self) -> dict[str, Any]:
        found: dict[str, Any] = to_builtins(self)
        return found

    def _set(self, **checked: Any) -> None:
        for name, value in checked.items():
            force_setattr(self, name, value)


def checked_goal(goal: Any, goals: Sequence[Any]) -> Any:
    """Return a goal, if it is one of these; None: the first with its usual parameters."""
    if goal is None:
        return goals[0]()
    if goals and not isinstance(goal, tuple(goals)):
        shapes = (f"{one.__name__}({', '.join(one.__struct_fields__)})" for one in goals)
        raise InvalidInput("goal", "one of " + ", ".join(shapes), goal)
    return goal


def goal_from_spec(spec: Mapping[str, Any], allowed: Iterable[Any] = ()) -> Any:
    """Rebuild a goal from its spec; one of those allowed, where some are named.

    >>> goal_from_spec({"goal": "estimate", "eps": 0.1}), goal_from_spec({"goal": "which-fail", "value": 0.5})
    (Estimate(eps=0.1), WhichFail(value=0.5))
    """
    goals = {goal_name(goal): goal for goal in allowed} or all_goals()
    kind = goals.get(str(spec.get("goal")))
    if kind is None:
        raise InvalidInput("goal", "one of " + ", ".join(goals), spec.get("goal"))
    given = {key: value for key, value in spec.items() if key != "goal"}
    known = {field.name: field.default is NODEFAULT for field in fields(kind)}
    for name in given:
        if name not in known:
            hint = did_you_mean(str(name), known)
            raise InvalidInput("goal", f"{goal_name(kind)} with parameters of its own ({hint})", name)
    for name, needed in known.items():
        if needed and name not in given:
            raise InvalidInput(name, f"given for the goal {goal_name(kind)}", None)
    return kind(**given)


def of_one_model(goal: Goal | None) -> Goal | None:
    """Give a goal back that asks about one model; a comparison would take its score for a difference of two."""
    if goal is not None and kind_for(goal).asks != "one":
        wanted = "about one model, as Estimate and Threshold are (see `cereval.compare`)"
        raise InvalidInput("goal", wanted, goal)
    return goal


def in_words(spec: Mapping[str, Any]) -> str:
    """Say what a goal asks, from its spec.

    >>> in_words({"goal": "estimate", "eps": 0.02}), in_words({"goal": "threshold", "value": 0.8})
    ('within 2%', 'at least 80%')
    >>> in_words({"goal": "sign", "tie": 0.02}), in_words({"goal": "macro", "eps": 0.01, "each": 0.05})
    ('which is better, or within 2%', 'macro mean within 1%, every task within 5%')
    """
    known = spec.get("goal") in all_goals()
    return str(goal_from_spec(spec).words if known else spec.get("words", "part of a run"))


def in_open_unit_interval(field: str, value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if isinstance(value, bool) or not SMALLEST < number < 1.0:
        raise InvalidInput(field, "a number in (0, 1)", value)
    return number


def zero_or_in_unit_interval(field: str, value: object) -> float:
    if value == 0 and not isinstance(value, bool):
        return 0.0
    try:
        return in_open_unit_interval(field, value)
    except InvalidInput:
        raise InvalidInput(field, "a number in [0, 1)", value) from None


_CHECKS: Mapping[Any, Callable[[str, object], float]] = {
    OpenShare: in_open_unit_interval,
    OpenShare | None: in_open_unit_interval,
    ShareBelowOne: zero_or_in_unit_interval,
}


def checked_confidence(value: object) -> float:
    """Return the value as a float, if it is a confidence.

    >>> checked_confidence("0.95")
    0.95
    """
    number = in_open_unit_interval("confidence", value)
    if number < LEAST_CONFIDENCE:
        raise InvalidInput("confidence", f"a number in (0, 1), at least {LEAST_CONFIDENCE:g}", value)
    return number
