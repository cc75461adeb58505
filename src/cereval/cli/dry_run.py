"""Show what a run would ask, without asking anything: `cereval run --dry-run`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import fsum
from typing import Any, Literal

import click

from cereval.cli.output import print_json, print_table
from cereval.forecasts.pool import Pool
from cereval.models.base import Model
from cereval.models.prices import FREE, ListPrice, Price, Tokens
from cereval.plan import Plan
from cereval.questions.goals import in_words
from cereval.questions.mean.goal import Estimate, Finest
from cereval.runner.batches import takes_batches
from cereval.runner.executor import Callers, Sampled
from cereval.runner.prepare import MOST_PROMPTS, Prepared
from cereval.runner.samples import Samples
from cereval.runner.scoring import scorer_name
from cereval.scorers.base import Scorer, spec_of
from cereval.scorers.judge import GRADE, Grade, Panel, Prefer
from cereval.settings import Settings
from cereval.stats.planning import Scenario, eps_bought, plan_estimate
from cereval.stats.weights import shift_of
from cereval.text import money, percent, rounded


def show_plan(settings: Settings, work: Prepared, as_json: bool) -> int:
    plan = work.plan
    prompts = [[dict(turn) for turn in prompt.messages(work.items[0])] for prompt in work.prompts]
    eps, finest = getattr(settings.goal, "eps", None), isinstance(settings.goal, Finest)
    each = Samples.of(plan.scorer).count * len(plan.candidates)
    expected = _affordable(settings, work, each) if finest else _expect_calls(settings, plan)
    to_goal = expected
    if expected is not None and plan.max_calls is not None:
        expected = min(expected, plan.max_calls)
    calls = None if expected is None else expected * each
    if finest:
        eps = None if expected is None else _expected_eps(plan, expected)
    most = None if plan.target == "expected" else min(plan.n_items, plan.max_calls or plan.n_items) * each
    spending, bound = forecast(work, calls), forecast(work, most)
    if as_json:
        print_json(
            {
                "plan": plan.as_dict(),
                "first_prompt": prompts[0],
                "expected_calls": calls,
                "expected_eps": eps,
                "most_calls": most,
                "most_usd": bound.expected_usd,
                **spending.as_dict(),
            }
        )
        return 0
    rows = [
        *(("candidate", name) for name in plan.names),
        ("items", f"{plan.n_items:,} ({plan.data_hash[:23]}...)"),
        ("scorer", scorer_name(plan.scorer["spec"])),
        ("goal", f"{in_words(plan.goal)} at {percent(plan.confidence)} confidence"),
        ("target", f"{plan.target}, method {plan.method}, seed {plan.seed}"),
    ]
    beyond = (
        "" if to_goal == expected or to_goal is None else f", the limit (the goal: about {to_goal * each:,})"
    )
    rows += [("calls", f"about {calls:,}{'' if finest else ' at worst'}{beyond}")] if calls else []
    if finest and eps is not None:
        rows.append(("precision", f"about ±{rounded(eps)} at worst"))
    if calls is None and most is not None:
        rows += [("calls", f"at most {most:,}"), *bound.rows("at most")]
    else:
        rows += spending.rows()
    click.echo("nothing is asked; this would be:")
    for name, prompt in zip(plan.names, prompts, strict=True):
        whose = f" of {name}" if len(prompts) > 1 else ""
        rows += [(f"first prompt{whose}, {turn['role']}", turn["content"]) for turn in prompt]
    print_table(rows)
    return 0


def _affordable(settings: Settings, work: Prepared, each: int) -> int | None:
    """Forecast the questions that the budget allows; None where only minutes are limited."""
    usd, price = settings["max_usd"], forecast(work, 1).expected_usd
    found = [] if usd is None or not price else [int(usd / price) // each]
    found += [] if work.plan.max_calls is None else [work.plan.max_calls]
    most = [] if work.plan.target == "expected" else [work.plan.n_items]
    return min(found + most) if found else None


def _expected_eps(plan: Plan, questions: int) -> float:
    target: Literal["expected", "benchmark"] = "expected" if plan.target == "expected" else "benchmark"
    return eps_bought(Scenario(plan.n_items, mean=0.5, confidence=plan.confidence, target=target), questions)


def _expect_calls(settings: Settings, plan: Plan) -> int | None:
    """Forecast the questions that scores of the largest variance would take; None where no forecast is known."""
    if not isinstance(settings.goal, Estimate):
        return None
    if plan.method == "all":
        return plan.n_items
    eps, weights = settings.goal.eps, plan.item_weights
    if weights is not None:
        shares = Pool.build(plan.n_items, weights=weights).shares()
        return shift_of(shares, eps, 1 - plan.confidence).calls
    outlook = plan_estimate(Scenario(plan.n_items, mean=0.5, confidence=plan.confidence), eps)
    calls = next(row.calls for row in outlook.forecasts if row.method == "uniform")
    return plan.n_items if calls is None else calls


# -- what it would cost -----------------------------------------------------------------------------------------------


LETTERS_PER_TOKEN = 4
"""Of English text, roughly."""
USUAL_ROUNDS = 5
"""Of a run by batch (`benchmarks/results/batch-*.md`)."""
ANSWER_TOKENS = 256
"""Tokens of an answer that are assumed where --max-tokens does not say."""


@dataclass(frozen=True, slots=True)
class SpendingForecast:
    """judge_calls: beside those of the model; None where the calls are not known. expected_usd: None likewise; live_usd
    and batch_usd: asked one by one, and as batches. rounds: of batches; None where calls go out one by one."""

    judge_calls: int | None
    expected_usd: float | None
    priced_by: str | None
    rounds: int | None = None
    live_usd: float | None = None
    batch_usd: float | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def rows(self, about: str = "about") -> list[tuple[str, str]]:
        judged = [("judge", f"{about} {self.judge_calls:,} calls of the judge")] if self.judge_calls else []
        if self.expected_usd is None:
            return judged
        basis = f"{LETTERS_PER_TOKEN} letters a token, {ANSWER_TOKENS} tokens an answer without --max-tokens"
        cost = f"{about} {money(self.expected_usd)} ({self.priced_by or 'free'}; {basis})"
        found = [*judged, ("cost", cost)]
        if self.rounds is not None:
            found.append(("rounds", f"about {self.rounds}, each of which may take a day"))
        other = self.batch_usd if self.rounds is None else self.live_usd
        if other is not None and other != self.expected_usd:
            found.append(
                ("with --batch" if self.rounds is None else "with --live", f"{about} {money(other)}")
            )
        return found


def forecast(work: Prepared, calls: int | None) -> SpendingForecast:
    callers = work.executor.inner if isinstance(work.executor, Sampled) else work.executor
    source = str(work.circumstances.get("priced_by") or "") or None
    if calls is None or not isinstance(callers, Callers):
        return SpendingForecast(None, None, source)
    judged, prompt = judge_calls(work.scorers[0]), _prompt_tokens(work)
    answer = work.plan.candidates[0]["settings"].get("max_tokens") or ANSWER_TOKENS
    in_rounds = bool(work.circumstances.get("batch"))
    judging: float | None = 0.0
    if callers.judges:
        said = ANSWER_TOKENS if spec_of(work.scorers[0]).get("of", work.scorers[0].name) == Grade.name else 1
        asked = prompt + answer + len(GRADE) // LETTERS_PER_TOKEN
        prices = [_priced(judge, False) for judge in callers.judges]
        judging = _cost(prices, asked, said, judged // len(prices))
    usd = {}
    for batch in (False, True):
        cost = _cost([_priced(model, batch) for model in callers.models], prompt, answer)
        usd[batch] = None if cost is None or judging is None else calls * (cost + judging)
    return SpendingForecast(
        calls * judged,
        usd[in_rounds],
        source,
        rounds=USUAL_ROUNDS if in_rounds else None,
        live_usd=usd[False],
        batch_usd=usd[True] if all(map(takes_batches, callers.models)) else None,
    )


def _priced(model: Model, batch: bool) -> Price | None:
    """Return the price of a model, live or by batch; a model without one is free."""
    price: Price | None = getattr(model, "price", FREE)
    return replace(price, batch=batch) if isinstance(price, ListPrice) else price


def judge_calls(scorer: Scorer) -> int:
    if isinstance(scorer, Panel):
        return sum(map(judge_calls, scorer.members))
    if isinstance(scorer, Prefer):
        return 2 if scorer.both_orders else 1
    return int(isinstance(scorer, Grade))


def _prompt_tokens(work: Prepared) -> int:
    step = max(len(work.items) // MOST_PROMPTS, 1)
    chats = [prompt.messages(item) for prompt in work.prompts for item in work.items[::step]]
    letters = sum(len(turn["content"]) for chat in chats for turn in chat)
    return round(letters / len(chats) / LETTERS_PER_TOKEN)


def _cost(prices: Sequence[Price | None], tokens_in: int, tokens_out: int, times: int = 1) -> float | None:
    costs = [None if price is None else price.cost(Tokens(tokens_in, tokens_out)) for price in prices]
    return None if None in costs else times * fsum(cost for cost in costs if cost is not None)
