"""One seed, one answer on every machine; and runs that travel from one machine to another.

\b
python -m benchmarks.machines
python -m benchmarks.machines --table travel --seeds 20 --out benchmarks/results/machines-YYYY-MM-DD.md
python -m benchmarks.machines --table answers --seeds 50 --only tasks --only compare
python -m benchmarks.machines --diagnose tasks --seed 3 --kernels Haswell,SkylakeX

This machine plays others: every process is told by environment variables which kernels of OpenBLAS and numpy to use.
Exit code 0: all answers are the same, and all runs arrived.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic

import click

from benchmarks.machine_kernels import EVERY, TRAVELLED, Kernel, Machines, describe_kernel
from benchmarks.machine_kinds import KINDS, Answer, evaluate
from benchmarks.machine_places import (
    RECORDED,
    STATES,
    Inspect,
    Plain,
    has_inspect,
    has_ray,
    send_fleet,
    send_recorded,
    send_state,
)
from benchmarks.machine_trace import tell_story, trace
from benchmarks.machine_travel import (
    JOURNEYS,
    Arrival,
    Databases,
    Files,
    OpenStore,
    Traveller,
    temporary_folder,
)
from benchmarks.postgres import cluster, server_binaries
from benchmarks.tables import markdown, publish

TITLES = {"answers": "One seed, one answer", "travel": "Runs that travel"}
LONGEST_ERROR = 200

TOLERANCE = 1e-6
"""What estimates may differ by."""
SUSPICIOUS = 1e-9
"""What the diagnosis shows: rounding alone stays far below."""


def answer(job: tuple[str, int]) -> Answer:
    try:
        return evaluate(*job)
    except Exception as error:  # not every error can be sent from one process to another
        raise RuntimeError(f"{job}: {type(error).__name__}: {error}") from None


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far the answers of one seed on all machines are apart."""

    seed: int
    same: bool
    """Whether the counts and decisions are the same everywhere."""
    estimate: float
    probability: float
    """The largest relative difference of a draw's probability, as long as the same items were drawn."""
    parting: str


def compare_answers(seed: int, answers: dict[Kernel, Answer]) -> Agreement:
    """Hold the answers of all machines against that of the first."""
    (first, base), *others = answers.items()
    partings = [(kernel, find_parting(base, other)) for kernel, other in others]
    said = [f"{kernel.name} and {first.name}, {parting}" for kernel, (_, parting) in partings if parting]
    return Agreement(
        seed,
        all((other.count, other.decision) == (base.count, base.decision) for _, other in others),
        max(numbers_apart(base, other) for _, other in others),
        max(largest for _, (largest, _) in partings),
        said[0] if said else "",
    )


def numbers_apart(one: Answer, other: Answer) -> float:
    """Return the largest difference of an estimate or an end of an interval."""
    pairs = zip(one.numbers, other.numbers, strict=True)
    return max(abs(a - b) for left, right in pairs for a, b in zip(left, right, strict=True))


def find_parting(one: Answer, other: Answer) -> tuple[float, str]:
    """Return how far probabilities are apart while the same items are drawn, and the first draw that is another."""
    largest = 0.0
    for index, (left, right) in enumerate(zip(one.draws, other.draws, strict=False)):
        if left[:2] != right[:2]:
            words = f"draw {index}: item {right[0]} with {right[2]:.10g}, item {left[0]} with {left[2]:.10g}"
            return largest, words
        largest = max(largest, abs(left[2] - right[2]) / max(left[2], right[2]))
    if len(one.draws) != len(other.draws):
        return largest, f"{len(other.draws)} draws, {len(one.draws)} draws"
    return largest, ""


def compare_kind(machines: Machines, kind: str, seeds: range) -> list[Agreement]:
    """Answer a kind under every seed on every machine."""
    answers = machines.ask_all(answer, [(kind, seed) for seed in seeds])
    return [
        compare_answers(seed, {kernel: found[place] for kernel, found in answers.items()})
        for place, seed in enumerate(seeds)
    ]


def answers_row(kind: str, agreements: Sequence[Agreement]) -> list[object]:
    first = next((f"seed {one.seed}: {one.parting}" for one in agreements if one.parting), "")
    return [
        kind,
        f"{sum(one.same for one in agreements)} of {len(agreements)}",
        f"{max(one.estimate for one in agreements):.1e}",
        f"{max(one.probability for one in agreements):.1e}",
        first,
    ]


def compare_everywhere(only: Sequence[str], seeds: int) -> tuple[str, bool]:
    """Make the table of answers, and say whether all are the same."""
    rows, good = [], True
    with Machines(EVERY) as machines:
        names = [f"{one.name} ({machines.ask(one, describe_kernel, None)})" for one in EVERY]
        for kind in [kind for kind in KINDS if not only or kind in only]:
            began = monotonic()
            agreements = compare_kind(machines, kind, range(1, seeds + 1))
            rows.append(answers_row(kind, agreements))
            good &= all(one.same and one.estimate <= TOLERANCE for one in agreements)
            click.echo(f"{rows[-1]} {monotonic() - began:.0f} s", err=True)
    header = (
        "kind",
        "same count and decision",
        "largest difference of a number",
        "of a probability, relative",
        "first other draw",
    )
    text = f"Machines played: {'; '.join(names)}. {seeds} seeds.\n\n"
    return text + markdown(header, rows), good


def parse_kernel(text: str) -> Kernel:
    """Read a kernel as a user types it.

    >>> parse_kernel("Haswell:2"), parse_kernel("Haswell:plain")
    (Kernel(core='Haswell', threads=2, plain=False), Kernel(core='Haswell', threads=1, plain=True))
    """
    core, _, rest = text.partition(":")
    return Kernel(core, plain=True) if rest == "plain" else Kernel(core, int(rest or 1))


def diagnose(kind: str, seed: int, kernels: Sequence[Kernel], draws: int) -> None:
    """Print where two machines part."""
    with Machines(kernels) as machines:
        traces = machines.ask_all(trace, [(kind, seed, draws)])
    one, other = (traces[kernel][0] for kernel in kernels)
    click.echo(f"{kind}, seed {seed}: {' and '.join(kernel.name for kernel in kernels)}")
    for line in tell_story(one, other, SUSPICIOUS):
        click.echo(line)


# -- travel -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trip:
    """A row of the table: what travels, where it is kept, and how a seed is sent."""

    name: str
    place: str
    send: Callable[[int], list[Arrival]]
    together: bool = True
    """Whether several seeds can be on their way at a time."""


def send_one(send: Callable[[str, int], Arrival], name: str, seed: int) -> list[Arrival]:
    return [send(name, seed)]


def plan_trips(machines: Machines, folder: Path, stack: ExitStack) -> Iterator[Trip]:
    """List all trips that are possible here; what is missing is said."""
    files = Files(machines, folder)
    by_file = Traveller(machines, files)
    for name in JOURNEYS:
        yield Trip(name, "SQLite", partial(send_one, by_file.travel, name))
    for name in RECORDED:
        yield Trip(name, "recorded", partial(send_one, partial(send_recorded, machines), name))
    for name in STATES:
        yield Trip(name, "Session.state", partial(send_one, partial(send_state, machines), name))
    stores: OpenStore = Plain(files)
    binaries = server_binaries()
    if binaries is None:
        click.echo("no PostgreSQL server is installed (pg_ctl not found): left out", err=True)
    else:
        stores = Databases(machines, files, stack.enter_context(cluster(binaries)))
        by_server, names = Traveller(machines, stores), list(JOURNEYS)
        yield Trip(
            "all kinds in turn",
            "PostgreSQL",
            lambda seed: [by_server.travel(names[seed % len(names)], seed)],
        )
    place = "SQLite" if binaries is None else "PostgreSQL"
    yield Trip("fleet", place, lambda seed: send_fleet(stores, seed), together=False)
    if has_ray():
        yield Trip("fleet on Ray", place, lambda seed: send_fleet(stores, seed, "ray"), together=False)
    else:
        click.echo("Ray is not installed (pip install ray): left out", err=True)
    if has_inspect():
        inspect = Inspect(folder / "inspect")
        yield Trip("Inspect with history", "its log", lambda seed: [inspect.send(seed)])
    else:
        click.echo("Inspect is not installed (pip install inspect_ai): left out", err=True)


def send_all(trip: Trip, seeds: range) -> list[Arrival]:
    """Send every seed, as many at a time as there are cores."""
    with ThreadPoolExecutor((os.cpu_count() or 1) if trip.together else 1) as hands:
        return [arrival for arrivals in hands.map(trip.send, seeds) for arrival in arrivals]


def travel_row(trip: Trip, arrivals: Sequence[Arrival]) -> list[object]:
    """Count what came through each stage; a stage that this trip does not have is left empty."""

    def count(stage: str) -> object:
        reached = any(stage in one.errors for one in arrivals)
        return sum(one.has_passed(stage) for one in arrivals) if reached else ""

    ways = Counter(one.interrupted for one in arrivals if one.interrupted)
    first = next((one.first_error for one in arrivals if one.first_error), "")
    return [
        trip.name,
        trip.place,
        len(arrivals),
        ", ".join(f"{number} by {way}" for way, number in sorted(ways.items())),
        *(count(stage) for stage in ("resume", "verify", "read")),
        first[:LONGEST_ERROR].replace("|", "/"),
    ]


def travel_everywhere(only: Sequence[str], seeds: int) -> tuple[str, bool]:
    """Make the table of runs that travel, and say whether all of them arrived."""
    rows, good = [], True
    with Machines(EVERY) as machines, temporary_folder() as folder, ExitStack() as stack:
        for trip in plan_trips(machines, folder, stack):
            if only and trip.name not in only:
                continue
            began = monotonic()
            arrivals = send_all(trip, range(1, seeds + 1))
            rows.append(travel_row(trip, arrivals))
            good &= not any(one.first_error for one in arrivals)
            click.echo(f"{rows[-1]} {monotonic() - began:.0f} s", err=True)
    header = ("what", "kept in", "runs", "interrupted", "resumed", "valid", "read elsewhere", "first error")
    text = (
        f"Begun on one machine with two threads, interrupted, resumed on a second with one, verified and read (report, "
        f"show, export, resume again) on a third; {len(TRAVELLED)} machines in turn, {seeds} seeds.\n\n"
    )
    return text + markdown(header, rows), good


# -- the command ------------------------------------------------------------------------------------------------------

NAMES = sorted(
    {
        *KINDS,
        *JOURNEYS,
        *RECORDED,
        *STATES,
        "all kinds in turn",
        "fleet",
        "fleet on Ray",
        "Inspect with history",
    }
)
TABLES = ("answers", "travel")
ONLY = "Only this row of a table, by its name; may be repeated."
PART = "Show where two kernels part: a kind of the table of answers."


@click.command(help=__doc__)
@click.option("--table", "tables", type=click.Choice(TABLES), multiple=True, help="Only this table.")
@click.option("--only", type=click.Choice(NAMES), metavar="NAME", multiple=True, help=ONLY)
@click.option("--seeds", default=3, show_default=True, help="Seeds for each kind.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the tables to this file.")
@click.option("--diagnose", "suspect", type=click.Choice(list(KINDS)), metavar="KIND", help=PART)
@click.option("--seed", default=1, show_default=True, help="The seed for --diagnose.")
@click.option(
    "--kernels",
    default="Haswell,SkylakeX",
    show_default=True,
    help="The two kernels for --diagnose: CORE, CORE:THREADS or CORE:plain.",
)
@click.option("--draws", default=10_000, help="Draws to follow for --diagnose.")
def main(
    tables: tuple[str, ...],
    only: tuple[str, ...],
    seeds: int,
    out: Path | None,
    suspect: str | None,
    seed: int,
    kernels: str,
    draws: int,
) -> None:
    if suspect is not None:
        diagnose(suspect, seed, [parse_kernel(text) for text in kernels.split(",")], draws)
        return
    texts, good = [], True
    for table in tables or TABLES:
        make = compare_everywhere if table == "answers" else travel_everywhere
        text, fine = make(only, seeds)
        texts.append(f"## {TITLES[table]}\n\n{text}\n")
        good &= fine
    publish("The same on every machine", "benchmarks.machines", "\n".join(texts), out)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
