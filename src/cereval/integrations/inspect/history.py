"""Past logs of Inspect as history: what other models scored on the same samples, matched by content."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Any

import numpy as np
from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_samples
from numpy.typing import NDArray

from cereval.errors import BadFile, shown
from cereval.integrations.inspect.pool import content_of
from cereval.integrations.inspect.scores import number_of, part_of
from cereval.plan import digest_of

RECORD = "cereval_history_"
"""How the names begin under which a task's metadata says which logs were its history."""

UNREAD = {"messages", "events", "store", "attachments", "output"}
"""Parts of a sample that a score does not need."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class PastLog:
    """Hold the scores of one finished evaluation, by the number of the sample."""

    eval_id: str
    model: str
    scores: Mapping[int, float]


@dataclass(frozen=True, slots=True, eq=False)
class PastLogs:
    """Hold all of them that share samples with a task."""

    n_items: int
    logs: tuple[PastLog, ...] = ()
    read_at: float = field(default_factory=time)

    def noted(self) -> dict[str, Any]:
        """Find which logs were there, under a name of its own: a retry has this note beside the first attempt's."""
        names = sorted(one.eval_id for one in self.logs)
        return {RECORD + digest_of([names, self.read_at])[:12]: {"at": self.read_at, "evals": names}}

    def table(self, model: str, metadata: Mapping[str, Any]) -> tuple[list[str], NDArray[np.float64] | None]:
        """Return the logs of other models as columns; of an earlier attempt, those that were there when it began."""
        first = first_record(metadata)
        used = [one for one in self.logs if one.model != model and (first is None or one.eval_id in first)]
        if first is not None and len(lost := first - {one.eval_id for one in self.logs}):
            log.warning(
                f"cereval: {len(lost)} logs of the first attempt's history are gone: other draws follow"
            )
        if not used:
            return [], None
        table = np.full((self.n_items, len(used)), np.nan)
        for column, one in enumerate(used):
            table[list(one.scores), column] = list(one.scores.values())
        return [one.eval_id for one in used], table


def first_record(metadata: Mapping[str, Any]) -> set[str] | None:
    """Return the logs that the first attempt of a task had as its history."""
    records = [value for name, value in metadata.items() if name.startswith(RECORD)]
    return set(min(records, key=lambda one: float(one["at"]))["evals"]) if records else None


def recorded(
    places: str | Sequence[str], contents: Sequence[str], scorer: str, value: str | None
) -> PastLogs:
    """Read every finished log below some folders; what cannot be used is said and left out."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for number, content in enumerate(contents):
        numbers[content].append(number)
    found: dict[str, PastLog] = {}
    for place in [places] if isinstance(places, str) else places:
        if not Path(place).exists():
            raise BadFile(f"history: {place} does not exist; check the path")
        for info in sorted(list_eval_logs(str(place)), key=lambda one: str(one.name)):
            one = _read(str(info.name), numbers, scorer, value)
            if one is not None:
                found[one.eval_id] = one
    return PastLogs(len(contents), tuple(found[name] for name in sorted(found)))


def _read(name: str, numbers: Mapping[str, Sequence[int]], scorer: str, value: str | None) -> PastLog | None:
    try:
        head = read_eval_log(name, header_only=True)
        if head.status != "success":
            return None
        scores = _scores(name, numbers, scorer, value)
    except Exception as error:
        log.warning(f"cereval: history: {name} was left out ({type(error).__name__}: {shown(str(error))})")
        return None
    return PastLog(head.eval.eval_id, head.eval.model, scores) if scores else None


def _scores(
    name: str, numbers: Mapping[str, Sequence[int]], scorer: str, value: str | None
) -> dict[int, float]:
    """Return the mean over epochs of every sample that is one of ours and has a score in [0, 1]."""
    seen: dict[int, list[float]] = defaultdict(list)
    for sample in read_eval_log_samples(name, all_samples_required=False, exclude_fields=UNREAD):
        part = part_of(sample, scorer, value)
        number = None if part is None else number_of(part)
        if number is not None and 0 <= number <= 1:
            for item in numbers.get(content_of(sample), ()):
                seen[item].append(number)
    return {item: sum(all_of) / len(all_of) for item, all_of in sorted(seen.items())}
