"""Recompute the verdicts on every item from its answers alone, by the definition of the closed test."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, fsum, log
from typing import Any

import numpy as np

from cereval.arrays import Floats
from cereval.certificate.audit import Audit, Equal, bounds
from cereval.records import Draw, Scored
from cereval.stats.interval import ROUNDING
from cereval.stats.rates import DOWN, MOST, UP


class EachAudit(Audit):
    """Keep every item's accounts in both games, and look after each answer who has won."""

    def begin(self, session: Any) -> None:
        self.rate, self.least = session.goal.value, 2 / (1 - session.confidence)
        size = session.n_items
        self.accounts = [[[log(share) for _, share in bets] for _ in range(size)] for bets in (UP, DOWN)]
        self.means = [np.ones(size), np.ones(size)]
        self.won: list[set[int]] = [set(), set()]

    def note(self, session: Any, draw: Draw, scores: Scored) -> None:  # noqa: ARG002
        low, high = bounds(scores[0])
        ahead = (low - self.rate) / self.rate, (self.rate - high) / (1 - self.rate)
        for accounts, means, won, bets, gain in zip(
            self.accounts, self.means, self.won, (UP, DOWN), ahead, strict=True
        ):
            own = accounts[draw.item]
            accounts[draw.item] = [
                before + log(1 + float(far) * gain) for before, (far, _) in zip(own, bets, strict=True)
            ]
            means[draw.item] = exp(min(log(fsum(map(exp, accounts[draw.item]))), MOST) - ROUNDING)
            rich = np.flatnonzero(means >= self.least).tolist()
            won |= {item for item in rich if item not in won and self._wins(means, item)}

    def _wins(self, means: Floats, item: int) -> bool:
        """Tell whether the item and any number of others, the poorest first, have a mean of 1/alpha."""
        others = np.sort(np.delete(means, item))
        sums = means[item] + np.concatenate(([0.0], np.cumsum(others)))
        return bool((sums / np.arange(1, len(means) + 1) >= self.least).all())

    def check(self, certificate: Mapping[str, Any], session: Any, equal: Equal) -> str:  # noqa: ARG002
        stated, (passing, failing) = certificate["result"], self.won
        verdicts = [
            "pass" if item in passing else "fail" if item in failing else "undecided"
            for item in range(len(self.means[0]))
        ]
        equal("result.items (audit)", [one["verdict"] for one in stated["items"]], verdicts)
        equal("result.passing (audit)", stated["passing"], len(passing))
        equal("result.failing (audit)", stated["failing"], len(failing))
        return self.kind.audited
