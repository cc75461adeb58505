"""The example that the README and the tutorials run on: a question bank, and made-up scores of twelve models.

The bank has 1,990 short questions that cost nothing and are easy to check. Its topics differ widely in how hard they
are for a small model: there, choosing the questions pays off. The scores are synthetic (`benchmarks.example_scores`).
`cereval example` writes both files; the bank alone:

    python -m cereval.datasets.bank > bank.jsonl
"""

from __future__ import annotations

from importlib.resources import files

SCORER = "contains"
"""Made for it: an answer is right when the number or word occurs in it as a whole word."""

QUESTIONS, SCORES = "bank.jsonl", "bank_scores.csv"


def example(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def as_jsonl() -> list[str]:
    """Return the questions, a line of JSON each.

    >>> as_jsonl()[0][:61]
    '{"id": "addition-one-digit-1-001", "question": "8 + 6 =", "an'
    """
    return example(QUESTIONS).splitlines()


if __name__ == "__main__":
    print(example(QUESTIONS), end="")
