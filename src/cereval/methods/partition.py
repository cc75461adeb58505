"""Make the paper's adaptive partition rigorous: `partition`."""

from __future__ import annotations

from typing import ClassVar

from cereval.forecasts.partition_predictor import PartitionPredictor
from cereval.methods.active import Active
from cereval.methods.base import Setting
from cereval.methods.certified import Tuning


class Partition(Active):
    """`active` with Cer-Eval's 1-NN partition as its only forecast and sampling rule.

    Theorem: that of `active`. Forecasts and draw weights come from the partition of the results of earlier draws,
    so they are functions of the past, and the interval holds at every moment however the groups were found.
    training_fraction: the share of the evaluated items that label the others, as in `cer-eval`.
    """

    name: ClassVar[str] = "partition"

    def __init__(
        self, setting: Setting, tuning: Tuning | None = None, training_fraction: float = 0.5
    ) -> None:
        predictor = PartitionPredictor(setting.pool, seed=setting.seed, training_fraction=training_fraction)
        super().__init__(setting, tuning, predictor)
