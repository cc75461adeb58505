"""Say what a run would cost, before its first call: calls of the model and of the judge, and money at list prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import fsum
from typing import Any

from cereval.models.base import Model
from cereval.models.prices import FREE, Tokens
from cereval.runner.executor import Callers, Sampled
from cereval.runner.prepare import MOST_PROMPTS, Prepared
from cereval.scorers.base import Scorer
from cereval.scorers.judge import GRADE, Grade, Panel, Prefer
from cereval.text import money

LETTERS_PER_TOKEN = 4
"""Of English text, roughly."""
ANSWER_TOKENS = 256
"""Tokens of an answer that are assumed where --max-tokens does not say."""


@dataclass(frozen=True, slots=True)
class SpendingForecast:
    """judge_calls: beside those of the model; None where the calls are not known. expected_usd: None likewise."""

    judge_calls: int | None
    expected_usd: float | None
    priced_by: str | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def rows(self) -> list[tuple[str, str]]:
        """For people; nothing where nothing is known."""
        judged = [("judge", f"about {self.judge_calls:,} calls of the judge")] if self.judge_calls else []
        if self.expected_usd is None:
            return judged
        basis = f"{LETTERS_PER_TOKEN} letters a token, {ANSWER_TOKENS} tokens an answer without --max-tokens"
        cost = f"about {money(self.expected_usd)} ({self.priced_by or 'free'}; {basis})"
        return [*judged, ("cost", cost)]


def forecast(work: Prepared, calls: int | None) -> SpendingForecast:
    """Forecast what so many calls cost; nothing is asked."""
    callers = work.executor.inner if isinstance(work.executor, Sampled) else work.executor
    source = str(work.circumstances.get("priced_by") or "") or None
    if calls is None or not isinstance(callers, Callers):
        return SpendingForecast(None, None, source)
    judged, prompt = judge_calls(work.scorers[0]), _prompt_tokens(work)
    answer = work.plan.candidates[0]["settings"].get("max_tokens") or ANSWER_TOKENS
    costs = [_cost(callers.models, prompt, answer)]
    if callers.judge is not None:
        said = ANSWER_TOKENS if isinstance(work.scorers[0], Grade) else 1
        asked = prompt + answer + len(GRADE) // LETTERS_PER_TOKEN
        costs.append(_cost([callers.judge], asked, said, judged))
    known = [cost for cost in costs if cost is not None]
    return SpendingForecast(calls * judged, calls * fsum(known) if len(known) == len(costs) else None, source)


def judge_calls(scorer: Scorer) -> int:
    """Return how often a judge is asked about one answer."""
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


def _cost(models: Sequence[Model], tokens_in: int, tokens_out: int, times: int = 1) -> float | None:
    """Return what one question costs; None where a price is not known. Models without prices are free."""
    prices = [getattr(model, "price", FREE) for model in models]
    costs = [None if price is None else price.cost(Tokens(tokens_in, tokens_out)) for price in prices]
    return None if None in costs else times * fsum(cost for cost in costs if cost is not None)
