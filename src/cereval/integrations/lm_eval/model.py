"""`CertifiedLM`: any model of the harness, asked only the documents that a session draws.

The model is wrapped, not the documents: with part of the documents the harness would build other few-shot prompts. It
builds every prompt as always, which costs no call, and hands all requests to its model; this one answers those of the
documents that its sessions ask for, and has the harness go on with these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lm_eval.api.model import LM

from cereval.errors import InvalidInput, Misuse
from cereval.integrations.lm_eval.documents import Documents, laid_out_differently
from cereval.integrations.question import Question, Subject, Wish, question
from cereval.questions.session import whole
from cereval.records import Draw

MEANS = ("auto", "each", "macro", "micro")
BATCH = 32
ALL = "all tasks"


@dataclass(slots=True)
class Certification:
    """Run one session: the mean of a task, or the macro or micro mean of several."""

    name: str
    tasks: Sequence[Documents]
    macro: bool
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
        self.asking = {
            "eps": eps,
            "at_least": at_least,
            "confidence": confidence,
            "seed": seed,
            "budget": budget,
        }
        Wish(**self.asking)  # type: ignore[arg-type]
        self.mean, self.batch = mean, whole("batch", batch, 1)
        self.name = name_of(lm) if name is None else name
        wanted = (metric,) if isinstance(metric, str) else tuple(metric or ())
        self.tasks = {key: Documents(task, wanted) for key, task in loaded["tasks"].items()}
        self.certifications: list[Certification] = []
        self.calls = 0
        self._heard: dict[int, list[Any]] = defaultdict(list)

    # -- what the harness asks of a model -----------------------------------------------------------------------

    def loglikelihood(self, requests: list[Any]) -> list[Any]:
        return self._answers(requests)

    def loglikelihood_rolling(self, requests: list[Any]) -> list[Any]:
        return self._answers(requests)

    def generate_until(self, requests: list[Any]) -> list[Any]:
        return self._answers(requests)

    def _answers(self, requests: list[Any]) -> list[Any]:
        """Run every session at the first call, whatever its kind: a group may mix kinds of requests."""
        if not self.certifications:
            self._certify()
        for one in requests:
            one.resps = []  # the harness fills them from what is returned
        given = {number: iter(answers) for number, answers in self._heard.items()}
        return [next(given[id(one)]) if id(one) in given else None for one in requests]

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

    # -- sessions -----------------------------------------------------------------------------------------------

    def _certify(self) -> None:
        self.certifications = [self._opened(*part) for part in divided(self.loaded, self.tasks, self.mean)]
        for one in self.certifications:
            while not one.question.session.done:
                self._step(one)
        for each in self.tasks.values():
            if not each.asked:
                # The harness needs an answer of every task of a group; this one is not part of the session.
                each.asked.append(next(iter(each.requests)))
                self._ask(each.requests[each.asked[0]])
            each.keep_asked()

    def _opened(self, name: str, members: Sequence[Documents], way: str) -> Certification:
        documents = [(one, doc_id) for one in members for doc_id in one.requests]
        macro = way == "macro"
        metrics = sorted({f"{one.metric},{one.filter}" for one in members})
        subject = Subject(
            model=self.name,
            data=name,
            contents=[one.content(doc_id) for one, doc_id in documents],
            scorer={"name": " ".join(metrics), "host": "lm-eval"},
            labels=[one.name for one, _ in documents] if macro else None,
        )
        wish = Wish(**self.asking, tasks=macro)  # type: ignore[arg-type]
        return Certification(name, members, macro, question(wish, subject), documents)

    def _step(self, one: Certification) -> None:
        """Ask for some documents, answer all of them at once, and tell the scores in draw order."""
        session = one.question.session
        draws = session.ask(self.batch)
        self._ask([request for draw in draws for request in self._requests(one, draw)])
        for draw in draws:
            task, doc_id = one.documents[draw.item]
            task.asked.append(doc_id)
            one.ran += 1
            if not session.done:
                one.question.tell(draw, task.score(doc_id))

    def _requests(self, one: Certification, draw: Draw) -> list[Any]:
        task, doc_id = one.documents[draw.item]
        return task.requests[doc_id]

    def _ask(self, requests: Sequence[Any]) -> None:
        """Send requests to the model, by kind; every one as often as it wants to be repeated."""
        kinds: dict[str, list[Any]] = defaultdict(list)
        for one in requests:
            kinds[one.request_type] += [one] * (one.repeats or 1)
        for kind, those in kinds.items():
            self.calls += len(those)
            for one, answer in zip(those, getattr(self.lm, kind)(those), strict=True):
                self._heard[id(one)].append(answer)
        for one in requests:
            one.resps = list(self._heard[id(one)])


def name_of(lm: Any) -> str:
    """Return the name of a model of the harness, as far as it tells one."""
    inner = getattr(lm, "lm", lm)
    for place in ("pretrained", "model_name", "model"):
        found = getattr(inner, place, None)
        if isinstance(found, str) and found:
            return found
    return type(inner).__name__


def divided(
    loaded: Mapping[str, Any], tasks: Mapping[str, Documents], mean: str
) -> list[tuple[str, list[Documents], str]]:
    """Find which tasks share a session, its name, and how their means are added up."""
    groups = {} if mean == "each" else top_groups(loaded)
    parts, left = [], dict(tasks)
    for name, group in groups.items():
        members = [
            left.pop(str(one.task_name)) for one in group.get_all_tasks() if str(one.task_name) in left
        ]
        way = way_of(group, members, mean)
        if members and way is not None:
            parts.append((name, members, way))
        else:
            left |= {one.name: one for one in members}
    if mean in ("macro", "micro") and len(left) > 1 and not parts:
        return [(ALL, list(left.values()), mean)]
    return [*parts, *((name, [one], "each") for name, one in left.items())]


def top_groups(loaded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the groups that are in no other group."""
    groups = dict(loaded.get("groups") or {})
    inner = {
        str(child.name) for group in groups.values() for child in group if hasattr(child, "get_all_tasks")
    }
    return {name: group for name, group in groups.items() if name not in inner}


def way_of(group: Any, members: Sequence[Documents], mean: str) -> str | None:
    """Return how a group adds up the metric of its members: documents alike, tasks alike, or not at all."""
    if mean in ("macro", "micro"):
        return mean
    wanted = {one.metric for one in members}
    for how in group.aggregate_metric_list or ():
        if how.metric in wanted:
            return "micro" if how.weight_by_size else "macro"
    return None
