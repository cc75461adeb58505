"""State the contract of a goal: what to work towards, and whether it has been reached; read goals from their specs.

Each kind of question lists its own goals (`Kind.goals`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any, Protocol

from cereval.errors import InvalidInput
from cereval.methods.base import Aim, Method
from cereval.questions import all_goals, kind_for
from cereval.text import did_you_mean

LEAST_CONFIDENCE = 1e-12
"""What is smaller leaves a chance to miss that rounds to 1, which no bet can be planned for."""

SMALLEST = 1e-100
"""What is smaller is no half-width, and its square is 0."""

ROUNDING = 1e-12
"""Means of all items nearer than this to one another are equal. It need not grow with their number: once all items are
in, their sum is correctly rounded (`math.fsum`), and each score's own rounding is at most 2^-53."""


class Goal(Protocol):
    """Say what a run works towards. Goals are frozen, validated in their constructors, and rebuilt from their spec."""

    def aim(self, budget: int | None) -> Aim:
        """Return what the method's bets and draws should work towards."""

    def reached(self, method: Method) -> bool:
        """Tell whether the results consumed so far certify the goal."""

    def decision(self, method: Method) -> str | None:
        """Return the answer to a yes/no goal, if it has one yet."""

    @property
    def words(self) -> str:
        """Return what is asked, in a few words."""

    def spec(self) -> dict[str, Any]:
        """Return name and parameters as JSON."""


def goal_from_spec(spec: Mapping[str, Any], allowed: Iterable[Any] = ()) -> Any:
    """Rebuild a goal from its spec; one of those allowed, where some are named.

    >>> goal_from_spec({"goal": "estimate", "eps": 0.1}), goal_from_spec({"goal": "which-fail", "value": 0.5})
    (Estimate(eps=0.1), WhichFail(value=0.5))
    """
    goals = {goal.name: goal for goal in allowed} or all_goals()
    kind = goals.get(str(spec.get("goal")))
    if kind is None:
        raise InvalidInput("goal", "one of " + ", ".join(goals), spec.get("goal"))
    given = {key: value for key, value in spec.items() if key != "goal"}
    _check_names(kind, given)
    try:
        return kind(**given)
    except TypeError:
        raise InvalidInput("goal", f"the parameters of {kind.name}", dict(spec)) from None


def _check_names(kind: Any, given: Mapping[str, Any]) -> None:
    """Refuse parameters that a goal does not have, and ask for those that it needs."""
    needed = {one.name: one.default is MISSING for one in fields(kind)}
    for name in given:
        if name not in needed:
            hint = did_you_mean(str(name), needed)
            raise InvalidInput("goal", f"{kind.name} with parameters of its own ({hint})", name)
    for name in needed:
        if needed[name] and name not in given:
            raise InvalidInput(name, f"given for the goal {kind.name}", None)


def of_one_model(goal: Goal | None) -> Goal | None:
    """Give a goal back that asks about one model; a comparison would take its score for a difference of two."""
    if goal is not None and kind_for(goal).asks != "one":
        wanted = "about one model, as Estimate and Threshold are (see `cereval.compare`)"
        raise InvalidInput("goal", wanted, goal)
    return goal


def in_words(spec: Mapping[str, Any]) -> str:
    """Say what a goal asks, from its spec.

    >>> in_words({"goal": "estimate", "eps": 0.02}), in_words({"goal": "threshold", "value": 0.8})
    ('within 2%', 'at least 80%?')
    >>> in_words({"goal": "sign", "tie": 0.02}), in_words({"goal": "macro", "eps": 0.01, "each": 0.05})
    ('which is better, or within 2%', 'macro mean within 1%, every task within 5%')
    """
    return (
        str(goal_from_spec(spec).words)
        if spec.get("goal") in all_goals()
        else str(spec.get("words", "part of a run"))
    )


def in_open_unit_interval(field: str, value: object) -> float:
    """Return the value as a float, if it is a number strictly between 0 and 1."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if isinstance(value, bool) or not SMALLEST < number < 1.0:
        raise InvalidInput(field, "a number in (0, 1)", value)
    return number


def checked_confidence(value: object) -> float:
    """Return the value as a float, if it is a confidence.

    >>> checked_confidence("0.95")
    0.95
    """
    number = in_open_unit_interval("confidence", value)
    if number < LEAST_CONFIDENCE:
        raise InvalidInput("confidence", f"a number in (0, 1), at least {LEAST_CONFIDENCE:g}", value)
    return number
