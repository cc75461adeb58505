"""The names that `--json` prints, command by command: what scripts may rely on. A test holds them to the program."""

from __future__ import annotations

from collections.abc import Mapping

RESULT = (
    "estimate lower upper half_width confidence n_evaluated n_items saved stopped method guarantee target seed "
    "failures decision notes"
)
RUN = "run_id calls surplus cost_usd interrupted certificate"
SHARED = "confidence n_evaluated n_items saved stopped method guarantee target seed failures notes"
COMPARISON = f"decision difference lower upper {SHARED} first second data"
RANKING = (
    "models goal order ties ties_proven undecided winners eliminated intervals calls calls_full saved n_items "
    "confidence stopped seed failures method guarantee target notes"
)

NAMES: Mapping[str, str] = {
    "run, gate, resume": f"{RESULT} {RUN}",
    "run --dry-run": "plan first_prompt expected_calls",
    "runs (a list)": "run_id status model data n_items goal items calls failures cost_usd created_at changed_at",
    "verify": "status valid reasons checked",
    "report": f"{RESULT} run_id report",
    "replay": f"{RESULT} model goal eps|value truth truth_inside",
    "replay --all-models": "models total miss_rate most_misses",
    "compare SCORES": f"{COMPARISON} items goal tie|eps truth truth_inside",
    "compare DATA": f"{COMPARISON} goal tie|eps run_id calls cost_usd interrupted certificate",
    "rank SCORES": f"{RANKING} truth wrong_orders intervals_missed [wrong_winners wrongly_eliminated]",
    "rank DATA": f"{RANKING} runs cost_usd interrupted",
    "tasks SCORES": f"tasks macro decision {SHARED} failing model goal eps|value [each] truth truth_inside",
    "tasks DATA": f"tasks macro decision {SHARED} failing model goal eps|value [each] {RUN}",
    "extend SCORES": f"versions {RESULT} model goal eps truth_inside",
    "extend DATA": f"versions {RESULT} model goal eps {RUN}",
    "plan": (
        "n_items target confidence eps threshold mean variance explained methods bounds partition warnings weights"
    ),
}
"""`a|b`: one of the two, by the goal. `[a b]`: not for every goal."""


def fits(names: str, found: set[str]) -> bool:
    """Whether an object has the names that are promised, and no others.

    >>> fits("a b|c [d e]", {"a", "c"}), fits("a b|c [d e]", {"a", "b", "d", "e"}), fits("a", {"a", "z"})
    (True, True, False)
    """
    must, _, rest = names.partition("[")
    may, _, more = rest.partition("]")
    left = set(found) - set(may.split())
    for name in (must + more).split():
        there = left & set(name.split("|"))
        if len(there) != 1:
            return False
        left -= there
    return not left


def json_section() -> str:
    """The names for the command line's page."""
    lines = [f"- `{command}`: {', '.join(names.split())}" for command, names in NAMES.items()]
    return "\n".join([HEAD, *lines, ""])


HEAD = """## JSON

`--json` prints one JSON object on stdout, and nothing else there. Names stay; new ones may come. `a|b`: one of the two,
by the goal; `[a b]`: not for every goal. Shares and scores are numbers in [0, 1]; `null` says that something is not
known (`cost_usd` without prices) or not decided (`decision`). `resume` prints what the command that began the run
does, and `report` has the names of that run's result.
"""
