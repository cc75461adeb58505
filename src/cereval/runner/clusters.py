"""Answer clusters: every question of a cluster is asked, and its score is their mean."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cereval.datasets.base import Item
from cereval.datasets.read import MEMBERS
from cereval.plan import Plan
from cereval.records import Draw
from cereval.runner.executor import Executor
from cereval.runner.items import item_from
from cereval.runner.samples import Samples, packed
from cereval.store.base import Answer


def questions_of(plan: Plan, items: Sequence[Item]) -> Sequence[Item]:
    """Return the questions behind the items of a plan: those of all clusters, or the items themselves."""
    if "cluster" not in plan.scorer:
        return items
    return [item_from(row) for item in items for row in item.metadata[MEMBERS]]


@dataclass(slots=True)
class Clustered:
    """Ask the questions of a cluster, which an executor knows by their places, and keep their answers as one.

    A call that fails for good leaves the cluster's score unknown.
    """

    inner: Executor
    first: Sequence[int]
    """The place of the first question of each cluster, and of the end."""

    @classmethod
    def of(cls, inner: Executor, items: Sequence[Item]) -> Clustered:
        first = [0]
        for item in items:
            first.append(first[-1] + len(item.metadata[MEMBERS]))
        return cls(inner, first)

    async def answer(self, draw: Draw, model: int, place: int) -> Answer:
        members = range(self.first[draw.item], self.first[draw.item + 1])
        answers = await asyncio.gather(
            *(self.inner.answer(replace(draw, item=one), model, place) for one in members)
        )
        return packed(answers, Samples(len(answers)))

    def answered_before(self, model: int) -> None:
        self.inner.answered_before(model)

    def notices(self) -> list[str]:
        return self.inner.notices()

    async def close(self) -> None:
        await self.inner.close()
