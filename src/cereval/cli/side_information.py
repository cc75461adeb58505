"""Flags into arrays: what a replay may know of its items before the model is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from cereval.datasets.tables import ItemsTable, ScoresTable, read_items, read_scores
from cereval.errors import InvalidInput, shown

LEARNING_METHODS = ("auto", "active", "cer-eval")
"""The methods that look at embeddings; for the others no time is spent on making them."""


@dataclass(frozen=True, slots=True, eq=False)
class SideInformation:
    """The keywords of `replay` that describe the items, and notes on what was left out."""

    embeddings: NDArray[Any] | None = None
    groups: NDArray[Any] | None = None
    history: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()


def known_items(path: str | None, items: Sequence[str]) -> ItemsTable:
    """The items table in the order of the scores; empty without a file."""
    return ItemsTable(tuple(items), None, None) if path is None else read_items(path).aligned_to(items)


def embedded(known: ItemsTable, embedder: str | None, method: str) -> NDArray[Any] | None:
    """Vectors of the texts. Asking for them by name without texts is an error, `none` switches them off."""
    if known.texts is None and embedder not in (None, "none"):
        raise InvalidInput("--embeddings", "given with --items that have a column `text`", embedder)
    if known.texts is None or embedder == "none" or method not in LEARNING_METHODS:
        return None
    from cereval.items.embeddings import text_features

    if len(known.texts) > 2000:
        click.echo(f"embedding {len(known.texts):,} texts ({embedder or 'tfidf'}) ...", err=True)
    return text_features(known.texts, embedder or "tfidf")


def grouped(known: ItemsTable, groups: str | None) -> NDArray[Any] | None:
    """The categories as groups. Asking for them by name without categories is an error."""
    if known.categories is None and groups == "category":
        raise InvalidInput("--groups", "given with --items that have a column `category`", groups)
    return None if known.categories is None or groups == "none" else np.array(known.categories)


def past_scores(
    table: ScoresTable, model: str, wanted: Sequence[str], store: str | None = None, rival: str | None = None
) -> tuple[NDArray[np.float64] | None, list[str]]:
    """Items x past models from `others`, columns, other tables or the store; notes on what is unused.

    rival: a second model that is evaluated, and whose scores are not known beforehand either.
    """
    if store is not None and "store" not in wanted:
        raise InvalidInput("--store", "given with --history store", store)
    parts: list[NDArray[np.float64]] = []
    notes: list[str] = []
    for name in _split(table, wanted):
        if name == "others" and name not in table.models:
            parts.append(table.history([name for name in table.others(model) if name != rival]))
        elif name == "store" and name not in table.models:
            parts.append(_from_store(store, table.items, (model, rival), notes))
        elif name not in table.models and Path(name).suffix in (".csv", ".parquet"):
            parts.append(_from_file(name, table.items, (model, rival), notes))
        elif name in (model, rival):
            raise InvalidInput("--history", "columns other than the model's own", name)
        else:
            parts.append(table.history([name]))
    history = np.hstack(parts) if parts else None
    return (None if history is None or not history.shape[1] else history), notes


def _split(table: ScoresTable, wanted: Sequence[str]) -> list[str]:
    """Values of a repeatable flag, each a column, or several separated by commas."""
    names: list[str] = []
    for value in wanted:
        names += (
            [value] if value in table.models else [part.strip() for part in value.split(",") if part.strip()]
        )
    return names


def _from_file(
    path: str, items: Sequence[str], evaluated: Sequence[str | None], notes: list[str]
) -> NDArray[np.float64]:
    """The models of another table on our items, NaN where it lacks one; never those evaluated."""
    past = read_scores(path)
    for model in evaluated:
        if model in past.models:
            notes.append(
                f"history: the column {model!r} of {path} was left out, it bears the model's own name"
            )
    rows = {item: row for row, item in enumerate(past.items)}
    order = np.array([rows.get(item, -1) for item in items])
    if (order < 0).all():
        ids = f"its first item is {shown(past.items[0])}, that of the scores {shown(items[0])}"
        raise InvalidInput("--history", f"a table that shares items with the scores ({ids})", path)
    others = [name for name in past.models if name not in evaluated]
    if (order < 0).any():
        matched = int((order >= 0).sum())
        notes.append(f"history: {path} has {matched:,} of the {len(items):,} items")
    return np.where(order[:, None] < 0, np.nan, past.history(others)[order])


def _from_store(
    url: str | None, items: Sequence[str], evaluated: Sequence[str | None], notes: list[str]
) -> NDArray[np.float64]:
    from cereval.cli.store_history import stored_scores

    found = stored_scores(url, items, [model for model in evaluated if model is not None])
    notes.extend(found.notes)
    return found.scores
