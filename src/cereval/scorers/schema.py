"""Score `schema`: whether the answer is JSON of a given schema (extra `schema`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import regex

from cereval.errors import BadContent, InvalidInput
from cereval.files import parse_json
from cereval.imports import optional
from cereval.scorers.base import Question, Score, off_the_loop

LONGEST = 1_000_000
"""Characters of an answer that are parsed."""
LONGEST_S = 2.0
"""Seconds for one pattern of a schema: one with nested repeats could take years."""


@dataclass(frozen=True, slots=True)
class Schema:
    """Score 1 when the answer is JSON, alone or in a fence (```json), that the JSON schema allows."""

    schema: Mapping[str, Any]
    name: ClassVar[str] = "schema"
    argument: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if not isinstance(self.schema, Mapping):
            raise InvalidInput("schema", "a JSON schema (--schema FILE)", self.schema)
        library = optional("jsonschema", "schema")
        try:
            library.validators.validator_for(self.schema).check_schema(self.schema)
        except library.SchemaError as error:
            raise InvalidInput("schema", f"a JSON schema ({error.message})", self.schema) from None

    async def score(self, question: Question, answer: str) -> Score:  # noqa: ARG002
        try:
            value = parse_json(_unfenced(answer[:LONGEST]), "the answer", unique=True, mend=True)
        except BadContent as error:
            return Score(0.0, str(error))
        wrong: str = await off_the_loop(_what_is_wrong, self.schema, value)
        return Score(not wrong, wrong)


def _what_is_wrong(schema: Mapping[str, Any], value: Any) -> str:
    library, registry = (
        optional("jsonschema", "schema"),
        optional("referencing.jsonschema", "schema").EMPTY_REGISTRY,
    )
    kind = library.validators.extend(library.validators.validator_for(schema), {"pattern": _check_pattern})
    # Without a registry of its own, a reference to another address would be fetched from there.
    error = library.exceptions.best_match(kind(dict(schema), registry=registry).iter_errors(value))
    return "" if error is None else f"{error.json_path}: {error.message}"


def _check_pattern(_: Any, pattern: str, value: Any, __: Any) -> Iterator[Any]:
    if isinstance(value, str) and not regex.search(pattern, value, concurrent=True, timeout=LONGEST_S):
        yield optional("jsonschema", "schema").ValidationError(f"{value!r} does not match {pattern!r}")


def _unfenced(answer: str) -> str:
    lines = answer.strip().splitlines()
    if len(lines) > 2 and lines[0].startswith("```") and lines[-1].strip() == "```":
        return "\n".join(lines[1:-1])
    return answer.strip()
