"""Keep the answer book: what a model has answered before need not be paid for again.

At temperature 0 an answer is a fact about the model, and any later certificate may use it, as long as the later run's
draws were not chosen by someone who had seen it: a new run draws with fresh randomness, looks up what it draws, and
pays only for what is new. Answers are found by what was asked: model, revision, settings and messages, in whatever
data file the question stood.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from cereval.datasets.base import DataSet, Item
from cereval.errors import CerevalError, InvalidInput, NoSuchRun, StoreError
from cereval.imports import code_digest
from cereval.models.base import Reply
from cereval.plan import PLAN_FORMAT, CandidateSpec, Plan, candidate_digest, repeats_itself
from cereval.questions import kind_of
from cereval.records import Draw
from cereval.runner.candidates import OUTSIDE, RUN, Functions, named_by_candidate, open_candidate, prompt_of
from cereval.runner.executor import Around, Counted, scored
from cereval.runner.finding import data_sharing, places, run_ids, stored_items
from cereval.runner.samples import Samples
from cereval.runner.trust import require
from cereval.scorers.base import Scorer
from cereval.settings import Settings
from cereval.store.base import ENDED, Answer, KeptAnswer, Run, Store, opened_store
from cereval.text import did_you_mean

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
class WithBook(Around):
    items: Sequence[Item]
    scorers: Sequence[Scorer]
    books: Sequence[Mapping[int, KeptAnswer]]
    counted: Counted = field(default_factory=Counted)

    async def answer(self, draw: Draw, model: int, place: int) -> Answer:
        found = self.books[model].get(draw.item) if model < len(self.books) else None
        if found is None:
            return await self.inner.answer(draw, model, place)
        self.counted.add(found.at)
        return await self._kept(found, draw, model, place)

    async def _kept(self, found: KeptAnswer, draw: Draw, model: int, place: int) -> Answer:
        told = _payer(found)
        if found.same_scorer:
            return as_told(found, place)
        old = found.answer
        reply = Reply(old.text, old.input_tokens, old.output_tokens, 0.0, finish_reason=old.finish_reason)
        answer = await scored(self.scorers[model], self.items[draw.item], reply, place)
        return replace(answer, **told)


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
                item = Item.from_dict(theirs[one.item])
                twins[one.item] = item if prompt.messages(item) == prompt.messages(items[number]) else None
            twin = twins.get(one.item)
            if twin is not None and ("cluster" not in plan.scorer or alike[one.run_id]):
                yield replace(one, item=number, same_scorer=alike[one.run_id] and twin == items[number])


def asking(candidate: CandidateSpec) -> str | None:
    """Name what a candidate is asked, but for the item; None where its answers are not facts about it."""
    bare = {key: value for key, value in candidate.items() if key not in ("run", "not_asked")}
    return candidate_digest(bare) if repeats_itself(candidate) else None  # type: ignore[arg-type]


# -- earlier runs as candidates ---------------------------------------------------------------------------------------


LAST = "last"
"""Names the newest run on the same questions."""

CONNECT_S = 3.0
"""How long a server may take to accept a connection before it counts as gone."""


def find_baseline(wanted: str, plan: Plan, items: Sequence[Item], store: Store) -> Run:
    """Return the run whose answers are wanted: by name or tag, by id, or the newest that has ended on these items."""
    runs = [run for run in store.runs() if run.answers > run.failures and _is_of_one_candidate(run.plan)]
    if wanted == LAST:
        data = set(data_sharing(plan, items, store))
        ended = [run for run in runs if run.data_hash in data and run.status in ENDED]
        if not ended:
            wanted_run = (
                "the name of a run: the store has none on these questions yet; `cereval run` makes one"
            )
            raise InvalidInput("baseline", wanted_run, wanted)
        return ended[-1]
    names = _names(runs, store)
    named = [run for run in runs if wanted in names[run.run_id]]
    if named:
        return named[-1]
    try:
        found = store.run(wanted)
    except NoSuchRun:
        hint = did_you_mean(wanted, dict.fromkeys([LAST, *(name for own in names.values() for name in own)]))
        raise InvalidInput(
            "baseline", f"`last`, or the id, the name or a tag of a run ({hint})", wanted
        ) from None
    if found.run_id not in {run.run_id for run in runs}:
        parts = [run.run_id for run in runs if run.plan["goal"].get("of") == found.run_id]
        one = f"one of its parts: {', '.join(parts)}" if parts else "a run of one candidate, with answers"
        raise InvalidInput("baseline", one, wanted)
    return found


def _names(runs: Sequence[Run], store: Store) -> dict[str, list[str]]:
    """Return the names and tags of runs; those of a comparison with a baseline are its new candidate's too."""
    against = {run.run_id: run.labels for run in store.runs() if _has_baseline(run.plan)}
    return {
        run.run_id: [
            run.plan["candidates"][0]["name"],
            *run.labels,
            *against.get(run.plan["goal"].get("of"), ()),
        ]
        for run in runs
    }


def _has_baseline(plan: Mapping[str, Any]) -> bool:
    candidates = list(plan.get("candidates") or ())
    return len(candidates) == 2 and "run" in candidates[1]


def _is_of_one_candidate(plan: Mapping[str, Any]) -> bool:
    candidates = list(plan.get("candidates") or ())
    if plan.get("format") != PLAN_FORMAT or len(candidates) != 1 or "run" in candidates[0]:
        return False
    goal = plan["goal"]
    return not kind_of(plan).is_part or "of" in goal or goal.get("goal") == "ranked"


def scored_alike(settings: Settings, run: Run) -> Settings:
    """Return settings with the baseline's scorer, where they name none."""
    scorer = Plan.from_dict(run.plan).scorer
    if Samples.of(scorer).count > 1:
        raise InvalidInput("baseline", "a run that asked each question once", run.run_id)
    if any(settings[name] is not None for name in ("scorer", "judge", "rubric", "judge_template")):
        return settings
    same = {
        "scorer": scorer["spec"],
        **{name: scorer.get(name) for name in ("judge", "judge_base_url")},
    }
    return replace(settings, options={**settings.options, **same})


def baseline_spec(
    run: Run, plan: Plan, items: Sequence[Item], circumstances: Mapping[str, Any], functions: Functions
) -> CandidateSpec:
    """Return the candidate of a run, which answers as it did in the run; what else it is asked, if it can be."""
    (spec,) = Plan.from_dict(run.plan).candidates
    new = plan.candidates[0]
    why = _why_not_asked(spec, new, items, circumstances, functions)
    name = spec["name"] if spec["name"] != new["name"] else f"{spec['name']} (run {run.run_id})"
    kept: CandidateSpec = {**spec, "name": name, "run": run.run_id}
    return {**kept, "not_asked": why} if why else kept


def _why_not_asked(
    spec: CandidateSpec,
    new: CandidateSpec,
    items: Sequence[Item],
    circumstances: Mapping[str, Any],
    functions: Functions,
) -> str:
    """Return why the candidate of an earlier run cannot be asked any more; "": it can."""
    if spec["model"].startswith(OUTSIDE):
        return "it was asked outside"
    if candidate_digest(spec) == candidate_digest(new):
        return "the same candidate as it was then cannot be asked any more"
    if spec.get("revision"):
        return "its checkpoint may not be served any more"
    try:
        if spec.get("code", "") not in ("", *functions, code_digest(spec["model"].removeprefix("python:"))):
            return "its code has changed since"
        require(named_by_candidate(spec), "the baseline")
        open_candidate(spec, items, circumstances, 0, functions)
    except CerevalError:
        return "it cannot be opened any more"
    address = spec["base_url"]
    return "its server does not answer" if address and not _is_reachable(address) else ""


def _is_reachable(address: str) -> bool:
    parts = urlsplit(address)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    with suppress(OSError), socket.create_connection((parts.hostname or "", port), CONNECT_S):
        return True
    return False


def names_runs(settings: Settings) -> bool:
    return any(one.model_name.startswith(RUN) for one in settings.candidates)


def read_run(wanted: str, url: str | None) -> DataSet:
    with opened_store(url, reading=True) as store:
        plan = Plan.from_dict(store.run(wanted).plan)
        return DataSet(plan.data_name, stored_items(plan, store), plan.data_hash)


@dataclass(frozen=True, slots=True)
class Taken:
    settings: Settings
    specs: dict[int, CandidateSpec]
    data: DataSet


def take_runs(
    settings: Settings,
    plan: Plan,
    data: DataSet,
    circumstances: Mapping[str, Any],
    functions: Functions,
    store: Store,
) -> Taken:
    """Return the candidates that earlier runs stand for, the scorer of the first of them where none is named, and the
    questions that all of them can answer."""
    settings = _about_these_answers(settings)
    wanted = {
        place: one.model_name.removeprefix(RUN)
        for place, one in enumerate(settings.candidates)
        if one.model_name.startswith(RUN)
    }
    runs = {place: find_baseline(name, plan, data.items, store) for place, name in wanted.items()}
    specs = {place: _as_it_was(run, plan.candidates[place]["name"]) for place, run in runs.items()}
    if settings["baseline"] is not None:
        if plan.candidates[0]["model"].startswith(OUTSIDE):
            wanted_one = f"left out for {OUTSIDE}NAME, which nobody asks here"
            raise InvalidInput("baseline", wanted_one, settings["baseline"])
        last = len(settings.candidates)
        runs[last] = find_baseline(settings["baseline"], plan, data.items, store)
        specs[last] = baseline_spec(runs[last], plan, data.items, circumstances, functions)
    ids = [run.run_id for run in runs.values()]
    if len(set(ids)) < len(ids):
        raise InvalidInput("candidates", "different runs", ", ".join(ids))
    for run in runs.values():
        settings = scored_alike(settings, run)
    left = _restricted(data, specs.values(), plan, store)
    name = plan.data_name
    if left is not data:
        name += f", the {len(left.items):,} of {len(data.items):,} questions that {_in_words(ids)} answered"
    return Taken(settings, specs, replace(left, source=name))


def _about_these_answers(settings: Settings) -> Settings:
    """Return settings that are about the answers as they were given: kept ones are not fresh, as `expected` needs."""
    if settings["target"] == "expected":
        wanted = "benchmark or population with a baseline or earlier runs, whose answers are not fresh"
        raise InvalidInput("target", wanted, "expected")
    return replace(settings, options={**settings.options, "target": settings["target"] or "benchmark"})


def _as_it_was(run: Run, name: str) -> CandidateSpec:
    """Return the candidate of a run, which answers as it did in the run and is asked nothing else."""
    (spec,) = Plan.from_dict(run.plan).candidates
    own = spec["name"] if name.startswith(RUN) else name
    return {
        **spec,
        "name": f"{own} (run {run.run_id})",
        "run": run.run_id,
        "not_asked": "it is an earlier run",
    }


def _in_words(ids: Sequence[str]) -> str:
    return ("run " if len(ids) == 1 else "runs ") + " and ".join(ids)


def _restricted(data: DataSet, specs: Iterable[CandidateSpec], plan: Plan, store: Store) -> DataSet:
    """Return the data that all candidates can answer: those that the runs did of which nobody is asked."""
    answered = set(range(len(data.items)))
    for spec in specs:
        if "not_asked" in spec:
            answered &= set(answers_of_run(plan, spec, data.items, store))
            if not answered:
                wanted = "a run that answered some of these questions, and whose candidate can still be asked"
                raise InvalidInput("baseline", wanted, spec["run"])
    if len(answered) == len(data.items):
        return data
    return DataSet.of(data.source, [data.items[item] for item in sorted(answered)])
