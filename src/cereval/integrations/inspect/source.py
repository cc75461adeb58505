"""Define the samples of a task in the order and number that a session asks for, and the hook of such a run.

Inspect runs up to `window` of them at a time and reports them as they come; the session hears them in draw order,
because answers that come early differ from those that come late. A sample that failed for good is told as failed at
its place.
"""

from __future__ import annotations

import hashlib
import logging
import sys
from collections import Counter
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.hooks import Hooks, TaskEnd, TaskStart, hooks
from inspect_ai.log import EvalSample, MetadataEdit, ProvenanceData, edit_eval_log, write_eval_log_async
from inspect_ai.scorer import SampleScore, Score, ScoreReducer, mean_score

from cereval.errors import CerevalError, InvalidInput, shown
from cereval.integrations.inspect.host import (
    PrerequisiteError,
    SampleSource,
    create_reducers,
    reducer_log_names,
    registry_info,
)
from cereval.integrations.inspect.logs import CERTIFICATE, HEADLINE, PastLogs, content_of
from cereval.integrations.inspect.scores import (
    LIVE,
    NOTE,
    NotOneNumber,
    gives_mean,
    no_mean,
    number_of,
    part_of,
)
from cereval.integrations.question import Hopeless, Question, Subject, Wish, question
from cereval.questions.session import SEED_BITS
from cereval.records import Draw
from cereval.text import printable

TELLING = 3
"""So many of the first samples carry the whole question, so that a log can be recomputed from its samples alone."""

AGAIN = "#"
"""Before the number of times that a sample was run, in its id."""

WINDOW = 10
"""Samples out at a time where neither --max-samples nor --max-connections is given: Inspect's own default."""

MOST_UNWRITTEN = 10
"""Samples that Inspect keeps before it writes them to the log, unless a data set is small."""

CHECKED = tuple(2**power for power in range(3, 20))
"""After so many samples, and at the end, the task's own metric is held against the mean of their scores."""

ROUNDED = 1e-4
"""How far a metric that rounds what it shows may lie from the mean."""

ONE_MODEL = "a certified Task object evaluates one model: call certify() once for each model"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class SamplePool:
    """Hold the samples in the order of their numbers, a digest of each one's content, and the names of their tasks."""

    samples: tuple[Sample, ...]
    contents: tuple[str, ...]
    labels: tuple[str, ...] | None = None

    @classmethod
    def of(cls, dataset: Any, by: str | None = None) -> SamplePool:
        """Number the samples by their content, so that a data set that is shuffled when it is loaded keeps its numbers.

        Samples without an id get their position, as Inspect does, or their content's digest where it shuffles.
        """
        named, ids = [], set[str]()
        for number, one in enumerate(dataset, start=1):
            content = content_of(one)
            if one.id is None:
                one.id = content[:16] if getattr(dataset, "shuffled", False) else number
            if str(one.id) in ids:
                raise InvalidInput(
                    "task", "a task whose samples have different ids", f"the id {one.id} twice"
                )
            ids.add(str(one.id))
            named.append((content, str(one.id), one))
        named.sort(key=lambda each: each[:2])
        samples = tuple(one for _, _, one in named)
        labels = None if by is None else tuple(_label(one, by) for one in samples)
        return cls(samples, tuple(content for content, _, _ in named), labels)


def _label(sample: Sample, by: str) -> str:
    found = (sample.metadata or {}).get(by)
    if found is None or found == "":
        raise InvalidInput("by", f"a field of every sample's metadata (sample {sample.id} has none)", by)
    return str(found)


class CertifiedSource(SampleSource):
    """Hand out what a session asks for, and tell it what came of it."""

    def __init__(
        self,
        task: Task,
        pool: SamplePool,
        wish: Wish,
        scorer: str,
        value: str | None,
        past: PastLogs | None,
        metric: Any | None,
        target: str | None = None,
    ) -> None:
        self.task, self.pool, self.wish, self.past, self.target = task, pool, wish, past, target
        self.scorer, self.value, self.metric = scorer, value, metric
        self.task_id: str | None = None
        self.refusal: str | None = None
        self.question: Question | None = None
        self.window, self.epochs = WINDOW, 1
        self.reducer: ScoreReducer = mean_score()
        self._draws: dict[str, Draw] = {}
        self._seen: dict[str, dict[int, Score | None]] = {}
        self._flying = 0
        self._times: Counter[int] = Counter()

    def noted(self, key: str) -> dict[str, Any]:
        """Return what the task's metadata says of its certification; a retry finds there which logs were the
        history."""
        about = {"key": key, "goal": self.wish.goal.spec(), "confidence": self.wish.confidence}
        return {NOTE: about, **({} if self.past is None else self.past.noted())}

    def headline(self) -> str:
        """Say what is certified, and of which score where there are several."""
        answer = self._asked().result.headline()
        if self.value is not None:
            return f"{self.scorer}.{self.value}: {answer}"
        return f"{self.scorer}: {answer}" if len(self.task.scorer or ()) > 1 else answer

    # -- when a run begins --------------------------------------------------------------------------------------

    def begin(self, spec: Any, max_connections: int | None, temperature: float | None) -> None:
        """Open the session once the run is known: flags of the command line win over the task's own settings.

        An attempt of the same task, such as `eval-retry`, begins anew and draws the same again.
        """
        if self.task_id not in (None, spec.task_id):
            self.refusal = ONE_MODEL
            return
        self.task_id, self.refusal, config = spec.task_id, None, spec.config
        try:
            self._open(spec, temperature)
        except (CerevalError, PrerequisiteError) as error:
            self.refusal = str(error)
        self.epochs = config.epochs or 1
        self.window = config.max_samples or max_connections or WINDOW
        self._draws, self._seen, self._flying, self._times = {}, {}, 0, Counter()

    def _open(self, spec: Any, temperature: float | None) -> None:
        config = spec.config
        if config.sample_id is not None:
            raise PrerequisiteError(
                "--sample-id leaves samples out: a certified task draws its samples itself"
            )
        self.reducer = self._reducer_of(config.epochs_reducer)
        names, table = ([], None) if self.past is None else self.past.table(spec.model, spec.metadata or {})
        random = (config.epochs or 1) > 1 or bool(temperature)
        judged = {"name": self.scorer, "host": "inspect", "epochs": config.epochs or 1}
        subject = Subject(
            model=spec.model,
            data=str(spec.dataset.name or spec.task),
            contents=self.pool.contents,
            scorer=judged if self.value is None else {**judged, "value": self.value},
            target=self.target or ("expected" if random else "benchmark"),
            temperature=temperature,
            labels=self.pool.labels,
            history=table,
            history_names=names,
        )
        self.question = question(replace(self.wish, budget=config.limit), subject, seed_of(spec.task_id))

    def _reducer_of(self, names: Any) -> ScoreReducer:
        """Return the reducer of the epochs: the task's own object, or the one that the command line names."""
        if not names:
            return mean_score()
        own = self.task.epochs_reducer
        found = own if own and reducer_log_names(own) == list(names) else create_reducers(list(names))
        if len(found) != 1:
            raise PrerequisiteError(
                f"a certified task has one --epochs-reducer, got {', '.join(map(str, names))}: choose one"
            )
        return found[0]

    # -- what Inspect calls -------------------------------------------------------------------------------------

    def initial_samples(self) -> list[Sample]:
        """None: model, seed, epochs and limit are known only when the run begins."""
        return []

    async def next_samples(self) -> list[Sample] | None:
        return self._more() or None

    async def sample_complete(self, sample: EvalSample) -> list[Sample]:
        draw = self._draws.get(str(sample.id))
        if draw is not None and content_of(sample) != self.pool.contents[draw.item]:
            # A retry takes samples of the attempt before by their ids alone.
            raise self._refused(f"sample {sample.id} of the earlier attempt asks something else: begin anew")
        why = f"{self.scorer} gave no score" if sample.error is None else shown(sample.error.message)
        try:
            part = part_of(sample, self.scorer, self.value)
        except NotOneNumber as error:
            if not self._asked().scored:
                raise self._refused(f"sample {sample.id}: {error}") from None
            part, why = None, str(error)  # one of many: it counts as anything in [0, 1]
            log.warning(f"cereval: sample {sample.id} counts as unknown: {error}")
        return self._settled(str(sample.id), sample.epoch, part, why)

    async def sample_abandoned(self, sample: Sample, epoch: int) -> list[Sample]:
        return self._settled(str(sample.id), epoch, None, "the sample failed")

    # -- what the session hears ---------------------------------------------------------------------------------

    def _asked(self) -> Question:
        if self.refusal is not None:
            raise PrerequisiteError(self.refusal)
        if self.question is None:
            raise PrerequisiteError("the run has not begun: Inspect did not call the hook of cereval")
        return self.question

    def _refused(self, reason: str) -> PrerequisiteError:
        """Have Inspect end the run with an error, and the log without a certificate."""
        self.refusal = reason
        return PrerequisiteError(reason)

    def _more(self) -> list[Sample]:
        """Ask for as many samples as may be out; a slow one holds at most another window of them back."""
        session = self._asked().session
        ahead = len(self._draws) - session.n_evaluated
        room = min(self.window - self._flying, 2 * self.window - ahead)
        fresh = session.ask(room) if room > 0 and not session.done else []
        self._flying += len(fresh)
        return [self._sample(draw) for draw in fresh]

    def _sample(self, draw: Draw) -> Sample:
        """Return the sample of a draw; one that comes again has an id of its own."""
        sample = self.pool.samples[draw.item]
        self._times[draw.item] += 1
        times = self._times[draw.item]
        key = sample.id if times == 1 else f"{sample.id}{AGAIN}{times}"
        self._draws[str(key)] = draw
        note: dict[str, Any] = {"draw": draw.index, "item": draw.item, "probability": draw.probability}
        if draw.index < TELLING:
            note |= self._asked().as_dict()
        return sample.model_copy(update={"id": key, "metadata": {**(sample.metadata or {}), NOTE: note}})

    def _settled(self, key: str, epoch: int, score: Score | None, why: str) -> list[Sample]:
        """Note what came of one epoch; tell the session once all are in."""
        asked, epochs = self._asked(), self._seen.setdefault(key, {})
        if epoch in epochs or key not in self._draws:
            return []  # run once more on somebody's request: the first outcome was told
        epochs[epoch] = score
        if len(epochs) < self.epochs:
            return []
        self._flying -= 1
        scores = [score for score in epochs.values() if score is not None]
        try:
            number = number_of(self.reducer(scores)) if len(scores) == self.epochs else None
            asked.tell(self._draws[key], number, why)
            if asked.session.done or asked.session.n_evaluated in CHECKED:
                self._check_metric()
        except (Hopeless, NotOneNumber) as error:
            raise self._refused(str(error)) from None
        except CerevalError as error:
            raise PrerequisiteError(f"sample {key}: {error}") from None
        return self._more()

    def _check_metric(self) -> None:
        """Refuse where the figure that the task reports turns out to be no mean of its scores.

        A metric may leave samples out, or weigh them, by what only real ones have.
        """
        if self.metric is None:
            return
        told, numbers = list[SampleScore](), list[float]()
        by_epoch = registry_info(self.metric).metadata.get("scores") == "unreduced"
        for key, epochs in self._seen.items():
            scores = [score for score in epochs.values() if score is not None]
            reduced = self.reducer(scores) if scores else None
            number = None if reduced is None else number_of(reduced)
            if reduced is None or number is None:
                continue
            numbers.append(number)
            metadata = self.pool.samples[self._draws[key].item].metadata
            told += [
                SampleScore(score=one, sample_id=key, sample_metadata=metadata)
                for one in (scores if by_epoch else [reduced])
            ]
        try:
            is_mean = not told or gives_mean(self.metric, told, fmean(numbers), apart=ROUNDED)
        except Exception:
            return  # Inspect meets the same, and says so
        if not is_mean:
            raise no_mean(self.scorer, self.metric)


def seed_of(task_id: str) -> int:
    """Derive the seed from Inspect's random id of the task, which nobody chose and which `eval-retry` keeps.

    >>> seed_of("a") != seed_of("b"), 0 <= seed_of("a") < 2**53
    (True, True)
    """
    digest = hashlib.sha256(f"cereval:{task_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - SEED_BITS)


# -- what Inspect tells of a run -----------------------------------------------------------------------------------


@hooks(name="cereval_certificate", description="certified tasks: the interval and its certificate in the log")
class Certificate(Hooks):
    """Begin and end the run of every certified task of this process; others do not concern it."""

    def enabled(self) -> bool:
        return bool(LIVE)

    async def on_task_start(self, data: TaskStart) -> None:
        source = find_source(data.spec.metadata)
        if source is not None:
            connections = data.plan.config.max_connections or data.spec.model_generate_config.max_connections
            own, given = data.plan.config.temperature, data.spec.model_generate_config.temperature
            source.begin(data.spec, connections, given if own is None else own)
            if source.refusal is None:
                _write_less_often(data.spec, len(source.pool.samples))

    async def on_task_end(self, data: TaskEnd) -> None:
        source = find_source(data.log.eval.metadata)
        if source is None or source.question is None or source.refusal is not None:
            return
        headline = source.headline()
        noted = {HEADLINE: headline, CERTIFICATE: source.question.certificate()}
        edited = edit_eval_log(
            data.log,
            [MetadataEdit(metadata_set=noted)],
            ProvenanceData(author="cereval", reason="certified interval"),
        )
        # In place: `eval()` returns this very object.
        data.log.log_updates = edited.log_updates
        data.log.recompute_tags_and_metadata()
        await write_eval_log_async(data.log, header_only=data.log.location.endswith(".eval"))
        luck = [note for note in source.question.result.notes if note.startswith("warning")]
        print(*map(printable, (headline, *luck)), sep="\n", file=sys.stderr)
        if data.log.status == "success":
            del LIVE[data.log.eval.metadata[NOTE]["key"]]


def find_source(metadata: dict[str, Any] | None) -> CertifiedSource | None:
    noted = (metadata or {}).get(NOTE)
    return LIVE.get(noted["key"]) if isinstance(noted, dict) and "key" in noted else None


def _write_less_often(spec: Any, samples: int) -> None:
    """Write the log as often as Inspect does for a data set of this size, where --log-buffer does not say otherwise.

    Of a source it counts no samples beforehand, and would write after each: each time it reads the list of all that the
    log holds. Versions without the control of a running task go on doing so.
    """
    try:
        from inspect_ai._control.eval_state import get_eval_state
    except ImportError:
        return
    state = get_eval_state(spec.eval_id)
    asked = samples if spec.config.limit is None else min(samples, spec.config.limit)
    if spec.config.log_buffer is None and state is not None and state.live is not None:
        state.live.buffer_config(
            log_buffer=max(1, min(asked * (spec.config.epochs or 1) // 3, MOST_UNWRITTEN))
        )
