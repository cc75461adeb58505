"""Answer draws by a provider's batches: what can be decided now is ordered together, and waited for.

Nothing is paid twice, whenever the process dies. The order is stored before it is placed, and its id afterwards. An
order without an id may have been placed all the same: the provider is asked for it before it is placed again. A
question whose answer has been ordered is never ordered again while that answer may come.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from msgspec import ValidationError, convert

from cereval.errors import CerevalError, InvalidInput, StoreError, shown
from cereval.models.base import EndpointError, Messages, Model, Reply
from cereval.models.batches import LARGEST, NOT_DONE, OPENAI_STYLE, UNCLEAR, Batches, Order, Status
from cereval.models.openai_model import OpenAIModel
from cereval.models.retries import BadStatus, Fault, retry
from cereval.runner.executor import Callers, EndOfAnswers, Executor, Sampled
from cereval.runner.start import Voice
from cereval.store.base import BATCH, Store, store_flag

T = TypeVar("T")

TRIES = 3
"""Orders of one question whose answer did not come; then it has failed."""
LOOK_S = (2.0, 60.0)
"""Seconds between two looks at a batch: at first, and at last."""
SLOWER = 1.3
SETTLE_S = 120.0
"""How long after it was placed an order is sure to be in the provider's list, if it arrived."""


@dataclass(slots=True, eq=False)
class Batch:
    order: Order
    requests: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """Of an order of this process; empty for one that an earlier process has placed."""
    answers: dict[str, Any] = field(default_factory=dict)
    error: BaseException | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


@dataclass(slots=True, eq=False)
class Asked:
    request: dict[str, Any]
    batch: asyncio.Future[Batch]


class Desk:
    """Order the answers of one candidate, and hand them out. run_id: the run that keeps its answers."""

    def __init__(self, model: OpenAIModel, run_id: str, store: Store, notices: list[str]) -> None:
        self.model, self.run_id, self.store, self.notices = model, run_id, store, notices
        self.api: Batches = model.batches()
        self._newest: dict[str, Batch] = {}
        orders = orders_of(store, run_id)
        self.sent = len(orders)
        for order in orders:
            batch = Batch(order)
            self._newest |= dict.fromkeys(order.calls, batch)
        self._waiting: dict[str, Asked] = {}
        self._numbers: Counter[int] = Counter()
        self._stopped = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def answer(self, place: int, messages: Messages, *, top_logprobs: int = 0) -> Reply:
        """Return the reply to a chat; the questions of one place are told apart by their order."""
        call = f"{place}-{self._numbers[place]}"
        self._numbers[place] += 1
        request, started, batch = (
            self.model.request(messages, top_logprobs),
            time.time(),
            self._newest.get(call),
        )
        for tried in range(1, TRIES + 1):
            if batch is None:
                batch = await self._ordered(call, request)
            found, sent = await self._found(batch, call), batch.requests.get(call, request)
            batch = None
            try:
                if isinstance(found, BadStatus):
                    raise found
                reply = self.model.read(found)
                return replace(reply, attempts=tried, latency_s=time.time() - started)
            except Exception as error:
                learned = isinstance(error, BadStatus) and self.model.contact.learn(error, sent)
                fault = self.model.fault(error)
                if tried == TRIES or not (fault.retryable or learned or fault.busy):
                    raise fault.error(tried) from None
        raise AssertionError

    async def _ordered(self, call: str, request: dict[str, Any]) -> Batch:
        self._check_going()
        asked = Asked(request, asyncio.get_running_loop().create_future())
        self._waiting[call] = asked
        return await asked.batch

    async def _found(self, batch: Batch, call: str) -> Any:
        self._check_going()
        if batch.task is None:
            batch.task = self._start(self._follow(batch))
        await batch.ended.wait()
        if call in batch.answers:
            return batch.answers[call]
        if batch.error is not None:
            raise batch.error
        return NOT_DONE

    def _check_going(self) -> None:
        if self._stopped:
            raise EndOfAnswers

    def flush(self) -> None:
        """Order what waits: nothing more can be decided before answers come."""
        # Prompts that begin alike stand together, so that the provider finds their beginning in its cache.
        waiting = dict(sorted(self._waiting.items(), key=lambda one: str(one[1].request["messages"])))
        self._waiting = {}
        for calls in in_orders(waiting):
            requests = {call: self.model.contact.adapt(waiting[call].request) for call in calls}
            batch = Batch(Order(secrets.token_hex(8), tuple(calls), time.time()), requests)
            for call in calls:
                self._newest[call] = batch
                if not waiting[call].batch.done():
                    waiting[call].batch.set_result(batch)

    def stop(self) -> None:
        """Wait no longer: what is ordered is fetched by the next process."""
        self._stopped = True
        for batch in set(self._newest.values()):
            batch.error = batch.error or EndOfAnswers()
            batch.ended.set()
        for asked in self._waiting.values():
            if not asked.batch.done():
                asked.batch.set_exception(EndOfAnswers())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.api.client.close()

    def _start(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- one batch ----------------------------------------------------------------------------------------------------

    async def _follow(self, batch: Batch) -> None:
        try:
            if batch.requests:
                await self._place(batch)
            elif not batch.order.id and not await self._is_found(batch):
                return
            status = await self._end(batch)
            async for call, found in self.api.results(batch.order, status):
                if found is not NOT_DONE:
                    batch.answers[call] = found
            self._judge(batch, status)
        except Exception as error:
            known = isinstance(error, CerevalError)
            batch.error = error if known else self.model.fault(error).error()
        finally:
            batch.ended.set()

    async def _place(self, batch: Batch) -> None:
        """Store the order, then place it, then store its id."""
        file = await self._again(lambda: self.api.upload(batch.order, batch.requests))
        while not batch.order.id:
            batch.order = order = replace(batch.order, file=file, at=time.time())
            await self._record(order)
            try:
                batch.order = replace(order, id=await self.api.create(order, batch.requests))
            except BadStatus as error:
                # It was refused, so there is none; but a server that failed may have taken it.
                if error.status < 500 and error.status not in (408, 409, 429):
                    raise
                await self._wait_or_find(batch, self.model.fault(error), certain=error.status == 429)
            except Exception as error:
                await self._wait_or_find(batch, self.model.fault(error), certain=False)
        await self._record(batch.order)
        self.model.contact.made = True
        count = len(batch.order.calls)
        self.notices.append(
            f"batch {batch.order.id}: {count:,} questions are with the provider, which may take a day; Ctrl-C is safe, "
            f"`cereval resume {self.run_id}{store_flag(self.store)}` fetches the answers"
        )

    async def _wait_or_find(self, batch: Batch, fault: Fault, *, certain: bool) -> None:
        """Wait, and look whether the order has arrived all the same."""
        if fault.everywhere and not fault.retryable:
            raise fault.error()
        await asyncio.sleep(max(fault.retry_after_s, LOOK_S[0]))
        if not certain:
            await self._is_found(batch)

    async def _is_found(self, batch: Batch) -> bool:
        """Look for an order whose id is not known; tell whether it was placed."""
        await asyncio.sleep(max(batch.order.at + SETTLE_S - time.time(), 0.0))
        pause, longest = LOOK_S
        while (found := await self._again(lambda: self.api.find(batch.order), patient=True)) == UNCLEAR:
            await asyncio.sleep(pause)
            pause = min(pause * SLOWER, longest)
        if not found:
            return False
        batch.order = replace(batch.order, id=found)
        await self._record(batch.order)
        return True

    async def _record(self, order: Order) -> None:
        detail = {name: getattr(order, name) for name in ("key", "at", "file", "id")}
        calls = {} if order.id else {"calls": list(order.calls)}
        await asyncio.to_thread(self.store.mark, self.run_id, BATCH, {**detail, **calls})

    async def _end(self, batch: Batch) -> Status:
        pause, longest = LOOK_S
        while not (
            status := await self._again(lambda: self.api.status(batch.order.id), patient=True)
        ).has_ended:
            await asyncio.sleep(pause)
            pause = min(pause * SLOWER, longest)
        return status

    def _judge(self, batch: Batch, status: Status) -> None:
        """Stop the run where the batch as a whole was refused, or cancelled while this process waited for it."""
        name = f"batch {batch.order.id}"
        if status.problem:
            batch.error = EndpointError(f"the provider refused {name}: {shown(status.problem, 300)}")
        elif status.name == "cancelled" and batch.requests:
            done = len(batch.answers)
            again = f"`cereval resume {self.run_id}{store_flag(self.store)}` orders the others again"
            batch.error = EndpointError(
                f"{name} was cancelled: {done:,} of its answers came, and are kept; {again}"
            )
        elif status.name in ("expired", "cancelled"):
            self.notices.append(f"{name} {status.name}: what it did not answer is ordered again")

    async def _again(self, call: Callable[[], Awaitable[T]], *, patient: bool = False) -> T:
        """Return what a free request returns, with retries. patient: until the server answers, however long that is."""

        def translate(error: Exception) -> Fault:
            fault = self.model.fault(error)
            return replace(fault, everywhere=False) if patient and fault.absent else fault

        while True:
            try:
                return (await retry(call, translate, self.model.retries, self.model.contact.pace))[0]
            except EndpointError:
                raise
            except Exception:
                if not patient:
                    raise
                await asyncio.sleep(LOOK_S[1])


def in_orders(waiting: Mapping[str, Asked]) -> Iterator[list[str]]:
    calls: list[str] = []
    size = 0
    for call, asked in waiting.items():
        length = len(str(asked.request))
        if calls and size + length > LARGEST:
            yield calls
            calls, size = [], 0
        calls.append(call)
        size += length
    if calls:
        yield calls


def orders_of(store: Store, run_id: str) -> list[Order]:
    found: dict[str, Order] = {}
    for event in store.events(run_id):
        if event["status"] == BATCH:
            detail = event["detail"]
            known = found.get(str(detail.get("key")))
            try:
                order = convert({**({"calls": known.calls} if known else {}), **detail}, Order)
                found[order.key] = order
            except ValidationError:
                raise StoreError(
                    f"run {run_id} is damaged, or was changed by hand: it has the batch {shown(detail)}"
                ) from None
    return list(found.values())


# -- all candidates of a run ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sender:
    desks: Sequence[Desk]
    notices: list[str]

    @property
    def sent(self) -> int:
        return max(desk.sent for desk in self.desks)

    async def answer(self, model: int, place: int, messages: Messages, top_logprobs: int) -> Reply:
        return await self.desks[model].answer(place, messages, top_logprobs=top_logprobs)

    def flush(self) -> None:
        for desk in self.desks:
            desk.flush()

    def stop(self) -> None:
        for desk in self.desks:
            desk.stop()

    async def close(self) -> None:
        for desk in self.desks:
            await desk.close()


def open_sender(executor: Executor, run_ids: Sequence[str], store: Store) -> tuple[Executor, Sender]:
    """Return an executor that orders what it would have asked, and what it orders with."""
    callers = executor.inner if isinstance(executor, Sampled) else executor
    assert isinstance(callers, Callers)
    desks = []
    for model, run_id in zip(callers.models, run_ids, strict=True):
        assert isinstance(model, OpenAIModel)
        desks.append(Desk(model, run_id, store, callers.waiting))
    sender = Sender(desks, callers.waiting)
    by_batch = replace(callers, sender=sender)
    if isinstance(executor, Sampled):
        return replace(executor, inner=by_batch, first_alone=False), sender
    return by_batch, sender


def takes_batches(model: Model) -> bool:
    return isinstance(model, OpenAIModel) and model.provider in (*OPENAI_STYLE, "anthropic")


def refuse_batches(models: Iterable[Model]) -> None:
    for model in models:
        if not takes_batches(model):
            known = ", ".join(f"{name}/" for name in (*OPENAI_STYLE, "anthropic"))
            raise InvalidInput("--batch", f"left out for a model that is not one of {known}", model.name)


def refuse_unfetched(voices: Sequence[Voice], store: Store) -> None:
    """Refuse to ask what is ordered: its answers are paid for."""
    for voice in voices:
        for order in orders_of(store, voice.run_id):
            if any(int(call.partition("-")[0]) not in voice.results for call in order.calls):
                wanted = f"given: batch {order.id or order.key} may hold answers that are paid for"
                raise InvalidInput("--batch", wanted, False)
