"""Define the page of one run: its state and its charts while it goes on, and every answer a page at a time."""

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
from cereval.runner.items import item_from
from cereval.runner.listing import failure_of
from cereval.runner.people import people_of
from cereval.runner.start import evidence
from cereval.store.base import GOING, Run
from cereval.store.browsing import Browser, Found, Wanted
from cereval.store.sql import SqlStore
from cereval.text import duration, money
from cereval.view.following import MOST_REPLAYED, Followed
from cereval.view.runs import progress_bar

LARGEST_PAGE = 100


@dataclass(frozen=True, slots=True)
class Shown:
    """Hold a run, its plan, and the runs that keep the answers of its models, by the models' names."""

    run: Run
    plan: Plan
    kind: Kind
    parts: Mapping[str, str]

    @classmethod
    def of(cls, store: SqlStore, run_id: str) -> Shown:
        run = store.run(run_id)
        plan = Plan.from_dict(run.plan)
        kind = kind_of(plan)
        apart = kind.parts(plan)
        names = plan.names if len(apart) > 1 else (plan.name,)
        return cls(run, plan, kind, dict(zip(names, (part.run_id for part in apart), strict=True)))

    @property
    def paired(self) -> tuple[str, str] | None:
        """Return the two runs of a comparison, whose answers are shown side by side."""
        first, *rest = self.parts.values()
        return (first, rest[0]) if len(rest) == 1 else None

    @property
    def by_people(self) -> bool:
        """Tell whether people score the run."""
        return people_of(self.plan) is not None and bool(self.kind.format)

    @property
    def going(self) -> bool:
        return self.run.status in GOING


def is_large(store: SqlStore, shown: Shown) -> bool:
    """Tell whether the replay of a run takes so long that nobody should wait for it unasked."""
    kept = [shown.run if part == shown.run.run_id else store.run(part) for part in shown.parts.values()]
    return sum(run.answers for run in kept) > MOST_REPLAYED


def state_of(followed: Followed) -> dict[str, Any]:
    """Gather what the top of the page shows of a run."""
    with followed.lock:
        story, numbers = followed.story(), followed.numbers()
    return {
        **contents(story),
        "run": story.run,
        "failed": failure_of(followed.run, followed.store),
        "tiles": tiles(numbers),
        "progress": progress_bar(numbers["share"]),
    }


def tiles(numbers: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name the numbers beside the answer: what it took, how fast, how much is left."""
    spare = numbers["calls"] - numbers["counted"] if numbers["left"] == 0 else 0
    found = [("Calls", f"{numbers['calls'] - spare:,}" + (f" + {spare:,} not needed" if spare else ""))]
    if numbers["left"]:
        found.append(("Still to expect", f"about {numbers['left']:,}"))
    if numbers["pace"]:
        found.append(("Pace", f"{numbers['pace']:.1f} per second"))
    if numbers["eta_s"]:
        found.append(("Time left", duration(numbers["eta_s"])))
    return [*found, ("Cost", money(numbers["cost_usd"])), ("Failed", f"{numbers['failures']:,}")]


# -- answers ----------------------------------------------------------------------------------------------------------


def wanted_from(values: Mapping[str, str], *, paired: bool) -> Wanted:
    """Read from an address which answers are asked for."""
    try:
        after = tuple(float(part) for part in values.get("after", "").split(",") if part)
        limit = min(int(values.get("limit") or 25), LARGEST_PAGE)
    except ValueError:
        raise InvalidInput("after and limit", "numbers", values.get("after", "")) from None
    return Wanted(
        show=values.get("show") or ("disagree" if paired else "all"),
        worst_first=values.get("order") == "worst",
        text=values.get("q", "")[:200],
        category=values.get("category", "")[:200],
        after=after,
        limit=max(limit, 1),
    )


def answers_page(browser: Browser, shown: Shown, wanted: Wanted, part: str = "") -> dict[str, Any]:
    """Give one page of answers: of one model, or of two side by side."""
    prompt = _prompt(shown, part)
    if shown.paired is not None and not part:
        found = browser.pairs(shown.paired, shown.plan.data_hash, wanted)
        counts: Any = browser.pair_counts(shown.paired)
    else:
        run_id = shown.parts[part] if part in shown.parts else next(iter(shown.parts.values()))
        found = browser.page(run_id, shown.plan.data_hash, wanted)
        counts = browser.counts(run_id)
    return {"found": _with_items(found, prompt), "counts": counts, "wanted": wanted, "part": part}


def one_answer(browser: Browser, shown: Shown, part: str, draw: int) -> Mapping[str, Any] | None:
    """Give one answer whole, with the prompt as the model got it."""
    run_id = shown.parts.get(part) or next(iter(shown.parts.values()))
    row = browser.one(run_id, shown.plan.data_hash, draw)
    return None if row is None else _with_item(row, _prompt(shown, part))


def _prompt(shown: Shown, part: str) -> Prompt:
    """Return the prompt of the candidate whose answers are looked at; of all at once, the first one's."""
    names = list(shown.parts)
    number = names.index(part) if part in names else 0
    return prompt_of(shown.plan.candidates[number])


def _with_items(found: Found, prompt: Prompt) -> Found:
    return Found([_with_item(row, prompt) for row in found.rows], found.after)


def _with_item(row: Mapping[str, Any], prompt: Prompt) -> dict[str, Any]:
    item = item_from(row["content"])
    return {**row, "item": item, "prompt": _asked(prompt, item)}


def _asked(prompt: Prompt, item: Item) -> str:
    try:
        return as_text(prompt.messages(item))
    except CerevalError as error:
        return f"({error})"


# -- the certificate --------------------------------------------------------------------------------------------------


def verdict_on(store: SqlStore, run_id: str) -> dict[str, Any]:
    """Verify the newest certificate of a run against itself and against the store."""
    certificates = store.certificates(run_id)
    if not certificates:
        return {"status": "none", "reasons": ("there is no certificate yet",)}
    found = verify(dict(certificates[-1]), evidence(certificates[-1], store), explain=True)
    return {"status": found.status, "reasons": found.reasons or found.checked}
