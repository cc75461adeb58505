"""`cereval rank` with models that are asked: one run in the store for each, one ranking of them all."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import click

from cereval.cli.compared_live import TASK_FLAGS
from cereval.cli.output import print_json
from cereval.cli.preparing import Prepared, prepared
from cereval.cli.rank import exit_code, goal_of, print_for_people, write_files
from cereval.cli.running import INTERRUPTED, opened_store
from cereval.cli.task import task_from
from cereval.errors import InvalidInput
from cereval.plan import Plan
from cereval.runner.ranking import RankingLoop, ranked_plan, voice
from cereval.sessions.rank import RankSession
from cereval.store.base import Store


@dataclass(frozen=True, slots=True)
class Asked:
    """The models of a ranking, ready to be asked on the same items."""

    names: tuple[str, ...]
    works: tuple[Prepared, ...]

    @property
    def plans(self) -> list[Plan]:
        return [ranked_plan(work.plan) for work in self.works]

    async def close(self) -> None:
        for work in self.works:
            await work.close()


def rank_live(data: str, models: Sequence[str], flags: Mapping[str, Any]) -> int:
    """Puts the items that matter to the models that matter; a repeated command goes on where it ended."""
    baseline = flags["baseline"]
    names = tuple(dict.fromkeys([*models, *([baseline] if baseline is not None else [])]))
    if len(names) < 2:
        raise InvalidInput("--model", "given twice or more", ", ".join(names))
    goal = goal_of(flags, names)
    given = {name: flags[name] for name in TASK_FLAGS}
    tasks = [task_from(data, None, {**given, "model": name}) for name in names]
    asked = Asked(names, tuple(prepared(task) for task in tasks))
    session = RankSession(
        len(asked.works[0].items),
        names,
        goal=goal,
        **{name: flags[name] for name in ("confidence", "budget", "seed")},
    )
    store = opened_store(tasks[0].store)
    try:
        loop = asyncio.run(_ranked(asked, session, store, quiet=flags["display"] == "none"))
    finally:
        store.close()
    return _shown(asked, session, loop, flags)


async def _ranked(asked: Asked, session: RankSession, store: Store, *, quiet: bool) -> RankingLoop:
    try:
        with ExitStack() as holds:
            order, voices = session.items.tolist(), []
            for plan, work in zip(asked.plans, asked.works, strict=True):
                holds.enter_context(store.hold(plan.run_id))
                voices.append(voice(plan, work.items, work.caller, store, order))
            loop = RankingLoop(session, voices, store, asked.works[0].limits, _silent if quiet else _progress)
            _stop_on_interrupt(loop)
            await loop.run()
            for plan in asked.plans:
                store.mark(plan.run_id, "finished" if session.done else "interrupted")
            return loop
    finally:
        await asked.close()


def _stop_on_interrupt(loop: RankingLoop) -> None:
    def interrupted() -> None:
        click.echo(INTERRUPTED.partition(" (")[0], err=True)
        loop.stop()

    events = asyncio.get_running_loop()
    # Only the main thread may handle signals, and not on every system.
    with suppress(NotImplementedError, RuntimeError, ValueError):
        for kind in (signal.SIGINT, signal.SIGTERM):
            events.add_signal_handler(kind, interrupted)


def _silent(_: RankSession) -> None:
    """No progress."""


def _progress(session: RankSession) -> None:
    standing = session.standing
    pairs = int(standing.order.sum())
    click.echo(f"{session.n_evaluated:,} calls, {pairs:,} pairs in order", err=True)


def _shown(asked: Asked, session: RankSession, loop: RankingLoop, flags: Mapping[str, Any]) -> int:
    plan = asked.plans[0]
    write_files(flags, session, f"{plan.data_name} {plan.data_hash}")
    result, cost = session.result(), loop.spending.cost_usd
    notes = list(result.notes)
    if loop.recalled:
        notes.append(
            f"{loop.recalled:,} answers were in the store and were not asked again; the confidence is that of this "
            "ranking by itself, its goal and models fixed before those answers were looked at"
        )
    if loop.end is not None:
        ended = {"usd": "the money is spent", "minutes": "the time is up", "interrupted": "interrupted"}
        notes.append(f"{ended[loop.end]}: the same command goes on from here")
    runs = {name: one.run_id for name, one in zip(asked.names, asked.plans, strict=True)}
    if flags["as_json"]:
        facts = {"runs": runs, "cost_usd": cost, "interrupted": loop.end == "interrupted"}
        print_json({**result.as_dict(), **facts, "notes": notes})
    else:
        print_for_people(result, [], [*notes, f"cost {'unknown' if cost is None else f'${cost:.4f}'}"])
    return exit_code(result)
