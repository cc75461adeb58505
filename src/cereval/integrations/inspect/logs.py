"""Read Inspect's logs: the certificate in one, where its samples are not what that says, and past logs as history."""

from __future__ import annotations

import logging
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Any

import numpy as np
from inspect_ai.log import EvalLog, list_eval_logs, read_eval_log, read_eval_log_samples
from inspect_ai.scorer import Score, mean_score

from cereval.arrays import Floats
from cereval.errors import BadContent, BadFile, shown
from cereval.files import JSON_LIMIT, open_regular
from cereval.integrations.inspect.host import create_reducers
from cereval.integrations.inspect.scores import NOTE, NotOneNumber, number_of, part_of
from cereval.plan import digest_of

CERTIFICATE, HEADLINE = "cereval_certificate", "cereval_headline"
"""Names in the metadata of a log."""

RECORD = "cereval_history_"
"""How the names begin under which a task's metadata says which logs were its history."""

UNREAD = {"messages", "events", "store", "attachments", "output"}
"""Parts of a sample that a score does not need."""

log = logging.getLogger(__name__)


def content_of(sample: Any) -> str:
    """Digest what a sample asks and expects, of the data set or of a log: positions and ids are not trusted."""
    given = sample.input
    turns = given if isinstance(given, str) else [[turn.role, turn.text] for turn in given]
    target = sample.target if isinstance(sample.target, str) else list(sample.target)
    return digest_of([turns, target, list(sample.choices or ())])


# -- the certificate ------------------------------------------------------------------------------------------------


def certificate_of(log: EvalLog | str | Path) -> dict[str, Any]:
    place = log.location if isinstance(log, EvalLog) else str(log)
    found = (log if isinstance(log, EvalLog) else read_log(log, header_only=True)).metadata.get(CERTIFICATE)
    if not isinstance(found, dict):
        raise BadContent(f"{place}: this log has no certificate of cereval; did its run end?")
    return found


def read_log(path: str | Path, *, header_only: bool) -> EvalLog:
    try:
        with open_regular(path) as file:
            members = zipfile.ZipFile(file).infolist() if zipfile.is_zipfile(file) else []
        # A small file may unpack to a huge one.
        largest = max((one.file_size for one in members), default=0)
        if largest > JSON_LIMIT:
            raise BadContent(
                f"{path}: a part of it unpacks to {largest:,} bytes; at most {JSON_LIMIT:,} are read"
            )
        with _quiet():
            return read_eval_log(str(path), header_only=header_only)
    except BadFile:
        raise
    except Exception as error:
        raise BadContent(f"{path} cannot be read as a log of Inspect ({_said(error)})") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Inspect from repeating, on the terminal and as it stands, what a log says."""
    logger = logging.getLogger("inspect_ai")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {shown(str(error))}"


def departures_of(path: str | Path, certificate: dict[str, Any]) -> list[str]:
    """Say where the samples of a log are not what its certificate says, such as after they were scored anew."""
    spec = certificate["plan"]["scorer"]["spec"]
    scorer = spec if isinstance(spec, Mapping) else {"name": spec}
    log = read_log(path, header_only=False)
    name = str(scorer.get("name"))
    if not any(name in (one.scores or {}) for one in log.samples or []):
        return [f"no sample of the log was scored by {name}, which the certificate is about"]
    try:
        with _quiet():
            told = told_in(log, scorer)
    except (NotOneNumber, TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        # The certificate holds, and the samples are a stranger's: a list where a number should be, and so on.
        return [f"the samples of the log are not those of a certified run ({_said(error)})"]
    return [
        f"draw {number}: the log's sample has item {item} with score {score}, "
        f"the certificate item {entry['item']} with score {entry['score']}"
        for number, entry in enumerate(certificate["log"])
        for item, score in [told.get(number, (entry["item"], None))]
        if (item, score) != (entry["item"], entry["score"])
    ]


def told_in(log: EvalLog, scorer: Mapping[str, Any]) -> dict[int, tuple[int, float | None]]:
    """Return the number of the item and the score behind every draw in a log; None where it failed."""
    parts: dict[int, list[Score | None]] = defaultdict(list)
    items: dict[int, int] = {}
    for one in log.samples or []:
        note = one.metadata.get(NOTE)
        if isinstance(note, Mapping):
            items[int(note["draw"])] = int(note["item"])
            parts[int(note["draw"])].append(part_of(one, str(scorer["name"]), scorer.get("value")))
    reduce = (create_reducers(log.eval.config.epochs_reducer) or [mean_score()])[0]
    return {
        draw: (items[draw], None if any(part is None for part in found) else number_of(reduce(found)))
        for draw, found in parts.items()
    }


# -- past logs ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class PastLog:
    eval_id: str
    model: str
    scores: Mapping[int, float]


@dataclass(frozen=True, slots=True, eq=False)
class PastLogs:
    """Hold all of them that share samples with a task: what other models scored on them."""

    n_items: int
    logs: tuple[PastLog, ...] = ()
    read_at: float = field(default_factory=time)

    def noted(self) -> dict[str, Any]:
        """Say which logs were there, under a name of its own: a retry has this note beside the first attempt's."""
        names = sorted(one.eval_id for one in self.logs)
        return {RECORD + digest_of([names, self.read_at])[:12]: {"at": self.read_at, "evals": names}}

    def table(self, model: str, metadata: Mapping[str, Any]) -> tuple[list[str], Floats | None]:
        """Return the logs of other models as columns; of an earlier attempt, those that were there when it began."""
        notes = [value for name, value in metadata.items() if name.startswith(RECORD)]
        first = set(min(notes, key=lambda one: float(one["at"]))["evals"]) if notes else None
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


def read_history(
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
            try:
                head = read_eval_log(info.name, header_only=True)
                scores = _past_scores(info.name, numbers, scorer, value) if head.status == "success" else {}
            except Exception as error:
                log.warning(f"cereval: history: {info.name} was left out ({_said(error)})")
                continue
            if scores:
                found[head.eval.eval_id] = PastLog(head.eval.eval_id, head.eval.model, scores)
    return PastLogs(len(contents), tuple(found[name] for name in sorted(found)))


def _past_scores(
    name: str, numbers: Mapping[str, Sequence[int]], scorer: str, value: str | None
) -> dict[int, float]:
    seen: dict[int, list[float]] = defaultdict(list)
    for sample in read_eval_log_samples(name, all_samples_required=False, exclude_fields=UNREAD):
        part = part_of(sample, scorer, value)
        number = None if part is None else number_of(part)
        if number is not None and 0 <= number <= 1:
            for item in numbers.get(content_of(sample), ()):
                seen[item].append(number)
    return {item: sum(all_of) / len(all_of) for item, all_of in sorted(seen.items())}
