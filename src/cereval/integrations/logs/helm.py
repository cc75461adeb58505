"""Read HELM: the folder of a run, with `run_spec.json`, `scenario_state.json` and `per_instance_stats.json`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cereval.errors import BadContent
from cereval.files import is_file, is_folder
from cereval.integrations.logs.base import Content, Log, Sample, Tool, as_score, choose, digest, loose_json

STATS, STATE, SPEC = "per_instance_stats.json", "scenario_state.json", "run_spec.json"
PREFERRED = ("exact_match", "quasi_exact_match", "prefix_exact_match", "final_number_exact_match", "f1_score")
RECORDS = re.compile(
    r"num_|estimated_|max_|finish_reason|inference_|training_|batch_|prompt_|logprob|perplexity|bits_per|logits|predicted_index"
    r"|ece_|platt_|selective_|prob$"
)
"""How the names of what HELM writes down about every run begin: such a number is no score."""


def is_run(folder: Path) -> bool:
    return is_file(folder / STATS)


def _claims(content: Content) -> bool:
    return is_run(content.path) or content.path.name == STATS


def _read(content: Content, wanted: str | None) -> Log:
    folder = content.path if is_folder(content.path) else content.path.parent
    spec, state, stats = (loose_json(folder / name) for name in (SPEC, STATE, STATS))
    asked, (rows, copies) = _asked(state), _scored(stats)
    metrics = tuple(dict.fromkeys(name for row in rows.values() for name in row))
    metric = _choose(metrics, wanted, folder)
    adapter = spec.get("adapter_spec") or {}
    choosing = str(adapter.get("method", "")).startswith("multiple")
    samples = []
    for (instance_id, _), row in rows.items():
        if instance_id not in asked:
            continue
        instance, failed = asked[instance_id]
        references = [_text(one.get("output")) for one in instance.get("references") or ()]
        samples.append(
            Sample(
                model=adapter.get("model", "unknown"),
                task=re.sub(r",?model=[^,]*", "", str(spec.get("name", "helm"))).rstrip(":"),
                text=_text(instance.get("input")),
                score=None if failed else as_score(row.get(metric), folder, metric),
                choices=references if choosing else (),
                mark=digest(references),
            )
        )
    if not samples:
        raise BadContent(f"{folder}: no instance of {STATS} has a text in {STATE}")
    notes = [f"{copies:,} perturbed copies were left out"] if copies else []
    notes += [f"{len(rows) - len(samples):,} instances have no text"] if len(samples) < len(rows) else []
    return Log("HELM", metric, samples, tuple(notes), [name for name in metrics if not RECORDS.match(name)])


def _choose(metrics: tuple[str, ...], wanted: str | None, folder: Path) -> str:
    """Take the metric that was named, or the one that scores here; of several without a well known name, none."""
    scores = [name for name in metrics if not RECORDS.match(name)]
    if wanted is None and len(scores) > 1 and not set(scores) & set(PREFERRED):
        raise BadContent(
            f"{folder}: which metric is the score? name one with --metric: {', '.join(scores[:10])}"
        )
    return choose(scores if wanted is None else metrics, wanted, folder, PREFERRED)


def _asked(state: Any) -> Mapping[str, tuple[Mapping[str, Any], bool]]:
    """Find the instances by their ids, without the perturbed ones, and whether they failed. Ids hold in one run only.

    A question may be several requests, one for each of its choices: when any of them failed, HELM went on with an empty
    answer, and what it scored is no score.
    """
    found: dict[str, tuple[Mapping[str, Any], bool]] = {}
    for one in state.get("request_states") or ():
        instance, result = one["instance"], one.get("result") or {}
        if not instance.get("perturbation"):
            known, failed = found.get(str(instance.get("id")), (instance, False))
            found[str(instance.get("id"))] = known, failed or result.get("success") is False
    return found


def _text(value: Any) -> str:
    """Return the text of an input or output: a plain text before 0.2, else its `text`, its messages or its media."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return ""
    if value.get("text"):
        return str(value["text"])
    said = [str(one.get("content")) for one in value.get("messages") or ()]
    media = (value.get("multimedia_content") or {}).get("media_objects") or ()
    return "\n".join([*said, *(str(one.get("text") or one.get("location") or "") for one in media)])


def _scored(stats: Any) -> tuple[dict[tuple[str, str], dict[str, Any]], int]:
    """Gather the means of every instance and trial: each metric of a run writes its rows. Count perturbed copies."""
    found: defaultdict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    copies = set()
    for row in stats:
        key = str(row.get("instance_id")), str(row.get("train_trial_index"))
        if row.get("perturbation"):
            copies.add((*key, digest(row["perturbation"])))
            continue
        for stat in row.get("stats") or ():
            if not stat["name"].get("perturbation"):
                found[key].setdefault(str(stat["name"].get("name")), stat.get("mean"))
    return found, len(copies)


TOOL = Tool("HELM", _claims, _read)
