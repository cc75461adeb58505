"""Read HELM: the folder of a run, with `run_spec.json`, `scenario_state.json` and `per_instance_stats.json`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cereval.errors import BadContent
from cereval.files import is_file, is_folder
from cereval.integrations.logs.base import Content, Log, Sample, Tool, as_score, chosen, digest, whole_text
from cereval.integrations.logs.reading import loose_json

STATS, STATE, SPEC = "per_instance_stats.json", "scenario_state.json", "run_spec.json"
PREFERRED = ("exact_match", "quasi_exact_match", "prefix_exact_match", "final_number_exact_match", "f1_score")


def is_run(folder: Path) -> bool:
    """Tell whether a folder is that of one run."""
    return is_file(folder / STATS)


def _claims(content: Content) -> bool:
    return is_run(content.path) or content.path.name == STATS


def _read(content: Content, wanted: str | None) -> Log:
    folder = content.path if is_folder(content.path) else content.path.parent
    spec, stats = _object(loose_json(folder / SPEC), folder / SPEC), loose_json(folder / STATS)
    adapter = spec.get("adapter_spec")
    adapter = adapter if isinstance(adapter, dict) else {}
    asked = _asked(_object(loose_json(folder / STATE), folder / STATE))
    rows, copies = _scored(stats)
    metric = chosen((name for row in rows.values() for name in row), wanted, str(folder), PREFERRED)
    task = re.sub(r",?model=[^,]*", "", str(spec.get("name", "helm"))).rstrip(":")
    model, choosing = (
        str(adapter.get("model", "unknown")),
        str(adapter.get("method", "")).startswith("multiple"),
    )
    samples = [
        _sample(asked[instance], model, task, choosing, row.get(metric), folder, metric)
        for (instance, _), row in rows.items()
        if instance in asked
    ]
    if not samples:
        raise BadContent(f"{folder}: no instance of {STATS} has a text in {STATE}")
    notes = [f"{copies:,} perturbed copies were left out"] if copies else []
    notes += [f"{len(rows) - len(samples):,} instances have no text"] if len(samples) < len(rows) else []
    return Log("HELM", metric, samples, tuple(notes))


def _sample(
    state: Mapping[str, Any],
    model: str,
    task: str,
    choosing: bool,
    value: object,
    folder: Path,
    metric: str,
) -> Sample:
    instance = _object(state.get("instance"), folder / STATE)
    references = [_text(one.get("output")) for one in _objects(instance.get("references"))]
    return Sample(
        model=whole_text(model),
        task=whole_text(task),
        text=whole_text(_text(instance.get("input"))),
        score=None if state.get("failed") else as_score(value, str(folder), metric),
        choices=tuple(map(whole_text, references)) if choosing else (),
        mark=digest(references),
    )


def _asked(state: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Find the instances by their ids, without the perturbed ones. Ids hold inside one run only.

    A question may be several requests, one for each of its choices: when any of them failed, HELM went on with an empty
    answer, and what it scored is no score.
    """
    found: dict[str, dict[str, Any]] = {}
    for one in _objects(state.get("request_states")):
        instance, result = one.get("instance"), one.get("result")
        if isinstance(instance, dict) and not instance.get("perturbation"):
            known = found.setdefault(str(instance.get("id")), {"instance": instance, "failed": False})
            known["failed"] |= isinstance(result, dict) and result.get("success") is False
    return found


def _text(value: Any) -> str:
    """Return the text of an input or output: a plain text before 0.2, else its `text`, its messages or its media."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return ""
    if value.get("text"):
        return str(value["text"])
    said = [str(one.get("content")) for one in _objects(value.get("messages"))]
    media = value.get("multimedia_content")
    shown = _objects(media.get("media_objects")) if isinstance(media, dict) else []
    said += [str(one.get("text") or one.get("location") or "") for one in shown]
    return "\n".join(said)


def _scored(stats: Any) -> tuple[dict[tuple[str, str], dict[str, Any]], int]:
    """Gather the means of every instance and trial: each metric of a run writes its rows. Count perturbed copies."""
    found: defaultdict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    copies = set()
    for row in _objects(stats):
        key = str(row.get("instance_id")), str(row.get("train_trial_index"))
        if row.get("perturbation"):
            copies.add((*key, digest(row["perturbation"])))
        else:
            found[key] = {**dict(_values(row)), **found[key]}
    return found, len(copies)


def _values(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """List the means of the metrics in one row."""
    for stat in reversed(_objects(row.get("stats"))):
        name = stat.get("name")
        if isinstance(name, dict) and not name.get("perturbation"):
            yield str(name.get("name")), stat.get("mean")


def _objects(values: Any) -> list[Mapping[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _object(value: Any, path: Path) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadContent(f"{path} must hold one JSON object")
    return value


TOOL = Tool("HELM", _claims, _read)
