"""Run live evaluations from Python: `cereval.run` and its relatives. The command line is a thin layer over this."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from cereval.certificate.seal import Seal
from cereval.datasets.base import Item
from cereval.datasets.prompts import Prompt
from cereval.errors import InvalidInput, Misuse
from cereval.plan import Plan
from cereval.questions import kind_of
from cereval.questions.compare import Compare
from cereval.questions.compare.goal import Sign
from cereval.questions.goals import goal_from_spec, in_words
from cereval.questions.log import Change
from cereval.questions.mean import EstimateMean
from cereval.questions.mean.goal import Estimate
from cereval.questions.rank import Rank
from cereval.questions.rank.goal import Order
from cereval.questions.session import AskTell
from cereval.questions.tasks import Tasks
from cereval.questions.tasks.goal import AllAtLeast, Macro
from cereval.records import Certified
from cereval.runner.answers import answer_rows
from cereval.runner.book import Reuse, WithBook, age_in_seconds, books_for
from cereval.runner.finding import planned
from cereval.runner.items import stored_items
from cereval.runner.limits import Allowance as Allowance
from cereval.runner.notebook import watcher
from cereval.runner.people import judged, judged_before, with_people
from cereval.runner.prepare import (
    Prepared,
    against,
    circumstances_in,
    circumstances_of,
    divided,
    growing,
    opened,
    prepared,
    ranked,
    recalled,
)
from cereval.runner.progress import Observer
from cereval.runner.progress import Silent as Silent
from cereval.runner.progress import Subject as Subject
from cereval.runner.request import Request as Request
from cereval.runner.request import confirmed as confirmed
from cereval.runner.request import request_from
from cereval.runner.request import setting_name as setting_name
from cereval.runner.request import settings_from as settings_from
from cereval.runner.run import Outcome as Outcome
from cereval.runner.run import read_back
from cereval.runner.run import run as run_loop
from cereval.runner.samples import Samples
from cereval.runner.sealing import read_seal, sealed, sealed_plan, written
from cereval.runner.start import Start, changed, goal_now, held, price_of_going_on, start
from cereval.store.base import DEFAULT_URL, KeptAnswer, Store, opened_store

INTERRUPTED = "interrupted: waiting for the calls in flight (Ctrl-C again to stop at once)"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunResult:
    """Hold a finished, interrupted or budget-ended run: the fields of its result, and where it is kept.

    >>> questions = [{"question": f"{n} + 1 =", "answer": str(n + 1)} for n in range(200)]
    >>> result = run(questions, model="scripted/0.7", eps=0.15, store="sqlite://", seed=3)
    >>> result.stopped, result.lower <= 0.7 <= result.upper, len(result.answers()) == result.calls
    ('goal', True, True)
    """

    outcome: Outcome
    store_url: str
    rows: tuple[Mapping[str, Any], ...] | None = None
    """The answers of a run whose store was in memory and is gone."""

    @property
    def result(self) -> Certified:
        """Return the result by itself."""
        return self.outcome.result

    @property
    def run_id(self) -> str:
        return self.outcome.run_id

    @property
    def certificate(self) -> dict[str, Any]:
        """Return the certificate, as `cereval verify` recomputes it."""
        return dict(self.outcome.certificate)

    @property
    def calls(self) -> int:
        return self.outcome.calls

    @property
    def cost_usd(self) -> float | None:
        return self.outcome.cost_usd

    def __getattr__(self, name: str) -> Any:
        """Look a name up in the result: `run(...).estimate`."""
        if name.startswith("_") or name in ("outcome", "store_url", "rows"):
            raise AttributeError(name)
        return getattr(self.outcome.result, name)

    def report(self, path: str | Path) -> Path:
        """Write a page about the run."""
        from cereval.report import page_of, write_page

        if self.rows is not None:
            raise Misuse(
                "a page is written from the store: name one on disk, such as store='sqlite:///runs.db'"
            )
        with opened_store(self.store_url) as store:
            write_page(Path(path), page_of(store, self.run_id).html)
        return Path(path)

    def answers(self) -> list[dict[str, Any]]:
        """Return every answer: item, model, prompt, answer, score, failure, in the order of the draws."""
        if self.rows is not None:
            return [dict(row) for row in self.rows]
        with opened_store(self.store_url) as store:
            return answers_of(self.outcome, store)

    def to_frame(self) -> Any:
        """Return the answers as a pandas DataFrame."""
        import pandas  # type: ignore[import-untyped]

        return pandas.DataFrame(self.answers())

    def __str__(self) -> str:
        return self.outcome.result.headline()

    def __repr__(self) -> str:
        return f"<RunResult {self.run_id}: {self.outcome.result.headline()}>"

    def _repr_html_(self) -> str:
        return self.outcome.result._repr_html_()


@dataclass(frozen=True, slots=True)
class Bounds:
    """Say what a run is allowed besides its settings, and no part of them: it may change from one resume to the next.

    lessons: the earlier runs that it may learn from where it begins now, and how many draws of each; None: all. since:
    no answer from before that moment counts, in seconds since 1970; None: as its settings say. reading: what is in the
    store is read, and nothing begun, asked or written.
    """

    lessons: Mapping[str, int] | None = None
    since: float | None = None
    allowance: Allowance | None = None
    reading: bool = False


def run(
    data: Any,
    *,
    model: Any = None,
    models: Sequence[str] = (),
    goal: Any = None,
    store: str = DEFAULT_URL,
    observer: Observer | None = None,
    bounds: Bounds | None = None,
    seal: str | Path | None = None,
    **settings: Any,
) -> RunResult:
    """Evaluate a model on questions with as few calls as a certified answer takes; return when it is certified.

    data: a file (JSONL, CSV, Parquet), `hf:org/name`, or a list of dictionaries. model: `openai/NAME`,
    `python:module:function`, `gguf:PATH`, `scripted/0.7`. goal: `Estimate(eps)` or `Threshold(c)`, or eps=0.02 or
    at_least=0.8 for short; a goal of `tasks`, `compare` or `rank` asks that question instead, the latter two with
    `models`. settings: those of `cereval run`: scorer, base_url, confidence, seed, max_calls, max_usd, few_shot, ...
    trust=True confirms the code and the addresses that a task file as `data` names; what is given here needs none.
    bounds: what a fleet sets its runs.
    seal: a file that `cereval.seal` or `cereval seal` wrote; the run carries that plan out, or names what differs.

    Works inside a running event loop too (a notebook); there `await run_async(...)` shares the loop. Repeating a
    call goes on where it ended: what is in the store is not asked again.
    """
    return _finished(
        run_async(
            data,
            model=model,
            models=models,
            goal=goal,
            store=store,
            observer=observer,
            bounds=bounds,
            seal=seal,
            **settings,
        )
    )


async def run_async(
    data: Any,
    *,
    model: Any = None,
    models: Sequence[str] = (),
    goal: Any = None,
    store: str = DEFAULT_URL,
    observer: Observer | None = None,
    bounds: Bounds | None = None,
    seal: str | Path | None = None,
    **settings: Any,
) -> RunResult:
    """Run as `run` does, for code in an event loop: same arguments, same result."""
    work, request = _asked_for(data, model, models, goal, store, settings)
    return await _carried_out(work, request, observer, bounds, seal)


def seal(
    data: Any,
    path: str | Path,
    *,
    model: Any = None,
    models: Sequence[str] = (),
    goal: Any = None,
    store: str = DEFAULT_URL,
    **settings: Any,
) -> Seal:
    """Fix the plan of a `run` with the same arguments before its first call, and write the seal to `path`.

    Nothing is asked. `run(..., seal=path)` carries the plan out; `cereval verify CERTIFICATE --seal FILE` names every
    later choice. The seed stays in the store until then.
    """
    work, request = _asked_for(data, model, models, goal, store, settings)
    _finished(work.close())
    with opened_store(request.store, create=True) as kept:
        made = sealed(work.plan, work.items, kept, history=request.history)
    written(Path(path), made)
    return made


def _asked_for(
    data: Any, model: Any, models: Sequence[str], goal: Any, store: str, settings: dict[str, Any]
) -> tuple[Prepared, Request]:
    """Make a call's arguments a run that is ready, and the request behind it."""
    asked = [model] if model is not None else list(models)
    if not asked or (model is not None and models):
        raise InvalidInput("model", "given: one model, or several as `models`", model)
    for name in ("eps", "at_least"):
        if goal is not None and settings.get(name) is not None:
            raise InvalidInput(name, "left out where `goal` is given", settings[name])
    if isinstance(goal, Rank.goals):
        # Only where it is asked for: another past is another order of the items, and fewer answers would be shared.
        settings = {"history": False} | settings
    if isinstance(goal, EstimateMean.goals):
        settings |= {"eps": goal.eps} if isinstance(goal, Estimate) else {"at_least": goal.value}
    with _on_disk(data) as path:
        request = request_from(path, None, {**settings, "model": asked[0], "store": store})
        return _work(request, asked, goal, on_disk=isinstance(data, str | Path)), request


def run_compare(data: Any, models: Sequence[str], *, goal: Any = None, **settings: Any) -> RunResult:
    """Compare two models on the same questions: `run` with `Sign()`, `Difference(eps)` or `NotWorse(eps)`."""
    return run(data, models=models, goal=Sign() if goal is None else goal, **settings)


def run_rank(data: Any, models: Sequence[str], *, goal: Any = None, **settings: Any) -> RunResult:
    """Put many models in a certified order: `run` with `Order()`, `Top(k)` or `Beats(baseline=...)`.

    history=True asks items sooner on which other models in the store disagreed.
    """
    return run(data, models=models, goal=Order() if goal is None else goal, **settings)


def run_tasks(data: Any, *, model: str, goal: Any = None, **settings: Any) -> RunResult:
    """Evaluate a model on every category of the questions: `run` with `Macro(eps)`, `AllAtLeast(c)`, ...

    eps=0.02 and at_least=0.8 are short for these two.
    """
    short = {"eps": Macro, "at_least": AllAtLeast}
    given = [name for name in short if goal is None and settings.get(name) is not None]
    if len(given) > 1:
        raise InvalidInput("eps", "left out where at_least is given", settings["eps"])
    goal = short[given[0]](settings.pop(given[0])) if given else goal
    return run(data, model=model, goal=Macro() if goal is None else goal, **settings)


def run_growing(
    data: Any, *, model: str, store: str = DEFAULT_URL, seal: str | Path | None = None, **settings: Any
) -> RunResult:
    """Evaluate a model on the first version of data that will grow; `cereval extend RUN` adds to it."""
    with _on_disk(data) as path:
        request = request_from(path, None, {**settings, "model": model, "store": store})
        work = growing(request, on_disk=isinstance(data, str | Path))
    return _finished(_carried_out(work, request, None, seal=seal))


def _work(request: Request, asked: Sequence[str], goal: Any, *, on_disk: bool) -> Prepared:
    if goal is None or isinstance(goal, EstimateMean.goals):
        if len(asked) > 1:
            raise InvalidInput("goal", "a comparison's or a ranking's where several models are asked", goal)
        return prepared(request, on_disk=on_disk)
    if isinstance(goal, Tasks.goals):
        return divided(request, [str(request.data)], goal, on_disk=on_disk)
    if isinstance(goal, Compare.goals):
        if len(asked) != 2:
            raise InvalidInput("models", "two different models for a comparison", asked)
        return against(request, asked, goal, on_disk=on_disk)
    if isinstance(goal, Rank.goals):
        return ranked(request, asked, goal, on_disk=on_disk)
    raise InvalidInput("goal", "a goal of cereval", goal)


async def _carried_out(
    work: Prepared,
    request: Request,
    observer: Observer | None,
    bounds: Bounds | None = None,
    seal: str | Path | None = None,
) -> RunResult:
    bounds = bounds or Bounds()
    if bounds.since is not None:
        work = replace(work, circumstances={**work.circumstances, "since": bounds.since})
    reuse = reuse_in(work.circumstances)
    with (
        opened_store(request.store, create=seal is None) as store,
        nullcontext() if bounds.reading else store.hold_request(work.plan.request),
    ):
        if seal is None:
            taught = judged_before(work) if bounds.reading else await judged(work, store, observer)
            plan = planned(
                work.plan,
                work.items,
                store,
                history=request.history,
                fresh=request.fresh,
                since=reuse.since,
                lessons=bounds.lessons,
                taught=taught,
            )
        else:
            plan = sealed_plan(read_seal(Path(seal)), work.plan, work.items, store, history=request.history)
        if bounds.reading:
            await work.close()
            outcome = read_back(plan, store)
        else:
            outcome = await carry_out(work, plan, store, observer, reuse=reuse, allowance=bounds.allowance)
        gone = store.url in ("sqlite://", "sqlite:///:memory:")
        return RunResult(outcome, store.url, tuple(answers_of(outcome, store)) if gone else None)


# -- one way to carry out a run, for Python and the command line ------------------------------------------------------


async def carry_out(
    work: Prepared,
    plan: Any,
    store: Store,
    observer: Observer | None = None,
    change: Change | None = None,
    reuse: Reuse = Reuse(),  # noqa: B008
    allowance: Allowance | None = None,
) -> Outcome:
    """Run or resume a plan to its outcome. change: a new goal or budget, `{}` and None where they stay.

    reuse: which answers that the store has already may be taken instead of asking. allowance: what it may take now,
    within its own limits.
    """
    if kind_of(plan) is not kind_of(work.plan) or plan.data_hash != work.plan.data_hash:
        await work.close()
        same = plan.data_hash == work.plan.data_hash
        work = opened(plan, work.items if same else stored_items(plan, store), work.circumstances)
    try:
        with held(plan, store):
            begun = _begun(start(plan, work.items, store), store, change)
            watching = observer or watcher()
            books = books_for(plan, work.items, work.prompt, store, reuse)
            book = WithBook(work.executor, work.items, work.scorer, books)
            executor = with_people(book, plan, [voice.run_id for voice in begun.voices], store)
            limits = work.limits
            if allowance is not None:
                each = Samples.of(plan.scorer).count
                limits = limits.within(allowance, plan.run_id, begun.spending, each)
            return await run_loop(
                begun,
                store,
                executor,
                limits,
                watching,
                counted=book.counted,
                circumstances=work.circumstances,
                on_interrupt=lambda: watching.on_note(INTERRUPTED),
            )
    finally:
        await work.close()


def reuse_of(request: Request) -> Reuse:
    """Find which earlier answers a request may take."""
    return reuse_in(circumstances_of(request))


def reuse_in(circumstances: Mapping[str, Any]) -> Reuse:
    """Find which earlier answers a run may take that began under these circumstances."""
    age, since = circumstances.get("max_age"), circumstances.get("since")
    moments = [since, None if age is None else time.time() - age_in_seconds(age)]
    latest = max((one for one in moments if one is not None), default=None)
    return Reuse(fresh=bool(circumstances.get("fresh")), since=latest)


def told_before(plan: Plan, items: Sequence[Item], store: Store) -> list[dict[int, KeptAnswer]]:
    """Give the scores that the models of a run were told in earlier ones, by the item's number, as far as it may take
    them: those of the same scorer, and none where it is to be fresh."""
    prompt = Prompt(plan.prompt.get("template"), plan.prompt.get("system"))
    books = books_for(plan, items, prompt, store, reuse_in(circumstances_in(plan.run_id, store, {})))
    return [{item: one for item, one in book.items() if one.same_scorer} for book in books]


def _begun(begun: Start, store: Store, change: Change | None) -> Start:
    """Apply a change to what the replay reached; without one, or where nothing differs, all stays."""
    session = begun.session
    budget = session.budget if change is None or change.max_calls is None else change.max_calls
    goal = session.goal.spec() if change is None or not change.goal else dict(change.goal)
    _check_closer(session, goal)
    if (goal, budget) != (session.goal.spec(), session.budget):
        begun = changed(begun, store, Change(session.n_evaluated, session.n_drawn, goal, budget))
    told = _changed_before(begun) if change is None else ()
    return replace(begun, notes=(*begun.notes, *told, *price_of_going_on(begun)))


def _check_closer(session: AskTell, goal: Mapping[str, Any]) -> None:
    """Refuse to replace a goal that is reached by a wider one: what is certified would only be told less well."""
    now = session.goal.spec()
    eps, reached = goal.get("eps"), session.stopped == "goal" and now.get("eps")
    if reached and eps is not None and eps > reached:
        raise InvalidInput("--eps", f"at most {reached:g}, which is reached", eps)


def _changed_before(begun: Start) -> tuple[str, ...]:
    """Say so where a command is repeated whose run has had another goal since."""
    now = goal_now(begun)
    if now is None:
        return ()
    return (
        f"the goal of run {begun.plan.run_id} was changed by `resume`: it is {in_words(now)} now, not "
        f"{in_words(begun.plan.goal)}; another --seed begins a new run",
    )


def resumed(
    run_id: str,
    store: Store,
    overrides: Mapping[str, Any],
    goal: Mapping[str, Any],
    max_calls: int | None,
    *,
    trust: bool = False,
) -> tuple[Prepared, Change]:
    """Return a stored run, ready to go on with a new goal, a new budget, or as it was.

    trust: confirm the code and the addresses that the stored plan names (`cereval.runner.trust`).
    """
    work = recalled(run_id, store, overrides, trust=trust)

    if goal and not kind_of(work.plan).goal_may_change:
        raise InvalidInput(
            "--eps", "left out for a question that keeps its goal: start a new run", goal_from_spec(goal).eps
        )
    if goal or max_calls is not None:
        _check_newest(work.plan.run_id, store)
    return work, Change(0, 0, goal, Samples.of(work.plan.scorer).draws(max_calls))


def _check_newest(run_id: str, store: Store) -> None:
    """Refuse to change a run that another goes on from: its certificate is part of the other's."""
    for other, values in store.plans():
        if kind_of(values).before(values) == run_id:
            raise InvalidInput("RUN", f"the newest version: it was extended by run {other}", run_id)


def lessons_of(outcome: Outcome, store: Store) -> dict[str, int]:
    """Return the runs of one model each that later ones may learn from, and how many draws of each the result
    rests on.

    Answers that came after the last one needed are left out: how many there are is chance.
    """
    known = store.cutoffs(outcome.plan.data_hash)
    runs = tuple(outcome.parts.values()) or (outcome.run_id,)
    return {run: min(known[run], outcome.result.n_evaluated) for run in runs if known.get(run)}


def answers_of(outcome: Outcome, store: Store) -> list[dict[str, Any]]:
    """Return every answer of a run as rows, in the order of the draws of each model."""
    return list(answer_rows(store, outcome.run_id))


# -- places -----------------------------------------------------------------------------------------------------------


@contextmanager
def _on_disk(data: Any) -> Iterator[str]:
    """Yield a path to the data; a list of dictionaries is written to a file that is gone afterwards."""
    if isinstance(data, str | Path):
        yield str(data)
        return
    import json
    from tempfile import TemporaryDirectory

    rows = data.to_dict("records") if hasattr(data, "to_dict") else data
    rows = list(rows) if isinstance(rows, Iterable) else [rows]
    if not all(isinstance(row, Mapping) for row in rows):
        raise InvalidInput("data", "a file, or a list of dictionaries", data)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "data.jsonl"
        path.write_text("".join(json.dumps(dict(row)) + "\n" for row in rows), encoding="utf-8")
        yield str(path)


def _finished(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, in a thread of its own where an event loop is running."""
    if not _inside_a_loop():
        return asyncio.run(work)
    with ThreadPoolExecutor(1, "cereval-run") as thread:
        return thread.submit(asyncio.run, work).result()


def _inside_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
