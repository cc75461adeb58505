"""Run the commands of docs/inspect.md one after the other, then its example: `page_of_commands.py COMMANDS EXAMPLE`.

In a process of its own, because Inspect's clients leave connections open behind them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from inspect_ai._cli.main import inspect

from cereval.cli.main import main


def run(commands: list[tuple[list[str], int]]) -> None:
    """Run each as it is typed, `LOG` being the first log there is."""
    first = ""
    for (program, *arguments), code in commands:
        filled = [part.replace("logs/LOG.eval", first) for part in arguments]
        if program == "inspect":
            inspect.main(filled, standalone_mode=False)
        elif main(filled) != code:
            sys.exit(f"another exit code than {code}: {filled}")
        first = first or str(next(Path("logs").glob("*.eval")))


if __name__ == "__main__":
    sys.path.insert(0, "")
    run(json.loads(sys.argv[1]))
    exec(compile(sys.argv[2], "docs/inspect.md", "exec"), {})
