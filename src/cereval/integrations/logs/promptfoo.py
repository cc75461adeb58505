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
    choose,
    digest,
    loose_lines,
    question_in,
)

ERROR = 2
"""`failureReason` of a call that failed; 1 is a wrong answer."""

Row = Mapping[str, Any]


def _claims(content: Content) -> bool:
    if content.is_file(".jsonl"):
        return {"vars", "provider"} <= set(content.first)
    return content.is_file(".json") and bool(_results(content.value))


def _results(value: Any) -> Sequence[Row]:
    results = value.get("results") if isinstance(value, dict) else None
    results = results.get("results") if isinstance(results, dict) else results
    if not isinstance(results, list) or not results or not isinstance(results[0], dict):
        return ()
    return results if {"vars", "provider"} <= set(results[0]) else ()


def _read(content: Content, wanted: str | None) -> Log:
    rows = list(loose_lines(content.path)) if content.is_file(".jsonl") else _results(content.value)
    metrics = tuple(dict.fromkeys(name for row in rows for name in _scores(row)))
    metric = choose(metrics, wanted, content.path, ("score",))
    models = _models(rows)
    samples = [
        Sample(
            model=models[_asked(row)],
            task=row.get("testCase", {}).get("description") or row.get("description") or "promptfoo",
            text=_question(row)[0],
            score=None if _failed(row) else as_score(_scores(row).get(metric), content.path, metric),
            choices=_question(row)[1],
            mark=digest([row.get("vars") or {}, row.get("testCase", {}).get("assert")]),
            fields=row.get("vars") or {},
        )
        for row in rows
    ]
    prompts = max(Counter(provider for provider, _ in models).values(), default=1)
    note = f"{prompts} prompts: the same provider with another prompt is another model"
    return Log("promptfoo", metric, samples, (note,) if prompts > 1 else (), metrics)


def _models(rows: Sequence[Row]) -> dict[tuple[str, str], str]:
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


def _asked(row: Row) -> tuple[str, str]:
    """Tell who was asked, and with which prompt; versions before 0.97 have no index, but the prompt's text."""
    provider = row.get("provider")
    if isinstance(provider, dict):
        provider = provider.get("label") or provider.get("id")
    model, prompt = str(provider or "unknown"), row.get("prompt")
    if not row.get("vars"):
        return model, ""  # the prompt is the question
    if isinstance(row.get("promptIdx"), int):
        return model, f"{row['promptIdx']:09}"
    return model, str(prompt.get("display") or prompt.get("label")) if isinstance(prompt, dict) else ""


def _question(row: Row) -> tuple[str, Sequence[str]]:
    """Find the question among the variables; of several that have no known name all, of none the prompt as sent."""
    values = row.get("vars") or {}
    if not values and isinstance(row.get("prompt"), dict):
        return str(row["prompt"].get("raw")), ()
    texts = [value for value in values.values() if isinstance(value, str)]
    one = texts[0] if len(values) == len(texts) == 1 else canonical(values).decode()
    return question_in(values) or (one, ())


def _failed(row: Row) -> bool:
    """Tell whether the call failed; versions without `failureReason` say `error` and give no answer."""
    if row.get("failureReason") is not None:
        return bool(row["failureReason"] == ERROR)
    return bool(row.get("error")) and not row.get("gradingResult")


def _scores(row: Row) -> Row:
    """List the scores of a result: the whole one, whether it passed, and those of assertions with a `metric`."""
    whole = {"success": row.get("success"), "score": row.get("score", row.get("success"))}
    return {**(row.get("namedScores") or {}), **whole}


TOOL = Tool("promptfoo", _claims, _read)
