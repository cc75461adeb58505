"""Write certified results for other tools and people: a new format is a function and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from cereval.errors import BadFile, CerevalError, InvalidInput, Misuse, shown
from cereval.files import write_whole
from cereval.plan import full_name
from cereval.records import Certified
from cereval.report.story import Story, read_story
from cereval.store.base import Store, opened_store

TEXTS: Mapping[str, str] = {
    "every-eval-ever": "every_eval_ever",
    "hf": "hugging_face",
    "markdown": "markdown",
    "junit": "junit",
}
"""Formats that are a text: functions of `formats`."""

SERVICES: Mapping[str, str] = {"mlflow": "log_to_mlflow", "wandb": "log_to_wandb", "otel": "emit_events"}
"""Formats that another program keeps: functions of `services`, which say where."""


@dataclass(frozen=True, slots=True)
class Part:
    """Hold one certified mean: that of all questions, or that of a task; `name` is empty for the former."""

    name: str
    estimate: float
    lower: float
    upper: float
    asked: int
    items: int

    @classmethod
    def of(cls, name: str, values: Mapping[str, Any]) -> Part:
        asked = values.get("n_evaluated", values.get("n")) or 0
        return cls(
            name, values["estimate"], values["lower"], values["upper"], int(asked), int(values["n_items"])
        )


@dataclass(frozen=True, slots=True)
class Exported:
    """Show a run as formats see it. parts: its certified means; none where models are compared or ranked."""

    story: Story
    certificate: Mapping[str, Any]
    run_id: str
    began: str
    changed: str
    model: str
    """The candidate's name, with its model; of several, their names."""
    plan: Mapping[str, Any]
    parts: tuple[Part, ...]

    @property
    def result(self) -> Certified:
        return self.story.result

    @property
    def model_id(self) -> str:
        """Return the model that was asked, whatever its candidate is called; of several, all of them."""
        return ", ".join(dict.fromkeys(spec["model"] for spec in self.plan["candidates"]))

    @property
    def scorer(self) -> str:
        """Return the name of the scorer."""
        spec = self.plan["scorer"]["spec"]
        return spec if isinstance(spec, str) else str(spec.get("name", "score"))

    @property
    def digest(self) -> str:
        return str(self.certificate.get("digest", ""))

    def means(self, format: str) -> tuple[Part, ...]:
        """List the certified means, for formats that have no room for anything else."""
        if not self.parts:
            wanted = f"a run that certifies scores of one model: {format} has no place for comparisons and rankings"
            raise InvalidInput("RUN", wanted, self.run_id)
        return self.parts

    def numbers(self) -> dict[str, float]:
        """Return the numbers of all parts by name, as services keep them."""
        names = ("estimate", "lower", "upper", "asked", "items")
        return {
            f"{part.name}/{name}" if part.name else name: float(getattr(part, name))
            for part in self.parts
            for name in names
        }


def read_run(store: Store, run: str) -> Exported:
    story = read_story(store, run)
    if story.certificate is None or story.run is None or story.plan is None:
        raise Misuse(f"run {run} has no certificate yet: nothing was answered, or it has no certificates")
    values = story.result.as_dict()
    parts: tuple[Part, ...] = (Part.of("", values),) if "estimate" in values else ()
    if "macro" in values:
        tasks = (Part.of(name, one) for name, one in values["tasks"].items())
        parts = (Part.of("", values["macro"]), *tasks)
    return Exported(
        story,
        story.certificate,
        story.run.run_id,
        story.run.created_at,
        story.run.changed_at,
        ", ".join(map(full_name, story.plan.candidates)),
        story.plan.as_dict(),
        parts,
    )


def export(
    run: str, format: str, output: str | Path | None = None, *, store: str | None = None, **about: str | None
) -> str:
    """Write or send what a run came to; return where it is.

    format: `every-eval-ever` (its samples go into a file beside it), `hf`, `markdown` or `junit` with a file as
    `output`; `mlflow`, `wandb` or `otel` without.
    about: what a store does not know: `dataset` (the data set's name on the Hugging Face Hub), `url` (where the
    certificate is), `organization` (who evaluated).
    """
    if format not in {**TEXTS, **SERVICES}:
        raise InvalidInput("format", "one of " + ", ".join([*TEXTS, *SERVICES]), format)
    if (output is None) != (format in SERVICES):
        wanted = "left out: the result goes to the service" if format in SERVICES else "given: a file"
        raise InvalidInput("-o", wanted, output)
    with opened_store(store) as opened:
        found = read_run(opened, run)
    if output is None:
        return _sent(found, format)
    write: Callable[..., str] = getattr(import_module(f"{__name__}.formats"), TEXTS[format])
    given: dict[str, Any] = {name: value for name, value in about.items() if value is not None}
    if format == "every-eval-ever":
        given["beside"] = Path(output).with_name(f"{Path(output).stem}_samples.jsonl")
    try:
        content = write(found, **given)
        write_whole(Path(output), content)
    except OSError as error:
        raise BadFile(f"the result cannot be written to {output} ({error.strerror})") from None
    return str(output)


def _sent(found: Exported, service: str) -> str:
    send: Callable[[Exported], str] = getattr(import_module(f"{__name__}.services"), SERVICES[service])
    try:
        return send(found)
    except CerevalError:
        raise
    except Exception as error:
        # Servers, settings and versions of another program: whatever it raises, it is its own to explain.
        raise Misuse(f"{service} refused: {type(error).__name__}: {shown(str(error), 300)}") from error
