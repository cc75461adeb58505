"""Define one task of the harness: its documents with their requests, and what one of them scored."""

from __future__ import annotations

import copy
import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from typing import Any

from cereval.errors import InvalidInput, Misuse
from cereval.questions.session import unit_score

USED = ("task_name", "aggregation", "instances", "_filters", "process_results", "eval_docs")
"""What we use of a task, beyond what the harness documents."""


def laid_out_differently(what: str) -> Misuse:
    """Say that a release of the harness is not one that we know."""
    return Misuse(
        f"lm-eval {version('lm-eval')} is not laid out as cereval expects ({what}): install a newer cereval, or "
        "lm-eval 0.4.12 to 0.4.13, which were tried"
    )


class Documents:
    """Hold the documents of a task, once the harness has built all its requests.

    metrics: names of metrics, or `metric,filter`: the first that the task has counts. None: its first that is a mean
    over documents.
    """

    def __init__(self, task: Any, metrics: Sequence[str] = ()) -> None:
        missing = [name for name in USED if not hasattr(type(task), name) and name not in vars(task)]
        if missing:
            raise laid_out_differently(f"a task has no `{missing[0]}`")
        self.task, self.name = task, str(task.task_name)
        there = [one for one in metrics if one.partition(",")[0] in task.aggregation()]
        self.metric, self.filter = self._chosen((*there, *metrics, "")[0])
        self.asked: list[int] = []

    @cached_property
    def requests(self) -> Mapping[int, list[Any]]:
        """Return the requests of every document, in the order in which the task wants their answers."""
        if not hasattr(self.task, "_instances"):
            raise laid_out_differently("a task keeps no `_instances`")
        found: dict[int, list[Any]] = defaultdict(list)
        for one in self.task.instances:
            found[one.doc_id].append(one)
        kinds = sorted({str(one.request_type) for one in self.task.instances})
        if len(kinds) != 1:
            raise Misuse(
                f"{self.name}: its documents take {' and '.join(kinds) or 'no requests'}; one kind works"
            )
        return {doc_id: sorted(found[doc_id], key=lambda one: one.idx) for doc_id in sorted(found)}

    def content(self, doc_id: int) -> str:
        """Digest a document; its number is not trusted."""
        text = json.dumps(self.requests[doc_id][0].doc, sort_keys=True, default=str)
        return hashlib.sha256(f"{self.name}\n{text}".encode(errors="replace")).hexdigest()

    def score(self, doc_id: int) -> float:
        """Return what the chosen metric says of one answered document: the task's own filters and metric, on
        copies."""
        copies = [copy.copy(one) for one in self.requests[doc_id]]
        for one in copies:
            one.filtered_resps = {}
        for each in self.task._filters:
            each.apply(copies)
        found = self.task.process_results(copies[0].doc, [one.filtered_resps[self.filter] for one in copies])
        if self.metric not in found:
            raise InvalidInput("--metric", f"one that {self.name} gives: {', '.join(found)}", self.metric)
        return unit_score(found[self.metric], f"{self.name}: {self.metric} of a document")

    def keep_asked(self) -> None:
        """Have the harness go on with the documents that were asked."""
        asked, task, docs = sorted(self.asked), self.task, self.task.eval_docs
        task._instances = [one for doc_id in asked for one in self.requests[doc_id]]
        task.doc_iterator = lambda **_: ((doc_id, docs[doc_id]) for doc_id in asked)

    # -- which metric -------------------------------------------------------------------------------------------

    def _chosen(self, wanted: str) -> tuple[str, str]:
        name, _, key = wanted.partition(",")
        metric = self._metric(name)
        filters = [str(each.name) for each in self.task._filters]
        if key and key not in filters:
            raise InvalidInput(
                "--metric", f"{metric} with a filter of {self.name}: {', '.join(filters)}", wanted
            )
        if not key and len(filters) > 1:
            ways = " or ".join(f"{metric},{each}" for each in filters)
            raise InvalidInput("--metric", f"given with a filter for {self.name}: {ways}", wanted or None)
        return metric, key or filters[0]

    def _metric(self, name: str) -> str:
        """Return the metric's name; one that is not the mean of its values over documents has no such interval."""
        how = self.task.aggregation()
        means = [one for one, function in how.items() if _is_mean(function)]
        if not means:
            raise Misuse(f"{self.name}: none of its metrics is a mean over documents ({_described(how)})")
        if not name:
            return str(means[0])
        if name not in how:
            raise InvalidInput("--metric", f"a metric of {self.name}: {', '.join(how)}", name)
        if name not in means:
            made = _described({name: how[name]})
            raise InvalidInput("--metric", f"a mean over documents of {self.name}: {', '.join(means)}", made)
        return name


def _is_mean(function: Any) -> bool:
    return getattr(function, "__name__", "") == "mean"


def _described(how: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} by {getattr(function, '__name__', function)}" for name, function in how.items())
