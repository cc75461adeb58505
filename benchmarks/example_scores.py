"""Make up the scores of the example: `python -m benchmarks.example_scores > src/cereval/datasets/bank_scores.csv`.

They are synthetic, and say so in their models' names: birds, not products. Model m answers question i rightly with the
chance

    1 / (1 + exp(difficulty_i - ability_m - taste_m,t)),      t the topic of the question,

so that what is hard for one model tends to be hard for all, as it is on real benchmarks.
"""

from __future__ import annotations

import csv
import io
import json
from math import exp
from random import Random
from typing import Any

from cereval.datasets.bank import as_jsonl

ABILITIES = {
    "robin-1": -0.6,
    "robin-2": 0.2,
    "robin-3": 0.9,
    "finch-small": -0.3,
    "finch-large": 0.8,
    "crane-7b": -0.1,
    "crane-13b": 0.4,
    "crane-70b": 1.3,
    "heron": 1.1,
    "heron-next": 1.5,
    "wren": -1.2,
    "wren-tuned": -0.2,
}
TASTE = 0.6
DIFFICULTY = {1: -1.2, 2: 0.2, 3: 1.2}
ITEM_SPREAD = 1.6


def example_scores() -> str:
    """Return the scores as a CSV table: a column `item`, and one of 0 and 1 for each model.

    >>> example_scores().splitlines()[0]
    'item,robin-1,robin-2,robin-3,finch-small,finch-large,crane-7b,crane-13b,crane-70b,heron,heron-next,wren,wren-tuned'
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["item", *ABILITIES])
    for line in as_jsonl():
        question = json.loads(line)
        table.writerow([question["id"], *(_score(model, question) for model in ABILITIES)])
    return text.getvalue()


def _score(model: str, question: dict[str, Any]) -> int:
    difficulty = DIFFICULTY[question["level"]] + ITEM_SPREAD * _normal(question["id"])
    ease = ABILITIES[model] + TASTE * _normal(f"{model} {question['category']}") - difficulty
    return int(Random(f"{model} {question['id']}").random() < 1 / (1 + exp(-ease)))


def _normal(name: str) -> float:
    """Throw a nearly normal number of variance 1 that only the name decides: the sum of twelve uniform ones, less 6."""
    dice = Random(name)
    return sum(dice.random() for _ in range(12)) - 6.0


if __name__ == "__main__":
    print(example_scores(), end="")
