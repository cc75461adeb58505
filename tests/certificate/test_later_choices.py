"""A quick version of `benchmarks.seals`: each later choice once, and the sealed runs themselves."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from benchmarks.seals import CHOICES, QUESTIONS, Sealed, earlier_runs

pytestmark = pytest.mark.fresh
KINDS = [question.kind for question in QUESTIONS]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sealed]:
    base = tmp_path_factory.mktemp("seals")
    made = {}
    with pytest.MonkeyPatch.context() as patch:  # a fixture of the module: `fresh` is for those of a test
        patch.setattr("cereval.questions.session.randbits", random.Random("seals").getrandbits)
        earlier_runs(base)
        for question in QUESTIONS:
            folder = base / Path(question.kind.replace(" ", ""))
            folder.mkdir()
            made[question.kind] = Sealed.of(question, folder, base)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_sealed_and_carried_out_is_valid(kind: str, runs: dict[str, Sealed]) -> None:
    assert runs[kind].verdict(runs[kind].honest()) == ("valid", [])


@pytest.mark.parametrize(("number", "name"), list(enumerate(CHOICES)), ids=list(CHOICES))
def test_a_later_choice_is_caught_and_named(number: int, name: str, runs: dict[str, Sealed]) -> None:
    learning = [kind for kind in KINDS if runs[kind].plan.history]
    kinds = learning if CHOICES[name].family == "history" else KINDS
    run = runs[kinds[number % len(kinds)]]
    status, reasons = run.verdict(CHOICES[name].make(np.random.default_rng([18, number]), run))
    assert status == ("departed" if CHOICES[name].word else "invalid")
    assert any(CHOICES[name].word in reason for reason in reasons)
