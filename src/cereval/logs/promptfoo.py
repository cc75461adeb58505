"""Read promptfoo: what `promptfoo eval -o out.json` or `-o out.jsonl` writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cereval.datasets.base import canonical
from cereval.errors import BadContent
from cereval.logs.base import Content, Log, Sample, Tool, as_score, digest, question_in, whole_text
from cereval.logs.reading import loose_lines

ERROR = 2
"""`failureReason` of a call that failed; 1 is a wrong answer."""


def _claims(content: Content) -> bool:
    if content.is_file(".jsonl"):
        return {"vars", "provider"} <= set(content.first)
    return content.is_file(".json") and bool(_results(content.value))


def _results(value: Any) -> Sequence[Mapping[str, Any]]:
    results = value.get("results") if isinstance(value, dict) else None
    results = results.get("results") if isinstance(results, dict) else results
    if not isinstance(results, list) or not results or not isinstance(results[0], dict):
        return ()
    return (
        [one for one in results if isinstance(one, dict)] if {"vars", "provider"} <= set(results[0]) else ()
    )


def _read(content: Content, wanted: str | None) -> Log:
    rows = list(loose_lines(content.path)) if content.is_file(".jsonl") else _results(content.value)
    prompts = {row.get("promptIdx", 0) for row in rows}
    samples = [_sample(row, len(prompts) > 1, str(content.path), wanted) for row in rows]
    notes = (f"{len(prompts)} prompts: the same provider with another prompt is another model",)
    return Log("promptfoo", wanted or "score", samples, notes if len(prompts) > 1 else ())


def _sample(row: Mapping[str, Any], several: bool, place: str, wanted: str | None) -> Sample:
    values = row.get("vars")
    values = values if isinstance(values, dict) else {}
    test = row.get("testCase")
    asserted = test.get("assert") if isinstance(test, dict) else None
    texts = [value for value in values.values() if isinstance(value, str)]
    found = question_in(values) or (
        texts[0] if len(values) == len(texts) == 1 else canonical(values).decode(),
        (),
    )
    return Sample(
        model=_model(row) + (f" (prompt {row.get('promptIdx', 0)})" if several else ""),
        task=whole_text((test or {}).get("description") or "promptfoo")
        if isinstance(test, dict)
        else "promptfoo",
        text=whole_text(found[0]),
        score=None if _failed(row) else as_score(_value(row, wanted, place), place, wanted or "score"),
        choices=tuple(map(whole_text, found[1])),
        mark=digest([values, asserted]),
    )


def _model(row: Mapping[str, Any]) -> str:
    provider = row.get("provider")
    if isinstance(provider, dict):
        provider = provider.get("label") or provider.get("id")
    return whole_text(provider or "unknown")


def _failed(row: Mapping[str, Any]) -> bool:
    """Tell whether the call failed; versions without `failureReason` say `error` and give no answer."""
    if row.get("failureReason") is not None:
        return bool(row["failureReason"] == ERROR)
    return bool(row.get("error")) and not row.get("gradingResult")


def _value(row: Mapping[str, Any], wanted: str | None, place: str) -> object:
    if wanted is None:
        return row.get("score", row.get("success"))
    named = row.get("namedScores")
    if not isinstance(named, dict) or wanted not in named:
        raise BadContent(f"{place} has no metric {wanted!r} for one of its results")
    return named[wanted]


TOOL = Tool("promptfoo", _claims, _read)
