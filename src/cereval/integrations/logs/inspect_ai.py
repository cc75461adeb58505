"""Read Inspect's `.eval` (a zip of JSON) and `.json` logs, without inspect-ai."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cereval.errors import BadContent
from cereval.integrations.logs.base import Archive, Content, Log, Sample, Tool, as_score, choose, digest

CUT = "...\n(content truncated)"
"""How a summary says that it holds the beginning of a text only."""

LEFT_OUT = re.compile(r"\((Image|Audio|Video|Data|Document|Reasoning|Tool_use)\)")
"""What a summary says in the place of anything but text."""

GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""Inspect's own reading of values that are words."""

One = Mapping[str, Any]


def number_in(value: Any) -> float | None:
    """Read the value of a score as Inspect does; None where it is no number, which Inspect would count as 0."""
    if not isinstance(value, str | int | float):
        return None
    grade = GRADES.get(value, GRADES.get(value.lower())) if isinstance(value, str) else None
    try:
        return float(value) if grade is None else grade
    except (ValueError, OverflowError):
        return None


def _claims(content: Content) -> bool:
    if content.is_file(".eval"):
        return True
    value = content.value if content.is_file(".json") else None
    return isinstance(value, dict) and isinstance(value.get("eval"), dict) and "model" in value["eval"]


def _read(content: Content, wanted: str | None) -> Log:
    if not content.is_file(".eval"):
        return _log(content, content.value, content.value.get("samples") or [], wanted)
    with Archive(content.path) as archive:
        header = next(
            (name for name in ("header.json", "_journal/start.json") if name in archive.names), None
        )
        if header is None:
            raise BadContent(f"{content.path} is a zip file without header.json: no log of Inspect")
        return _log(content, archive.json(header), list(_in_full(archive, _summaries(archive))), wanted)


def _summaries(archive: Archive) -> list[One]:
    """List the summaries of all samples: of a run that ended, of one that was cut off, or the samples of an old log."""
    if "summaries.json" in archive.names:
        return list(archive.json("summaries.json"))
    parts = sorted(name for name in archive.names if name.startswith("_journal/summaries/"))
    if parts:
        return [one for name in parts for one in archive.json(name)]
    return [archive.json(name) for name in sorted(archive.names) if name.startswith("samples/")]


def _in_full(archive: Archive, summaries: Iterable[One]) -> Iterator[One]:
    """Put the whole input where a summary has a part of it only."""
    for summary in summaries:
        name = f"samples/{summary.get('id')}_epoch_{summary.get('epoch')}.json"
        parts = _texts(summary.get("input"))
        if name in archive.names and any(CUT in part or LEFT_OUT.fullmatch(part) for part in parts):
            yield {**summary, "input": archive.json(name)["input"]}
        else:
            yield summary


def _log(content: Content, header: One, found: Sequence[One], wanted: str | None) -> Log:
    about, place = header["eval"], content.path
    if not found:
        raise BadContent(f"{place} holds no samples (was it written with --no-log-samples?)")
    metrics = tuple(dict.fromkeys(_metrics(found)))
    metric = choose(metrics, wanted, place)
    samples = [
        Sample(
            model=about.get("model"),
            task=about.get("task"),
            text=_text(one.get("input")),
            score=None if one.get("error") else _value(one, metric, place),
            choices=one.get("choices") or (),
            mark=_mark(one),
            fields=one.get("metadata") or {},
        )
        for one in found
    ]
    status, config = header.get("status", "started"), about.get("config") or {}
    notes = [] if status == "success" else [f"the evaluation did not finish ({status})"]
    reducers = [one for one in config.get("epochs_reducer") or () if one != "mean"]
    if reducers and (config.get("epochs") or 1) > 1:
        notes.append(
            f"its epochs are averaged here, and were reduced by {', '.join(map(str, reducers))} there"
        )
    return Log("Inspect", metric, samples, tuple(notes), metrics)


def _metrics(found: Iterable[One]) -> Iterator[str]:
    for one in found:
        for scorer, score in (one.get("scores") or {}).items():
            value = score.get("value")
            yield from (f"{scorer}.{part}" for part in value) if isinstance(value, dict) else (scorer,)


def _value(one: One, metric: str, place: object) -> float | None:
    scores = one.get("scores") or {}
    scorer, part = (metric, None) if metric in scores else metric.rpartition(".")[::2]
    value = (scores.get(scorer) or {}).get("value")
    if part is not None:
        value = value.get(part) if isinstance(value, dict) else None
    return as_score(number_in(value) if isinstance(value, str) else value, place, metric)


def _text(asked: Any) -> str:
    """Return the question: a text, the one thing that the user says, or all turns but the system's."""
    if isinstance(asked, str):
        return asked
    turns = [turn for turn in asked or () if turn.get("role") != "system"]
    if len(turns) == 1:
        return "\n".join(_texts(turns))
    return "\n\n".join(f"{turn.get('role')}: " + "\n".join(_texts([turn])) for turn in turns)


def _texts(asked: Any) -> Iterator[str]:
    """List the parts of an input: its texts, and names of whatever else there is."""
    if isinstance(asked, str):
        yield asked
        return
    for message in asked or ():
        content = message.get("content")
        for part in [content] if isinstance(content, str) else content or ():
            text = part.get("text") if isinstance(part, dict) else str(part)
            yield text if isinstance(text, str) else digest(part)


def _mark(one: One) -> str:
    """Return an id that somebody chose; a number is a place, and there the target tells samples apart."""
    name = one.get("id")
    return name if isinstance(name, str) and not name.isdigit() else digest(one.get("target"))


TOOL = Tool("Inspect", _claims, _read)
