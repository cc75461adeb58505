"""From a run that is ready to go on to its outcome: the loop, the signals, the certificate."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from cereval.errors import StoreError
from cereval.runner.caller import Caller
from cereval.runner.certify import certificate_of
from cereval.runner.limits import Limits
from cereval.runner.loop import End, Loop
from cereval.runner.progress import Observer, Silent
from cereval.runner.start import Start
from cereval.sessions import AnyResult
from cereval.store.base import Store
from cereval.store.writer import AnswerWriter

STATUS: Mapping[End, str] = {
    "goal": "finished",
    "usd": "budget",
    "minutes": "budget",
    "interrupted": "interrupted",
    "error": "failed",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to.

    calls: all that came back, also those before a resume. surplus: those that were not needed at the stop.
    """

    run_id: str
    result: AnyResult
    certificate: Mapping[str, Any]
    calls: int
    surplus: int
    cost_usd: float | None
    interrupted: bool


async def run(
    begun: Start,
    store: Store,
    caller: Caller,
    limits: Limits,
    observer: Observer | None = None,
    *,
    circumstances: Mapping[str, Any] | None = None,
    on_interrupt: Callable[[], None] = lambda: None,
) -> Outcome:
    """Asks until the goal is met or a limit is reached. What went wrong is recorded before it is raised.

    circumstances: what is no part of the plan but needed to go on alike (prices, connections), for `resume`.
    """
    watcher = observer or Silent()
    watcher.on_start(begun.plan, begun.plan.n_items, begun.notes)
    if not begun.session.done:
        store.mark(begun.plan.run_id, "running", circumstances)
    async with AnswerWriter(store, begun.plan.run_id) as writer:
        loop = Loop(begun, caller, writer, limits, watcher)
        with _interruptible(loop, on_interrupt):
            try:
                await loop.run()
            except Exception as error:
                # The store itself may be what broke.
                with suppress(StoreError):
                    store.mark(begun.plan.run_id, "failed", {"error": str(error)[:500]})
                raise
    outcome = _outcome(begun, store, loop)
    watcher.on_end(outcome.result)
    return outcome


def _outcome(begun: Start, store: Store, loop: Loop) -> Outcome:
    result, end = begun.session.result(), loop.end or "goal"
    if end in ("usd", "minutes") and not begun.session.done:
        result = replace(result, stopped="budget")
    certificate = certificate_of(begun, result, store)
    earlier = store.certificates(begun.plan.run_id)
    if not earlier or earlier[-1] != certificate:
        store.finish(begun.plan.run_id, certificate, _status(result, end))
    calls, cost = begun.spending.calls, begun.spending.cost_usd
    return Outcome(
        begun.plan.run_id,
        result,
        certificate,
        calls,
        surplus=calls - begun.session.n_evaluated,
        cost_usd=cost,
        interrupted=end == "interrupted" and not begun.session.done,
    )


def _status(result: AnyResult, end: End) -> str:
    """A run that can go on no further, or has what it wanted, is finished, whatever ended the loop."""
    if result.stopped in ("goal", "exhausted", "contradiction"):
        return "finished"
    return "budget" if result.stopped == "budget" else STATUS[end]


@contextmanager
def _interruptible(loop: Loop, on_interrupt: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C finishes the calls in flight, the second does not."""

    def interrupted() -> None:
        if loop.end is None:
            on_interrupt()
        loop.stop()

    events = asyncio.get_running_loop()
    kinds = (signal.SIGINT, signal.SIGTERM)
    # Only the main thread may handle signals, and not on every system.
    with suppress(NotImplementedError, RuntimeError, ValueError):
        for kind in kinds:
            events.add_signal_handler(kind, interrupted)
    try:
        yield
    finally:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            for kind in kinds:
                events.remove_signal_handler(kind)
