"""A growing data set in the store: each version is a run, which names the run of the version before."""

from __future__ import annotations

from dataclasses import replace

from cereval.errors import InvalidInput, Misuse, StoreError
from cereval.goals import Estimate
from cereval.growing import Growing
from cereval.growing_version import LastVersion
from cereval.logbook import Log, replayed
from cereval.plan import PLAN_FORMAT, Plan
from cereval.records import Draw
from cereval.store.base import Store

LARGEST_TYPED = 2**32
"""Seeds up to this are taken for chosen, not drawn: of 53 random bits, one in two million is as small."""


def version_for(plan: Plan, store: Store) -> LastVersion:
    """The version that a plan describes, before its first draw; those before it are told their results again."""
    *_, size = plan.growth["sizes"]
    after = plan.growth["after"]
    if after is None:
        goal = Estimate(plan.goal["eps"])
        return LastVersion(
            Growing(size, goal=goal, confidence=plan.confidence, target=plan.target, seed=plan.seed)
        )
    earlier = Plan.from_dict(store.run(after).plan)
    version = version_for(earlier, store)
    retold(version, earlier, store)
    version.whole.extend(size)
    return LastVersion(version.whole)


def retold(version: LastVersion, plan: Plan, store: Store) -> None:
    """Tells a version what the store has of its run, and checks that it decides the same draws."""
    stored = store.draws(plan.run_id)
    results = {answer.draw: answer.score for answer in store.answers(plan.run_id, texts=False)}
    if replayed(version, Log(results, len(stored))) != stored:
        raise StoreError(
            f"the draws of run {plan.run_id} cannot be decided again: it was made by another version of "
            "cereval, or its database was changed; use the version that its certificate names"
        )


def consumed(plan: Plan, store: Store) -> list[tuple[Draw, float | None]]:
    """Every result that counts, of a run and of the versions before it, in the order of the versions."""
    version = version_for(plan, store)
    retold(version, plan, store)
    return [pair for draws, scores in version.whole.consumed for pair in zip(draws, scores, strict=True)]


def begun_before(plan: Plan, store: Store) -> Plan:
    """The first version of the same request that the store has, if its seed was drawn too; else the plan."""
    for run in store.runs():
        earlier = Plan.from_dict(run.plan) if run.plan.get("format") == PLAN_FORMAT else None
        if (
            earlier
            and earlier.seed > LARGEST_TYPED
            and replace(earlier, seed=plan.seed).run_id == plan.run_id
        ):
            return earlier
    return plan


def check_extension(plan: Plan, store: Store) -> None:
    """A version can be extended once it has ended, and once only: else not all certificates would hold at once."""
    after = plan.growth["after"]
    for run in store.runs():
        if run.plan.get("growth", {}).get("after") == after and run.run_id != plan.run_id:
            raise InvalidInput("RUN", f"the newest version: it was extended by run {run.run_id}", after)
    try:
        version_for(plan, store)
    except Misuse as error:
        raise InvalidInput(
            "RUN", f"a version that has ended (`cereval resume {after}`): {error}", after
        ) from None
