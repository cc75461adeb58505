"""Answer a draw: a model is asked and its answer scored. A host, a person or a worker elsewhere is another executor."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Protocol

from cereval.datasets.base import Item
from cereval.datasets.prompts import Prompt
from cereval.datasets.read import MEMBERS
from cereval.errors import CallError, shown
from cereval.models.base import EndpointError, Messages, Model, Reply, another_model
from cereval.models.python_model import PythonModel, takes_item
from cereval.models.scripted import GivenModel
from cereval.plan import Plan
from cereval.records import Draw
from cereval.runner.progress import other_model_warning
from cereval.runner.samples import Samples, packed
from cereval.scorers.base import Scorer, ScoringFailure, score_answer
from cereval.scorers.text import letter_chances
from cereval.store.base import Answer
from cereval.text import duration

SUSPICIOUS = 10
"""Equal answers in a row that earn a warning."""


BUSY_AFTER_S, BUSY_EVERY_S = 5.0, 30.0
"""After how long it is said that a server is busy, and how often again."""

MOST_TEXTS = 200_000
"""Answers that are compared with others to the same question: some 40 MB."""

MOST_LOGPROBS = 20
"""Likeliest first tokens that are asked for: what most servers give at most."""


class EndOfAnswers(Exception):
    """Report that there is no answer to a draw, and nobody to ask: the run ends with what it has."""


class NobodyToAsk:
    """Ask nobody: for runs that may only use answers that are there."""

    asks: ClassVar[bool] = False

    async def answer(self, draw: Draw, model: int, place: int) -> Answer:  # noqa: ARG002
        raise EndOfAnswers

    def answered_before(self, model: int) -> None:
        """See `Executor`."""

    def notices(self) -> list[str]:
        return []

    async def close(self) -> None:
        """See `Executor`."""


class Executor(Protocol):
    """Answer draws; `place` is the number under which the answer is kept."""

    async def answer(self, draw: Draw, model: int, place: int) -> Answer:
        """Raise only when every other call would fail alike; what fails for good is an answer too."""

    def answered_before(self, model: int) -> None:
        """Learn that a model has answered in an earlier part of the run: one refusal is then its item's."""

    def notices(self) -> list[str]:
        """Hand over what whoever watches should know, each line once."""

    async def close(self) -> None: ...


@dataclass(slots=True)
class Around:
    inner: Executor

    @property
    def asks(self) -> bool:
        return getattr(self.inner, "asks", True)

    def answered_before(self, model: int) -> None:
        self.inner.answered_before(model)

    def notices(self) -> list[str]:
        return self.inner.notices()

    async def close(self) -> None:
        await self.inner.close()


class Sender(Protocol):
    @property
    def sent(self) -> int:
        """Return how many were sent before, by whichever process."""

    async def answer(self, model: int, place: int, messages: Messages, top_logprobs: int) -> Reply: ...

    def flush(self) -> None:
        """Send what waits: nothing more can be decided before answers come."""

    def stop(self) -> None:
        """Wait for no answer any more."""


@dataclass(slots=True)
class Counted:
    """Count the answers taken from the answer book since the run went on, and note when the oldest was given."""

    kept: int = 0
    oldest: float | None = None

    def add(self, at: float) -> None:
        self.kept += 1
        self.oldest = at if self.oldest is None else min(self.oldest, at)


@dataclass(frozen=True, slots=True)
class Callers:
    """Put items to the models of a run, one or several, and score what comes back.

    names: of the candidates. steady: of each, whether the same question should get the same answer. served: of each,
    under which names a server answered, and how often.
    """

    items: Sequence[Item]
    prompts: Sequence[Prompt]
    models: Sequence[Model]
    scorers: Sequence[Scorer]
    """Of each model: a judge sees what the model was asked."""
    judges: Sequence[Model] = ()
    choose: Sequence[bool] = ()
    """Of each model, whether the answer is the likeliest letter, by the log-probabilities of the first token."""
    names: Sequence[str] = ()
    steady: Sequence[bool] = ()
    served: Sequence[Counter[str]] = ()
    warned: set[str] = field(default_factory=set)
    tried: set[int] = field(default_factory=set)
    """The functions of users that have answered once."""
    trial: asyncio.Lock = field(default_factory=asyncio.Lock)
    broken: list[EndpointError] = field(default_factory=list)
    texts: dict[tuple[int, int], int] = field(default_factory=dict)
    """The answer of each model to each prompt, both as hashes."""
    alike: dict[int, tuple[str, int, int]] = field(default_factory=dict)
    """The last answer of each model, how many items in a row got it, and the last of them."""
    sender: Sender | None = None
    """What orders answers as batches, where they are not asked for one by one."""
    waiting: list[str] = field(default_factory=list)

    async def answer(self, draw: Draw, model: int, place: int) -> Answer:
        """Answer a draw; the first call of a user's function goes out alone, before others are paid for in vain."""
        if self.trial.locked() or (isinstance(self.models[model], PythonModel) and model not in self.tried):
            async with self.trial:
                if self.broken:
                    raise self.broken[0]
                if isinstance(self.models[model], PythonModel) and model not in self.tried:
                    return await self._try(draw, model, place)
        return await self._answer(draw, model, place)

    async def _try(self, draw: Draw, model: int, place: int) -> Answer:
        try:
            answer = await self._answer(draw, model, place)
        except EndpointError as error:
            self.broken.append(error)
            raise
        self.tried.add(model)
        return answer

    async def _answer(self, draw: Draw, model: int, place: int) -> Answer:
        item = self.items[draw.item]
        try:
            reply = await self._reply(model, item, place)
            self._notice(model, reply.served)
            if not (self._chooses(model) or isinstance(self.models[model], GivenModel)):
                self._count(model, draw.item, reply.text.strip())
        except EndpointError:
            raise
        except CallError as error:
            return Answer(
                place, failure=str(error), cost_usd=error.cost_usd, finish_reason=error.finish_reason
            )
        answer = await scored(self.scorers[model], item, reply, place)
        if self._chooses(model):
            shares = letter_chances(reply.first_token, len(item.choices))
            return replace(answer, detail=", ".join(f"{name} {share:.3f}" for name, share in shares.items()))
        return answer

    def _chooses(self, number: int) -> bool:
        return bool(self.choose) and self.choose[number]

    async def _reply(self, number: int, item: Item, place: int) -> Reply:
        """Ask a model; where letters are chosen among, the likeliest of them is the text."""
        model, messages = self.models[number], self.prompts[number].messages(item)
        reply = await self._asked(number, model, messages, item, place)
        self._compare_texts(number, messages, reply.text, item)
        return reply

    async def _asked(self, number: int, model: Model, messages: Messages, item: Item, place: int) -> Reply:
        if isinstance(model, PythonModel | GivenModel):
            model = model.about(item.without_answer())
        likeliest = MOST_LOGPROBS if self._chooses(number) else 0
        if self.sender is None:
            reply = await model.answer(messages, top_logprobs=likeliest)
        else:
            reply = await self.sender.answer(number, place, messages, likeliest)
        if not likeliest:
            return reply
        if not reply.first_token:
            raise EndpointError(
                f"{model.name} sends no log-probabilities, which --choose logprobs needs; leave it out, and the "
                "choice is read from the answer's text"
            )
        shares = letter_chances(reply.first_token, len(item.choices))
        return replace(reply, text=max(shares, key=lambda name: shares[name]) if shares else "")

    def _name(self, model: int) -> str:
        return self.names[model] if self.names else self.models[model].name

    def _notice(self, model: int, served: str) -> None:
        if served and self.served:
            self.served[model][served] += 1
        if another_model(self.models[model].name, served):
            self._warn_once(other_model_warning(self._name(model), served))

    def _compare_texts(self, model: int, messages: Messages, text: str, item: Item) -> None:
        """Warn once where the same question gets another answer although nothing is left to chance."""
        asked = self.models[model]
        if (
            isinstance(asked, GivenModel)
            or not self.steady
            or not self.steady[model]
            or len(self.texts) >= MOST_TEXTS
        ):
            return
        # A function may answer by the item's other fields, which its prompt does not show.
        beside = item.id if isinstance(asked, PythonModel) and takes_item(asked.function) else None
        known = self.texts.setdefault((model, hash((repr(messages), beside))), hash(text))
        if known != hash(text) and f"unsteady {model}" not in self.warned:
            self.warned.add(f"unsteady {model}")
            self.waiting.append(
                f"warning: {self._name(model)} gave different answers to the same question (item {item.id}): the "
                "result is about the answers that it gave; --target expected is about its mean"
            )

    def _notice_wait(self, number: int, seconds: float) -> None:
        """Say from time to time that a server is busy, so that a run that stands still is no riddle."""
        key = f"busy {number} {seconds // BUSY_EVERY_S:.0f}"
        if seconds >= BUSY_AFTER_S and key not in self.warned:
            self.warned.add(key)
            self.waiting.append(
                f"the server of {self._name(number)} is busy (429): calls wait for it, {duration(seconds)} so far"
            )

    def _warn_once(self, line: str) -> None:
        if line not in self.warned:
            self.warned.add(line)
            self.waiting.append(line)

    def _count(self, model: int, item: int, text: str) -> None:
        """Say once where a model gives the same answer, or none, to many questions in a row."""
        last, times, before = self.alike.get(model, ("", 0, -1))
        times = times + (item != before) if text == last else 1
        self.alike[model] = text, times, item
        if times == SUSPICIOUS and (name := f"alike {model}") not in self.warned:
            self.warned.add(name)
            what = f"the answer {shown(text, 40)}" if text else "no text"
            self.waiting.append(f"{self._name(model)} gave {what} {times} times in a row")

    def answered_before(self, model: int) -> None:
        self.tried.add(model)
        known = getattr(self.models[model], "answered_before", None)
        if known is not None:
            known()

    def notices(self) -> list[str]:
        for number, model in enumerate(self.models):
            self._notice_wait(number, getattr(model, "waiting_s", 0.0))
            for setting in sorted(getattr(model, "dropped", ())):
                luck = bool(self.steady) and self.steady[number] and setting == "temperature"
                end = "; its answers may differ from call to call (--target expected)" if luck else ""
                self._warn_once(
                    f"warning: the server refuses `{setting}`: {self._name(number)} is asked without it{end}"
                )
        told = self.waiting[:]
        self.waiting.clear()
        return told

    async def close(self) -> None:
        for model in (*self.models, *self.judges):
            await model.close()


@dataclass(slots=True)
class Sampled(Around):
    """Ask every question several times, and keep the answers as one.

    A call that fails for good leaves the question's score unknown, as for one answer.
    """

    samples: Samples
    room: asyncio.Semaphore
    first_alone: bool = True
    """Whether the other calls wait for the first: then the provider has the prompt in its cache, for less money."""

    async def answer(self, draw: Draw, model: int, place: int) -> Answer:
        alone = 1 if self.first_alone else 0
        first = [await self._one(draw, model, place) for _ in range(alone)]
        others = range(alone, self.samples.count)
        calls = [asyncio.ensure_future(self._one(draw, model, place)) for _ in others]
        try:
            return packed([*first, *await asyncio.gather(*calls)], self.samples)
        finally:
            for call in calls:
                call.cancel()

    async def _one(self, draw: Draw, model: int, place: int) -> Answer:
        async with self.room:
            return await self.inner.answer(draw, model, place)


async def scored(scorer: Scorer, item: Item, reply: Reply, place: int) -> Answer:
    """Score a reply; a reply that cannot be scored is kept with the reason."""
    answer = partial(
        Answer,
        draw=place,
        text=reply.text,
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
        latency_s=reply.latency_s,
        attempts=reply.attempts,
        finish_reason=reply.finish_reason,
    )
    score = await score_answer(scorer, item, reply.text)
    if isinstance(score, ScoringFailure):
        return answer(failure=score.reason, cost_usd=reply.cost_usd)
    return answer(score=score.value, detail=score.detail, cost_usd=total(reply.cost_usd, score.cost_usd))


def total(*costs: float | None) -> float | None:
    """Return the sum, unknown where a part is unknown."""
    return None if None in costs else sum(cost for cost in costs if cost is not None)


# -- clusters ---------------------------------------------------------------------------------------------------------


def questions_of(plan: Plan, items: Sequence[Item]) -> Sequence[Item]:
    """Return the questions behind the items of a plan: those of all clusters, or the items themselves."""
    if "cluster" not in plan.scorer:
        return items
    return [Item.from_dict(row) for item in items for row in item.metadata[MEMBERS]]


@dataclass(slots=True)
class Clustered(Around):
    """Ask the questions of a cluster, which an executor knows by their places, and keep their answers as one.

    A call that fails for good leaves the cluster's score unknown.
    """

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
