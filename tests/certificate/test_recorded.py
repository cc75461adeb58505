"""Certificates of recorded scores, every kind and goal: honest ones hold, and a forger is found by recomputing.

That no field at all can be changed, and what holds of runs in a store: tests/questions/test_conformance.py.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from benchmarks.task_scenes import TaskScene, adversarial, easy
from tests.certificate.forging import leaves, other, repaired

from cereval.certificate.format import issue
from cereval.certificate.verify import verify
from cereval.plan import Known
from cereval.questions import formats, kind_named
from cereval.questions.compare.goal import Difference, NotWorse, Sign
from cereval.questions.compare.session import CompareSession
from cereval.questions.growing.session import Growing
from cereval.questions.mean.goal import Estimate
from cereval.questions.rank.audit import RankingProof
from cereval.questions.rank.goal import Beats, Order, Top
from cereval.questions.rank.session import RankSession
from cereval.questions.replay import drive
from cereval.questions.session import AskTell
from cereval.questions.tasks.goal import AllAtLeast, EachWithin, Macro, WhichFail
from cereval.questions.tasks.session import TaskSession

NAMES = np.array(["sums", "words", "a long name", "d"])


def issued(kind: str, session: AskTell, known: Known, **about: Any) -> dict[str, Any]:
    """The certificate as it comes back from a file."""
    made = issue(kind_named(kind), session, session.result(), known, about={"items": "h", **about})
    content: dict[str, Any] = json.loads(json.dumps(made))
    return content


def compared(goal: Any, *, fails: int = 0, **more: Any) -> dict[str, Any]:
    rng = np.random.default_rng(6)
    skill = rng.beta(0.8, 0.5, size=150)
    first, second = ((rng.random(150) < skill + shift).astype(float) for shift in (0.1, 0.0))
    past = (rng.random((150, 5)) < skill[:, None]).astype(float)
    sides: dict[str, Any] = {"history": past, "groups": np.arange(150) % 3}
    session = CompareSession(150, goal=goal, seed=4, **{**sides, **more})
    while not session.done:
        for draw in session.ask(1):
            failed = draw.index < fails
            session.tell(draw, None if failed else float(first[draw.item]), float(second[draw.item]))
    return issued("compare", session, Known(), first="new", second="old", data="scores.csv")


def divided(goal: Any, make: Callable[..., TaskScene] = easy, seed: int = 8, **more: Any) -> dict[str, Any]:
    scene, rng = make(np.random.default_rng(seed)), np.random.default_rng(1)
    if more.pop("few", False):
        scene = TaskScene(scene.scores[:40], scene.groups[:40], None)
    session = TaskSession(NAMES[scene.groups], goal=goal, history=scene.history, seed=5, **more)
    drive(session, np.where(rng.random(len(scene.scores)) < 0.02, np.nan, scene.scores))
    return issued("tasks", session, Known(session.engine.groups, scene.history), model="m", data=["x"])


def grown(target: str, eps: float, failing: float, parts: tuple[int, ...]) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    scores = np.where(rng.random(sum(parts)) < failing, np.nan, np.arange(sum(parts)) % 3 > 0)
    session = Growing(parts[0], goal=Estimate(eps), target=target, seed=5)
    for number, part in enumerate(parts):
        if number:
            session.extend(part)
        drive(session.last, scores)
    return issued("growing", session.last, Known(), model="<m>", data="d")


def ranked(goal: Any, budget: int | None = None, past: int = 0) -> dict[str, Any]:
    """120 items, four models; every 29th call fails. past: so many past models, each asked four items of five."""
    table = np.random.default_rng(1).uniform(size=(120, 4)) < (0.95, 0.7, 0.68, 0.3)
    known = np.random.default_rng(2).choice([0.0, 0.4, 1.0, 1.0, np.nan], size=(120, past)) if past else None
    session = RankSession(120, ("a", "b", "c", "d"), goal=goal, budget=budget, seed=4, history=known)
    while not session.done:
        for draw in session.ask(16):
            failed = draw.index % 29 == 28
            session.fail(draw) if failed else session.tell(draw, float(table[draw.item, draw.model]))
    return issued("rank", session, Known(), data="data")


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "sign": partial(compared, Sign(0.05)),
    "sign, nothing known": partial(compared, Sign(0.05), history=None, groups=None),
    "sign, budget": partial(compared, Sign(0.05), budget=40),
    "sign, weights": partial(
        compared, Sign(0.1), weights=np.linspace(1, 3, 150), embeddings=np.eye(150)[:, :6]
    ),
    "difference, failures": partial(compared, Difference(0.12), fails=4),
    "not worse": partial(compared, NotWorse(0.05)),
    **{
        f"{make.__name__}, {goal.spec()}": partial(divided, goal, make, budget=150)
        for make, goal in (
            (easy, Macro(0.08)),
            (adversarial, Macro(0.08, each=0.25)),
            (easy, EachWithin(0.2)),
            (adversarial, AllAtLeast(0.3)),
            (easy, AllAtLeast(0.75)),
            (adversarial, WhichFail(0.6)),
        )
    },
    "tasks, all items asked": partial(divided, Macro(0.01), seed=2, few=True),
    "tasks, small budget": partial(divided, WhichFail(0.6), budget=60),
    **{
        f"{target}, {parts}": partial(grown, target, eps, failing, parts)
        for target in ("benchmark", "population")
        for eps, failing, parts in (
            (0.12, 0.03, (150, 60, 30)),
            (0.01, 0.0, (20, 10)),
            (0.3, 0.6, (20, 5, 5)),
        )
    },
    **{
        f"rank, {goal.spec()}": partial(ranked, goal)
        for goal in (Order(0.1), Order(0.1, proven=True), Top(1, 0.05), Top(2, 0.1), Beats(0.1, baseline=1))
    },
    "rank, budget within a round": partial(ranked, Order(0.02), 101),
    **{
        f"rank, past, {goal.spec()}": partial(ranked, goal, past=5)
        for goal in (Order(0.1), Order(0.1, proven=True), Top(1, 0.05), Beats(0.1, baseline=1))
    },
}


@cache
def case(name: str) -> dict[str, Any]:
    return CASES[name]()


@pytest.mark.parametrize("name", CASES)
def test_an_honest_certificate_is_valid(name: str) -> None:
    content = case(name)
    verdict = verify(content)
    assert verdict.valid, verdict.reasons
    kind = formats()[content["format"]]
    assert kind.audited in verdict.checked


FREE = frozenset(("about", "data", "models", "eps", "budget"))
"""What only the hashes protect: names; and an eps or a budget that moves no draw, as the eps of a regression check: the
certificate of another eps is another certificate, and as true."""


@pytest.mark.parametrize("name", CASES)
def test_a_forger_who_repairs_the_hashes_is_found_by_recomputing(name: str) -> None:
    """One field of the result, of the settings and of the draws each."""
    rng, forged = random.Random(name), copy.deepcopy(case(name))
    found = [one for one in leaves(forged) if FREE.isdisjoint(one[0])]
    for part, score in (("result", True), ("settings", True), ("log", False)):
        mine = [one for one in found if one[0][0] == part and (score or one[0][-1] not in SCORES)]
        path, holder, key = rng.choice(mine)
        kept, holder[key] = holder[key], other(holder[key], rng)
        assert verify(repaired(forged)).status == "invalid", path
        holder[key] = kept


SCORES = ("score", "first", "second")
"""What is answered: the log's word, which the store has too."""


def test_a_forged_decision_is_named() -> None:
    forged = copy.deepcopy(case("sign, budget"))
    assert forged["result"]["decision"] == "undecided"
    forged["result"]["decision"] = "first"
    verdict = verify(repaired(forged), explain=True)
    assert "decision" in verdict.reasons[0]


@pytest.mark.parametrize(
    "content", [None, 3, [], {}, "x", {"format": 3}, *({"format": name, "log": 3} for name in formats())]
)
def test_anything_else_is_no_certificate(content: Any) -> None:
    assert verify(content).status == "invalid"


def test_the_audit_of_a_ranking_objects_to_what_the_log_does_not_prove() -> None:
    content = copy.deepcopy(case(f"rank, {Order(0.1).spec()}"))
    assert RankingProof(content).objection() is None
    content["result"]["order"].append(["b", "c"])
    assert any(word in str(RankingProof(content).objection()) for word in ("not proven", "lacks"))
    content = copy.deepcopy(case(f"rank, {Top(1, 0.05).spec()}"))
    content["result"]["winners"] = ["c"]
    assert RankingProof(content).objection() is not None
    content = copy.deepcopy(case(f"rank, {Order(0.1).spec()}"))
    content["result"]["intervals"]["a"]["lower"] += 0.05
    assert "interval of a" in str(RankingProof(content).objection())
