"""Evaluate from Python: `cereval.evaluate` and its relatives. Each makes settings, and hands them to the runner."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ParamSpec, TypeVar, Unpack

from cereval.certificate.seal import Seal
from cereval.certificate.verify import Verdict
from cereval.errors import InvalidInput, Misuse
from cereval.files import read_json
from cereval.plan import Plan
from cereval.questions.mean.goal import Estimate
from cereval.questions.session import whole
from cereval.records import Certified
from cereval.runner.answers import answer_rows
from cereval.runner.candidates import Functions
from cereval.runner.listing import listed
from cereval.runner.prepare import prepare
from cereval.runner.progress import WARNING, Observer
from cereval.runner.resume import extend_run, new_items, recall_with_change
from cereval.runner.run import Outcome, carry_out, conduct, kept_line, read_back, reuse_in
from cereval.runner.sealing import sealed, verify_certificate, written
from cereval.runner.task_file import Written, merge_settings, read_task
from cereval.settings import (
    ACCEPTED,
    AgainOptions,
    Candidate,
    CandidateOptions,
    CompareOptions,
    ExtendOptions,
    RankOptions,
    RunOptions,
    Settings,
    TasksOptions,
    check_options,
)
from cereval.store.base import DEFAULT_URL, Store, opened_store

P = ParamSpec("P")
T = TypeVar("T")
Model = Any
"""A candidate: the name of a model, a callable, or a `Candidate`."""


@dataclass(frozen=True, slots=True)
class Run:
    """A finished, interrupted or budget-ended run: the fields of its result, and where it is kept.

    >>> questions = [{"question": f"{n} + 1 =", "answer": str(n + 1)} for n in range(200)]
    >>> run = evaluate(questions, "scripted/0.7", eps=0.15, store="sqlite://", seed=3)
    >>> run.stopped, run.lower <= 0.7 <= run.upper, len(run.answers()) == run.calls
    ('goal', True, True)
    """

    outcome: Outcome
    store_url: str
    rows: tuple[Mapping[str, Any], ...] | None = None
    """The answers of a run whose store was in memory and is gone."""
    functions: Functions = field(default_factory=dict, repr=False)

    @property
    def result(self) -> Certified:
        return self.outcome.result

    @property
    def run_id(self) -> str:
        return self.outcome.run_id

    @property
    def certificate(self) -> dict[str, Any]:
        """Return the certificate, as `cereval.verify` recomputes it."""
        return dict(self.outcome.certificate)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what whoever reads the result should know: warnings, and what helped."""
        return (*self.outcome.notes, *self.outcome.result.notes)

    @property
    def served(self) -> dict[str, dict[str, int]]:
        """Return of each candidate under which names a server answered, and how often."""
        return {name: dict(names) for name, names in self.outcome.served.items()}

    @property
    def instead(self) -> dict[str, int]:
        """Return the calls of others: to ask all, or by plans of fixed size for the same width."""
        return self.outcome.instead

    @property
    def calls(self) -> int:
        return self.outcome.calls

    @property
    def cost_usd(self) -> float | None:
        return self.outcome.cost_usd

    def __getattr__(self, name: str) -> Any:
        """Look a name up in the result: `evaluate(...).estimate`."""
        if name.startswith("_") or name in ("outcome", "store_url", "rows", "functions"):
            raise AttributeError(name)
        try:
            return getattr(self.outcome.result, name)
        except AttributeError:
            raise AttributeError(f"a run has no {name!r}; dir(run) lists what there is") from None

    def __dir__(self) -> list[str]:
        own = set(vars(Run)) - set(self.__slots__)
        return sorted(name for name in own.union(dir(self.outcome.result)) if not name.startswith("_"))

    def resume(self, *, eps: float | None = None, **options: Unpack[AgainOptions]) -> Run:
        """Go on with the run, with a closer goal or a larger budget where they are given."""
        return _run(_resume(self, eps, options))

    def report(self, path: str | Path) -> Path:
        """Write a page about the run."""
        from cereval.report import page_of, write_page

        self._need_store("a page is written from the store")
        with opened_store(self.store_url) as store:
            write_page(Path(path), page_of(store, self.run_id).html)
        return Path(path)

    def answers(self) -> list[dict[str, Any]]:
        """Return every answer: item, model, prompt, answer, score, failure, in the order of the draws."""
        if self.rows is not None:
            return [dict(row) for row in self.rows]
        with opened_store(self.store_url) as store:
            return list(answer_rows(store, self.run_id))

    def to_frame(self) -> Any:
        """Return the answers as a pandas DataFrame."""
        import pandas  # type: ignore[import-untyped]

        return pandas.DataFrame(self.answers())

    def _need_store(self, why: str) -> None:
        if self.rows is not None:
            raise Misuse(f"{why}: name one on disk, such as store='sqlite:///runs.db'")

    def __str__(self) -> str:
        """Return the answer in one line, then what casts doubt on it, and whether anything was asked for it."""
        kept = [kept_line(self.outcome)] if self.outcome.kept else []
        return "\n".join([self.outcome.result.headline(), *kept, *self.outcome.notes])

    def __repr__(self) -> str:
        warned = sum(note.startswith(WARNING) for note in self.outcome.notes)
        more = f" ({warned} warning{'' if warned == 1 else 's'}, see `notes`)" if warned else ""
        return f"<Run {self.run_id}: {self.outcome.result.headline()}{more}>"

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{escape(line)}</p>" for line in str(self).splitlines()[1:])
        return self.outcome.result._repr_html_() + notes


def runs(store: str = DEFAULT_URL) -> list[dict[str, Any]]:
    """List the runs in a store, oldest first: run_id, kind, status, model, data, goal, answer, calls, cost_usd, ...

    >>> runs("sqlite://")
    []
    """
    with opened_store(store, reading=True) as opened:
        return listed(opened)


def load(run_id: str, store: str = DEFAULT_URL) -> Run:
    """Return a run in a store as it is now, found by its id, the beginning of its id, or its name; nothing is asked."""
    with opened_store(store) as opened:
        return _kept(read_back(Plan.from_dict(opened.run(run_id).plan), opened), opened, {})


def verify(
    certificate: Any,
    *,
    store: str | None = None,
    seal: str | Path | None = None,
    public_key: str | Path | None = None,
) -> Verdict:
    """Recompute a certificate: a `Run`, a file, or what was read from one; `verdict.valid` is the answer.

    >>> run = evaluate([{"question": "1 + 1 =", "answer": "2"}] * 9, "scripted/1.0", eps=0.4, store="sqlite://", seed=1)
    >>> verify(run).status
    'valid'
    """
    if isinstance(certificate, Run):
        kept = None if certificate.rows is not None else certificate.store_url
        return verify_certificate(certificate.certificate, store or kept, seal, public_key)
    if isinstance(certificate, str | Path):
        path = Path(certificate)
        return verify_certificate(read_json(path), store, seal, public_key, path.absolute().parent)
    return verify_certificate(certificate, store, seal, public_key)


# -- asking -----------------------------------------------------------------------------------------------------------


async def evaluate_async(
    data: Any,
    model: Model = None,
    *,
    goal: Any = None,
    observer: Observer | None = None,
    seal: str | Path | None = None,
    **options: Unpack[RunOptions],
) -> Run:
    """Evaluate a candidate on questions with as few calls as a certified answer takes.

    data: a file (JSONL, CSV, Parquet), `hf:org/name`, a task file (YAML), a list of dictionaries or a data frame.
    model: the name of a model such as `openai/NAME`, a callable, or a `Candidate`. goal: `Estimate(eps)` or
    `Threshold(c)`; eps=0.02 and min=0.8 are short for them. options: those of `cereval run`. seal: a file that
    `cereval.seal` wrote; the run carries that plan out, or names what differs.

    Works inside a running event loop too (a notebook); there `await evaluate_async(...)` shares the loop. Repeating a
    call goes on where it ended: what is in the store is not asked again.
    """
    return await _ask("estimate", data, [model], goal, observer, seal, options)


async def compare_async(
    data: Any,
    a: Model,
    b: Model = None,
    *,
    goal: Any = None,
    observer: Observer | None = None,
    seal: str | Path | None = None,
    **options: Unpack[CompareOptions],
) -> Run:
    """Compare two candidates on the same questions: `Sign()` (tie=0.02), `Difference` (within=), `NotWorse`
    (not_worse=).

    baseline="last", a run or its name, in place of `b`: what was answered then is compared with, at no cost.
    """
    return await _ask("compare", data, [a, b], goal, observer, seal, options)


async def rank_async(
    data: Any,
    candidates: Sequence[Model],
    *,
    goal: Any = None,
    observer: Observer | None = None,
    seal: str | Path | None = None,
    **options: Unpack[RankOptions],
) -> Run:
    """Put many candidates in a certified order: `Order()` (tie=0.05), `Top` (top=, within=) or `Beats` (beats=NAME).

    history="store" asks items sooner on which other candidates in the store disagreed.
    """
    return await _ask("rank", data, candidates, goal, observer, seal, options)


async def tasks_async(
    data: Any,
    model: Model,
    *,
    goal: Any = None,
    observer: Observer | None = None,
    seal: str | Path | None = None,
    **options: Unpack[TasksOptions],
) -> Run:
    """Evaluate a candidate on every category of the questions (by=FIELD): `Macro` (eps=), `EachWithin` (each_eps=),
    `AllAtLeast` (min=), `WhichFail` (which_fail=)."""
    return await _ask("tasks", data, [model], goal, observer, seal, options)


def _blocking(work: Callable[P, Coroutine[Any, Any, Run]]) -> Callable[P, Run]:
    """Return a function that does its work in an event loop of its own; what `work` says of itself is true of it."""

    @wraps(work)
    def blocking(*args: P.args, **options: P.kwargs) -> Run:
        return _run(work(*args, **options))

    blocking.__name__ = blocking.__qualname__ = work.__name__.removesuffix("_async")
    return blocking


evaluate = _blocking(evaluate_async)
compare = _blocking(compare_async)
rank = _blocking(rank_async)
tasks = _blocking(tasks_async)


def extend(
    run: Run | str | None,
    data: Any,
    model: Model = None,
    *,
    seal: str | Path | None = None,
    **options: Unpack[ExtendOptions],
) -> Run:
    """Evaluate data that grow: all versions are certified at once, and only new items are asked.

    run: the run of the version before, or its id; None: these data are the first version, for `model`.
    """
    if run is None:
        return _run(_ask("growing", data, [model], None, None, seal, options))
    if model is not None or seal is not None:
        raise InvalidInput("model", "left out where a run is extended: it has one", model)
    return _run(_extend(run, data, options))


async def _ask(
    kind: str,
    data: Any,
    models: Sequence[Model],
    goal: Any,
    observer: Observer | None,
    seal: str | Path | None,
    options: Mapping[str, Any],
) -> Run:
    with _on_disk(data) as path:
        settings = settings_for(kind, path, models, goal, options)
        work = prepare(settings)
        fixed = None if seal is None else Path(seal)
        with opened_store(settings["store"], create=seal is None) as store:
            outcome = await conduct(work, settings, store, observer, seal=fixed)
            return _kept(outcome, store, work.functions)


def settings_for(
    kind: str, data: str, models: Sequence[Model], goal: Any, options: Mapping[str, Any]
) -> Settings:
    """Return the settings of a call: options of a candidate are for those that are given by their names alone."""
    checked = check_options(options, ACCEPTED[kind])
    shared = {name: checked.pop(name) for name in CandidateOptions.__annotations__ if name in checked}
    written_down = Written()
    if Path(data).suffix in (".yaml", ".yml"):
        written_down, data = read_task(Path(data), kind), ""
    given = [one for one in models if one is not None]
    for one in given:
        if isinstance(one, Candidate) and shared:
            name = next(iter(shared))
            raise InvalidInput(name, "given to `Candidate(...)` where candidates are given", shared[name])
    candidates = [one if isinstance(one, Candidate) else Candidate(one, **shared) for one in given]
    if kind == "compare" and len(candidates) == 1 and not checked.get("baseline"):
        raise InvalidInput("b", "given: two candidates are compared", None)
    return merge_settings(
        kind, (data,) if data else (), candidates, checked, written_down, shared=shared, goal=goal
    )


async def _resume(run: Run, eps: float | None, options: Mapping[str, Any]) -> Run:
    run._need_store("only a run in a store goes on")
    given = check_options(options, AgainOptions)
    max_calls = given.pop("max_calls", None)
    with opened_store(run.store_url) as store:
        goal = {} if eps is None else Estimate(eps).spec()
        budget = None if max_calls is None else whole("budget", max_calls, 1)
        work, change = recall_with_change(run.run_id, store, given, goal, budget, functions=run.functions)
        outcome = await carry_out(work, work.plan, store, None, change, reuse_in(work.circumstances))
        return _kept(outcome, store, run.functions)


async def _extend(run: Run | str, data: Any, options: Mapping[str, Any]) -> Run:
    given = check_options(options, ExtendOptions)
    url = run.store_url if isinstance(run, Run) else given.pop("store", DEFAULT_URL)
    trust = bool(given.pop("trust", False))
    with opened_store(url) as store, _on_disk(data) as path:
        run_id = run.run_id if isinstance(run, Run) else run
        added, overrides = new_items(path, given)
        work = extend_run(run_id, store, added, overrides, trust=trust)
        outcome = await carry_out(work, work.plan, store, None, reuse=reuse_in(work.circumstances))
        return _kept(outcome, store, {})


def _kept(outcome: Outcome, store: Store, functions: Functions) -> Run:
    gone = store.url in ("sqlite://", "sqlite:///:memory:")
    rows = tuple(answer_rows(store, outcome.run_id)) if gone else None
    return Run(outcome, store.url, rows, functions)


def seal(
    data: Any,
    path: str | Path,
    *models: Model,
    goal: Any = None,
    kind: str = "estimate",
    **options: Any,
) -> Seal:
    """Fix the plan of an evaluation with the same arguments before its first call, and write the seal to `path`.

    Nothing is asked. `evaluate(..., seal=path)` carries the plan out; `cereval verify CERTIFICATE --seal FILE` names
    every later choice. The seed stays in the store until then. kind: `estimate`, `compare`, `rank`, `tasks`, `growing`.
    """
    with _on_disk(data) as file:
        settings = settings_for(kind, file, models, goal, options)
        work = prepare(settings)
    _run(work.close())
    with opened_store(settings["store"], create=True) as store:
        made = sealed(work.plan, work.items, store, history=settings.uses_store_history)
    written(Path(path), made)
    return made


# -- places -----------------------------------------------------------------------------------------------------------


@contextmanager
def _on_disk(data: Any) -> Iterator[str]:
    """Yield a path to the data; rows are written to a file that is gone afterwards."""
    if isinstance(data, str | Path):
        yield str(data)
        return
    rows = data.to_dict("records") if hasattr(data, "to_dict") else data
    rows = list(rows) if isinstance(rows, Iterable) else [rows]
    if not all(isinstance(row, Mapping) for row in rows):
        raise InvalidInput("data", "a file, a list of dictionaries, or a data frame", data)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "data.jsonl"
        path.write_text("".join(json.dumps(dict(row)) + "\n" for row in rows), encoding="utf-8")
        yield str(path)


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, in a thread of its own where an event loop is running."""
    if not _is_inside_a_loop():
        return asyncio.run(work)
    with ThreadPoolExecutor(1, "cereval-run") as thread:
        return thread.submit(asyncio.run, work).result()


def _is_inside_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
