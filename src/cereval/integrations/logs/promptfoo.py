"""Read promptfoo: what `promptfoo eval -o out.json` or `-o out.jsonl` writes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from cereval.datasets.base import canonical
from cereval.integrations.logs.base import (
    Content,
    Log,
    Sample,
    Tool,
    as_score,
    chosen,
    digest,
    question_in,
    whole_text,
)
from cereval.integrations.logs.reading import loose_lines

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
    metric = chosen((name for row in rows for name in _scores(row)), wanted, str(content.path), ("score",))
    models = _models(rows)
    samples = [_sample(row, models[_asked(row)], str(content.path), metric) for row in rows]
    prompts = max(Counter(provider for provider, _ in models).values(), default=1)
    note = f"{prompts} prompts: the same provider with another prompt is another model"
    return Log("promptfoo", metric, samples, (note,) if prompts > 1 else ())


def _models(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """Name the models: the provider, and where one was asked with several prompts, the number of its prompt.

    `promptIdx` counts columns, which are prompts of providers: two providers with one prompt have 0 and 1.
    """
    prompts: defaultdict[str, list[str]] = defaultdict(list)
    for model, prompt in sorted({_asked(row) for row in rows}):
        prompts[model].append(prompt)
    return {
        (model, prompt): model + (f" (prompt {number})" if len(of) > 1 else "")
        for model, of in prompts.items()
        for number, prompt in enumerate(of)
    }


def _asked(row: Mapping[str, Any]) -> tuple[str, str]:
    """Tell who was asked, and with which prompt; versions before 0.97 have no index, but the prompt's text."""
    if not row.get("vars"):
        return _model(row), ""  # the prompt is the question
    if isinstance(row.get("promptIdx"), int):
        return _model(row), f"{row['promptIdx']:09}"
    prompt = row.get("prompt")
    return _model(row), str(prompt.get("display") or prompt.get("label")) if isinstance(prompt, dict) else ""


def _sample(row: Mapping[str, Any], model: str, place: str, metric: str) -> Sample:
    values = row.get("vars")
    values = values if isinstance(values, dict) else {}
    test = row.get("testCase")
    test = test if isinstance(test, dict) else {}
    text, choices = _question(row, values)
    return Sample(
        model=model,
        task=whole_text(test.get("description") or row.get("description") or "promptfoo"),
        text=whole_text(text),
        score=None if _failed(row) else as_score(_scores(row).get(metric), place, metric),
        choices=tuple(map(whole_text, choices)),
        mark=digest([values, test.get("assert")]),
    )


def _question(row: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Find the question among the variables; of several that have no known name all, of none the prompt as sent."""
    texts = [value for value in values.values() if isinstance(value, str)]
    prompt = row.get("prompt")
    if not values and isinstance(prompt, dict):
        return str(prompt.get("raw")), ()
    return question_in(values) or (
        texts[0] if len(values) == len(texts) == 1 else canonical(values).decode(),
        (),
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


def _scores(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """List the scores of a result: the whole one, whether it passed, and those of assertions with a `metric`."""
    named = row.get("namedScores")
    return {
        **(named if isinstance(named, dict) else {}),
        "success": row.get("success"),
        "score": row.get("score", row.get("success")),
    }


TOOL = Tool("promptfoo", _claims, _read)
