"""Read HELM: the folder of a run, with `run_spec.json`, `scenario_state.json` and `per_instance_stats.json`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cereval.errors import BadContent
from cereval.logs.base import Content, Log, Sample, Tool, as_score, chosen, digest, whole_text
from cereval.logs.reading import loose_json
from cereval.paths import is_file, is_folder

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
    rows = [row for row in _objects(stats) if not row.get("perturbation")]
    copies = len(_objects(stats)) - len(rows)
    metric = chosen((name for row in rows for name, _ in _values(row)), wanted, str(folder), PREFERRED)
    task = re.sub(r",?model=[^,]*", "", str(spec.get("name", "helm")))
    model, choosing = (
        str(adapter.get("model", "unknown")),
        str(adapter.get("method", "")).startswith("multiple"),
    )
    samples = [
        _sample(asked[key], model, task, choosing, dict(_values(row)).get(metric), folder, metric)
        for row in rows
        if (key := str(row.get("instance_id"))) in asked
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
    references = [str(_inner(one, "output", "text")) for one in _objects(instance.get("references"))]
    failed = _inner(state, "result", "success") is False
    return Sample(
        model=whole_text(model),
        task=whole_text(task),
        text=whole_text(_inner(instance, "input", "text") or ""),
        score=None if failed else as_score(value, str(folder), metric),
        choices=tuple(map(whole_text, references)) if choosing else (),
        mark=digest(references),
    )


def _asked(state: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Find the first request of every instance, without the perturbed ones. Ids hold inside one run only."""
    found: dict[str, Mapping[str, Any]] = {}
    for one in _objects(state.get("request_states")):
        instance = one.get("instance")
        if isinstance(instance, dict) and not instance.get("perturbation"):
            found.setdefault(str(instance.get("id")), one)
    return found


def _values(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """List the means of an instance's metrics; several trials are averaged by the table."""
    seen: defaultdict[str, int] = defaultdict(int)
    for stat in _objects(row.get("stats")):
        name = stat.get("name")
        if isinstance(name, dict) and not name.get("perturbation") and not seen[str(name.get("name"))]:
            seen[str(name.get("name"))] += 1
            yield str(name.get("name")), stat.get("mean")


def _inner(value: Any, *way: str) -> Any:
    for name in way:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _objects(values: Any) -> list[Mapping[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _object(value: Any, path: Path) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadContent(f"{path} must hold one JSON object")
    return value


TOOL = Tool("HELM", _claims, _read)
