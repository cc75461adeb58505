"""`cereval plan`: how many calls a goal will take, and what they will cost, before the first one is made."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.options import JSON, WEIGHTING, apply
from cereval.cli.output import print_json, print_table
from cereval.errors import InvalidInput
from cereval.text import percent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cereval.stats.planning import Forecast, Outlook
    from cereval.stats.shift import Shift

    Floats = NDArray[np.float64]


@click.command()
@click.option(
    "--items", metavar="N|FILE", help="Questions in the pool, or a file of them for --weights or --mix."
)
@click.option("--eps", type=float, help="The half-width wanted.  [default: 0.02]")
@click.option(
    "--threshold", "--at-least", type=float, metavar="C", help="Or: is the mean at least C? Needs --mean."
)
@click.option("--confidence", type=float, default=0.95, show_default=True)
@click.option("--mean", type=float, metavar="P", help="The mean expected of 0/1 scores.")
@click.option(
    "--variance", type=float, metavar="V", help="Or the variance expected of any scores.  [default: 0.25]"
)
@click.option(
    "--explained", type=float, metavar="SHARE", help="Share of the variance that past models' scores explain."
)
@click.option("--groups", metavar="MASS:VARIANCE,...", help="A known partition, for the paper's Algorithm 2.")
@click.option(
    "--target",
    type=click.Choice(["benchmark", "population", "expected"]),
    default="benchmark",
    show_default=True,
)
@apply(WEIGHTING)
@click.option("--price", type=float, metavar="USD", help="Price of one call.")
@JSON
def plan(price: float | None, as_json: bool, **flags: Any) -> int:
    """Plan an evaluation: the calls to expect from each method, with the paper's bounds beside them.

    Rows marked `measured` are approximations fitted to replays; `theory` is a limit that no method is
    promised to reach; `exact` follows from the method's definition.
    """
    from cereval.datasets.weighting import mix_notes
    if price is not None and not 0 <= price < float("inf"):
        raise InvalidInput("--price", "a number >= 0", price)
    mix = flags.pop("mix")
    size, shares = _pool(flags.pop("items"), flags.pop("weights"), mix)
    outlook, shift = _outlook(size, **flags), None
    if shares is not None:
        outlook, shift = _weighted(outlook, shares)
    if as_json:
        print_json({**_as_dict(outlook, flags["threshold"], price), "weights": _shift_dict(shift)})
    else:
        _print_for_people(outlook, flags["threshold"], price)
        _print_shift(shift)
        for note in mix_notes(mix):
            click.echo(note, err=True)
    return 0


def _pool(items: str | None, weights: str | None, mix: str | None) -> tuple[int, Floats | None]:
    """How many questions, and their weights in the target, if they differ."""
    from cereval.datasets.tables import read_column, read_ids, read_items
    from cereval.datasets.weighting import check_one, is_table, mixed, weights_of_items
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
        return len(read_ids(file)), None
    categories = read_items(file).categories
    return len(categories or ()), mixed(mix, categories)


def _count(items: str | None) -> int:
    if items is None or not items.isdecimal():
        raise InvalidInput("--items", "a whole number >= 1, or a file of the questions", items)
    return int(items)


def _weighted(outlook: Outlook, shares: Floats) -> tuple[Outlook, Shift]:
    """The forecasts of the methods that know weights, with draws in proportion to them."""
    from cereval.stats.shift import shift_of, weighted_calls

    scenario = outlook.scenario
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


def _shift_dict(shift: Shift | None) -> dict[str, Any] | None:
    if shift is None:
        return None
    return {**asdict(shift), "extreme": shift.extreme, "warning": shift.warning}


def _print_shift(shift: Shift | None) -> None:
    if shift is not None:
        click.echo(f"{shift.note}; about {shift.calls_without:,} calls without weights")
        if shift.warning is not None:
            click.echo(f"warning: {shift.warning}", err=True)


def _outlook(
    size: int, eps: float | None, threshold: float | None, groups: str | None, **expected: Any
) -> Outlook:
    from cereval.stats.planning import plan_estimate, plan_threshold
    from cereval.stats.scenario import Scenario

    scenario = Scenario(size, groups=() if groups is None else parsed_groups(groups), **expected)
    if threshold is None:
        return plan_estimate(scenario, 0.02 if eps is None else eps)
    if eps is not None:
        raise InvalidInput("--eps", "left out when --threshold is given", eps)
    return plan_threshold(scenario, threshold)


def parsed_groups(text: str) -> tuple[tuple[float, float], ...]:
    """Groups as a user types them.

    >>> parsed_groups("0.5:0.02,0.5:0.2")
    ((0.5, 0.02), (0.5, 0.2))
    """
    try:
        pairs = [tuple(map(float, part.split(":"))) for part in text.split(",")]
        return tuple((mass, variance) for mass, variance in pairs)
    except ValueError:
        raise InvalidInput("--groups", "mass:variance pairs such as 0.5:0.02,0.5:0.2", text) from None


def _as_dict(outlook: Outlook, threshold: float | None, price: float | None) -> dict[str, Any]:
    scenario = outlook.scenario
    return {
        "n_items": scenario.size,
        "target": scenario.target,
        "confidence": scenario.confidence,
        "eps": outlook.eps if threshold is None else None,
        "threshold": threshold,
        "mean": scenario.mean,
        "variance": scenario.variance_or_worst,
        "explained": scenario.explained,
        "methods": [_row_dict(row, scenario.size, price) for row in outlook.forecasts],
        "bounds": asdict(outlook.bounds),
        "partition": None if outlook.partition is None else _partition_dict(outlook),
        "warnings": list(outlook.warnings),
    }


def _row_dict(row: Forecast, size: int, price: float | None) -> dict[str, Any]:
    cost = None if price is None or row.calls is None else row.calls * price
    return {**asdict(row), "saved": row.saved(size), "cost_usd": cost}


def _partition_dict(outlook: Outlook) -> dict[str, Any]:
    assert outlook.partition is not None
    return {**asdict(outlook.partition), "benign": outlook.partition.benign}


def _print_for_people(outlook: Outlook, threshold: float | None, price: float | None) -> None:
    click.echo(_question(outlook, threshold))
    header = [
        "method",
        "calls",
        "saved",
        *(["cost"] if price is not None else []),
        "guarantee",
        "basis",
        "remark",
    ]
    rows = [_cells(row, outlook.scenario.size, price) for row in outlook.forecasts]
    print_table(rows, header, numbers=(1, 2) if price is None else (1, 2, 3))
    click.echo(_bounds(outlook))
    for warning in outlook.warnings:
        click.echo(f"warning: {warning}", err=True)


def _question(outlook: Outlook, threshold: float | None) -> str:
    scenario = outlook.scenario
    goal = f"that the mean is known within ±{percent(outlook.eps)}"
    if threshold is not None:
        goal = f"whether the mean is at least {percent(threshold)}"
    guess = f"variance {scenario.variance_or_worst:g}"
    if scenario.mean is not None:
        guess = f"expected mean {percent(scenario.mean)}, " + guess
    pool = f"{scenario.size:,} questions, target {scenario.target}"
    return f"{percent(scenario.confidence)} confidence {goal}; {pool}; {guess}"


def _cells(row: Forecast, size: int, price: float | None) -> list[str]:
    saved = row.saved(size)
    about = "~" if row.basis != "exact" else ""
    calls = f"needs {row.needed:,}" if row.calls is None else f"{about}{row.calls:,}"
    cost = [] if price is None else ["" if row.calls is None else f"${row.calls * price:,.2f}"]
    return [
        row.method,
        calls,
        "" if saved is None else f"{saved:.1%}",
        *cost,
        row.guarantee,
        row.basis,
        row.remark,
    ]


def _bounds(outlook: Outlook) -> str:
    bounds = outlook.bounds
    lines = [
        f"paper, theorem 4.2 (eps = {bounds.eps:g}): Seq stops at {bounds.stopping_time:,}; upper bound "
        f"{round(bounds.upper):,}; lower bound of order {round(bounds.order):,} (constant unknown)"
    ]
    if outlook.partition is not None:
        kind = "benign" if outlook.partition.benign else "not benign: no saving promised"
        lines.append(
            f"paper, theorem 5.2: share of Seq's items of order {outlook.partition.rho:.3g} (groups {kind})"
        )
    return "\n".join(lines)
