"""Show what a run would ask, without asking anything: `cereval run --dry-run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cereval.cli.output import print_json, print_table
from cereval.questions.goals import in_words
from cereval.questions.mean.goal import Estimate
from cereval.runner.forecast import forecast
from cereval.runner.samples import Samples
from cereval.text import percent

if TYPE_CHECKING:
    from cereval.plan import Plan
    from cereval.runner.prepare import Prepared
    from cereval.settings import Settings


def show_plan(settings: Settings, work: Prepared, as_json: bool) -> int:
    """Print the plan, the first prompt of each candidate and the calls to expect."""
    plan = work.plan
    prompts = [[dict(turn) for turn in prompt.messages(work.items[0])] for prompt in work.prompts]
    expected = _expect_calls(settings, plan)
    calls = None if expected is None else expected * Samples.of(plan.scorer).count * len(plan.candidates)
    spending = forecast(work, calls)
    if as_json:
        print_json(
            {
                "plan": plan.as_dict(),
                "first_prompt": prompts[0],
                "expected_calls": calls,
                **spending.as_dict(),
            }
        )
        return 0
    rows = [
        *(("candidate", name) for name in plan.names),
        ("items", f"{plan.n_items:,} ({plan.data_hash[:23]}...)"),
        ("scorer", str(plan.scorer["spec"]["name"])),
        ("goal", f"{in_words(plan.goal)} at {percent(plan.confidence)} confidence"),
        ("target", f"{plan.target}, method {plan.method}, seed {plan.seed}"),
    ]
    rows += [("calls", f"about {calls:,} at worst")] if calls else []
    rows += spending.rows()
    click.echo("nothing is asked; this would be:")
    for name, prompt in zip(plan.names, prompts, strict=True):
        whose = f" of {name}" if len(prompts) > 1 else ""
        rows += [(f"first prompt{whose}, {turn['role']}", turn["content"]) for turn in prompt]
    print_table(rows)
    return 0


def _expect_calls(settings: Settings, plan: Plan) -> int | None:
    """Forecast the questions that scores of the largest variance would take; None where no forecast is known."""
    from cereval.forecasts.pool import Pool
    from cereval.stats.planning import Scenario, plan_estimate
    from cereval.stats.weights import shift_of

    if not isinstance(settings.goal, Estimate):
        return None
    eps, weights = settings.goal.eps, plan.item_weights
    if weights is not None:
        shares = Pool.build(plan.n_items, weights=weights).shares()
        return shift_of(shares, eps, 1 - plan.confidence).calls
    outlook = plan_estimate(Scenario(plan.n_items, mean=0.5, confidence=plan.confidence), eps)
    calls = next(row.calls for row in outlook.forecasts if row.method == "uniform")
    return plan.n_items if calls is None else calls
