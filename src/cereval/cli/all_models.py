"""`cereval replay --all-models`: the table that decides whether to adopt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from cereval.cli.output import print_json, print_table
from cereval.errors import InvalidInput

if TYPE_CHECKING:
    from cereval.experiments.leave_one_out import Saving

ONE_MODEL_ONLY = ("threshold", "method", "target", "batch", "budget", "store", "weights", "mix")
ALL_MODELS_ONLY = ("seeds", "price", "output", "jobs")


def check_flags(context: click.Context, *, all_models: bool) -> None:
    """Refuses flags that would be ignored."""
    for name in ONE_MODEL_ONLY if all_models else ALL_MODELS_ONLY:
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            value = context.params.get(name)
            raise InvalidInput(
                f"--{name}", f"given {'without' if all_models else 'with'} --all-models", value
            )


def replay_all(scores: str, flags: Mapping[str, Any], as_json: bool) -> int:
    """Every model, with all the others as history; prints the table or one JSON object."""
    from cereval.experiments.leave_one_out import total
    from cereval.goals.estimate import in_open_unit_interval
    from cereval.sessions.base import whole

    if set(flags["history"]) - {"others"}:
        raise InvalidInput("--history", "`others` (the default) with --all-models", flags["history"][0])
    price = flags["price"]
    if price is not None and not 0 <= price < float("inf"):
        raise InvalidInput("--price", "a number >= 0", price)
    in_open_unit_interval("confidence", flags["confidence"])
    whole("seed", flags["seed"], 0)
    parts = _savings(Path(scores), flags, quiet=as_json)
    sum_of_all = total(parts)
    delta = 1 - flags["confidence"]
    if as_json:
        print_json(_as_dict(parts, sum_of_all, delta, price))
    else:
        _print_for_people(parts, sum_of_all, delta, price)
    return 0


def _savings(scores: Path, flags: Mapping[str, Any], quiet: bool) -> list[Saving]:
    from cereval.experiments.leave_one_out import LeaveOneOut, leave_one_out
    from cereval.goals import Estimate

    eps = Estimate().eps if flags["eps"] is None else Estimate(flags["eps"]).eps
    seeds = tuple(range(flags["seed"], flags["seed"] + flags["seeds"]))
    with TemporaryDirectory() as folder:
        features = _features(scores, flags, Path(folder))
        plan = LeaveOneOut(scores, eps, flags["confidence"], seeds, features)
        memory = Path(flags["output"]) if flags["output"] else Path(folder) / "rows.csv"
        return leave_one_out(plan, memory, jobs=flags["jobs"], quiet=quiet)


def _features(scores: Path, flags: Mapping[str, Any], folder: Path) -> Path | None:
    from cereval.cli.side_information import embedded, grouped, known_items
    from cereval.datasets.tables import read_scores
    from cereval.experiments.leave_one_out import save_features

    known = known_items(flags["items"], read_scores(scores).items)
    groups, vectors = grouped(known, flags["groups"]), embedded(known, flags["embeddings"], "auto")
    return save_features(folder / "features.npz", groups, vectors)


def _as_dict(parts: Sequence[Saving], whole: Saving, delta: float, price: float | None) -> dict[str, Any]:
    from cereval.experiments.leave_one_out import most_misses

    return {
        "models": [_with_money(one, price) for one in parts],
        "total": _with_money(whole, price),
        "miss_rate": whole.misses / whole.runs,
        "most_misses": most_misses(whole.runs, delta),
    }


def _with_money(one: Saving, price: float | None) -> dict[str, Any]:
    money = {} if price is None else {"cost_usd": price * one.auto, "saved_usd": price * one.saved}
    return {**one.as_dict(), **money}


def _print_for_people(parts: Sequence[Saving], whole: Saving, delta: float, price: float | None) -> None:
    from cereval.experiments.leave_one_out import most_misses

    saved = ["saved"] if price is None else ["cost", "saved"]
    header = ["model", "all", "uniform", "auto", "ratio", *saved, "", "miss"]
    rows = [_row(one, price) for one in (*parts, whole)]
    print_table(rows, header, numbers=range(1, len(header)), names=(0,))
    bound = most_misses(whole.runs, delta)
    click.echo(
        "Calls for all items, for uniform draws, and for auto with the other models as history; "
        "ratio = auto / uniform; saved = all - auto."
    )
    click.echo(
        f"{whole.misses} of {whole.runs} intervals miss the truth; "
        f"at {1 - delta:.3g} confidence up to {bound} are to be expected"
    )


def _row(one: Saving, price: float | None) -> list[str]:
    calls = [f"{value:,.0f}" for value in (one.items, one.uniform, one.auto)]
    saved = [f"{one.saved:,.0f}"]
    if price is not None:
        saved = [f"${price * one.auto:,.2f}", f"${price * one.saved:,.2f}"]
    return [
        one.model,
        *calls,
        f"{one.ratio:.2f}",
        *saved,
        f"{one.saved / one.items:.1%}",
        f"{one.misses}/{one.runs}",
    ]
