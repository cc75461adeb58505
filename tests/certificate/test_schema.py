"""The published schemas describe what is issued, no more and no less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.certificate.cases import SCENARIOS, Scenario, certificate, estimate
from tests.golden.golden_cases import CASES
from tests.golden.lines import certificate_of

from cereval import ENGINE
from cereval.certificate.format import chained, digest, schema
from cereval.certificate.verify import OPTIONAL, verify
from cereval.plan import Plan, digest_of
from cereval.questions import formats, kinds
from cereval.questions.base import ALWAYS

ISSUED = sorted(CASES)[::2]


@pytest.mark.parametrize("scenario", SCENARIOS[::3], ids=lambda scenario: scenario.name)
def test_certificates_follow_the_schema(scenario: Scenario) -> None:
    jsonschema.validate(certificate(scenario), schema())


@pytest.mark.slow
@pytest.mark.parametrize("name", ISSUED)
def test_certificates_of_every_kind_follow_the_schema(name: str, tmp_path: Path) -> None:
    content = certificate_of(name, CASES[name], tmp_path)
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
    """But in what a plan says of the scorer, in `about`, and in mappings by name."""
    free = {"scorer", "about", "items"}
    for format in formats():
        for holder in objects(schema(format)):
            for name, one in holder.items():
                if isinstance(one, dict) and one.get("type") == "object" and name not in free:
                    assert "additionalProperties" in one, (format, name)


def test_a_certificate_of_an_engine_to_come_could_not_be_checked() -> None:
    later = certificate(Scenario("later", {"goal": estimate(0.1)}))
    later["engine"], later["versions"]["cereval"] = 2, "9.0.0"
    assert verify(later).status == "invalid", "its digest does not fit"
    later["digest"] = digest(later)
    verdict = verify(later)
    assert verdict.status == "unchecked"
    assert f"made by engine 2 (cereval '9.0.0'), this is engine {ENGINE}" in verdict.reasons[0]


@pytest.mark.parametrize("part", ["plan", "settings"])
def test_plan_and_settings_name_the_engine_of_the_certificate(part: str, tmp_path: Path) -> None:
    content = certificate_of(
        "case", ["rank questions.jsonl --model scripted/0.9 --model scripted/0.2"], tmp_path
    )
    content[part]["engine"] = 2
    content["run_id"] = Plan.from_dict(content["plan"]).run_id
    content["chain"] = chained(digest_of(content["settings"]), content["log"])
    content["digest"] = digest(content)
    assert verify(content).reasons == (f"{part}.engine is 2, recomputed 1",)
