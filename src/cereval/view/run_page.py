"""The page of one run: its state and charts while it goes on, every answer a page at a time, its certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cereval.certificate.verify import verify
from cereval.datasets.base import Item
from cereval.datasets.prompts import Prompt
from cereval.errors import CerevalError, InvalidInput
from cereval.plan import Plan
from cereval.questions import kind_of
from cereval.questions.base import Kind
from cereval.report import contents
from cereval.runner.answers import as_text
from cereval.runner.candidates import prompt_of
from cereval.runner.people import people_of
from cereval.runner.start import evidence
from cereval.scorers.people import People
from cereval.store.base import GOING, Run, is_count
from cereval.store.browsing import Browser, Wanted
from cereval.store.sql import SqlStore
from cereval.text import duration, money
from cereval.view.live import Followed

LARGEST_PAGE = 100
MOST_REPLAYED = 20_000
"""Answers of a run whose charts are drawn unasked."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A run, its plan, and the runs that keep the answers of its models, by the models' names."""

    run: Run
    plan: Plan
    kind: Kind
    parts: Mapping[str, str]
    people: People | None
    """How people score the run; None: they do not."""

    @classmethod
    def of(cls, store: SqlStore, run_id: str) -> Shown:
        run = store.run(run_id)
        plan = Plan.from_dict(run.plan)
        kind = kind_of(plan)
        parts = [part.run_id for part in kind.parts(plan)]
        names = plan.names if len(parts) > 1 else (plan.name,)
        people = None if kind.is_part else people_of(plan)
        return cls(run, plan, kind, dict(zip(names, parts, strict=True)), people)

    @property
    def paired(self) -> tuple[str, str] | None:
        return (self.runs[0], self.runs[1]) if len(self.runs) == 2 else None

    @property
    def runs(self) -> list[str]:
        return list(self.parts.values())

    @property
    def going(self) -> bool:
        return self.run.status in GOING

    def part(self, name: str) -> str:
        """Return the run that keeps the answers of a model; of the first, where there is no such model."""
        return self.parts.get(name) or self.runs[0]

    def is_large(self, store: SqlStore) -> bool:
        """Tell whether the replay of the run takes so long that nobody should wait for it unasked."""
        runs = [self.run if part == self.run.run_id else store.run(part) for part in self.runs]
        return sum(run.answers for run in runs) > MOST_REPLAYED


def state_of(followed: Followed) -> dict[str, Any]:
    with followed.lock:
        story, numbers, run = followed.story(), followed.numbers(), followed.run
    failures: list[Mapping[str, Any]] = [{}]
    if run.status == "failed":
        events = followed.store.events(run.run_id)
        failures += [event["detail"] for event in events if event["status"] == "failed"]
    return {
        **contents(story),
        "run": run,
        "kind": followed.begun.kind,
        "failed": str(failures[-1].get("error", "")),
        "tiles": tiles(numbers, failures[-1]),
        "share": numbers["share"],
    }


def tiles(numbers: Mapping[str, Any], failure: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name the numbers beside the answer: what it took, how fast, how much is left.

    failure: the event of a run that failed; it has the calls whose failures were held back, to be asked again.
    """
    held, more = failure.get("held_back"), failure.get("held_back_usd", 0.0)
    if not (type(held) is int and is_count(held) and is_count(more)):
        held, more = 0, 0.0
    cost = None if None in (numbers["cost_usd"], more) else numbers["cost_usd"] + more
    spare = numbers["surplus"]
    calls = f"{numbers['calls'] + held - spare:,}"
    found = [("Calls", calls + (f" + {spare:,} not needed" if spare else ""))]
    if numbers["left"]:
        found.append(("Still to expect", f"about {numbers['left']:,}"))
    if numbers["pace"]:
        found.append(("Pace", f"{numbers['pace']:.1f} per second"))
    if numbers["eta_s"]:
        found.append(("Time left", duration(numbers["eta_s"])))
    return [*found, ("Cost", money(cost)), ("Failed", f"{numbers['failures'] + held:,}")]


def wanted_from(values: Mapping[str, str], *, paired: bool) -> Wanted:
    try:
        after = tuple(float(part) for part in values.get("after", "").split(",") if part)
        limit = min(int(values.get("limit") or 25), LARGEST_PAGE)
    except ValueError:
        raise InvalidInput("after and limit", "numbers", values.get("after", "")) from None
    return Wanted(
        show=values.get("show") or ("disagree" if paired else "all"),
        worst_first=values.get("order") == "worst",
        text=values.get("q", "")[:200],
        after=after,
        limit=max(limit, 1),
    )


def answers_page(browser: Browser, shown: Shown, values: Mapping[str, str]) -> dict[str, Any]:
    part = values.get("part", "")
    pair = None if part else shown.paired
    wanted = wanted_from(values, paired=pair is not None)
    if pair is not None:
        found, counts = browser.pairs(pair, shown.plan.data_hash, wanted), browser.pair_counts(pair)
    else:
        run_id = shown.part(part)
        found, counts = browser.page(run_id, shown.plan.data_hash, wanted), browser.counts(run_id)
    prompt = _prompt(shown, part)
    rows = [_with_prompt(row, prompt) for row in found.rows]
    return {
        "rows": rows,
        "after": found.after,
        "counts": counts,
        "wanted": wanted,
        "part": part,
        "paired": pair,
    }


def one_answer(browser: Browser, shown: Shown, part: str, draw: int) -> Mapping[str, Any] | None:
    row = browser.one(shown.part(part), shown.plan.data_hash, draw)
    return None if row is None else _with_prompt(row, _prompt(shown, part))


def _prompt(shown: Shown, part: str) -> Prompt:
    names = list(shown.parts)
    return prompt_of(shown.plan.candidates[names.index(part) if part in names else 0])


def _with_prompt(row: Mapping[str, Any], prompt: Prompt) -> dict[str, Any]:
    item = Item.from_dict(row["content"])
    try:
        asked = as_text(prompt.messages(item))
    except CerevalError as error:
        asked = f"({error})"
    return {**row, "item": item, "prompt": asked}


def verify_newest(store: SqlStore, run_id: str) -> dict[str, Any]:
    certificates = store.certificates(run_id)
    if not certificates:
        return {"status": "none", "reasons": ("there is no certificate yet",)}
    found = verify(dict(certificates[-1]), evidence(certificates[-1], store), explain=True)
    return {"status": found.status, "reasons": found.reasons or found.checked}
