"""Answer a draw: a model is asked and its answer scored. A host, a person or a worker elsewhere is another executor."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Protocol

from cereval.datasets.base import Item
from cereval.datasets.prompts import Prompt
from cereval.errors import CallError, shown
from cereval.models.base import EndpointError, Messages, Model, Reply, another_model
from cereval.models.python_model import PythonModel
from cereval.records import Draw
from cereval.runner.samples import Samples, packed
from cereval.scorers.base import Scorer, ScoringFailure, score_answer
from cereval.scorers.choice import letter_chances
from cereval.store.base import Answer

SUSPICIOUS = 10
"""Equal answers in a row that earn a warning."""


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


class Sender(Protocol):
    """Send what is asked in rounds."""

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
    """Put items to the models of a run, one or several, and score what comes back."""

    items: Sequence[Item]
    prompts: Sequence[Prompt]
    models: Sequence[Model]
    scorers: Sequence[Scorer]
    """Of each model: a judge sees what the model was asked."""
    judge: Model | None = None
    choose: Sequence[bool] = ()
    """Of each model, whether the answer is the likeliest letter, by the log-probabilities of the first token."""
    warned: set[str] = field(default_factory=set)
    alike: dict[int, tuple[str, int, int]] = field(default_factory=dict)
    """The last answer of each model, how many items in a row got it, and the last of them."""
    sender: Sender | None = None
    """What orders answers as batches, where they are not asked for one by one."""
    waiting: list[str] = field(default_factory=list)

    async def answer(self, draw: Draw, model: int, place: int) -> Answer:
        item = self.items[draw.item]
        try:
            reply = await self._reply(model, item, place)
            self._notice(self.models[model].name, reply.served)
            if not self._chooses(model):
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
        if isinstance(model, PythonModel):
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

    def _notice(self, asked: str, served: str) -> None:
        if another_model(asked, served) and served not in self.warned:
            self.warned.add(served)
            self.waiting.append(f"warning: {asked} was asked, and the server says that {served} answered")

    def _count(self, model: int, item: int, text: str) -> None:
        """Warn once where a model gives the same answer, or none, to many questions in a row."""
        last, times, before = self.alike.get(model, ("", 0, -1))
        times = times + (item != before) if text == last else 1
        self.alike[model] = text, times, item
        if times == SUSPICIOUS and (name := f"alike {model}") not in self.warned:
            self.warned.add(name)
            what = f"the answer {shown(text, 40)}" if text else "no text"
            self.waiting.append(f"warning: {self.models[model].name} gave {what} {times} times in a row")

    def answered_before(self, model: int) -> None:
        known = getattr(self.models[model], "answered_before", None)
        if known is not None:
            known()

    def notices(self) -> list[str]:
        told = self.waiting[:]
        self.waiting.clear()
        return told

    async def close(self) -> None:
        for model in (*self.models, *(() if self.judge is None else (self.judge,))):
            await model.close()


@dataclass(slots=True)
class Sampled:
    """Ask every question several times, and keep the answers as one.

    A call that fails for good leaves the question's score unknown, as for one answer.
    """

    inner: Executor
    samples: Samples
    room: asyncio.Semaphore

    async def answer(self, draw: Draw, model: int, place: int) -> Answer:
        calls = [asyncio.ensure_future(self._one(draw, model, place)) for _ in range(self.samples.count)]
        try:
            return packed(await asyncio.gather(*calls), self.samples)
        finally:
            for call in calls:
                call.cancel()

    async def _one(self, draw: Draw, model: int, place: int) -> Answer:
        async with self.room:
            return await self.inner.answer(draw, model, place)

    def answered_before(self, model: int) -> None:
        self.inner.answered_before(model)

    def notices(self) -> list[str]:
        return self.inner.notices()

    async def close(self) -> None:
        await self.inner.close()


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
