"""Write certified results for other tools and people: one file a format; a new one is a function and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from cereval.errors import BadFile, CerevalError, InvalidInput, Misuse, shown
from cereval.files import write_whole
from cereval.integrations.exports.base import Exported, exported
from cereval.store.base import opened_store

TEXTS: Mapping[str, str] = {
    "every-eval-ever": "cereval.integrations.exports.every_eval_ever",
    "hf": "cereval.integrations.exports.hugging_face",
    "markdown": "cereval.integrations.exports.markdown",
}
"""Formats that are a text: modules with `text(exported, **about) -> str`."""

SERVICES: Mapping[str, str] = {
    "mlflow": "cereval.integrations.exports.mlflow",
    "wandb": "cereval.integrations.exports.wandb",
}
"""Formats that another program keeps: modules with `send(exported) -> str`, which says where."""


def export(
    run: str,
    format: str,
    output: str | Path | None = None,
    *,
    store: str | None = None,
    **about: str | None,
) -> str:
    """Write or send what a run came to; return where it is.

    format: `every-eval-ever`, `hf` or `markdown` with a file as `output`; `mlflow` or `wandb` without. about: what a
    store does not know: `dataset` (the data set's name on the Hugging Face Hub), `url` (where the certificate is).
    """
    if format not in {**TEXTS, **SERVICES}:
        raise InvalidInput("format", "one of " + ", ".join([*TEXTS, *SERVICES]), format)
    if (output is None) != (format in SERVICES):
        wanted = "left out: the result goes to the service" if format in SERVICES else "given: a file"
        raise InvalidInput("-o", wanted, output)
    with opened_store(store) as opened:
        found = exported(opened, run)
    if output is None:
        return _sent(found, format)
    text: Callable[..., str] = import_module(TEXTS[format]).text
    _write(Path(output), text(found, **{name: value for name, value in about.items() if value is not None}))
    return str(output)


def _sent(found: Exported, service: str) -> str:
    send: Callable[[Exported], str] = import_module(SERVICES[service]).send
    try:
        return send(found)
    except CerevalError:
        raise
    except Exception as error:
        # Servers, settings and versions of another program: whatever it raises, it is its own to explain.
        raise Misuse(f"{service} refused: {type(error).__name__}: {shown(str(error), 300)}") from error


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, text)
    except OSError as error:
        raise BadFile(f"the result cannot be written to {path} ({error.strerror})") from None


def facts(found: Exported) -> dict[str, Any]:
    """Return the numbers of a result by name, as services keep them."""
    return {f"{part.prefix}{name}": value for part in found.parts for name, value in part.numbers().items()}
