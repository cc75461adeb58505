"""The command lines of the golden certificates: the last one of each case writes the certificate.

Each case runs in a folder of its own, with the data files beside it and a new store. RUN stands for the run of
the command before.
"""

from __future__ import annotations

MODEL = "--model scripted/0.7"
ASKED = f"run questions.jsonl {MODEL}"
EARLIER = "run questions.jsonl --model scripted/0.5 --eps 0.12"
MORE = "run questions.jsonl --model scripted/0.8 --eps 0.12 --seed 3"
PAIR = "--model scripted/0.8 --model scripted/0.5"
LEVEL = "--model scripted/0.7 --model scripted/0.68"
COLUMNS = "replay compare scores.csv --model red --model blue"
THREE = "--model scripted/0.9 --model scripted/0.6 --model scripted/0.3"
ITEMS = "--items items.jsonl"
GROWN = "--versions 60,90,150"
FLAKY = "--model python:golden_models:flaky"

METHODS = {
    "auto": 0.12,
    "uniform": 0.12,
    "active": 0.12,
    "static": 0.2,
    "seq": 0.3,
    "oracle": 0.3,
    "hedged": 0.12,
}
"""Method -> the half-width that it reaches before the pool is spent."""


def estimates() -> dict[str, list[str]]:
    """Every method with both goals; the learning ones with history too."""
    found = {}
    for method, eps in METHODS.items():
        found[f"estimate-estimate-{method}"] = [f"{ASKED} --eps {eps} --method {method}"]
        found[f"estimate-threshold-{method}"] = [f"{ASKED} --at-least 0.45 --method {method}"]
    for method in ("auto", "active", "oracle"):
        again = f"{ASKED} --eps 0.1 --method {method} --seed 2"
        found[f"estimate-estimate-{method}-history"] = [EARLIER, MORE, again]
    found["estimate-threshold-auto-history"] = [EARLIER, f"{ASKED} --at-least 0.9"]
    return found


ESTIMATES: dict[str, list[str]] = {
    "estimate-estimate-auto-population": [EARLIER, f"{ASKED} --eps 0.15 --target population"],
    "estimate-estimate-uniform-expected": [f"{ASKED} --eps 0.12 --target expected --method uniform"],
    "estimate-estimate-auto-mix": [f"{ASKED} --eps 0.12 --mix sums=0.4,gains=0.3,totals=0.2,counts=0.1"],
    "estimate-estimate-uniform-weights-column": [f"{ASKED} --eps 0.15 --weights weight --method uniform"],
    "estimate-estimate-active-weights-file": [
        EARLIER,
        f"{ASKED} --eps 0.12 --weights weights.csv --method active",
    ],
    "estimate-estimate-active-failures-history": [
        f"run questions.jsonl {FLAKY} --eps 0.15 --seed 4",
        "run questions.jsonl --model scripted/0.6 --eps 0.1 --method active",
    ],
    "estimate-estimate-auto-budget": [f"{ASKED} --eps 0.05 --max-calls 40"],
    "estimate-threshold-uniform-changed-goal": [
        f"{ASKED} --at-least 0.68 --method uniform --max-calls 30",
        "resume RUN --eps 0.12 --max-calls 90",
    ],
}

COMPARISONS: dict[str, list[str]] = {
    "compare-sign-recorded": [f"{COLUMNS} --eps 0.05"],
    "compare-sign-recorded-history-items": [f"{COLUMNS} --eps 0.05 --history others {ITEMS}"],
    "compare-sign-recorded-budget": [
        "replay compare scores.csv --model red --model grey --eps 0 --budget 50"
    ],
    "compare-difference-recorded": [f"{COLUMNS} --within 0.15"],
    "compare-difference-recorded-history": [f"{COLUMNS} --within 0.12 --history green,grey"],
    "compare-not-worse-recorded": [f"{COLUMNS} --not-worse 0.05"],
    "compare-not-worse-recorded-worse": [
        "replay compare scores.csv --model blue --model red --not-worse 0.02 --history others"
    ],
    "compare-not-worse-recorded-items": [
        f"replay compare scores.csv --model green --model blue --not-worse 0.1 {ITEMS} --confidence 0.9"
    ],
    "compare-difference-live": [f"compare questions.jsonl {PAIR} --within 0.15 --history none"],
    "compare-sign-live-changed-budget": [
        f"compare questions.jsonl {LEVEL} --eps 0.02 --max-calls 25",
        "resume RUN --max-calls 50",
    ],
}

RANKINGS: dict[str, list[str]] = {
    "rank-order-recorded": ["replay rank scores.csv --tie 0.1"],
    "rank-order-recorded-proven": ["replay rank scores.csv --tie 0.1 --prove-ties"],
    "rank-order-recorded-budget": ["replay rank scores.csv --tie 0.02 --budget 200 --seed 5"],
    "rank-top-recorded": ["replay rank scores.csv --top 2 --within 0.05"],
    "rank-beats-recorded": ["replay rank scores.csv --beats blue --tie 0.1"],
    "rank-beats-recorded-proven": ["replay rank scores.csv --beats grey --tie 0.15 --prove-ties"],
    "rank-order-live-proven": [f"rank questions.jsonl {LEVEL} --tie 0.1 --prove-ties"],
    "rank-beats-live-proven": [f"rank questions.jsonl {LEVEL} --beats scripted/0.4 --prove-ties --tie 0.1"],
}

TASKS: dict[str, list[str]] = {
    "tasks-macro-recorded": [f"replay tasks scores.csv --model green {ITEMS} --eps 0.12"],
    "tasks-macro-recorded-each-history": [
        f"replay tasks scores.csv --model green {ITEMS} --eps 0.12 --each-eps 0.25 --history others"
    ],
    "tasks-each-within-recorded": [f"replay tasks scores.csv --model blue {ITEMS} --each-eps 0.25"],
    "tasks-all-at-least-recorded": [
        f"replay tasks scores.csv --model red {ITEMS} --at-least 0.4 --history others"
    ],
    "tasks-which-fail-recorded": [
        f"replay tasks scores.csv --model blue {ITEMS} --which-fail 0.5 --budget 100"
    ],
    "tasks-macro-recorded-files": ["replay tasks north.csv south.csv --model blue --eps 0.12 --history red"],
    "tasks-macro-live": [f"tasks questions.jsonl {MODEL} --eps 0.12"],
    "tasks-all-at-least-live": [EARLIER, f"tasks questions.jsonl {MODEL} --at-least 0.3"],
    "tasks-macro-live-usd": [
        "tasks questions.jsonl --model python:golden_models:priced --eps 0.05 --max-usd 0.04 -j 2"
    ],
}

GROWING: dict[str, list[str]] = {
    "growing-benchmark-recorded": [f"replay extend scores.csv --model red {GROWN} --eps 0.15 --seed 11"],
    "growing-population-recorded": [
        f"replay extend scores.csv --model red {GROWN} --eps 0.15 --seed 11 --target population"
    ],
    "growing-benchmark-live": [
        "extend north.jsonl --model scripted/0.7 --eps 0.15 --seed 13",
        "extend RUN --data questions.jsonl",
    ],
    "growing-benchmark-live-usd": [
        "extend questions.jsonl --model python:golden_models:priced --eps 0.12 --seed 17 --max-usd 0.03 -j 2"
    ],
}

CASES = {**estimates(), **ESTIMATES, **COMPARISONS, **RANKINGS, **TASKS, **GROWING}
