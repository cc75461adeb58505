"""Find out before a run what a scorer's metrics say of its scores: which parts they have, and whether they are a mean.

Metrics are functions that cost nothing: they are tried on made-up scores of a few of the task's own samples.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from math import isclose
from typing import Any

from inspect_ai._util.registry import registry_unqualified_name
from inspect_ai.scorer import SampleScore, Score

from cereval.errors import InvalidInput, Misuse
from cereval.integrations.inspect.scores import several
from cereval.integrations.logs.inspect_ai import number_in

MEAN = "mean"
SPREADS = {"stderr", "std", "var", "bootstrap_stderr", "bootstrap_std"}
"""Metrics that say how sure another one is."""

MADE_UP: Sequence[Sequence[Sequence[Any]]] = (
    ((1, 0, 1, 1, 0, 1, 0, 0), (1.0, 0.2, 0.75, 0.4, 0.0, 0.9, 0.35, 0.5)),
    (("C", "I", "C", "P", "I", "C", "N", "C"), ("I", "I", "C", "N", "I", "P", "I", "C")),
)
"""Scores to try a metric on: numbers, or grades; whoever reads neither has no mean that we know."""


def check_measure(
    scorer: str, metrics: Any, value: str | None, metric: str | None, about: Sequence[Any]
) -> None:
    """Refuse what would not be the mean that the task itself reports.

    value: the part of the scores that is wanted. metric: the metric that is; `mean`: the mean, whatever the metrics
    are. about: the metadata of some samples.
    """
    parts = dict(_parts(metrics))
    if parts and value is None:
        raise several(scorer, parts)
    of_part = [one for name, own in parts.items() if fnmatchcase(value or "", name) for one in own]
    if parts and not of_part:
        raise InvalidInput("value", f"a score of {scorer}: {', '.join(parts)}", value)
    own = {registry_unqualified_name(one): one for one in of_part or _plain(metrics)}
    named = [name for name in own if name not in SPREADS]
    if metric is not None and metric not in (MEAN, *named):
        raise InvalidInput("metric", "one of " + ", ".join(dict.fromkeys([*named, MEAN])), metric)
    wanted = metric or next(iter(named), None)
    if wanted in own and not is_mean(own[wanted], about):
        raise Misuse(
            f"{scorer}'s metric {wanted} is not the mean of its scores, and only a mean can be certified: "
            f"with metric={MEAN} (on the command line -T cereval_metric={MEAN}) it is the mean score instead"
        )


def _parts(metrics: Any) -> Iterator[tuple[str, list[Any]]]:
    """List the parts of a score that metrics are declared for; such a score has parts and nothing else."""
    for one in metrics if isinstance(metrics, Sequence) else [metrics]:
        if isinstance(one, Mapping):
            yield from ((str(name), list(own)) for name, own in one.items())


def _plain(metrics: Any) -> list[Any]:
    return [one for one in metrics if not isinstance(one, Mapping)] if isinstance(metrics, Sequence) else []


def is_mean(metric: Any, about: Sequence[Any]) -> bool:
    """Tell whether a metric is the mean of the scores, as a number or as one of several that it gives."""
    return any(all(_is_mean_of(metric, values, about) for values in kind) for kind in MADE_UP)


def _is_mean_of(metric: Any, values: Sequence[Any], about: Sequence[Any]) -> bool:
    made_up = [
        SampleScore(
            score=Score(value=value),
            sample_id=str(number),
            sample_metadata=about[number % len(about)] if about else None,
        )
        for number, value in enumerate(values)
    ]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = metric(made_up)
    except Exception:
        return False  # it needs what only a real run has
    mean = sum(number_in(value) or 0.0 for value in values) / len(values)
    given = found.values() if isinstance(found, Mapping) else [found]
    return any(isinstance(one, int | float) and isclose(one, mean, rel_tol=1e-9) for one in given)
