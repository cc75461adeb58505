"""Collect what every format is made from: a run's certificate, and the certified means in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cereval.errors import InvalidInput, Misuse
from cereval.records import Certified
from cereval.report.story import Story, read_story
from cereval.store.base import Store


@dataclass(frozen=True, slots=True)
class Part:
    """Hold one certified mean: that of all questions, or that of a task; `name` is empty for the former."""

    name: str
    estimate: float
    lower: float
    upper: float
    asked: int
    items: int

    @property
    def prefix(self) -> str:
        return f"{self.name}/" if self.name else ""

    def numbers(self) -> dict[str, float]:
        """Return the numbers by name."""
        names = ("estimate", "lower", "upper", "asked", "items")
        return {name: float(getattr(self, name)) for name in names}


@dataclass(frozen=True, slots=True)
class Exported:
    """Show a run as formats see it."""

    story: Story
    certificate: Mapping[str, Any]

    @property
    def result(self) -> Certified:
        return self.story.result

    @property
    def run_id(self) -> str:
        assert self.story.run is not None
        return self.story.run.run_id

    @property
    def model(self) -> str:
        """Return the model's name; of several, their names."""
        return ", ".join(self._plan.names)

    @property
    def _plan(self) -> Any:
        assert self.story.plan is not None
        return self.story.plan

    @property
    def plan(self) -> Mapping[str, Any]:
        """Return the plan's fields by name."""
        values: Mapping[str, Any] = self._plan.as_dict()
        return values

    @property
    def digest(self) -> str:
        """Return the digest by which the certificate is known."""
        return str(self.certificate.get("digest", ""))

    @property
    def moments(self) -> tuple[str, str]:
        """Tell when the run began and when it last changed."""
        assert self.story.run is not None
        return self.story.run.created_at, self.story.run.changed_at

    @property
    def parts(self) -> tuple[Part, ...]:
        """List the certified means; none where models are compared or ranked."""
        values = self.result.as_dict()
        if "macro" in values:
            whole = _part("", values["macro"])
            return (whole, *(_part(name, one) for name, one in values["tasks"].items()))
        return (_part("", values),) if "estimate" in values else ()

    def means(self, format: str) -> tuple[Part, ...]:
        """List the certified means, for formats that have no room for anything else."""
        if not self.parts:
            wanted = f"a run that certifies scores of one model: {format} has no place for comparisons and rankings"
            raise InvalidInput("RUN", wanted, self.run_id)
        return self.parts


def _part(name: str, values: Mapping[str, Any]) -> Part:
    asked, items = values.get("n_evaluated", values.get("n")), values["n_items"]
    return Part(name, values["estimate"], values["lower"], values["upper"], int(asked or 0), int(items))


def exported(store: Store, run: str) -> Exported:
    """Read a run that has come to something."""
    story = read_story(store, run)
    if story.certificate is None:
        raise Misuse(f"run {run} has no certificate yet: nothing was answered, or it has no certificates")
    return Exported(story, story.certificate)
