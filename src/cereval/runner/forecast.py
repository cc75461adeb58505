"""Say what a run would cost, before its first call: calls of the model and of the judge, and money at list prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import fsum
from typing import Any

from cereval.models.base import Model
from cereval.models.prices import FREE, ListPrice, Price, Tokens
from cereval.runner.batches import takes_batches
from cereval.runner.executor import Callers, Sampled
from cereval.runner.prepare import MOST_PROMPTS, Prepared
from cereval.scorers.base import Scorer, spec_of
from cereval.scorers.judge import GRADE, Grade, Panel, Prefer
from cereval.text import money

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

    def rows(self) -> list[tuple[str, str]]:
        """For people; nothing where nothing is known."""
        judged = [("judge", f"about {self.judge_calls:,} calls of the judge")] if self.judge_calls else []
        if self.expected_usd is None:
            return judged
        basis = f"{LETTERS_PER_TOKEN} letters a token, {ANSWER_TOKENS} tokens an answer without --max-tokens"
        cost = f"about {money(self.expected_usd)} ({self.priced_by or 'free'}; {basis})"
        found = [*judged, ("cost", cost)]
        if self.rounds is not None:
            found.append(("rounds", f"about {self.rounds}, each of which may take a day"))
        other = self.batch_usd if self.rounds is None else self.live_usd
        if other is not None and other != self.expected_usd:
            found.append(("with --batch" if self.rounds is None else "with --live", f"about {money(other)}"))
        return found


def forecast(work: Prepared, calls: int | None) -> SpendingForecast:
    """Forecast what so many calls cost; nothing is asked."""
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


def _cost(prices: Sequence[Price | None], tokens_in: int, tokens_out: int, times: int = 1) -> float | None:
    """Return what one question costs; None where a price is not known."""
    costs = [None if price is None else price.cost(Tokens(tokens_in, tokens_out)) for price in prices]
    return None if None in costs else times * fsum(cost for cost in costs if cost is not None)
