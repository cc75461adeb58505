"""Define the order of work that saves calls, and what it is expected to take: pure, from the fleet and what is
known so far.

Runs on the same data teach one another: what earlier models answered tells which questions are hard, and a run that
knows needs fewer calls. So they go one after the other, each waiting for those that it learns from, where that is
expected to save calls; where it is not (nothing to learn from, or nearly every question is asked anyway), they go
together. Models go first that say most about the others: those whose answers vary most, as far as the store knows them.
Which runs a run learns from is decided here, by place and not by chance: the same fleet on an empty store gives the
same certificates, whoever was slow or killed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from cereval.fleet.file import Entry, Fleet
from cereval.models.base import Settings
from cereval.models.openai_model import provider_of
from cereval.models.prices import FlatPrice, Price, Tokens, list_price
from cereval.models.speed import LETTERS_PER_TOKEN, USUAL_ANSWER
from cereval.questions import kind_for
from cereval.runner.samples import Samples
from cereval.stats.planning import Scenario, plan_estimate, plan_threshold

WELL_KNOWN, HALF_KNOWN = 0.3, 4
"""Share of the scores' variance that many earlier models explain, and the number of models that explain half of it.

Typical of the tables that `benchmarks.fleet_history` plays; forecasts rest on it, and nothing else."""

WORTH_WAITING = 0.02
"""Share of the calls that waiting for one another must save."""

USUAL_SPREAD = 0.16
"""Variance of the scores of a model that the store does not know."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Say what is known of a data set beforehand. past: models with scores in the store. mean: of their scores."""

    n_items: int
    letters: float = 0.0
    past: int = 0
    mean: float | None = None


@dataclass(frozen=True, slots=True)
class Outlook:
    pools: Mapping[str, Pool]
    means: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """Hold one run in the order of work. after: the runs, by number, that it waits for and learns from.

    alone: calls expected of it if it knew of no other run of the fleet. usd: None where the price is not known. most:
    calls that it cannot exceed; None where draws have no end.
    """

    entry: Entry
    after: tuple[int, ...]
    calls: int
    alone: int
    usd: float | None
    most: int | None


def scheduled(fleet: Fleet, outlook: Outlook) -> tuple[Step, ...]:
    lines = [_line(fleet, data, outlook) for data in dict.fromkeys(entry.data for entry in fleet.entries)]
    turns = [step for turn in zip_longest(*lines) for step in turn if step is not None]
    return tuple(sorted(turns, key=lambda step: -step.entry.priority))


def _line(fleet: Fleet, data: str, outlook: Outlook) -> list[Step]:
    entries = [entry for entry in fleet.entries if entry.data == data]
    first = sorted(entries, key=lambda entry: (-entry.priority, not entry.is_mean, -_spread(entry, outlook)))
    width = fleet.together or (1 if _waiting_pays(first, outlook) else len(first))
    steps = []
    for place, entry in enumerate(first):
        before = first[: place // width * width]
        steps.append(_step(entry, before if entry.learns else (), outlook))
    return steps


def _waiting_pays(entries: Sequence[Entry], outlook: Outlook) -> bool:
    alone = sum(expected_calls(entry, outlook, 0) for entry in entries)
    waiting = sum(
        expected_calls(entry, outlook, place if entry.learns else 0) for place, entry in enumerate(entries)
    )
    return waiting < (1 - WORTH_WAITING) * alone


def _step(entry: Entry, before: Sequence[Entry], outlook: Outlook) -> Step:
    teachers = len({model for one in before for model in one.models} - set(entry.models))
    calls = expected_calls(entry, outlook, teachers)
    price = _price(entry, outlook)
    return Step(
        entry,
        after=tuple(one.number for one in before),
        calls=calls,
        alone=expected_calls(entry, outlook, 0),
        usd=None if price is None else calls * price,
        # Draws with replacement have no end.
        most=None if entry.settings.get("target") == "expected" else most_calls(entry, outlook),
    )


def _spread(entry: Entry, outlook: Outlook) -> float:
    means = [outlook.means.get(model) for model in entry.models]
    return max(USUAL_SPREAD if mean is None else mean * (1 - mean) for mean in means)


def expected_calls(entry: Entry, outlook: Outlook, teachers: int) -> int:
    """Forecast the calls of a run that learns from so many models of the fleet, and from those in the store.

    At worst all questions, for goals that no forecast is known for.

    >>> entry = Entry(0, ({"model": "m"},), "d", {"goal": "estimate", "eps": 0.05})
    >>> alone, taught = (expected_calls(entry, Outlook({"d": Pool(1000)}), number) for number in (0, 10))
    >>> taught < alone < 1000
    True
    """
    pool = outlook.pools[entry.data]
    known = (pool.past if entry.learns else 0) + teachers
    scenario = Scenario(
        pool.n_items,
        confidence=float(entry.settings.get("confidence", 0.95)),
        mean=outlook.means.get(entry.models[0], outlook.pools[entry.data].mean),
        explained=WELL_KNOWN * known / (known + HALF_KNOWN) if known else None,
    )
    results, most = _forecast(entry, scenario), most_calls(entry, outlook)
    return most if results is None else min(results * samples_of(entry), most)


def most_calls(entry: Entry, outlook: Outlook) -> int:
    every = len(entry.models) * outlook.pools[entry.data].n_items * samples_of(entry)
    budget = own_budget(entry)
    return every if budget is None else min(every, budget)


def own_budget(entry: Entry) -> int | None:
    """Return the calls that a run may make by its own settings; those of a comparison count items, put to both."""
    budget = entry.settings.get("max_calls")
    each = len(entry.models) if kind_for(str(entry.goal["goal"])).asks == "two" else 1
    return None if budget is None else int(budget) * each


def samples_of(entry: Entry) -> int:
    return Samples.wanted(entry.settings).count


def _forecast(entry: Entry, scenario: Scenario) -> int | None:
    name = entry.goal["goal"]
    if name in ("estimate", "macro"):
        rows = plan_estimate(scenario, float(entry.goal["eps"])).forecasts
    elif name == "threshold" and scenario.mean not in (None, entry.goal["value"]):
        rows = plan_threshold(scenario, float(entry.goal["value"])).forecasts
    else:
        return None
    wanted = "active" if scenario.explained else "uniform"
    return next((row.calls for row in rows if row.method == wanted), None)


def _price(entry: Entry, outlook: Outlook) -> float | None:
    """Dollars for one call, from the length of the questions; None where the price is not known."""
    first = entry.asked[0]
    per_in, per_out = first.options.get("price_in"), first.options.get("price_out")
    name = first.model_name
    if per_in is not None or per_out is not None:
        price: Price | None = FlatPrice(per_in or 0.0, per_out or 0.0)
    elif name.startswith(("openai/", "any/")) or provider_of(name) is not None:
        (provider, _, rest), address = name.removeprefix("any/").partition("/"), first.options.get("base_url")
        batch = bool(entry.settings.get("batch"))
        price = list_price(rest, "" if address else provider, url=address or "", batch=batch)
    else:
        return 0.0
    tokens = int(outlook.pools[entry.data].letters / LETTERS_PER_TOKEN)
    longest = Settings(max_tokens=first.options.get("max_tokens")).max_tokens
    return None if price is None else price.cost(Tokens(tokens, longest or USUAL_ANSWER))
