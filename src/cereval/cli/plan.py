"""Forecast how many calls a goal will take, and what they will cost, before the first one is made: `cereval plan`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import click

from cereval.arrays import Floats
from cereval.cli.options import JSON, WEIGHTING, apply, check_price
from cereval.cli.output import print_json, print_table
from cereval.datasets.formats import read_rows
from cereval.datasets.tables import read_column, read_ids, read_items
from cereval.datasets.weights import check_one, is_table, mix_notes, mixed, weights_of_items
from cereval.errors import InvalidInput
from cereval.forecasts.pool import Pool
from cereval.methods.registry import METHODS
from cereval.models.prices import HIGHEST, ListPrice, Tokens, price_of
from cereval.runner.limits import UNLIMITED
from cereval.stats.planning import (
    GoalForecast,
    MethodForecast,
    Scenario,
    certified_methods,
    deadline_draws,
    eps_bought,
    plan_estimate,
    plan_threshold,
)
from cereval.stats.weights import Shift, shift_of, weighted_calls
from cereval.text import money, percent, rounded

TOKENS = "500,256"
LONGEST_COUNT = 100
"""Digits of a number of questions: Python refuses to read thousands of them."""


@click.command()
@click.option(
    "--items", metavar="N|FILE", help="Number of questions, or a file of them for --weights or --mix."
)
@click.option("--eps", type=float, help="Half-width of the interval wanted.  [default: 0.02]")
@click.option(
    "--threshold", "--at-least", type=float, metavar="C", help="Or: is the mean at least C? Needs --mean."
)
@click.option(
    "--confidence",
    type=float,
    default=0.95,
    show_default=True,
    help="Probability with which the answer holds, at least.",
)
@click.option("--mean", type=float, metavar="P", help="The mean expected of 0/1 scores.")
@click.option(
    "--variance", type=float, metavar="V", help="Or the variance expected of any scores.  [default: 0.25]"
)
@click.option(
    "--explained", type=float, metavar="SHARE", help="Share of the variance that past models' scores explain."
)
@click.option(
    "--groups", metavar="MASS:VARIANCE,...", help="Known groups of the items, for the paper's Algorithm 2."
)
@click.option(
    "--target",
    type=click.Choice(["benchmark", "population", "expected"]),
    default="benchmark",
    show_default=True,
)
@apply(WEIGHTING)
@click.option("--price", type=float, metavar="USD", help="Price of one call.")
@click.option(
    "--model", metavar="PROVIDER/NAME", help="Or: the price by the list of prices, at --tokens a call."
)
@click.option(
    "--tokens",
    metavar="IN,OUT",
    help=f"Tokens of a question and an answer, with --model.  [default: {TOKENS}]",
)
@click.option(
    "--usd",
    type=float,
    metavar="USD",
    help="Instead of --eps: how near does so much money come, live and by batch? Needs --price or --model.",
)
@JSON
def plan(
    price: float | None, model: str | None, tokens: str | None, usd: float | None, as_json: bool, **flags: Any
) -> int:
    """Plan an evaluation: the calls to expect from each method, with the paper's bounds beside them.

    Rows marked `measured` are approximations fitted to replays, `exact` follows from the method's definition. Limits of
    theory, which no method is promised to reach, are below the table.
    """
    check_price(price)
    prices = _prices(price, model, tokens)
    if usd is not None:
        return _print_what_money_buys(usd, prices, flags, as_json)
    price, mix = prices.live, flags.pop("mix")
    size, weights = _pool(flags.pop("items"), flags.pop("weights"), mix)
    outlook, shift = _outlook(size, **flags), None
    if weights is not None:
        outlook, shift = _weighted(outlook, weights)
    facts = _facts(outlook, flags["threshold"], price, shift)
    plain = flags["threshold"] is None and shift is None
    facts["frontier"] = frontier = [
        one._asdict() for one in (_frontier(outlook.scenario, prices) if plain else ())
    ]
    if as_json:
        print_json(facts)
    else:
        _print_for_people(facts, shift, priced=price is not None)
        if frontier and price is not None:
            _print_frontier(frontier, prices)
        for note in mix_notes(mix):
            click.echo(note, err=True)
    return 0


class Prices(NamedTuple):
    """What one call costs; None: not known. source: who says so."""

    live: float | None
    batch: float | None
    source: str


def _prices(price: float | None, model: str | None, tokens: str | None) -> Prices:
    if model is None:
        if tokens is not None:
            raise InvalidInput("--tokens", "left out without --model", tokens)
        half = None if price is None else price / 2
        return Prices(price, half, "half by batch is what providers usually take")
    if price is not None:
        raise InvalidInput("--price", "left out where --model is given", price)
    counts = (tokens or TOKENS).split(",")
    if len(counts) != 2 or not all(one.isdecimal() and len(one) < 10 for one in counts):
        raise InvalidInput("--tokens", "two whole numbers such as 500,256", tokens)
    usage, found = Tokens(*map(int, counts)), price_of(model)
    if found is None or (live := found.cost(usage)) is None:
        raise InvalidInput("--model", "one whose price is known (or give --price)", model)
    batch = replace(found, batch=True) if isinstance(found, ListPrice) else None
    half = batch.cost(usage) if batch is not None and batch.has_batch_price else None
    return Prices(live, half, f"{found.source}, {counts[0]} tokens in and {counts[1]} out")


def _print_what_money_buys(usd: float, prices: Prices, flags: Mapping[str, Any], as_json: bool) -> int:
    if prices.live is None:
        raise InvalidInput("--usd", "given with --price or --model", usd)
    if not 0 < usd <= HIGHEST:
        raise InvalidInput("--usd", f"a number > 0 and at most {HIGHEST:g}", usd)
    for name in ("eps", "threshold", "groups", "weights", "mix"):
        if flags[name] is not None:
            raise InvalidInput(f"--{name}", "left out where --usd is given", flags[name])
    size, _ = _pool(flags["items"], None, None)
    names = ("confidence", "mean", "variance", "explained", "target")
    scenario = Scenario(size, **{name: flags[name] for name in names})
    money_buys = [*_buys("live", scenario, usd, prices.live), *_buys("batch", scenario, usd, prices.batch)]
    facts = {
        "n_items": size,
        **{name: getattr(scenario, name) for name in ("target", "confidence", "mean", "explained")},
        "variance": scenario.variance_or_worst,
        "usd": usd,
        "price_usd": prices.live,
        "batch_usd": prices.batch,
        "priced_by": prices.source,
        "buys": [one._asdict() for one in money_buys],
    }
    if as_json:
        print_json(facts)
        return 0
    click.echo(f"{percent(scenario.confidence)} confidence for at most {money(usd)}; {_pool_words(**facts)}")
    click.echo(f"a call costs {money(prices.live)} live, {money(prices.batch)} by batch ({prices.source})")
    rows = [
        [one.way, one.method, f"{one.calls:,}", _precision(one.eps), money(one.cost_usd)]
        for one in money_buys
    ]
    print_table(rows, ["way", "method", "calls", "precision", "cost"], numbers=(2, 3, 4))
    command = f"cereval run DATA --model MODEL --max-usd {usd:g} --eps auto"
    click.echo(f"`{command}` comes as near as the money allows")
    return 0


class Bought(NamedTuple):
    """What an amount of money buys: calls, and the half-width that they are expected to reach."""

    way: str
    method: str
    calls: int
    eps: float
    cost_usd: float


def _buys(way: str, scenario: Scenario, usd: float, price: float | None) -> Iterator[Bought]:
    if price is None:
        return
    most = UNLIMITED if scenario.target == "expected" else scenario.size
    calls = int(min(usd / price, most)) if price else most
    for method, explained in certified_methods(scenario):
        yield Bought(way, method, calls, eps_bought(scenario, calls, explained), calls * price)


LADDER = (0.05, 0.03, 0.02, 0.01, 0.005)
"""Half-widths that people ask for."""


class Precision(NamedTuple):
    """What a half-width is expected to take: calls, and money live and by batch; None: not known, or out of reach."""

    eps: float
    calls: int | None
    live_usd: float | None
    batch_usd: float | None


def _frontier(scenario: Scenario, prices: Prices) -> Iterator[Precision]:
    _, explained = certified_methods(scenario)[-1]
    variance = scenario.variance_or_worst * (1 - explained)
    for eps in LADDER:
        calls = scenario.calls(deadline_draws(variance, scenario.skew, eps, scenario.delta))
        costs = [
            None if calls is None or each is None else calls * each for each in (prices.live, prices.batch)
        ]
        yield Precision(eps, calls, *costs)


def _print_frontier(frontier: Sequence[Mapping[str, Any]], prices: Prices) -> None:
    rows = [
        [
            f"±{percent(one['eps'])}",
            "too few questions" if one["calls"] is None else f"~{one['calls']:,}",
            money(one["live_usd"]),
            money(one["batch_usd"]),
        ]
        for one in frontier
    ]
    click.echo(f"what precision costs ({prices.source}):")
    print_table(rows, ["precision", "calls", "live", "by batch"], numbers=(0, 1, 2, 3))


def _precision(eps: float) -> str:
    return "exact" if not eps else "none" if eps >= 0.5 else f"~±{rounded(eps, 2)}"


def _pool(items: str | None, weights: str | None, mix: str | None) -> tuple[int, Floats | None]:
    """Count the questions, and read their weights in the target, if they differ."""
    check_one(weights, mix)
    file = items if items is not None and is_table(items) else None
    if file is None and (mix is not None or (weights is not None and not is_table(weights))):
        raise InvalidInput("--items", "a file of the questions for a --mix, or a --weights COLUMN", items)
    if weights is not None:
        ids = read_ids(file or weights)
        if file is None and items is not None and _count(items) != len(ids):
            raise InvalidInput("--items", f"the {len(ids)} of the weights, or left out", items)
        return len(ids), weights_of_items(weights, ids, lambda name: read_column(str(file), name, ids))
    if file is None:
        return _count(items), None
    if mix is None:
        return len(read_rows(Path(file))), None
    categories = read_items(file).categories
    return len(categories or ()), mixed(mix, categories)


def _count(items: str | None) -> int:
    if items is None or not items.isdecimal() or len(items) > LONGEST_COUNT:
        raise InvalidInput("--items", "a whole number >= 1, or a file of the questions", items)
    return int(items)


def _weighted(outlook: GoalForecast, weights: Floats) -> tuple[GoalForecast, Shift]:
    """Keep the forecasts of the methods that know weights, with draws in proportion to them."""
    scenario, shares = outlook.scenario, Pool.build(len(weights), weights=weights).shares()
    if scenario.target != "benchmark":
        raise InvalidInput("--target", "benchmark when weights are given", scenario.target)
    rows = tuple(
        replace(row, calls=weighted_calls(shares, row.needed), remark=f"weighted; {row.remark}")
        for row in outlook.forecasts
        if row.method in ("normal", "uniform", "active")
    )
    shift = shift_of(shares, outlook.eps, scenario.delta, scenario.variance_or_worst)
    others = ("static:", "seq:", "oracle:", "hoeffding:")
    warnings = tuple(one for one in outlook.warnings if not one.startswith(others))
    return replace(outlook, forecasts=rows, warnings=warnings), shift


def _outlook(
    size: int, eps: float | None, threshold: float | None, groups: str | None, **expected: Any
) -> GoalForecast:
    scenario = Scenario(size, groups=() if groups is None else parsed_groups(groups), **expected)
    if threshold is None:
        return plan_estimate(scenario, 0.02 if eps is None else eps)
    if eps is not None:
        raise InvalidInput("--eps", "left out when --threshold is given", eps)
    return plan_threshold(scenario, threshold)


def parsed_groups(text: str) -> tuple[tuple[float, float], ...]:
    """Read groups as a user types them.

    >>> parsed_groups("0.5:0.02,0.5:0.2")
    ((0.5, 0.02), (0.5, 0.2))
    """
    try:
        pairs = [tuple(map(float, part.split(":"))) for part in text.split(",")]
        return tuple((mass, variance) for mass, variance in pairs)
    except ValueError:
        raise InvalidInput("--groups", "mass:variance pairs such as 0.5:0.02,0.5:0.2", text) from None


def _facts(
    outlook: GoalForecast, threshold: float | None, price: float | None, shift: Shift | None
) -> dict[str, Any]:
    scenario, groups = outlook.scenario, outlook.partition
    return {
        "n_items": scenario.size,
        "target": scenario.target,
        "confidence": scenario.confidence,
        "eps": outlook.eps if threshold is None else None,
        "threshold": threshold,
        "mean": scenario.mean,
        "variance": scenario.variance_or_worst,
        "explained": scenario.explained,
        "methods": [
            _method(
                row,
                scenario.size,
                price,
                _command(row.method, scenario, outlook.eps, threshold, shift is not None),
            )
            for row in outlook.forecasts
        ],
        "bounds": asdict(outlook.bounds),
        "partition": groups and {**asdict(groups), "benign": groups.benign},
        "warnings": list(outlook.warnings),
        "weights": shift and {**asdict(shift), "extreme": shift.extreme, "warning": shift.warning},
    }


def _command(
    method: str, scenario: Scenario, eps: float, threshold: float | None, weighted: bool
) -> str | None:
    """Return the command that a row forecasts; None for the limits, which no method is promised to reach."""
    if method not in METHODS or scenario.target not in getattr(
        METHODS[method], "targets", (scenario.target,)
    ):
        return None
    goal = f"--eps {eps:g}" if threshold is None else f"--at-least {threshold:g}"
    target = "" if scenario.target == "benchmark" else f" --target {scenario.target}"
    sure = "" if scenario.confidence == 0.95 else f" --confidence {scenario.confidence:g}"
    shares = " --weights FILE" if weighted else ""
    return f"cereval run DATA --model MODEL {goal}{target}{sure}{shares} --method {method}"


def _method(row: MethodForecast, size: int, price: float | None, command: str | None) -> dict[str, Any]:
    cost = None if price is None or row.calls is None else row.calls * price
    return {**asdict(row), "saved": row.saved(size), "cost_usd": cost, "command": command}


def _print_for_people(facts: Mapping[str, Any], shift: Shift | None, *, priced: bool) -> None:
    click.echo(_question(**facts))
    methods = [row for row in facts["methods"] if row["command"] is not None]
    best = min(methods, key=lambda row: row["calls"] or row["needed"])
    click.echo(f"about {best['calls'] or best['needed']:,} calls: `{best['command']}`")
    cost = ["cost"] if priced else []
    header = ["method", "calls", "saved", *cost, "guarantee", "basis", "remark"]
    rows = [[_cell(row, name) for name in header] for row in methods]
    print_table(rows, header, numbers=(1, 2, 3) if priced else (1, 2))
    limits = [row for row in facts["methods"] if row["command"] is None]
    if limits:
        told = ", ".join(f"{row['method']} {_cell(row, 'calls')} ({row['remark']})" for row in limits)
        click.echo(f"for comparison, not to be run: {told}")
    for line in _bounds(facts["bounds"], facts["partition"]):
        click.echo(line)
    for warning in facts["warnings"]:
        click.echo(f"warning: {warning}", err=True)
    if shift is not None:
        click.echo(f"{shift.note}; about {shift.calls_without:,} calls without weights")
        if shift.warning is not None:
            click.echo(f"warning: {shift.warning}", err=True)


def _question(
    n_items: int, target: str, confidence: float, threshold: float | None, mean: float | None, **facts: Any
) -> str:
    if threshold is None:
        goal = f"that the mean is known within ±{percent(facts['eps'])}"
    else:
        goal = f"whether the mean is at least {percent(threshold)}"
    return f"{percent(confidence)} confidence {goal}; {_pool_words(n_items, target, mean, **facts)}"


def _pool_words(n_items: int, target: str, mean: float | None, variance: float, **_: Any) -> str:
    expected = "" if mean is None else f"expected mean {percent(mean)}, "
    return f"{n_items:,} questions, target {target}; {expected}variance {variance:g}"


def _cell(row: Mapping[str, Any], name: str) -> str:
    if name == "calls":
        about = "~" if row["basis"] != "exact" else ""
        return f"needs {row['needed']:,}" if row["calls"] is None else f"{about}{row['calls']:,}"
    if name == "saved":
        return "" if row["saved"] is None else f"{row['saved']:.1%}"
    if name == "cost":
        return "" if row["cost_usd"] is None else f"${row['cost_usd']:,.2f}"
    return str(row[name])


def _bounds(bounds: Mapping[str, Any], groups: Mapping[str, Any] | None) -> Iterator[str]:
    yield (
        f"paper, theorem 4.2 (eps = {bounds['eps']:g}): Seq stops at {bounds['stopping_time']:,}; upper bound "
        f"{round(bounds['upper']):,}; lower bound of order {round(bounds['order']):,} (constant unknown)"
    )
    if groups is not None:
        kind = "benign" if groups["benign"] else "not benign: no saving promised"
        yield f"paper, theorem 5.2: share of Seq's items of order {groups['rho']:.3g} (groups {kind})"
