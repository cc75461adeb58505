"""Take what earlier runs answered as candidates: `--baseline`, `compare RUN RUN`, `run/ID` as a model.

Validity. An answer that is kept is a fact, fixed before the first draw of the new run, whose draws are fresh: nothing
that is certified depends on how the earlier run chose its questions. Where nobody can be asked what is missing, the
comparison is over the questions that were answered: it says so, and claims nothing about the others.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from cereval.datasets.base import DataSet, Item
from cereval.errors import CerevalError, InvalidInput, NoSuchRun
from cereval.imports import code_digest
from cereval.plan import PLAN_FORMAT, CandidateSpec, Plan, candidate_digest
from cereval.questions import kind_of
from cereval.runner.book import answers_of_run
from cereval.runner.candidates import OUTSIDE, RUN, Functions, named_by_candidate, open_candidate
from cereval.runner.items import stored_items
from cereval.runner.past import data_sharing
from cereval.runner.samples import Samples
from cereval.runner.trust import require
from cereval.settings import Settings
from cereval.store.base import ENDED, Run, Store, opened_store
from cereval.text import did_you_mean

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
    """Tell whether a run's answers are those of one candidate, given in that run."""
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
        return "it is the candidate that it is compared with, as it was then"
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
    """Tell whether a candidate is an earlier run."""
    return any(one.model_name.startswith(RUN) for one in settings.candidates)


def read_run(wanted: str, url: str | None) -> DataSet:
    """Return the questions of a run, as they were when it began."""
    with opened_store(url, reading=True) as store:
        plan = Plan.from_dict(store.run(wanted).plan)
        return DataSet(plan.data_name, stored_items(plan, store), plan.data_hash)


@dataclass(frozen=True, slots=True)
class Taken:
    """Hold the candidates that answer as in earlier runs, by their places, and what is left to compare."""

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
