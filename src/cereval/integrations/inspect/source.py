"""Define the samples of a task in the order and number that a session asks for.

Inspect runs up to `window` of them at a time and reports them as they come; the session hears them in draw order,
because answers that come early differ from those that come late. A sample that failed for good is told as failed at
its place.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from typing import Any

from inspect_ai import SampleSource, Task
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalSample
from inspect_ai.scorer import Score, ScoreReducer, mean_score
from inspect_ai.scorer._reducer import create_reducers, reducer_log_names

from cereval.errors import CerevalError, shown
from cereval.integrations.inspect.history import PastLogs
from cereval.integrations.inspect.pool import SamplePool
from cereval.integrations.inspect.scores import NotOneNumber, number_of, part_of
from cereval.integrations.question import Hopeless, Question, Subject, Wish, question
from cereval.questions.session import SEED_BITS
from cereval.records import Draw

KEY = "cereval"
"""The name of our note in the metadata of tasks and samples."""

TELLING = 3
"""So many of the first samples carry the whole question, so that a log can be recomputed from its samples alone."""

WINDOW = 10
"""Samples out at a time where neither --max-samples nor --max-connections is given: Inspect's own default."""

ONE_MODEL = "a certified Task object evaluates one model: call certify() once for each model"


log = logging.getLogger(__name__)


class CertifiedSource(SampleSource):
    """Hand out what a session asks for, and tell it what came of it."""

    def __init__(
        self, task: Task, pool: SamplePool, wish: Wish, scorer: str, value: str | None, past: PastLogs | None
    ) -> None:
        self.task, self.pool, self.wish, self.past = task, pool, wish, past
        self.scorer, self.value = scorer, value
        self.task_id: str | None = None
        self.refusal: str | None = None
        self.question: Question | None = None
        self.window, self.epochs = WINDOW, 1
        self.reducer: ScoreReducer = mean_score()
        self._draws: dict[str, Draw] = {}
        self._seen: dict[str, dict[int, Score | None]] = {}
        self._flying = 0

    def noted(self, key: str) -> dict[str, Any]:
        """Return what the task's metadata says of its certification; a retry finds there which logs were the
        history."""
        about = {"key": key, "goal": self.wish.goal.spec(), "confidence": self.wish.confidence}
        return {KEY: about, **({} if self.past is None else self.past.noted())}

    @property
    def subject(self) -> str:
        """Name the score that is certified, where there are several."""
        if self.value is not None:
            return f"{self.scorer}.{self.value}: "
        return f"{self.scorer}: " if len(self.task.scorer or ()) > 1 else ""

    # -- when a run begins --------------------------------------------------------------------------------------

    def begin(self, spec: Any, max_connections: int | None) -> None:
        """Open the session once the run is known: flags of the command line win over the task's own settings.

        An attempt of the same task, such as `eval-retry`, begins anew and draws the same again.
        """
        if self.task_id not in (None, spec.task_id):
            self.refusal = ONE_MODEL
            return
        self.task_id, self.refusal, config = spec.task_id, None, spec.config
        try:
            self._open(spec)
        except (CerevalError, PrerequisiteError) as error:
            self.refusal = str(error)
        self.epochs = config.epochs or 1
        self.window = config.max_samples or max_connections or WINDOW
        self._draws, self._seen, self._flying = {}, {}, 0

    def _open(self, spec: Any) -> None:
        config = spec.config
        if config.sample_id is not None:
            raise PrerequisiteError(
                "--sample-id leaves samples out: a certified task draws its samples itself"
            )
        self.reducer = self._reducer_of(config.epochs_reducer)
        wish = replace(self.wish, budget=config.limit)
        names, table = ([], None) if self.past is None else self.past.table(spec.model, spec.metadata or {})
        judged = {"name": self.scorer, "host": "inspect", "epochs": config.epochs or 1}
        subject = Subject(
            model=spec.model,
            data=str(spec.dataset.name or spec.task),
            contents=self.pool.contents,
            scorer=judged if self.value is None else {**judged, "value": self.value},
            labels=self.pool.labels,
            history=table,
            history_names=names,
        )
        self.question = question(wish, subject, seed_of(spec.task_id))

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
        why = f"{self.scorer} gave no score" if sample.error is None else shown(sample.error.message)
        try:
            part = part_of(sample, self.scorer, self.value)
        except NotOneNumber as error:
            if not self._asked().scored:
                raise self._refused(f"sample {sample.id}: {error}") from None
            part, why = None, str(error)  # anything in [0, 1], for one of many
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
        sample = self.pool.samples[draw.item]
        self._draws[str(sample.id)] = draw
        note: dict[str, Any] = {"draw": draw.index, "item": draw.item, "probability": draw.probability}
        if draw.index < TELLING:
            note |= self._asked().as_dict()
        return sample.model_copy(update={"metadata": {**(sample.metadata or {}), KEY: note}})

    def _settled(self, key: str, epoch: int, score: Score | None, why: str) -> list[Sample]:
        """Note what came of one epoch; tell the session once all are in."""
        asked, epochs = self._asked(), self._seen.setdefault(key, {})
        if epoch in epochs or key not in self._draws:
            return []  # run once more on somebody's request: the first outcome was told
        epochs[epoch] = score
        if len(epochs) < self.epochs:
            return []
        self._flying -= 1
        try:
            asked.tell(self._draws[key], self._reduced(list(epochs.values())), why)
        except (Hopeless, NotOneNumber) as error:
            raise self._refused(str(error)) from None
        except CerevalError as error:
            raise PrerequisiteError(f"sample {key}: {error}") from None
        return self._more()

    def _reduced(self, scores: list[Score | None]) -> float | None:
        there = [score for score in scores if score is not None]
        return number_of(self.reducer(there)) if len(there) == len(scores) else None


def seed_of(task_id: str) -> int:
    """Derive the seed from Inspect's random id of the task, which nobody chose and which `eval-retry` keeps.

    >>> seed_of("a") != seed_of("b"), 0 <= seed_of("a") < 2**53
    (True, True)
    """
    digest = hashlib.sha256(f"cereval:{task_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - SEED_BITS)
