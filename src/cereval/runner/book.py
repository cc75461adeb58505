"""Keep the answer book: what a model has answered before need not be paid for again.

At temperature 0 an answer is a fact about the model, and any later certificate may use it, as long as the later run's
draws were not chosen by someone who had seen it: a new run draws with fresh randomness, looks up what it draws, and
pays only for what is new. Answers are found by what was asked: model, revision, settings and messages, in whatever
data file the question stood.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cereval.datasets.base import Item
from cereval.errors import InvalidInput, StoreError
from cereval.models.base import Reply
from cereval.plan import PLAN_FORMAT, CandidateSpec, Plan, candidate_digest, repeats_itself
from cereval.questions import kind_of
from cereval.records import Draw
from cereval.runner.candidates import prompt_of
from cereval.runner.executor import Counted, Executor, scored
from cereval.runner.finding import run_ids
from cereval.runner.items import item_from
from cereval.runner.past import data_sharing, places
from cereval.scorers.base import Scorer
from cereval.store.base import Answer, KeptAnswer, Store

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True, slots=True)
class Reuse:
    """Say which earlier answers a run may take: none where `fresh`, none from before `since` (seconds since 1970)."""

    fresh: bool = False
    since: float | None = None


def age_in_seconds(text: str, flag: str = "--max-age") -> float:
    """Read an age such as 90m, 12h, 7d or 2w.

    >>> age_in_seconds("7d")
    604800.0
    """
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smhdw])", text.strip())
    if match is None:
        raise InvalidInput(flag, "a number and a unit (s, m, h, d, w), such as 7d", text)
    return float(match[1]) * UNITS_S[match[2]]


@dataclass(slots=True)
class WithBook:
    """Answer draws from the book first, then by the executor behind it."""

    inner: Executor
    items: Sequence[Item]
    scorers: Sequence[Scorer]
    books: Sequence[Mapping[int, KeptAnswer]]
    counted: Counted = field(default_factory=Counted)

    @property
    def asks(self) -> bool:
        """Tell whether there is somebody to ask what the book does not have."""
        return getattr(self.inner, "asks", True)

    async def answer(self, draw: Draw, model: int, place: int) -> Answer:
        found = self.books[model].get(draw.item) if model < len(self.books) else None
        if found is None:
            return await self.inner.answer(draw, model, place)
        self.counted.add(found.at)
        return await self._kept(found, draw, model, place)

    async def _kept(self, found: KeptAnswer, draw: Draw, model: int, place: int) -> Answer:
        """Return the earlier answer; scored anew, unless the very same scorer has."""
        told = _payer(found)
        if found.same_scorer:
            return as_told(found, place)
        old = found.answer
        reply = Reply(old.text, old.input_tokens, old.output_tokens, 0.0, finish_reason=old.finish_reason)
        answer = await scored(self.scorers[model], self.items[draw.item], reply, place)
        return replace(answer, **told)

    def answered_before(self, model: int) -> None:
        self.inner.answered_before(model)

    def notices(self) -> list[str]:
        return self.inner.notices()

    async def close(self) -> None:
        await self.inner.close()


def as_told(found: KeptAnswer, place: int) -> Answer:
    """Return an earlier answer, with the score that it had, as the answer to a draw."""
    return replace(found.answer, draw=place, cost_usd=0.0, latency_s=0.0, **_payer(found))


def _payer(found: KeptAnswer) -> dict[str, Any]:
    return {"kept": found.answer.kept or found.run_id, "asked_at": found.at}


def books_for(plan: Plan, items: Sequence[Item], store: Store, reuse: Reuse) -> list[dict[int, KeptAnswer]]:
    """Return for each model of a plan what the store has of its answers to the same items, by the item's number.

    Answers of the run that a candidate names are its answers, whatever else is asked anew.
    """
    books: list[dict[int, KeptAnswer]] = [{} for _ in plan.candidates]
    if not reuse.fresh and plan.target != "expected":
        since = 0.0 if reuse.since is None else reuse.since
        for data_hash in data_sharing(plan, items, store):
            earlier = _answering_runs(plan, data_hash, store)
            for book, spec in zip(books, plan.candidates, strict=True):
                wanted = asking(spec)
                runs = [one for one in earlier if wanted is not None and asking(one.candidates[0]) == wanted]
                for one in _kept(plan, spec, data_hash, runs, store, since, items):
                    if one.item not in book or book[one.item].at <= one.at:
                        book[one.item] = one
    for book, spec in zip(books, plan.candidates, strict=True):
        if "not_asked" in spec:
            book.clear()
        if "run" in spec:
            book.update(answers_of_run(plan, spec, items, store))
    return books


def answers_of_run(
    plan: Plan, spec: CandidateSpec, items: Sequence[Item], store: Store
) -> dict[int, KeptAnswer]:
    """Return what the run that a candidate names answered to a plan's items, by the item's number."""
    run = Plan.from_dict(store.run(spec["run"]).plan)
    return {one.item: one for one in _kept(plan, spec, run.data_hash, [run], store, 0.0, items)}


def _answering_runs(plan: Plan, data_hash: str, store: Store) -> list[Plan]:
    """Return the other runs on a data set that keep answers of one model each."""
    own = set(run_ids(plan))
    found = []
    for run_id, values in store.plans(data_hash):
        if run_id not in own and values.get("format") == PLAN_FORMAT:
            one = Plan.from_dict(values)
            found += [one] if kind_of(one).parts(one) == (one,) else []
    return found


def _kept(
    plan: Plan,
    spec: CandidateSpec,
    data_hash: str,
    earlier: Sequence[Plan],
    store: Store,
    since: float,
    items: Sequence[Item],
) -> Iterator[KeptAnswer]:
    """Yield the answers of a candidate's earlier runs to a plan's items as they stand in a data set, oldest first."""
    alike = {one.run_id: one.scorer == plan.scorer for one in earlier}
    kept = store.kept_answers(data_hash, list(alike), since) if alike else ()
    if data_hash == plan.data_hash:
        # The answers of a cluster are kept as one, which cannot be scored anew.
        kept = tuple(one for one in kept if "cluster" not in plan.scorer or alike[one.run_id])
        yield from (replace(one, same_scorer=alike[one.run_id]) for one in kept)
    elif kept:
        theirs, numbers = store.items(data_hash), places(plan, items, data_hash, store)
        twins: dict[int, Item | None] = {}
        prompt = prompt_of(spec)
        for one in kept:
            if not 0 <= one.item < min(len(theirs), len(numbers)):
                raise StoreError(
                    f"an answer of run {one.run_id} is to item {one.item}, which the store does not have"
                )
            number = int(numbers[one.item])
            if number >= 0 and one.item not in twins:
                # A template may show more than makes a question: only the answer to the same words is one.
                item = item_from(theirs[one.item])
                twins[one.item] = item if prompt.messages(item) == prompt.messages(items[number]) else None
            twin = twins.get(one.item)
            if twin is not None and ("cluster" not in plan.scorer or alike[one.run_id]):
                yield replace(one, item=number, same_scorer=alike[one.run_id] and twin == items[number])


def asking(candidate: CandidateSpec) -> str | None:
    """Name what a candidate is asked, but for the item; None where its answers are not facts about it."""
    bare = {key: value for key, value in candidate.items() if key not in ("run", "not_asked")}
    return candidate_digest(bare) if repeats_itself(candidate) else None  # type: ignore[arg-type]
