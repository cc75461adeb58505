"""State the contract of a goal: what to work towards, and whether it has been reached."""

from __future__ import annotations

from typing import Any, Protocol

from cereval.methods.base import Aim, Method


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
