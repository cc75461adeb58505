"""`cereval seal`, `run --seal`, `verify --seal`: made before, carried out, checked after."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.cli.live import content, listed, run, write

from cereval.cli.main import main

RUN = ("run", "data.jsonl", "--model", "scripted/0.8", "--eps", "0.15")
KINDS: dict[str, tuple[str, ...]] = {
    "run": RUN,
    "gate": ("gate", "data.jsonl", "--model", "scripted/0.8", "--min", "0.5"),
    "compare": ("compare", "data.jsonl", "--model", "scripted/0.9", "--model", "scripted/0.3"),
    "rank": ("rank", "data.jsonl", "--model", "scripted/0.9", "--model", "scripted/0.3", "--top", "1"),
    "tasks": ("tasks", "data.jsonl", "--model", "scripted/0.8", "--eps", "0.2", "--max-calls", "60"),
    "extend": ("extend", "data.jsonl", "--model", "scripted/0.8", "--eps", "0.2"),
}


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with questions in two categories."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "data.jsonl", questions(120))
    return tmp_path / "data.jsonl"


def questions(count: int) -> list[dict[str, Any]]:
    return [{"question": f"{n} + 1 =", "answer": str(n + 1), "category": "ab"[n % 2]} for n in range(count)]


def sealed(capsys: pytest.CaptureFixture[str], *command: str, file: str = "plan.seal.json") -> dict[str, Any]:
    """Seal a command; return what was printed."""
    capsys.readouterr()
    assert main(["seal", *command, "-o", file, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def verdict(capsys: pytest.CaptureFixture[str], facts: dict[str, Any], *more: str) -> tuple[int, Any]:
    capsys.readouterr()
    code = main(["verify", str(facts["certificate"]), "--seal", "plan.seal.json", *more, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.fresh
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_sealed_before_is_carried_out_and_verified(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seal = sealed(capsys, *KINDS[kind])
    assert Path("plan.seal.json").exists()
    assert next(one for one in listed(capsys) if one["run_id"] == seal["run_id"])["status"] == "sealed"
    _, facts = run(capsys, *KINDS[kind], "--seal", "plan.seal.json")
    assert facts["run_id"] == seal["run_id"]
    certificate = content(facts)
    assert certificate["provenance"] == {"kept": {}, "seal": seal["digest"], "seed": "drawn"}
    assert str(certificate["plan"]["seed"]) not in Path("plan.seal.json").read_text()
    code, found = verdict(capsys, facts)
    assert (code, found["status"], found["reasons"]) == (0, "valid", [])
    assert f"followed its seal {seal['digest'][:12]}" in found["checked"][-1]


@pytest.mark.fresh
def test_a_run_without_its_seal_is_another_run(capsys: pytest.CaptureFixture[str]) -> None:
    seal = sealed(capsys, *RUN)
    _, facts = run(capsys, *RUN)
    assert facts["run_id"] != seal["run_id"]
    assert "seal" not in content(facts)["provenance"]
    code, found = verdict(capsys, facts)
    assert (code, found["status"]) == (2, "departed")
    assert any(reason.startswith("seed:") for reason in found["reasons"])


@pytest.mark.fresh
def test_a_goal_changed_on_the_way_departs_from_the_seal(capsys: pytest.CaptureFixture[str]) -> None:
    seal = sealed(capsys, *RUN)
    run(capsys, *RUN, "--seal", "plan.seal.json")
    _, facts = run(capsys, "resume", seal["run_id"], "--eps", "0.1")
    assert main(["verify", str(facts["certificate"])]) == 0
    code, found = verdict(capsys, facts)
    assert (code, found["status"], len(found["reasons"])) == (2, "departed", 1)
    assert "goal was changed after" in found["reasons"][0]
    assert main(["verify", str(facts["certificate"]), "--seal", "plan.seal.json"]) == 2
    assert "departed: this is not what was sealed: goal was changed" in capsys.readouterr().out
    code, refused = run(capsys, *RUN, "--seal", "plan.seal.json")
    assert code == 1
    assert "this is not what was sealed: goal was changed" in refused["error"]


OTHERWISE: dict[str, tuple[tuple[str, ...], str]] = {
    "goal": (("--eps", "0.1"), "goal.eps is 0.1, sealed 0.15"),
    "threshold": (("--at-least", "0.5"), "goal"),
    "confidence": (("--confidence", "0.9"), "confidence is 0.9, sealed 0.95"),
    "model": (("--model", "scripted/0.7"), "candidates[0].model is 'scripted/0.7'"),
    "temperature": (("--temperature", "0.5"), "candidates[0].settings.temperature is 0.5"),
    "revision": (("--revision", "b"), "candidates[0].revision is 'b', sealed without one"),
    "prompt": (("--template", "Q: {{ question }}"), "prompt.template is another than was sealed"),
    "scorer": (("--scorer", "contains"), "scorer.spec"),
    "budget": (("--max-calls", "50"), "max_calls is 50, sealed None"),
    "method": (("--method", "uniform"), "method is 'uniform', sealed 'auto'"),
    "mix": (("--mix", "a=0.9,b=0.1"), "weights"),
    "seed": (("--seed", "5"), "seed is 5"),
    "few shot": (("--few-shot", "1"), "examples is another than was sealed"),
}


def without(command: Sequence[str], flag: str) -> list[str]:
    """Leave a flag and its value out of a command."""
    words = list(command)
    if flag in words:
        place = words.index(flag)
        del words[place : place + 2]
    return words


@pytest.mark.parametrize("name", OTHERWISE)
def test_another_command_is_refused_by_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    sealed(capsys, *RUN)
    flags, says = OTHERWISE[name]
    command = [
        *without(RUN, "--eps" if name in ("goal", "threshold") else flags[0]),
        *flags,
        "--seal",
        "plan.seal.json",
    ]
    code, refused = run(capsys, *command)
    assert code == 1
    assert "this is not what was sealed: " in refused["error"]
    assert says in refused["error"]
    assert [one["calls"] for one in listed(capsys)] == [0]


def test_other_data_and_another_kind_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    sealed(capsys, *RUN)
    code, refused = run(capsys, *KINDS["compare"], "--seal", "plan.seal.json")
    assert (code, "kind is compare, sealed estimate" in refused["error"]) == (1, True)
    write(Path("data.jsonl"), questions(119))
    code, refused = run(capsys, *RUN, "--seal", "plan.seal.json")
    assert (code, "data_hash is" in refused["error"]) == (1, True)


@pytest.mark.fresh
def test_history_is_fixed_when_it_is_sealed(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, *RUN[:2], "--model", "scripted/0.6", "--eps", "0.2")
    sealed(capsys, *RUN)
    run(capsys, *RUN[:2], "--model", "scripted/0.5", "--eps", "0.2")
    code, refused = run(capsys, *RUN, "--no-history", "--seal", "plan.seal.json")
    assert (code, "history is not wanted" in refused["error"]) == (1, True)
    _, facts = run(capsys, *RUN, "--seal", "plan.seal.json")
    assert len(content(facts)["plan"]["history"]) == 1
    assert verdict(capsys, facts)[0] == 0


@pytest.mark.fresh
def test_kept_answers_are_recorded_with_the_run_that_paid(capsys: pytest.CaptureFixture[str]) -> None:
    _, first = run(capsys, *RUN)
    assert content(first)["provenance"] == {"kept": {}, "seed": "drawn"}
    _, second = run(capsys, *RUN[:4], "--eps", "0.12", "--seed", "5")
    told = content(second)["provenance"]
    assert told["seed"] == "chosen"
    assert set(told["kept"]) == {first["run_id"]}
    assert 0 < told["kept"][first["run_id"]] <= second["kept"]
    _, again = run(capsys, "resume", second["run_id"])
    assert content(again) == content(second)
    assert main(["verify", str(second["certificate"])]) == 0


def test_what_cannot_be_sealed_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("broken.json"), [{"format": "cereval-seal/1"}])
    Path("scores.csv").write_text("item,m,n\na,1,0\nb,0,1\n")
    sealed(capsys, *RUN)
    for arguments, says in (
        ([*RUN, "--seal", "broken.json"], "broken.json is no seal of cereval"),
        ([*RUN, "--seal", "nowhere.json"], "nowhere.json"),
        ([*RUN, "--seal", "plan.seal.json", "--dry-run"], "--dry-run"),
        ([*RUN, "--seal", "plan.seal.json", "--store", "sqlite:///other.db"], "other.db"),
        (["seal", "compare", "scores.csv", "--model", "m", "--model", "n"], "--seal must be left out"),
        (["seal", "replay"], "No such command"),
        (["seal", *RUN, "--sign", "nowhere.pem"], "nowhere.pem"),
        (["verify", "c.json", "--public-key", "k.pem"], "c.json"),
    ):
        capsys.readouterr()
        assert main(arguments) == 1, arguments
        error = capsys.readouterr().err
        assert says in error, arguments
        assert error.count("\n") == 1
    assert not Path("other.db").exists()
    assert len(listed(capsys)) == 1


@pytest.mark.fresh
def test_a_signed_seal_is_checked_with_its_public_key(capsys: pytest.CaptureFixture[str]) -> None:
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    kinds = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    for name in ("mine", "other"):
        key = ed25519.Ed25519PrivateKey.generate()
        private = key.private_bytes(kinds.Encoding.PEM, kinds.PrivateFormat.PKCS8, kinds.NoEncryption())
        public = key.public_key().public_bytes(kinds.Encoding.PEM, kinds.PublicFormat.SubjectPublicKeyInfo)
        Path(f"{name}.key").write_bytes(private)
        Path(f"{name}.pub").write_bytes(public)
    assert sealed(capsys, *RUN, "--sign", "mine.key")["signed"] is True
    _, facts = run(capsys, *RUN, "--seal", "plan.seal.json")
    assert verdict(capsys, facts)[0] == 0
    assert verdict(capsys, facts, "--public-key", "mine.pub")[0] == 0
    code, found = verdict(capsys, facts, "--public-key", "other.pub")
    assert (code, found["reasons"][0].startswith("signature:")) == (2, True)


def test_a_round_trip_in_processes_of_their_own(tmp_path: Path) -> None:
    def cereval(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cereval", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False, env=os.environ
        )

    made = cereval("seal", *RUN)
    assert made.returncode == 0, made.stderr
    assert "can be shown to anybody" in made.stdout
    (seal,) = (path.name for path in tmp_path.glob("*.seal.json"))
    done = cereval(*RUN, "--seal", seal, "-o", "c.json", "--display", "none")
    assert done.returncode == 0, done.stderr
    checked = cereval("verify", "c.json", "--seal", seal)
    assert (checked.returncode, checked.stdout[:6]) == (0, "valid:"), checked.stdout
