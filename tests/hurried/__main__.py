"""`python -m tests.hurried`: many days of a hurried team; what went wrong is printed, with the day's number.

python -m tests.hurried --days 200 --out benchmarks/results/hurried-DATE.md
python -m tests.hurried --first 17 --days 1             # one of them again
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections import Counter
from multiprocessing import Pool
from pathlib import Path

from tests.fuzz.drive import preload
from tests.hurried.team import Day


def main() -> int:
    """Carry out the days; the exit code is 1 where something did not add up."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--days", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="The number of the first day.")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", help="Where the table goes.")
    options = parser.parse_args()
    preload()
    numbers = range(options.first, options.first + options.days)
    with tempfile.TemporaryDirectory(prefix="cereval-hurried-") as folder:
        os.environ["XDG_CONFIG_HOME"] = f"{folder}/settings"
        with Pool(options.processes) as pool:
            found = pool.starmap(_day, [(Path(folder), number) for number in numbers], chunksize=1)
    text = table(found, f"python -m tests.hurried --first {options.first} --days {options.days}")
    print(text)
    if options.out:
        Path(options.out).write_text(text, encoding="utf-8")
    return int(any(wrong for _, wrong in found))


def _day(folder: Path, number: int) -> tuple[list[str], list[str]]:
    day = Day(folder / str(number), number).run()
    shutil.rmtree(day.folder)
    return day.story, [f"day {number}: {wrong}" for wrong in day.wrong]


def table(found: list[tuple[list[str], list[str]]], command: str) -> str:
    """Write what was done how often, and what came of it."""
    done = Counter(
        line.split()[0] + " -> " + line.split()[-1] for story, _ in found for line in story if "->" in line
    )
    rows = [f"| `{name.split()[0]}` | {name.split()[-1]} | {count} |" for name, count in sorted(done.items())]
    wrong = [line for _, lines in found for line in lines]
    return "\n".join(
        [
            f"# {len(found)} days of a hurried team: {len(wrong)} things wrong",
            "",
            f"`{command}`. Exit code -9: killed in the middle of a call; 130: interrupted.",
            "",
            "| command | exit code | times |",
            "|---|---|---|",
            *rows,
            "",
            *wrong,
        ]
    )


if __name__ == "__main__":
    raise SystemExit(main())
