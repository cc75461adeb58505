"""Certificates in Inspect's logs: taken out, or made again from the samples."""

from __future__ import annotations

import logging
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.scorer import Score, mean_score
from inspect_ai.scorer._reducer import create_reducers

from cereval.errors import BadContent, shown
from cereval.files import JSON_LIMIT, open_regular
from cereval.integrations.inspect.metric import NOTE
from cereval.integrations.inspect.scores import number_of, part_of

CERTIFICATE, HEADLINE = "cereval_certificate", "cereval_headline"
"""Names in the metadata of a log."""


def certificate_of(log: EvalLog | str | Path) -> dict[str, Any]:
    """Take the certificate out of a log, as `cereval verify` recomputes it."""
    place = log.location if isinstance(log, EvalLog) else str(log)
    found = (log if isinstance(log, EvalLog) else read_log(log, header_only=True)).metadata.get(CERTIFICATE)
    if not isinstance(found, dict):
        raise BadContent(f"{place}: this log has no certificate of cereval; did its run end?")
    return found


def read_log(path: str | Path, *, header_only: bool) -> EvalLog:
    """Read a log; whatever is wrong with the file is one line."""
    with open_regular(path):
        pass  # what is missing, or no file at all, says so itself
    try:
        _check_sizes(path)
        with _quiet():
            return read_eval_log(str(path), header_only=header_only)
    except BadContent:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {shown(str(error))}"
        raise BadContent(f"{path} cannot be read as a log of Inspect ({said})") from None


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


def _check_sizes(path: str | Path) -> None:
    """Refuse a small file that would unpack to a huge one."""
    with open_regular(path) as file:
        members = zipfile.ZipFile(file).infolist() if zipfile.is_zipfile(file) else []
    largest = max((one.file_size for one in members), default=0)
    if largest > JSON_LIMIT:
        raise BadContent(
            f"{path}: a part of it unpacks to {largest:,} bytes; at most {JSON_LIMIT:,} are read"
        )


def departures_of(path: str | Path, certificate: dict[str, Any]) -> list[str]:
    """Say where the samples of a log are not what its certificate says, such as after they were scored anew."""
    scorer = certificate["plan"]["scorer"]
    log = read_log(path, header_only=False)
    name = str(scorer.get("name"))
    if not any(name in (one.scores or {}) for one in log.samples or []):
        return [f"no sample of the log was scored by {name}, which the certificate is about"]
    try:
        with _quiet():
            told = told_in(log, scorer)
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        # The certificate holds, and the samples are a stranger's: a list where a number should be, and so on.
        said = f"{type(error).__name__}: {shown(str(error))}"
        return [f"the samples of the log are not those of a certified run ({said})"]
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
    return {draw: (items[draw], _reduced(found, reduce)) for draw, found in parts.items()}


def _reduced(parts: list[Score | None], reduce: Any) -> float | None:
    there = [part for part in parts if part is not None]
    return number_of(reduce(there)) if len(there) == len(parts) else None
