"""The published schema describes what is issued, no more and no less."""

from __future__ import annotations

import jsonschema
import pytest
from tests.certificate.cases import SCENARIOS, Scenario, certificate, estimate

from cereval.certificate.base import digest, schema
from cereval.certificate.verify import FIELDS, verify


@pytest.mark.parametrize("scenario", SCENARIOS[::3], ids=lambda scenario: scenario.name)
def test_certificates_follow_the_schema(scenario: Scenario) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(certificate(scenario), schema())


def test_the_schema_knows_every_field() -> None:
    assert set(schema()["required"]) == set(schema()["properties"]) == FIELDS


def test_a_certificate_of_another_version_that_cannot_be_recomputed_could_not_be_checked() -> None:
    old = certificate(Scenario("old", {"goal": estimate(0.1)}))
    old["versions"]["cereval"] = "0.0.9"
    old["digest"] = digest(old)
    assert verify(old).valid
    old["result"]["lower"] -= 0.01
    old["digest"] = digest(old)
    verdict = verify(old)
    assert verdict.status == "unchecked"
    assert "0.0.9" in verdict.reasons[0]
