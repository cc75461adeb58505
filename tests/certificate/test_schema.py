"""The published schemas describe what is issued, no more and no less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.certificate.cases import SCENARIOS, Scenario, certificate, estimate
from tests.certificate.forging import repaired
from tests.golden.golden_cases import CASES
from tests.golden.lines import certificate_of

from cereval import ENGINE
from cereval.certificate.format import digest, schema
from cereval.certificate.verify import verify
from cereval.questions import formats

ISSUED = sorted(CASES)[::2]


@pytest.mark.parametrize("scenario", SCENARIOS[::3], ids=lambda scenario: scenario.name)
def test_certificates_follow_the_schema(scenario: Scenario) -> None:
    jsonschema.validate(certificate(scenario), schema())


@pytest.mark.slow
@pytest.mark.parametrize("name", ISSUED)
def test_certificates_of_every_kind_follow_the_schema(name: str, tmp_path: Path) -> None:
    content = certificate_of(name, CASES[name], tmp_path)
    jsonschema.validate(content, schema(content["format"]))


@pytest.mark.parametrize("format", [*formats(), "cereval-seal/1"])
def test_every_format_has_a_schema_of_all_its_fields_and_no_others(format: str) -> None:
    published = schema(format)
    jsonschema.Draft202012Validator.check_schema(published)
    for one in objects(published):
        if "properties" in one:
            assert one["additionalProperties"] is False
            assert set(one.get("required", ())) <= set(one["properties"])


def objects(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    found = [one for each in inner for one in objects(each)]
    return [*found, value] if isinstance(value, dict) else found


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
    assert verify(repaired(content)).reasons == (f"{part}.engine is 2, recomputed 1",)
