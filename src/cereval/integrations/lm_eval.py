"""lm-evaluation-harness builds prompts, filters and tables; a session decides which documents the model is asked.

The model is wrapped, not the documents: with part of the documents the harness would build other few-shot prompts. It
builds every prompt as always, which costs no call, and hands all requests to its model; `CertifiedLM` answers those of
the documents that its sessions ask for, and has the harness go on with these. Docs: docs/lm-eval.md.
"""

from __future__ import annotations

import copy
import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from itertools import chain, product
from typing import Any

from cereval.errors import InvalidInput, Misuse
from cereval.imports import optional
from cereval.integrations.question import Question, Subject, Wish, overall, question
from cereval.questions.session import unit_score, whole
from cereval.questions.tasks.session import TasksResult
from cereval.records import Draw
from cereval.text import printable

optional("lm_eval", "lm-eval")

from lm_eval import evaluator  # noqa: E402
from lm_eval.api.model import LM  # noqa: E402

MEANS = ("auto", "each", "macro", "micro")
BATCH = 32
ALL = "all tasks"
USED = ("task_name", "aggregation", "instances", "_filters", "process_results", "eval_docs")
"""What we use of a task, beyond what the harness documents."""


def laid_out_differently(what: str) -> Misuse:
    return Misuse(
        f"lm-eval {version('lm-eval')} is not laid out as cereval expects ({what}): install a newer cereval, or "
        "lm-eval 0.4.12 to 0.4.13, which were tried"
    )


# -- a task --------------------------------------------------------------------------------------------------------


class Documents:
    """Hold the documents of a task with their requests, once the harness has built all of them.

    metrics: names of metrics, or `metric,filter`: the first that the task has counts. None: its first that is a mean
    over documents.
    """

    def __init__(self, task: Any, metrics: Sequence[str] = ()) -> None:
        missing = [name for name in USED if not hasattr(type(task), name) and name not in vars(task)]
        if missing:
            raise laid_out_differently(f"a task has no `{missing[0]}`")
        self.task, self.name = task, str(task.task_name)
        there = [one for one in metrics if one.partition(",")[0] in task.aggregation()]
        self.metric, self.filter = self._choose((*there, *metrics, "")[0])
        self.asked: set[int] = set()

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

    @property
    def is_random(self) -> bool:
        """Tell whether answers are sampled: at a temperature above 0, or several for each document."""
        return any(map(_is_sampled, chain.from_iterable(self.requests.values())))

    def score(self, doc_id: int) -> float:
        """Return what the chosen metric says of an answered document: the task's own filters and metric, on copies."""
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
        asked, docs = sorted(self.asked), self.task.eval_docs
        self.task._instances = [one for doc_id in asked for one in self.requests[doc_id]]
        self.task.doc_iterator = lambda **_: ((doc_id, docs[doc_id]) for doc_id in asked)

    def _choose(self, wanted: str) -> tuple[str, str]:
        """Return the metric and the filter; a metric that is no mean over documents has no such interval."""
        name, _, key = wanted.partition(",")
        how = self.task.aggregation()
        made = {one: f"{one} by {getattr(function, '__name__', function)}" for one, function in how.items()}
        means = [one for one, function in how.items() if getattr(function, "__name__", "") == "mean"]
        if not means:
            raise Misuse(
                f"{self.name}: none of its metrics is a mean over documents ({', '.join(made.values())})"
            )
        metric = name or str(means[0])
        if metric not in how:
            raise InvalidInput("--metric", f"a metric of {self.name}: {', '.join(how)}", metric)
        if metric not in means:
            raise InvalidInput(
                "--metric", f"a mean over documents of {self.name}: {', '.join(means)}", made[metric]
            )
        filters = [str(each.name) for each in self.task._filters]
        if key and key not in filters:
            raise InvalidInput(
                "--metric", f"{metric} with a filter of {self.name}: {', '.join(filters)}", wanted
            )
        if not key and len(filters) > 1:
            ways = " or ".join(f"{metric},{each}" for each in filters)
            raise InvalidInput("--metric", f"given with a filter for {self.name}: {ways}", wanted or None)
        return metric, key or filters[0]


# -- the model -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Certification:
    """Run one session: the mean of a task, or the macro or micro mean of several."""

    name: str
    tasks: Sequence[Documents]
    question: Question
    documents: Sequence[tuple[Documents, int]]
    ran: int = field(default=0)


class CertifiedLM(LM):
    """Wrap a model of the harness for the tasks that `TaskManager.load` returned.

    eps, at_least, confidence, seed: as for `cereval run`. metric: see `Documents`. budget: documents asked at most, by
    each session. mean: `each` certifies every task by itself, `macro` and `micro` their mean with tasks or documents
    counting alike, `auto` takes a group's own way of adding up, and tasks in no group by themselves. batch: documents
    that are sent to the model at a time. name: of the model, in certificates.
    """

    def __init__(
        self,
        lm: Any,
        loaded: Mapping[str, Any],
        *,
        eps: float | None = None,
        at_least: float | None = None,
        confidence: float = 0.95,
        seed: int | None = None,
        metric: str | Sequence[str] | None = None,
        budget: int | None = None,
        mean: str = "auto",
        batch: int = BATCH,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if lm.world_size > 1:
            raise Misuse(
                f"a certified run takes one process, got world_size {lm.world_size}: what is asked next depends on all "
                "answers; parallelism inside the backend (vLLM, tensor parallel) works"
            )
        if mean not in MEANS:
            raise InvalidInput("mean", "one of " + ", ".join(MEANS), mean)
        if not isinstance(loaded, Mapping) or not isinstance(loaded.get("tasks"), Mapping):
            raise laid_out_differently("loaded tasks are no mapping with `tasks`")
        self.lm, self.loaded = lm, loaded
        self.wish = Wish(eps, at_least, confidence, seed, budget)
        self.mean, self.batch = mean, whole("batch", batch, 1)
        self.name = name_of(lm) if name is None else name
        wanted = (metric,) if isinstance(metric, str) else tuple(metric or ())
        self.tasks = {key: Documents(task, wanted) for key, task in loaded["tasks"].items()}
        self.certifications: list[Certification] = []
        self.calls = 0
        self._heard: dict[int, list[Any]] = defaultdict(list)

    # What the harness asks of a model.

    def loglikelihood(self, requests: list[Any]) -> list[Any]:
        """Run every session at the first call, whatever its kind: a group may mix kinds of requests."""
        if not self.certifications:
            self._certify()
        for one in requests:
            one.resps = []  # the harness fills them from what is returned
        given = {number: iter(answers) for number, answers in self._heard.items()}
        return [next(given[id(one)]) if id(one) in given else None for one in requests]

    loglikelihood_rolling = generate_until = loglikelihood

    def __getattr__(self, name: str) -> Any:
        """Look up what a model has beside the harness's own methods: a tokenizer, a batch size, MULTIMODAL."""
        if name == "lm" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.lm, name)

    @property
    def rank(self) -> int:
        return int(self.lm.rank)

    @property
    def world_size(self) -> int:
        return int(self.lm.world_size)

    @property
    def device(self) -> Any:
        return self.lm.device

    @property
    def tokenizer_name(self) -> str:
        return str(self.lm.tokenizer_name)

    def apply_chat_template(self, *given: Any, **named: Any) -> Any:
        return self.lm.apply_chat_template(*given, **named)

    def chat_template(self, *given: Any, **named: Any) -> Any:
        return self.lm.chat_template(*given, **named)

    # Sessions.

    def _certify(self) -> None:
        self.certifications = [self._open(*part) for part in divided(self.loaded, self.tasks, self.mean)]
        for one in self.certifications:
            while not one.question.session.done:
                self._step(one)
        for each in self.tasks.values():
            if not each.asked:
                # The harness needs an answer of every task of a group; this one is not part of the session.
                first = next(iter(each.requests))
                each.asked.add(first)
                self._ask(each.requests[first])
            each.keep_asked()

    def _open(self, name: str, members: Sequence[Documents], way: str) -> Certification:
        documents = [(one, doc_id) for one in members for doc_id in one.requests]
        metrics = sorted({f"{one.metric},{one.filter}" for one in members})
        is_macro, is_random = way == "macro", any(one.is_random for one in members)
        subject = Subject(
            model=self.name,
            data=name,
            contents=[one.content(doc_id) for one, doc_id in documents],
            scorer={"name": " ".join(metrics), "host": "lm-eval"},
            target="expected" if is_random else "benchmark",
            temperature=None if is_random else 0.0,
            labels=[one.name for one, _ in documents] if is_macro else None,
        )
        asked = question(replace(self.wish, tasks=is_macro), subject)
        return Certification(name, members, asked, documents)

    def _step(self, one: Certification) -> None:
        """Ask for some documents, answer all of them at once, and tell the scores in draw order."""
        drawn: list[tuple[Draw, Documents, int]] = [
            (draw, *one.documents[draw.item]) for draw in one.question.session.ask(self.batch)
        ]
        scores = dict[int, float]()
        while left := [entry for entry in drawn if entry[0].index not in scores]:
            # A document that was drawn twice is answered twice.
            first = {(task.name, doc_id): (draw, task, doc_id) for draw, task, doc_id in reversed(left)}
            self._ask([request for _, task, doc_id in first.values() for request in task.requests[doc_id]])
            scores |= {draw.index: task.score(doc_id) for draw, task, doc_id in first.values()}
        for draw, task, doc_id in drawn:
            task.asked.add(doc_id)
            one.ran += 1
            if not one.question.session.done:
                one.question.tell(draw, scores[draw.index])

    def _ask(self, requests: Sequence[Any]) -> None:
        """Send requests to the model, by kind, every one as often as it wants to be repeated; keep the last answers."""
        kinds: dict[str, list[Any]] = defaultdict(list)
        for one in requests:
            self._heard.pop(id(one), None)
            kinds[one.request_type] += [one] * (one.repeats or 1)
        for kind, those in kinds.items():
            self.calls += len(those)
            for one, answer in zip(those, getattr(self.lm, kind)(those), strict=True):
                self._heard[id(one)].append(answer)
        for one in requests:
            one.resps = list(self._heard[id(one)])


def _is_sampled(request: Any) -> bool:
    """Tell whether the answer to a request of the harness is left to chance; without a temperature it takes 0."""
    given = next((one for one in request.args or () if isinstance(one, Mapping)), {})
    usual = 1.0 if given.get("do_sample") else 0.0
    temperature = given.get("temperature")
    return (request.repeats or 1) > 1 or bool(usual if temperature is None else temperature)


def name_of(lm: Any) -> str:
    inner = getattr(lm, "lm", lm)
    names = (getattr(inner, place, None) for place in ("pretrained", "model_name", "model"))
    return next((name for name in names if isinstance(name, str) and name), type(inner).__name__)


def divided(
    loaded: Mapping[str, Any], tasks: Mapping[str, Documents], mean: str
) -> list[tuple[str, list[Documents], str]]:
    """Find which tasks share a session, its name, and how their means are added up."""
    parts, left = [], dict(tasks)
    for name, group in top_groups(loaded).items() if mean != "each" else ():
        names = [str(one.task_name) for one in group.get_all_tasks()]
        members = [left.pop(one) for one in dict.fromkeys(names) if one in left]
        way = way_of(group, members, mean)
        if mean == "auto" and way is not None and len(members) < len(names):
            raise adds_up_otherwise(name, "has a task twice, or shares one with another group")
        if members and way is not None:
            parts.append((name, members, way))
        else:
            left |= {one.name: one for one in members}
    if mean in ("macro", "micro") and len(left) > 1 and not parts:
        return [(ALL, list(left.values()), mean)]
    return [*parts, *((name, [one], "each") for name, one in left.items())]


def top_groups(loaded: Mapping[str, Any]) -> dict[str, Any]:
    groups = dict(loaded.get("groups") or {})
    inner = {
        str(child.name) for group in groups.values() for child in group if hasattr(child, "get_all_tasks")
    }
    return {name: group for name, group in groups.items() if name not in inner}


def way_of(group: Any, members: Sequence[Documents], mean: str) -> str | None:
    if mean in ("macro", "micro"):
        return mean
    wanted = {one.metric for one in members}
    how = next((how for how in group.aggregate_metric_list or () if how.metric in wanted), None)
    if how is None:
        return None
    # The harness adds up what has the metric, and leaves out the rest.
    alike = how.metric, next(one.filter for one in members if one.metric == how.metric)
    others = [one.name for one in members if (one.metric, one.filter) != alike]
    if others:
        wrong = f"adds up {','.join(alike)}, and not what {', '.join(others)} would be certified by"
        raise adds_up_otherwise(group.name, wrong)
    if how.aggregation != "mean":
        raise adds_up_otherwise(group.name, "adds up its tasks by a function of its own")
    return "micro" if how.weight_by_size else "macro"


def adds_up_otherwise(group: str, wrong: str) -> Misuse:
    return Misuse(
        f"the group {group} {wrong}: --mean each certifies every task by itself, --mean macro or micro their mean"
    )


# -- the harness's own evaluation ----------------------------------------------------------------------------------

Heard = Callable[[list[Certification]], None]


@contextmanager
def certifying(heard: Heard | None = None, **asking: Any) -> Iterator[None]:
    """Have `lm_eval.simple_evaluate`, and the command line above it, certify as `CertifiedLM` does.

    heard: called with what was certified before the harness prints its tables. asking: the keywords of `CertifiedLM`.
    """
    plain = evaluator.evaluate

    def evaluate(lm: Any, task_dict: Any, **options: Any) -> Any:
        for name in ("limit", "samples"):
            if options.get(name) is not None:
                raise InvalidInput(
                    f"--{name}", "left out: it takes the first documents; use --budget", options[name]
                )
        wrapped = CertifiedLM(lm, task_dict, **asking)
        results = plain(wrapped, task_dict, **options)
        if results is not None:
            write_into(results, wrapped.certifications)
        (heard or print_headlines)(wrapped.certifications)
        return results

    evaluator.evaluate = evaluate
    try:
        yield
    finally:
        evaluator.evaluate = plain


def print_headlines(certifications: list[Certification]) -> None:
    for one in certifications:
        print(printable(f"{one.name}: {one.question.result.headline()}"), file=sys.stderr)


def write_into(results: Any, certifications: list[Certification]) -> None:
    """Add intervals to the harness's tables and certificates to its file of results."""
    results["cereval"] = {}
    rows = [
        results[table][name]
        for table in ("results", "groups")
        for name in results.get("groups") or ()
        if name in results[table]
    ]
    for row in rows:
        # The harness weighs tasks by the documents that were asked: its figures of groups go.
        for key in [key for key in row if "," in key]:
            del row[key]
    for one in certifications:
        result = one.question.result
        results["cereval"][one.name] = {
            "headline": result.headline(),
            "certificate": one.question.certificate(),
        }
        for task in one.tasks:
            results["n-samples"][task.name]["effective"] = len(task.asked)
        alone = [task.name for task in one.tasks if len(one.tasks) == 1]
        for table, name in product(("results", "groups"), dict.fromkeys([one.name, *alone])):
            if name in results.get(table, {}):
                _write_row(results[table][name], one.tasks, overall(result))
        means = result.tasks if isinstance(result, TasksResult) else {}
        for task in one.tasks if means else ():
            _write_row(results["results"][task.name], [task], means[task.name])


def _write_row(row: dict[str, Any], tasks: Sequence[Documents], mean: Any) -> None:
    metric, key = ("+".join(sorted({getattr(one, part) for one in tasks})) for part in ("metric", "filter"))
    for end, value in (("", mean.estimate), ("_lower", mean.lower), ("_upper", mean.upper)):
        row[f"{metric}_certified{end},{key}"] = value
