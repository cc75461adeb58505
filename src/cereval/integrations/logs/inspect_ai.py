"""Read Inspect's `.eval` (a zip of JSON) and `.json` logs, without inspect-ai."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cereval.errors import BadContent
from cereval.integrations.logs.base import Content, Log, Sample, Tool, as_score, chosen, digest, whole_text
from cereval.integrations.logs.reading import Archive

CUT = "...\n(content truncated)"
"""How a summary says that it holds the beginning of a text only."""

LEFT_OUT = re.compile(r"\((Image|Audio|Video|Data|Document|Reasoning|Tool_use)\)")
"""What a summary says in the place of anything but text."""

GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""Inspect's own reading of values that are words."""


def _claims(content: Content) -> bool:
    if content.is_file(".eval"):
        return True
    return (
        content.is_file(".json")
        and isinstance(content.value, dict)
        and isinstance(content.value.get("eval"), dict)
        and "model" in content.value["eval"]
    )


def _read(content: Content, wanted: str | None) -> Log:
    if not content.is_file(".eval"):
        return _log(content, content.value, _objects(content.value.get("samples") or []), wanted)
    with Archive(content.path) as archive:
        header = archive.json(_first(archive, content, "header.json", "_journal/start.json"))
        if not isinstance(header, dict):
            raise BadContent(f"{content.path} has no header of an evaluation")
        return _log(content, header, list(_in_full(archive, _summaries(archive))), wanted)


def _first(archive: Archive, content: Content, *names: str) -> str:
    found = next((name for name in names if name in archive.names), None)
    if found is None:
        raise BadContent(f"{content.path} is a zip file without {names[0]}: no log of Inspect")
    return found


def _summaries(archive: Archive) -> list[Mapping[str, Any]]:
    """List the summaries of all samples: of a run that ended, of one that was cut off, or the samples of an old log."""
    if "summaries.json" in archive.names:
        return _objects(archive.json("summaries.json"))
    parts = sorted(name for name in archive.names if name.startswith("_journal/summaries/"))
    if parts:
        return [one for name in parts for one in _objects(archive.json(name))]
    samples = sorted(name for name in archive.names if name.startswith("samples/"))
    return _objects([archive.json(name) for name in samples])


def _in_full(archive: Archive, summaries: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Put the whole input where a summary has a part of it only."""
    for summary in summaries:
        name = f"samples/{summary.get('id')}_epoch_{summary.get('epoch')}.json"
        if _is_cut(summary.get("input")) and name in archive.names:
            sample = archive.json(name)
            if isinstance(sample, dict):
                yield {**summary, "input": sample.get("input")}
                continue
        yield summary


def _is_cut(asked: Any) -> bool:
    return any(CUT in part or LEFT_OUT.fullmatch(part) for part in _texts(asked))


def _texts(asked: Any) -> Iterator[str]:
    if isinstance(asked, str):
        yield asked
    for message in asked if isinstance(asked, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        yield from _texts(content) if isinstance(content, str) else map(_part, content or ())


def _part(part: Any) -> str:
    """Return a part of a message: its text, or a name of what else it is."""
    if not isinstance(part, dict):
        return str(part)
    return str(part["text"]) if isinstance(part.get("text"), str) else digest(part)


def _objects(values: Any) -> list[Mapping[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _log(
    content: Content, header: Mapping[str, Any], found: Sequence[Mapping[str, Any]], wanted: str | None
) -> Log:
    about = header.get("eval")
    place = str(content.path)
    if not isinstance(about, dict) or not found:
        raise BadContent(f"{place} holds no samples (was it written with --no-log-samples?)")
    metric = chosen(_metrics(found), wanted, place)
    samples = [
        Sample(
            model=whole_text(about.get("model")),
            task=whole_text(about.get("task")),
            text=_text(one.get("input")),
            score=None if one.get("error") else _value(one, metric, place),
            choices=tuple(map(whole_text, one.get("choices") or ())),
            mark=_mark(one),
        )
        for one in found
    ]
    status = header.get("status", "started")
    notes = () if status == "success" else (f"the evaluation did not finish ({status})",)
    return Log("Inspect", metric, samples, notes)


def _metrics(found: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """List the names of the scores: a scorer, or `scorer.part` where it gives several."""
    for one in found:
        for scorer, score in _scores(one).items():
            value = score.get("value") if isinstance(score, dict) else None
            yield from (f"{scorer}.{part}" for part in value) if isinstance(value, dict) else (scorer,)


def _scores(one: Mapping[str, Any]) -> Mapping[str, Any]:
    scores = one.get("scores")
    return scores if isinstance(scores, dict) else {}


def _value(one: Mapping[str, Any], metric: str, place: str) -> float | None:
    scores = _scores(one)
    scorer, part = (metric, None) if metric in scores else metric.rpartition(".")[::2]
    score = scores.get(scorer)
    value = score.get("value") if isinstance(score, dict) else None
    if part is not None:
        value = value.get(part) if isinstance(value, dict) else None
    return as_score(number_in(value) if isinstance(value, str) else value, place, metric)


def number_in(value: Any) -> float | None:
    """Read the value of a score as Inspect does; None where it is no number, which Inspect would count as 0."""
    if not isinstance(value, str | int | float):
        return None
    grade = GRADES.get(value, GRADES.get(value.lower())) if isinstance(value, str) else None
    try:
        return float(value) if grade is None else grade
    except (ValueError, OverflowError):
        return None


def _text(asked: Any) -> str:
    """Return the question: a text, the one thing that the user says, or all turns but the system's."""
    if isinstance(asked, str):
        return whole_text(asked)
    turns = [turn for turn in _objects(asked) if turn.get("role") != "system"]
    if len(turns) == 1:
        return whole_text("\n".join(_texts(turns)))
    return whole_text("\n\n".join(f"{turn.get('role')}: " + "\n".join(_texts([turn])) for turn in turns))


def _mark(one: Mapping[str, Any]) -> str:
    """Return an id that somebody chose; a number is a place, and there the target tells samples apart."""
    name = one.get("id")
    return name if isinstance(name, str) and not name.isdigit() else digest(one.get("target"))


TOOL = Tool("Inspect", _claims, _read)
