"""The published schemas describe what is issued, no more and no less; the first certificates fit them too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.certificate.cases import SCENARIOS, Scenario, certificate, estimate

from cereval import ENGINE
from cereval.certificate.base import digest, schema
from cereval.certificate.verify import OPTIONAL, verify
from cereval.kinds import formats, kinds
from cereval.kinds.base import ALWAYS

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "certificates").glob("*.json"))


@pytest.mark.parametrize("scenario", SCENARIOS[::3], ids=lambda scenario: scenario.name)
def test_certificates_follow_the_schema(scenario: Scenario) -> None:
    jsonschema.validate(certificate(scenario), schema())


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_certificates_of_the_first_version_follow_the_schema(path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(content, schema(content["format"]))


def test_every_format_has_a_schema_that_knows_every_field() -> None:
    for kind in kinds():
        if not kind.format:
            continue
        published = schema(kind.format)
        jsonschema.Draft202012Validator.check_schema(published)
        assert set(published["required"]) == ALWAYS | kind.fields
        assert (
            set(published["properties"]) == ALWAYS | kind.fields | kind.optional | kind.run_fields | OPTIONAL
        )
        assert published["properties"]["format"] == {"const": kind.format}


def objects(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    found = [one for each in inner for one in objects(each)]
    return [*found, value] if isinstance(value, dict) else found


def test_schemas_leave_no_room_for_fields_that_nobody_knows() -> None:
    """But in what a plan says of model, scorer and prompt, in `about`, and in mappings by name."""
    free = {"model", "scorer", "prompt", "about", "items"}
    for format in formats():
        for holder in objects(schema(format)):
            for name, one in holder.items():
                if isinstance(one, dict) and one.get("type") == "object" and name not in free:
                    assert "additionalProperties" in one, (format, name)


def test_a_certificate_of_another_engine_that_cannot_be_recomputed_could_not_be_checked() -> None:
    old = certificate(Scenario("old", {"goal": estimate(0.1)}))
    old["engine"], old["versions"]["cereval"] = ENGINE + 1, "9.0.0"
    old["digest"] = digest(old)
    assert verify(old).valid
    old["result"]["lower"] -= 0.01
    old["digest"] = digest(old)
    verdict = verify(old)
    assert verdict.status == "unchecked"
    assert f"engine {ENGINE + 1} (cereval '9.0.0')" in verdict.reasons[0]
