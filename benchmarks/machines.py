"""One seed, one answer on every machine; and runs that travel from one machine to another.

    python -m benchmarks.machines --seeds 5
    python -m benchmarks.machines --seeds 50 --out benchmarks/results/machines-YYYY-MM-DD.md
    python -m benchmarks.machines --only answers --kind tasks --kind compare
    python -m benchmarks.machines --diagnose tasks --seed 3 --kernels Haswell,SkylakeX

This machine plays others (`benchmarks.machine_kernels`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import click

from benchmarks.machine_kernels import CORES, EVERY, PLAIN, Kernel, Machines, describe_kernel
from benchmarks.machine_kinds import KINDS, Answer, evaluate
from benchmarks.machine_trace import tell_story, trace
from benchmarks.tables import markdown, publish

TOLERANCE = 1e-6
"""What estimates may differ by."""
SUSPICIOUS = 1e-9
"""What the diagnosis shows: rounding alone stays far below."""


def answer(job: tuple[str, int]) -> Answer:
    return evaluate(*job)


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


def compare_everywhere(kinds: Sequence[str], seeds: int, kernels: Sequence[Kernel]) -> tuple[str, bool]:
    """Make the table "one seed, one answer", and say whether all is the same."""
    rows, good = [], True
    with Machines(kernels) as machines:
        names = [f"{one.name} ({machines.ask(one, describe_kernel, None)})" for one in kernels]
        for kind in kinds:
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


@click.command(help=__doc__)
@click.option("--seeds", default=5, show_default=True, help="Seeds for each kind.")
@click.option("--only", type=click.Choice(["answers", "travel"]), multiple=True, help="One of the two tables.")
@click.option("--kind", "kinds", type=click.Choice(list(KINDS)), multiple=True, help="Kinds; default all.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the tables to this file.")
@click.option("--diagnose", "suspect", type=click.Choice(list(KINDS)), help="Show where two kernels part.")
@click.option("--seed", default=1, help="Seed for --diagnose.")
@click.option("--kernels", default="Haswell,SkylakeX", help="The two kernels for --diagnose: CORE[:THREADS|:plain].")
@click.option("--draws", default=10_000, help="Draws to follow for --diagnose.")
def main(
    seeds: int,
    only: tuple[str, ...],
    kinds: tuple[str, ...],
    out: Path | None,
    suspect: str | None,
    seed: int,
    kernels: str,
    draws: int,
) -> None:
    if suspect is not None:
        diagnose(suspect, seed, [parse_kernel(text) for text in kernels.split(",")], draws)
        return
    text, good = compare_everywhere(kinds or tuple(KINDS), seeds, EVERY)
    publish("The same on every machine", "benchmarks.machines", text, out)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
