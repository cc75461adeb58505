"""Print every command's help, as the program prints it: `python -m tests.docs.help_page > docs/cli.md`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from cereval.cli.main import COMMANDS, cli, load_command

WIDTH = 110
HEAD = """# Command line

Written by `python -m tests.docs.help_page > docs/cli.md`; a test holds it to the program.
How the commands work together: [Running evaluations](live.md).

## Exit codes

| code | meaning |
|---|---|
| 0 | goal reached, certified pass, decided; `verify`: valid |
| 1 | could not run: a wrong flag, a file, a server or the store; one line on stderr says why |
| 2 | certified fail (`gate`, `--at-least`, `--not-worse`); `verify`: invalid, no certificate, or not as sealed |
| 3 | undecided: the budget or the pool is spent, or a run was stopped by Ctrl-C |
| 130 | Ctrl-C before there was anything to show; `fleet`: stopped by Ctrl-C or SIGTERM |

Where models are asked, the first Ctrl-C waits for the calls in flight, and the second (not for `rank`) gives them up.
Then what is certified so far is printed, with the code of that answer, usually 3. Every answer is in the store.
"""


def help_page() -> str:
    """Return the page: the group first, then each command in the order of the group's list."""
    parts = [_section("cereval", cli)]
    for name in COMMANDS:
        command = load_command(name)
        parts.append(_section(f"cereval {name}", command))
        inner = command.commands if isinstance(command, click.Group) else {}
        parts += [_section(f"cereval {name} {kind}", one) for kind, one in inner.items()]
    return "\n".join([HEAD, *parts, json_section()])


def _section(name: str, command: click.Command) -> str:
    context = click.Context(
        command,
        info_name=name,
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        help_option_names=["-h", "--help"],
    )
    return f"## {name}\n\n```text\n{command.get_help(context)}\n```\n"


SHARED = "confidence n_evaluated n_items saved stopped method guarantee target seed failures decision notes"
MEAN = "estimate lower upper half_width"
RESULT = f"{MEAN} {SHARED}"
COMPARISON = f"difference lower upper {SHARED} first second data"
RANKING = (
    "models goal order ties ties_proven undecided winners eliminated intervals calls calls_full saved n_items "
    "confidence stopped seed failures method guarantee target notes"
)
TASKS = f"tasks macro failing {SHARED}"
RUN = (
    "run_id model data asked kept surplus cost_usd priced_by calls_to_go interrupted certificate runs scorer instead "
    "served"
)
GOAL = "goal eps|value"

NAMES: Mapping[str, str] = {
    "run, gate, resume, rescore, tell": f"{RESULT} {GOAL} {RUN} calls",
    "run --dry-run": (
        "plan first_prompt expected_calls expected_eps most_calls most_usd judge_calls expected_usd priced_by rounds "
        "live_usd batch_usd"
    ),
    "runs (a list)": (
        "run_id kind status model candidate data n_items goal answer estimate lower upper labels items calls failures "
        "cost_usd priced_by parts engine created_at changed_at"
    ),
    "show": "run_id rows",
    "ask": "run_id rows output",
    "export": "rows output",
    "export --format every-eval-ever|hf|markdown|junit|mlflow|wandb|otel": "run_id format output",
    "import": "items models output notes skipped",
    "trend": "data runs",
    "delete": "deleted",
    "seal": "run_id seal digest signed",
    "verify": "verdict status valid reasons checked",
    "report": f"{RESULT} run_id report",
    "replay": f"{RESULT} model data items {GOAL} truth truth_inside instead",
    "replay compare": f"{COMPARISON} items goal tie|eps truth truth_inside instead",
    "compare": f"{COMPARISON} goal tie|eps {RUN} calls [baseline]",
    "replay rank": f"{RANKING} truth wrong_orders intervals_missed [wrong_winners wrongly_eliminated] instead",
    "rank": f"{RANKING} {RUN} [first second]",
    "replay tasks": f"{TASKS} model data items {GOAL} [each] truth truth_inside instead",
    "tasks": f"{TASKS} {GOAL} [each] {RUN} calls",
    "replay extend": f"versions {RESULT} model data items goal eps truth truth_inside instead",
    "extend": f"versions {RESULT} goal eps {RUN} calls",
    "fleet": "runs calls asked cost_usd expected_calls exit_code",
    "fleet --plan": "runs calls calls_alone cost_usd",
    "lm-eval": "certified certificates",
    "plan": (
        "n_items target confidence eps threshold mean variance explained methods bounds partition warnings weights "
        "frontier"
    ),
    "plan --usd": "n_items target confidence mean variance explained usd price_usd batch_usd priced_by buys",
}
"""`a|b`: one of the two, by the goal. `[a b]`: not for every goal."""


def fits(names: str, found: set[str]) -> bool:
    """Tell whether an object has the names that are promised, and no others.

    >>> fits("a b|c [d e]", {"a", "c"}), fits("a b|c [d e]", {"a", "b", "d", "e"}), fits("a", {"a", "z"})
    (True, True, False)
    """
    must, _, rest = names.partition("[")
    may, _, more = rest.partition("]")
    left = set(found) - set(may.split())
    for name in dict.fromkeys((must + more).split()):
        there = left & set(name.split("|"))
        if len(there) != 1:
            return False
        left -= there
    return not left


def json_section() -> str:
    """Return the names for the command line's page."""
    lines = [f"- `{command}`: {', '.join(dict.fromkeys(names.split()))}" for command, names in NAMES.items()]
    return "\n".join([JSON_HEAD, *lines, ""])


JSON_HEAD = """## JSON

`--json` prints one JSON object on stdout, and nothing else there. Names do not change; new ones may be added. `a|b`:
one of the two, by the goal; `[a b]`: not for every goal. Shares and scores are numbers in [0, 1]; `null` says that
something is not known (`cost_usd` without prices) or not decided (`decision`). `resume` prints what the command that
began the run does, and `report` has the names of that run's result. `stopped`: `goal`, `budget` (calls, money or
minutes are spent), `exhausted` (all items are asked), `contradiction`, or `running` (stopped by hand: `interrupted`).
"""


if __name__ == "__main__":
    click.echo(help_page(), nl=False)
