"""A seal made before and checked after: whoever follows it is told so, every later choice is named."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import jsonschema
import numpy as np
import pytest
from tests.certificate.forging import repaired

from cereval.arrays import packed
from cereval.certificate.format import digest, issue, schema
from cereval.certificate.seal import Seal, commitment, differences, fingerprint, provenance, seal_of
from cereval.certificate.verify import Verdict, verify
from cereval.errors import InvalidInput, Misuse
from cereval.plan import Known, Plan, candidate_spec
from cereval.questions import kind_of
from cereval.questions.log import Change
from cereval.questions.session import tell

ITEMS = 20
MOST = 8
WHOLE = 1000
WITH_HISTORY = ("estimate", "compare")
NONCE = "5e" * 32
PROMPT = {"template": "Q: {{ question }}", "system": None, "examples": []}
CANDIDATES = tuple(candidate_spec(name, prompt=PROMPT) for name in ("m", "n", "o"))
PLANS: dict[str, dict[str, Any]] = {
    "estimate": {"goal": {"goal": "estimate", "eps": 0.2}},
    "threshold": {"goal": {"goal": "threshold", "value": 0.4}, "max_calls": 30},
    "weighted": {
        "goal": {"goal": "estimate", "eps": 0.2},
        "weights": {"source": "w.csv", **packed(np.linspace(1.0, 3.0, ITEMS))},
    },
    "compare": {
        "goal": {"goal": "sign", "tie": 0.2},
        "kind": "compare",
        "candidates": CANDIDATES[:2],
    },
    "rank": {
        "goal": {"goal": "top", "k": 1, "within": 0.2},
        "kind": "rank",
        "method": "pairs",
        "candidates": CANDIDATES,
    },
    "tasks": {
        "goal": {"goal": "macro", "eps": 0.3, "each": None},
        "kind": "tasks",
        "tasks": ("a", "b"),
        "max_calls": 30,
    },
}


@dataclass(frozen=True)
class World:
    """What a run meets: the scores of three models, and what is known of the items."""

    scores: Any
    known: Known

    @classmethod
    def of(cls, seed: int, kind: str) -> World:
        rng = np.random.default_rng(seed)
        scores = (rng.random((ITEMS, 3)) < [0.8, 0.5, 0.4]) * 1.0
        groups = np.arange(ITEMS) % 2 if kind in (*WITH_HISTORY, "tasks") else None
        noisy = np.where(rng.random((ITEMS, 2)) < 0.8, scores[:, :2], 0.5)
        history = noisy if kind in WITH_HISTORY else None
        return cls(scores, Known(groups, history))


def plan_for(kind: str, **changed: Any) -> Plan:
    """A plan of a kind, with everything that a run of the command line has."""
    known = World.of(0, kind).known
    values = {
        "data_hash": "sha256:" + "0" * 64,
        "n_items": ITEMS,
        "data_name": "data.jsonl",
        "scorer": {"spec": {"name": "exact"}, "judge": None},
        "kind": "estimate",
        "candidates": CANDIDATES[:1],
        "seed": 4711,
        "seed_source": "drawn",
        "nonce": NONCE,
        "side_information": known.names,
        "history": {"a" * 12: 17, "b" * 12: 9} if kind in WITH_HISTORY else {},
        **PLANS[kind],
    }
    return Plan(**{**values, **changed})


def carried_out(
    plan: Plan,
    world: World,
    *,
    change: Change | None = None,
    kept: dict[str, int] | None = None,
    most: int = MOST,
) -> dict[str, Any]:
    """Run a plan for at most so many results, through a change where there is one, and issue its certificate."""
    kind = kind_of(plan)
    session = kind.session(plan, world.known, no_earlier_run)
    changes = []
    while not session.done and session.n_evaluated < most:
        if change is not None and not changes and session.n_evaluated == change.consumed:
            changes.append(change)
            session.change(change.goal, change.max_calls)
            continue
        for draw in session.ask(1):
            tell(session, draw, tuple(float(world.scores[draw.item, model]) for model in draw.models))
    came = provenance(plan, world.known, kept or {})
    return issue(kind, session, session.result(), world.known, plan=plan, changes=changes, provenance=came)


def no_earlier_run(run_id: str) -> Any:
    raise AssertionError(f"there is no run {run_id}")


@cache
def honest(kind: str) -> tuple[Seal, dict[str, Any]]:
    """A seal, and the certificate of the run that followed it."""
    plan, world = plan_for(kind), World.of(0, kind)
    return seal_of(plan, world.known), carried_out(plan, world, kept={"c" * 12: 2}, most=WHOLE)


# -- a seal by itself -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PLANS)
def test_a_run_that_follows_its_seal_is_told_so(kind: str) -> None:
    seal, certificate = honest(kind)
    verdict = verify(certificate, seal=Seal.from_dict(json.loads(json.dumps(seal.as_dict()))))
    assert (verdict.status, verdict.reasons) == ("valid", ())
    assert "followed its seal" in verdict.checked[-1]
    assert "2 answers kept" in verdict.checked[-1]
    assert certificate["provenance"] == {"seed": "drawn", "kept": {"c" * 12: 2}, "seal": seal.digest}


@pytest.mark.parametrize("kind", PLANS)
def test_seals_and_sealed_certificates_follow_their_schemas(kind: str) -> None:
    seal, certificate = honest(kind)
    jsonschema.validate(seal.as_dict(), schema("cereval-seal/1"))
    jsonschema.validate(json.loads(json.dumps(certificate)), schema(certificate["format"]))


def test_a_seal_does_not_tell_the_seed() -> None:
    seal, _ = honest("estimate")
    text = json.dumps(seal.as_dict())
    assert "4711" not in text
    assert NONCE not in text
    assert "question" not in text
    assert seal.commitment == commitment(4711, NONCE)


def test_a_plan_without_a_nonce_was_not_sealed() -> None:
    with pytest.raises(Misuse, match="not sealed"):
        seal_of(plan_for("estimate", nonce=""), Known())


def test_a_nonce_makes_another_request() -> None:
    bare = replace(plan_for("estimate"), nonce="")
    assert bare.request != plan_for("estimate").request


def test_side_information_is_digested_by_its_numbers() -> None:
    table = np.array([[1.0, np.nan], [0.0, 0.5]])
    assert fingerprint(Known(history=table)) == fingerprint(Known(history=np.asfortranarray(table)))
    assert fingerprint(Known(history=table)) != fingerprint(Known(history=table.T))
    assert fingerprint(Known()) != fingerprint(Known(groups=np.array([0, 1])))


BROKEN: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a list": lambda seal: [seal],
    "another format": lambda seal: {**seal, "format": "cereval-seal/2"},
    "a field more": lambda seal: {**seal, "more": 1},
    "a field less": lambda seal: {name: value for name, value in seal.items() if name != "kind"},
    "a changed plan": lambda seal: {**seal, "plan": {**seal["plan"], "confidence": 0.9}},
    "a changed digest": lambda seal: {**seal, "digest": "0" * 64},
    "no digest": lambda seal: {**seal, "digest": 7},
    "a long run id": lambda seal: {**seal, "run_id": "0" * 99},
    "an engine that is none": lambda seal: {**seal, "engine": True},
    "a plan that is none": lambda seal: {**seal, "plan": []},
    "a signature that is none": lambda seal: {**seal, "signature": {"value": 1}},
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_seal_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        Seal.from_dict(BROKEN[name](honest("estimate")[0].as_dict()))


# -- later choices ----------------------------------------------------------------------------------------------------


def test_a_changed_goal_is_a_departure_of_a_valid_certificate() -> None:
    plan, world = plan_for("estimate"), World.of(0, "estimate")
    smaller = {"goal": "estimate", "eps": 0.15}
    certificate = carried_out(plan, world, change=Change(3, 3, smaller, None))
    assert verify(certificate).valid
    verdict = verify(certificate, seal=honest("estimate")[0])
    assert verdict.status == "departed"
    assert "goal was changed after 3 results" in verdict.reasons[0]


def test_a_certificate_of_recorded_scores_follows_no_seal() -> None:
    kind = kind_of(plan_for("compare"))
    session = kind.session(plan_for("compare"), Known(), no_earlier_run)
    about = {"first": "m", "second": "n"}
    certificate = issue(kind, session, session.result(), Known(), about=about)
    verdict = verify(certificate, seal=honest("compare")[0])
    assert (verdict.status, len(verdict.reasons)) == ("departed", 1)


def test_provenance_that_does_not_fit_is_wrong() -> None:
    _, certificate = honest("estimate")
    for stated in (
        {"seed": "chosen"},
        {"kept": {"c" * 12: 10_000}},
        {"kept": {"c" * 12: -1}},
        {"kept": []},
        {"seal": "0" * 64},
        {"more": 1},
    ):
        changed = copy.deepcopy(certificate)
        changed["provenance"] |= stated
        changed["digest"] = digest(changed)
        assert verify(changed).status == "invalid", stated
    bare = {name: value for name, value in certificate.items() if name != "provenance"}
    assert verify({**bare, "digest": digest(bare)}).valid


def test_differences_name_the_part() -> None:
    seal, _ = honest("estimate")
    (one,) = CANDIDATES[:1]
    other = plan_for(
        "estimate", candidates=({**one, "prompt": {**PROMPT, "template": "other"}},), max_calls=5
    )
    assert differences(seal, other) == [
        "candidates[0].prompt.template is another than was sealed",
        "max_calls is 5, sealed None",
    ]


Try = Callable[[np.random.Generator, str], tuple[dict[str, Any], str]]
"""Makes one later choice; returns the certificate of whoever made it, and a word that the verdict must have."""


def another_plan(name: str, make: Callable[[np.random.Generator, Plan], Any]) -> Try:
    """Carry out a plan that differs in one field: everything in its certificate fits together."""

    def choose(rng: np.random.Generator, kind: str) -> tuple[dict[str, Any], str]:
        plan = plan_for(kind)
        changed = replace(plan, **{name: make(rng, plan)})
        return carried_out(changed, World.of(0, kind)), name

    return choose


def other_goal(rng: np.random.Generator, plan: Plan) -> dict[str, Any]:
    number = next(key for key in ("eps", "value", "tie", "within") if key in plan.goal)
    return {**plan.goal, number: float(rng.uniform(0.21, 0.6))}


def other_candidate(rng: np.random.Generator, plan: Plan) -> tuple[dict[str, Any], ...]:
    field = str(rng.choice(["name", "model", "base_url", "revision", "settings"]))
    value = {"temperature": float(rng.random()), "max_tokens": None} if field == "settings" else "other"
    return _with_change(rng, plan, **{field: value})


def other_prompt(rng: np.random.Generator, plan: Plan) -> tuple[dict[str, Any], ...]:
    part = str(rng.choice(["template", "system", "examples"]))
    value = [{"id": "7"}] if part == "examples" else f"{rng.random()}"
    return _with_change(rng, plan, prompt={**PROMPT, part: value})


def _with_change(rng: np.random.Generator, plan: Plan, **change: Any) -> tuple[dict[str, Any], ...]:
    """The candidates of a plan, one of them changed."""
    candidates = [dict(one) for one in plan.candidates]
    candidates[int(rng.integers(len(candidates)))] |= change
    return tuple(candidates)


def other_history(rng: np.random.Generator, plan: Plan) -> dict[str, int]:
    cutoffs = dict(plan.history) or {"d" * 12: 3}
    run = str(rng.choice(sorted(cutoffs)))
    if rng.random() < 0.3 and plan.history:
        del cutoffs[run]
    else:
        cutoffs[run] += int(rng.integers(1, 9))
    return cutoffs


def other_scores_of_history(rng: np.random.Generator, kind: str) -> tuple[dict[str, Any], str]:
    """The same runs and cutoffs, but other scores are said to have been known."""
    world = World.of(0, kind)
    if world.known.history is None:
        return another_seed(rng, kind)
    history = world.known.history.copy()
    history[int(rng.integers(ITEMS)), 0] = float(rng.random())
    return carried_out(plan_for(kind), World(world.scores, Known(world.known.groups, history))), "history"


def another_seed(rng: np.random.Generator, kind: str) -> tuple[dict[str, Any], str]:
    """With the sealed nonce or with another one."""
    seed = int(rng.integers(5000, 2**53))
    nonce = NONCE if rng.random() < 0.5 else "".join(rng.choice(list("0123456789abcdef"), 64))
    return carried_out(plan_for(kind, seed=seed, nonce=nonce), World.of(0, kind)), "seed"


def not_sealed(rng: np.random.Generator, kind: str) -> tuple[dict[str, Any], str]:  # noqa: ARG001
    return carried_out(plan_for(kind, nonce=""), World.of(0, kind)), "seed"


def dropped_items(rng: np.random.Generator, kind: str) -> tuple[dict[str, Any], str]:
    """Some items are left out of the data."""
    left = np.sort(rng.choice(ITEMS, ITEMS - int(rng.integers(1, 9)), replace=False))
    world, plan = World.of(0, kind), plan_for(kind)
    known = Known(*(None if one is None else one[left] for one in (world.known.groups, world.known.history)))
    weights = {"source": "w.csv", **packed(np.linspace(1.0, 3.0, len(left)))} if plan.weights else {}
    smaller = replace(
        plan, n_items=len(left), data_hash=f"sha256:{rng.integers(2**40):064x}", weights=weights
    )
    return carried_out(smaller, World(world.scores[left], known)), "data_hash"


def changed_on_the_way(rng: np.random.Generator, kind: str) -> tuple[dict[str, Any], str]:
    """`resume --max-calls`, and `resume --eps` where the kind allows it."""
    plan = plan_for(kind)
    goal = dict(plan.goal)
    if kind in ("estimate", "weighted") and rng.random() < 0.5:
        change = Change(2, 2, {**goal, "eps": float(rng.uniform(0.1, 0.19))}, plan.max_calls)
        return carried_out(plan, World.of(0, kind), change=change), "goal was changed"
    change = Change(2, 2, goal, int(rng.integers(130, 290) if kind == "rank" else rng.integers(5, 29)))
    return carried_out(plan, World.of(0, kind), change=change), "max_calls was changed"


def changed_log(rng: np.random.Generator, kind: str) -> tuple[dict[str, Any], str]:
    """An entry of the log is dropped, doubled or scored anew, and every hash repaired."""
    certificate = copy.deepcopy(honest(kind)[1])
    log = certificate["log"]
    place = int(rng.integers(len(log)))
    how = rng.choice(["drop", "double", "score", "item"])
    if how == "drop":
        del log[place]
    elif how == "double":
        log.insert(place, dict(log[place]))
    elif how == "item":
        log[place]["item"] = (log[place]["item"] + 1 + int(rng.integers(ITEMS - 1))) % ITEMS
    else:
        name = "first" if kind == "compare" else "score"
        log[place][name] = 0.25
    return repaired(certificate), ""


def disguised(rng: np.random.Generator, kind: str) -> tuple[dict[str, Any], str]:
    """Another goal or seed was carried out; plan, id and provenance are then put back to what was sealed."""
    plan = plan_for(kind)
    other = (
        {"seed": int(rng.integers(5000, 2**53))} if rng.random() < 0.5 else {"goal": other_goal(rng, plan)}
    )
    certificate = carried_out(replace(plan, **other), World.of(0, kind), most=WHOLE)
    own = honest(kind)[1]
    for name in ("plan", "provenance"):
        certificate[name] = copy.deepcopy(own[name])
    certificate["provenance"]["kept"] = {}
    return repaired(certificate), ""


CHOICES: dict[str, Try] = {
    "seed": another_seed,
    "not sealed": not_sealed,
    "goal": another_plan("goal", other_goal),
    "confidence": another_plan("confidence", lambda rng, _: float(rng.uniform(0.5, 0.94))),
    "candidate": another_plan("candidates", other_candidate),
    "prompt": another_plan("candidates", other_prompt),
    "scorer": another_plan("scorer", lambda rng, _: {"spec": {"name": f"regex:{rng.random()}"}}),
    "budget": another_plan("max_calls", lambda rng, _: int(rng.integers(4, 29))),
    "data": another_plan("data_hash", lambda rng, _: f"sha256:{rng.integers(2**40):064x}"),
    "history": another_plan("history", other_history),
    "scores of history": other_scores_of_history,
    "attempt": another_plan("attempt", lambda rng, _: int(rng.integers(1, 9))),
    "seed source": another_plan("seed_source", lambda *_: ""),
    "dropped items": dropped_items,
    "changed on the way": changed_on_the_way,
    "changed log": changed_log,
    "disguised": disguised,
}


def caught(certificate: dict[str, Any], word: str, seal: Seal) -> Verdict:
    """Hold a certificate to a seal; the verdict must not be good, and must name the choice."""
    verdict = verify(certificate, seal=seal)
    assert verdict.status in ("departed", "invalid"), word
    if word:
        assert verdict.status == "departed", verdict
        assert any(word in reason for reason in verdict.reasons), (word, verdict.reasons)
    return verdict


@pytest.mark.slow
def test_every_later_choice_is_caught() -> None:
    """Every choice in every kind; those that leave a valid certificate are departures by name.

    1,000 random ones: `python -m benchmarks.seals --tries 1000`.
    """
    for number, (kind, name) in enumerate(product(PLANS, CHOICES)):
        certificate, word = CHOICES[name](np.random.default_rng([18, number]), kind)
        caught(certificate, word, honest(kind)[0])


# -- signatures -------------------------------------------------------------------------------------------------------


def test_signatures_hold_for_their_key_and_seal_alone() -> None:
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    kinds = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    from cereval.certificate.seal import sign, wrong_signature

    def pair(private_format: str, public: tuple[str, str], encoding: str = "PEM") -> tuple[bytes, bytes]:
        key = ed25519.Ed25519PrivateKey.generate()
        private = key.private_bytes(
            getattr(kinds.Encoding, encoding),
            getattr(kinds.PrivateFormat, private_format),
            kinds.NoEncryption(),
        )
        where, form = public
        told = key.public_key().public_bytes(
            getattr(kinds.Encoding, where), getattr(kinds.PublicFormat, form)
        )
        return private, told

    pem, ssh = pair("PKCS8", ("PEM", "SubjectPublicKeyInfo")), pair("OpenSSH", ("OpenSSH", "OpenSSH"))
    seal, _ = honest("estimate")
    for (private, public), (_, other) in ((pem, ssh), (ssh, pem)):
        signed = Seal.from_dict(sign(seal, private).as_dict())
        assert signed.digest == seal.digest
        jsonschema.validate(signed.as_dict(), schema("cereval-seal/1"))
        assert wrong_signature(signed, public) is None
        assert wrong_signature(signed, other) is not None
        assert wrong_signature(replace(signed, engine=99), public) is not None
        assert wrong_signature(seal, public) == "signature: the seal is not signed"
        broken = {**signed.signature, "value": "no base64"}
        assert wrong_signature(replace(signed, signature=broken), public) is not None
        with pytest.raises(InvalidInput, match="--sign"):
            sign(seal, public)
        with pytest.raises(InvalidInput, match="--public-key"):
            wrong_signature(signed, private)
    with pytest.raises(InvalidInput, match="--sign"):
        sign(seal, b"nothing")
