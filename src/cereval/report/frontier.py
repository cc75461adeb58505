"""What precision costs: the half-width of a run over its calls and money, and what nearer ones are expected to take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Literal, NamedTuple

from cereval.models.prices import ListPrice, Tokens, list_price, price_of
from cereval.plan import Plan
from cereval.records import Result, Table
from cereval.report import svg
from cereval.report.story import Asked, Story
from cereval.stats.planning import Scenario, deadline_draws, eps_bought
from cereval.text import money, rounded

LADDER = (0.1, 0.05, 0.03, 0.02, 0.01, 0.005)
"""Half-widths that people ask for."""
FARTHER = 2
"""Steps of the ladder on either side of what the run has reached."""
LEAST = 20
"""Results from which on a forecast is worth a picture."""
POINTS = 60


class Reached(NamedTuple):
    """A half-width, and the calls that it took or is expected to take."""

    eps: float
    calls: int


class CallPrice(NamedTuple):
    """What a call costs in USD, live and by batch; None: not known."""

    live: float | None
    batch: float | None


def precision_costs(story: Story) -> tuple[dict[str, str], Table] | None:
    """Return the pictures and the table; None for a run that has no forecast."""
    result, plan = story.result, story.plan
    taken = [Reached((step.upper - step.lower) / 2, step.calls) for step in story.steps if step.calls]
    known = isinstance(result, Result) and result.guarantee == "anytime" and result.target != "population"
    if plan is None or not known or len(taken) < LEAST or not taken[-1].eps:
        return None
    assert isinstance(result, Result)
    scenario, last = _scenario(plan, result), taken[-1]
    most = 4 * last.calls if scenario.target == "expected" else plan.n_items
    if last.calls >= most:
        return None
    scale = last.eps / eps_bought(scenario, last.calls)
    places = sorted({max(round(most * (number / POINTS) ** 2), 1) for number in range(1, POINTS + 1)})
    expected = [Reached(scale * eps_bought(scenario, calls), calls) for calls in places]
    price = _call_price(story, plan)
    pictures = {
        name: svg.frontier(taken, expected, width, price.live or price.batch)
        for name, width in (("wide", 720), ("narrow", 340))
    }
    rows = [
        _row(one, price, is_expected=one is not last)
        for one in sorted([last, *_ladder(scenario, last, scale)])
    ]
    header = ("precision", "calls", "cost", "by batch")
    columns = 4 if price.batch else 3 if price.live else 2
    return pictures, Table(header[:columns], [row[:columns] for row in rows[::-1]], numbers=(0, 1, 2, 3))


def _scenario(plan: Plan, result: Result) -> Scenario:
    target: Literal["expected", "benchmark"] = "expected" if plan.target == "expected" else "benchmark"
    return Scenario(plan.n_items, mean=result.estimate, confidence=plan.confidence, target=target)


def _ladder(scenario: Scenario, last: Reached, scale: float) -> Iterator[Reached]:
    """Return what new runs are expected to take, in the proportion of what this one took to its own forecast."""
    near = [eps for eps in LADDER if eps > last.eps and rounded(eps) != rounded(last.eps)][-FARTHER:]
    for eps in (
        *near,
        *[eps for eps in LADDER if eps < last.eps and rounded(eps) != rounded(last.eps)][:FARTHER],
    ):
        draws = deadline_draws(scenario.variance_or_worst, scenario.skew, eps / scale, scenario.delta)
        calls = scenario.calls(draws)
        if calls is not None:
            yield Reached(eps, calls)


def _row(one: Reached, price: CallPrice, *, is_expected: bool) -> list[str]:
    about = "~" if is_expected else ""
    costs = [None if each is None else one.calls * each for each in price]
    return [f"±{rounded(one.eps)}", f"{about}{one.calls:,}", *(f"{about}{money(cost)}" for cost in costs)]


def _call_price(story: Story, plan: Plan) -> CallPrice:
    """Return what an answer cost here, and what it would by batch (or live) at the list's prices."""
    answers = [one.answer for one in story.asked if one.answer is not None]
    costs = [answer.cost_usd for answer in answers]
    if not answers or None in costs or not any(costs):
        return CallPrice(None, None)
    each = sum(cost for cost in costs if cost is not None) / len(answers)
    candidate = plan.candidates[0]
    other = _batch_share(candidate["model"], candidate["base_url"], story.asked)
    by_batch = story.run is not None and str(story.run.summary.get("priced_by")).endswith(", batch")
    if other is None or plan.judges:
        return CallPrice(None, each) if by_batch else CallPrice(each, None)
    return CallPrice(each / other, each) if by_batch else CallPrice(each, each * other)


def _batch_share(model: str, address: str | None, asked: Sequence[Asked]) -> float | None:
    """Return the price of a call by batch as a share of the live one; None where the list does not know it."""
    price = list_price(model.partition("/")[2], url=address) if address else price_of(model)
    answers = [one.answer for one in asked if one.answer is not None]
    usage = Tokens(
        round(fmean(one.input_tokens for one in answers)), round(fmean(one.output_tokens for one in answers))
    )
    if not isinstance(price, ListPrice) or not price.has_batch_price:
        return None
    live, batch = price.cost(usage), replace(price, batch=True).cost(usage)
    return batch / live if live and batch else None
