"""Define the samples of a task as a pool of items: their contents, their order, their tasks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from inspect_ai.dataset import Sample

from cereval.errors import InvalidInput
from cereval.plan import digest_of


@dataclass(frozen=True, slots=True, eq=False)
class SamplePool:
    """Hold the samples in the order of their numbers, a digest of each one's content, and the names of their
    tasks."""

    samples: tuple[Sample, ...]
    contents: tuple[str, ...]
    labels: tuple[str, ...] | None = None


def pool_of(dataset: Any, by: str | None = None) -> SamplePool:
    """Number the samples by their content, so that a data set that is shuffled when it is loaded keeps its numbers.

    Samples without an id get their position, as Inspect does, or their content's digest where it shuffles.
    """
    named = [(content_of(one), number, one) for number, one in enumerate(dataset, start=1)]
    for content, number, one in named:
        if one.id is None:
            one.id = content[:16] if getattr(dataset, "shuffled", False) else number
    _check_ids(one for _, _, one in named)
    ordered = sorted(named, key=lambda each: (each[0], str(each[2].id)))
    samples = tuple(one for _, _, one in ordered)
    labels = None if by is None else tuple(_label(one, by) for one in samples)
    return SamplePool(samples, tuple(content for content, _, _ in ordered), labels)


def content_of(sample: Any) -> str:
    """Digest what a sample asks and expects, of the data set or of a log: positions and ids are not trusted."""
    given = sample.input
    turns = given if isinstance(given, str) else [[turn.role, turn.text] for turn in given]
    target = sample.target if isinstance(sample.target, str) else list(sample.target)
    return digest_of([turns, target, list(sample.choices or ())])


def _label(sample: Sample, by: str) -> str:
    found = (sample.metadata or {}).get(by)
    if found is None or found == "":
        raise InvalidInput("by", f"a field of every sample's metadata (sample {sample.id} has none)", by)
    return str(found)


def _check_ids(samples: Iterable[Sample]) -> None:
    seen: set[str] = set()
    for one in samples:
        if str(one.id) in seen:
            raise InvalidInput("task", "a task whose samples have different ids", f"the id {one.id} twice")
        seen.add(str(one.id))
