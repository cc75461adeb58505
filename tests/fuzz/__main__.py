"""`python -m tests.fuzz`: run many inputs, and write a table of what came of them.

python -m tests.fuzz --inputs 20000 --processes 2 --out benchmarks/results/fuzz-DATE.md
python -m tests.fuzz --minutes 60
python -m tests.fuzz --only 4711 --keep /tmp/here       # one of them again, with its files
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import count, islice
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path

from tests.fuzz.drive import MEMORY, SECONDS, Fuzzer, Outcome

from cereval.cli.main import COMMANDS


def main() -> int:
    """Run the inputs that were asked for; the exit code is 1 where one went wrong."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="cereval-fuzz-", ignore_cleanup_errors=True) as folder:
        fuzzer = Fuzzer(Path(options.keep or folder), options.seed)
        shares = [
            islice(_numbers(options), share, None, options.processes) for share in range(options.processes)
        ]
        found = sorted(_watched(_all(fuzzer, shares)), key=lambda outcome: outcome.number)
    text = table(found, options.seed)
    print(text)
    if options.out:
        Path(options.out).write_text(text, encoding="utf-8")
    return int(any(outcome.wrong for outcome in found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="The number of the first input.")
    parser.add_argument("--minutes", type=float, help="Instead of --inputs: as many as this takes.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1, help="How many inputs at a time.")
    parser.add_argument("--only", type=int, nargs="*", help="These inputs, with all that they said.")
    parser.add_argument("--keep", help="A folder that does not exist yet, for the files of what goes wrong.")
    parser.add_argument("--out", help="Where the table goes.")
    return parser.parse_args()


def _numbers(options: argparse.Namespace) -> Iterator[int]:
    if options.only is not None:
        yield from options.only
    elif options.minutes is None:
        yield from range(options.first, options.first + options.inputs)
    else:
        end = time.monotonic() + 60 * options.minutes
        for number in count(options.first):
            if time.monotonic() > end:
                return
            yield number


def _all(fuzzer: Fuzzer, shares: list[Iterator[int]]) -> Iterator[Outcome]:
    """Run the inputs of each share in a process, and give what came of them as it comes."""
    system, ends = get_context("fork"), list[Connection]()
    for share in shares:
        end, other = system.Pipe(duplex=False)
        system.Process(target=_share, args=(fuzzer, share, other)).start()
        other.close()
        ends.append(end)
    while ends:
        for ready in wait(ends):
            assert isinstance(ready, Connection)
            try:
                yield ready.recv()
            except EOFError:
                ends.remove(ready)


def _share(fuzzer: Fuzzer, numbers: Iterator[int], told: Connection) -> None:
    for outcome in fuzzer.outcomes(numbers):
        told.send(outcome)


def _watched(outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
    """Show what goes wrong as it happens, and how far it is."""
    for done, outcome in enumerate(outcomes, 1):
        line = " ".join(word[:80] for word in outcome.words).encode("ascii", "backslashreplace").decode()
        if outcome.clock > SECONDS:
            print(
                f"{outcome.number}: {outcome.seconds:.1f} s took {outcome.clock:.0f} s by the clock\n    {line}"
            )
        if outcome.wrong:
            print(f"{outcome.number}: {outcome.wrong}\n    {line}\n    spoilt: {outcome.spoilt}", flush=True)
            print("    " + "\n    ".join(outcome.errors.splitlines()[-6:]), flush=True)
        if done % 1000 == 0:
            print(f"{done:,} inputs", flush=True)
        yield outcome


def table(found: list[Outcome], seed: int) -> str:
    """Write what came of all inputs as a table, command by command."""
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in found:
        groups[outcome.command].append(outcome)
    known = [name for name in groups if name in COMMANDS]
    rows = [_row(name, groups[name]) for name in sorted(known)]
    rest = [outcome for name, group in groups.items() if name not in known for outcome in group]
    rows += [_row("(no command)", rest)] if rest else []
    rows.append(_row("all", found))
    head = (
        "| command | inputs | code 0 | 1 | 2 | 3 | most, s | clock, s | most, MB | wrong |\n"
        + "|---" * 10
        + "|"
    )
    about = (
        f"{len(found):,} inputs of seed {seed}, each in a process of its own with at most {SECONDS} s of the processor "
        f"and {MEMORY // 2**20:,} MB. `wrong`: a traceback, a warning, another exit code than 0 to 3, no or several "
        "lines of error, output that is not JSON where JSON was asked for, an escape sequence, too long, too large. "
        "`clock`: the longest by the clock, beside other programs."
    )
    return f"# Fuzzing every command\n\n{about}\n\n{head}\n" + "\n".join(rows) + "\n"


def _row(name: str, group: list[Outcome]) -> str:
    codes = Counter(outcome.code for outcome in group)
    longest, clock = max(outcome.seconds for outcome in group), max(outcome.clock for outcome in group)
    most = max(outcome.megabytes for outcome in group)
    wrong = sum(bool(outcome.wrong) for outcome in group)
    cells = [
        name,
        f"{len(group):,}",
        *(f"{codes[code]:,}" for code in range(4)),
        f"{longest:.1f}",
        f"{clock:.0f}",
        f"{most:.0f}",
        wrong,
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    raise SystemExit(main())
