"""`run_fleet`: from a file, or a dictionary, to a certified answer for each of its runs."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import fmean
from threading import current_thread, main_thread
from typing import Any

from cereval.datasets.items import Fields
from cereval.datasets.read import read_dataset
from cereval.errors import Busy, InvalidInput
from cereval.files import is_file
from cereval.fleet.drive import Driver, Earlier, Workers, jobs
from cereval.fleet.file import Entry, Fleet, read_fleet
from cereval.fleet.plan import Outlook, Pool, Step, scheduled
from cereval.fleet.result import FleetResult
from cereval.fleet.work import asks_anew
from cereval.plan import Plan
from cereval.questions.goals import goal_from_spec
from cereval.runner.book import age_in_seconds
from cereval.runner.listing import is_of_one_model, listed
from cereval.runner.resume import last_circumstances
from cereval.store.base import DEFAULT_URL, Run, Store, moment, opened_store, sqlite_file

Question = tuple[tuple[str, ...], str, dict[str, Any]]
"""The models, the hash of the data, and the goal."""

PLACES = ("local", "ray")
PROCESSES = 2 * (os.cpu_count() or 1)
"""Runs at a time: they wait for their models most of the time."""


def run_fleet(
    fleet: str | Path | Mapping[str, Any],
    *,
    on: str = "local",
    store: str | None = None,
    trust: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> FleetResult:
    """Carry out a fleet: models x data sets x goals, one certified answer each, under one budget.

    fleet: a YAML file, or a dictionary of the same shape. on: `local` (processes here) or `ray` (a Ray cluster). store:
    where all runs are kept, by default the file's own, else sqlite:///cereval.db. tell: is told what begins and ends.
    Repeating a call goes on where it ended. trust=True confirms the code and the addresses that a file names.
    """
    asked = read_fleet(fleet, trust=trust, typed_store=store is not None)
    url = store or asked.store or DEFAULT_URL
    if on not in PLACES:
        raise InvalidInput("on", "local or ray", on)
    if url in ("sqlite://", "sqlite:///:memory:"):
        raise InvalidInput(
            "store", "a database that several processes share, such as sqlite:///fleet.db", url
        )
    pools = _pools(asked)
    with ExitStack() as stack:
        stack.enter_context(_alone(asked, url))
        steps, earlier = planned(asked, url, pools)
        stack.enter_context(_terminable())
        workers = _workers(on, asked, stack)
        driver = Driver(asked, steps, workers, jobs(_whole(url), label_of(asked)), tell, earlier)
        rows = driver.run()
    return FleetResult(tuple(rows), sum(step.calls for step in steps), url)


@contextmanager
def _alone(fleet: Fleet, url: str) -> Iterator[None]:
    """Hold a fleet: two who drive it at a time would spend its budget twice."""
    with opened_store(url, create=True) as store, ExitStack() as stack:
        try:
            stack.enter_context(store.hold(label_of(fleet)))
        except Busy:
            raise Busy(
                "another process works on this fleet now; wait for it to end, or stop it first"
            ) from None
        yield


@contextmanager
def _terminable() -> Iterator[None]:
    """Take SIGTERM, by which schedulers end what they run, for Ctrl-C."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def plan_fleet(
    fleet: str | Path | Mapping[str, Any], *, store: str | None = None, trust: bool = False
) -> tuple[Step, ...]:
    asked = read_fleet(fleet, trust=trust, typed_store=store is not None)
    return planned(asked, store or asked.store or DEFAULT_URL, _pools(asked))[0]


def planned(
    fleet: Fleet, url: str, pools: Mapping[str, tuple[Pool, str]]
) -> tuple[tuple[Step, ...], Earlier]:
    file = sqlite_file(url)
    if file is not None and not is_file(file):
        return scheduled(fleet, Outlook({name: pool for name, (pool, _) in pools.items()})), Earlier()
    with opened_store(url) as store:
        runs = [run for run in store.runs() if run.status == "finished" and "estimate" in run.summary]
        others = [run for run in runs if label_of(fleet) not in run.labels]
        means = [run for run in others if is_of_one_model(run)]
        known = {name: _known(pool, digest, means) for name, (pool, digest) in pools.items()}
        earlier = _earlier(store, fleet, others, {name: digest for name, (_, digest) in pools.items()})
    return scheduled(fleet, Outlook(known, _means(means))), earlier


def label_of(fleet: Fleet) -> str:
    """Return the label of a fleet's runs: budgets may change, and it is still the same."""
    names = [(entry.models, Path(entry.data).name, sorted(entry.goal.items())) for entry in fleet.entries]
    return "fleet:" + hashlib.sha256(repr(sorted(names)).encode()).hexdigest()[:12]


def _pools(fleet: Fleet) -> dict[str, tuple[Pool, str]]:
    return {name: _pool(entry) for name, entry in {one.data: one for one in fleet.entries}.items()}


def _pool(entry: Entry) -> tuple[Pool, str]:
    parts = ("input", "answer", "choices", "category", "id")
    fields = Fields(**{part: entry.settings.get(part) for part in parts})
    data = read_dataset(entry.data, fields)
    letters = fmean(len(item.text) for item in data.items[:1000])
    return Pool(
        len(data.items) - max(one.options.get("few_shot", 0) for one in entry.asked), letters
    ), data.content_hash


def _known(pool: Pool, digest: str, runs: list[Run]) -> Pool:
    there = [run for run in runs if run.data_hash == digest]
    means = [float(run.summary["estimate"]) for run in there if run.summary["estimate"] is not None]
    return Pool(
        pool.n_items, pool.letters, len({run.model for run in there}), fmean(means) if means else None
    )


def _means(runs: list[Run]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for run in runs:
        if run.summary["estimate"] is not None and 0 <= run.summary["estimate"] <= 1:
            found.setdefault(run.model, []).append(float(run.summary["estimate"]))
    return {model: fmean(means) for model, means in found.items()}


def _earlier(store: Store, fleet: Fleet, others: list[Run], digests: Mapping[str, str]) -> Earlier:
    """Read the store: what others finished is learnt from as it is now, and what this fleet's own runs took counts
    against its budget, but for those that are asked anew."""
    finished = {run.run_id for run in others}
    lessons = {
        run: count
        for digest in set(digests.values())
        for run, count in store.cutoffs(digest).items()
        if run in finished
    }
    took = {facts["run_id"]: (facts["calls"], facts["cost_usd"] or 0.0) for facts in listed(store)}
    own = [run for run in store.runs() if label_of(fleet) in run.labels]
    anew = {run.run_id: _question(run) for run in own if _is_asked_anew(run, store)}
    gone_on_with = {run.run_id: _question(run) for run in own if run.run_id not in anew}
    entries = {
        entry.number: (entry.models, digests[entry.data], goal_from_spec(entry.goal).spec())
        for entry in fleet.entries
    }
    fresh = {entry.number for entry in fleet.entries if asks_anew(entry)}
    return Earlier(
        lessons,
        {run: took[run][0] for run in gone_on_with},
        {run: took[run][1] for run in gone_on_with},
        begun=frozenset(number for number in entries if entries[number] in gone_on_with.values()) - fresh,
        anew={
            number: took[run]
            for number in fresh
            for run, question in anew.items()
            if question == entries[number]
        },
    )


def _is_asked_anew(run: Run, store: Store) -> bool:
    """Tell whether a run of an earlier call is not gone on with: its answers are too old by now."""
    circumstances = last_circumstances(run.run_id, store)
    age = circumstances.get("max_age")
    too_old = isinstance(age, str) and run.created_at < moment(time.time() - age_in_seconds(age))
    return "since" in circumstances or too_old


def _question(run: Run) -> Question:
    return Plan.from_dict(run.plan).names, run.data_hash, dict(run.plan["goal"])


def _workers(on: str, fleet: Fleet, stack: ExitStack) -> Workers:
    from cereval.fleet.workers import processes, ray_tasks

    if on == "ray":
        return stack.enter_context(ray_tasks(fleet.workers))
    return stack.enter_context(processes(fleet.workers or PROCESSES))


def _whole(url: str) -> str:
    """Return a store's URL that means the same in every folder: Ray's workers have one of their own."""
    file = sqlite_file(url)
    return url if file is None else url.replace(str(file), str(file.absolute()), 1)
