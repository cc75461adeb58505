"""Read the project's own question bank: 1,990 short questions that cost nothing and are easy to check.

The topics differ widely in how hard they are for a small model: there, choosing the questions pays off. `cereval
example` writes them, and so does

    python -m cereval.datasets.bank > bank.jsonl
"""

from __future__ import annotations

from importlib.resources import files

SCORER = "contains"
"""Made for it: an answer is right when the number or word occurs in it as a whole word."""


def as_jsonl() -> list[str]:
    """Return the questions, a line of JSON each.

    >>> as_jsonl()[0][:61]
    '{"id": "addition-one-digit-1-001", "question": "8 + 6 =", "an'
    """
    return (files(__package__) / "bank.jsonl").read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    print("\n".join(as_jsonl()))
