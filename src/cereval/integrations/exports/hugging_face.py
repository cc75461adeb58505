"""Write for Hugging Face: an entry of `.eval_results/*.yaml` in a model's repository."""

from __future__ import annotations

from typing import Any

from cereval.errors import InvalidInput
from cereval.integrations.exports import Exported, Part
from cereval.text import interval, percent


def text(found: Exported, dataset: str | None = None, url: str | None = None, **_: str) -> str:
    """Write the entries of a run, in percent: the whole, or the tasks where there are several."""
    import yaml

    parts = found.means("hf")
    where, task = _dataset(found, dataset)
    entries = [_entry(found, part, where, part.name or task, url) for part in parts[1:] or parts]
    return str(yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=1000))


def _entry(found: Exported, part: Part, dataset: str, task: str, url: str | None) -> dict[str, Any]:
    source = {} if url is None else {"source": {"url": url, "name": "cereval certificate"}}
    return {
        "dataset": {"id": dataset, "task_id": task},
        "value": round(100 * part.estimate, 2),
        "date": found.changed,
        **source,
        "notes": f"certified {interval(part.lower, part.upper)} at {percent(found.result.confidence)} confidence "
        f"({found.result.guarantee}), {part.asked:,} of {part.items:,} questions asked, "
        f"cereval certificate {found.digest[:16]}",
    }


def _dataset(found: Exported, given: str | None) -> tuple[str, str]:
    named = given or found.story.data.removeprefix("hf:").partition("@")[0]
    where, _, task = named.partition(":")
    if (
        (given is None and not found.story.data.startswith("hf:"))
        or where.count("/") != 1
        or not all(where.split("/"))
    ):
        wanted = "ORG/NAME or ORG/NAME:TASK on the Hugging Face Hub (this run's data is a file)"
        raise InvalidInput("--dataset", wanted, given)
    return where, task or "default"
