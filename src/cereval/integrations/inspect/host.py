"""Import what we use of Inspect beyond its documented names, in one place: it has several releases a week."""

from __future__ import annotations

from importlib.metadata import version

from cereval.errors import Misuse

TRIED = "0.3.278 to 0.3.285"

try:
    from inspect_ai import SampleSource
    from inspect_ai._eval.loader import load_tasks
    from inspect_ai._util.error import PrerequisiteError
    from inspect_ai._util.registry import registry_info, registry_params, registry_unqualified_name
    from inspect_ai.log import HeadlineMetric
    from inspect_ai.scorer._reducer import create_reducers, reducer_log_names
    from inspect_ai.scorer._scorer import SCORER_METRICS, scorer_metrics, unique_scorer_name
except ImportError as error:
    raise Misuse(
        f"inspect-ai {version('inspect-ai')} is not laid out as cereval expects ({error}): install a newer cereval, "
        f"or inspect-ai {TRIED}, which were tried"
    ) from None

__all__ = [
    "SCORER_METRICS",
    "HeadlineMetric",
    "PrerequisiteError",
    "SampleSource",
    "create_reducers",
    "load_tasks",
    "reducer_log_names",
    "registry_info",
    "registry_params",
    "registry_unqualified_name",
    "scorer_metrics",
    "unique_scorer_name",
]
