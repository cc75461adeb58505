"""Reproduce the figures of the paper, one subcommand for each, and its counterexample: `cereval reproduce`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.options import apply

if TYPE_CHECKING:
    from cereval.paper.figures import Figure

DATA = click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="A folder of benchmarks (NAME/scores.parquet, NAME/items.parquet), or one of them.",
)
COMMON = (
    click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("reproduced"),
        show_default=True,
        help="Folder for the CSV, the plots and the note.",
    ),
    click.option("--quick", is_flag=True, help="Make a smaller version of the same figure."),
    click.option("--replications", type=click.IntRange(1), help="Replications of each setting."),
    click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="Processes."),
    click.option("--json", "as_json", is_flag=True, help="Print the written files as one JSON object."),
)


@click.group()
def reproduce() -> None:
    """Run the paper's experiments: each writes a CSV, a plot (PNG, SVG) and a note.

    Finished replications are kept in the CSV: an interrupted run goes on where it stopped.
    """


def figure(*options: Any, quick: int, full: int) -> Callable[[Callable[..., Figure]], click.Command]:
    """Make a subcommand that builds a figure and runs it, with `quick` or `full` replications by default."""

    def command(build: Callable[..., Figure]) -> click.Command:
        def run(jobs: int, as_json: bool, replications: int | None, **flags: Any) -> None:
            times = replications or (quick if flags["quick"] else full)
            _run(build(replications=times, **flags), flags["out"], jobs, as_json)

        return reproduce.command(build.__name__, help=build.__doc__)(apply(COMMON, *options)(run))

    return command


@figure(quick=2, full=20)
def simulation(replications: int, **_: Any) -> Figure:
    """Plot S1, S2, S3: saved share over eps for Base, Seq, Cer-Eval, Oracle and the certified methods."""
    from cereval.paper.experiments import Simulation

    return Simulation(replications)


@figure(
    DATA,
    click.option("--model", "models", multiple=True, help="Only this model; may be repeated."),
    click.option(
        "--embedder", default="tfidf", show_default=True, help="tfidf, characters, wordllama or noise."
    ),
    quick=2,
    full=5,
)
def benchmarks(data: Path, out: Path, quick: bool, replications: int, **chosen: Any) -> Figure:
    """Plot recorded results of real benchmarks: saved share over eps, all models."""
    from cereval.paper.experiments import Benchmarks

    return Benchmarks(data, out, replications, 100 if quick else 1, **chosen)


@figure(DATA, quick=2, full=5)
def embeddings(data: Path, out: Path, quick: bool, replications: int) -> Figure:
    """Run the embedding ablation: TF-IDF, character TF-IDF, wordllama and noise."""
    from cereval.paper.experiments import Ablation

    return Ablation(data, out, replications, 100 if quick else 1)


@figure(DATA, quick=1, full=3)
def scaling(data: Path, out: Path, replications: int, **_: Any) -> Figure:
    """Fit the test scaling law: needed items against mean score and model size."""
    from cereval.paper.experiments import ScalingLaw

    return ScalingLaw(data, out, replications)


@figure(quick=20, full=20)
def hubness(replications: int, quick: bool, **_: Any) -> Figure:
    """Run the counterexample: Cer-Eval's interval misses in most runs, the certified one covers."""
    from cereval.paper.experiments import ALL_CASES, Counterexample

    return Counterexample(replications, cases=ALL_CASES[:1] if quick else ALL_CASES)


def _run(figure: Figure, out: Path, jobs: int, as_json: bool) -> None:
    from cereval.paper.figures import reproduce as run

    done = run(figure, out, jobs=jobs, quiet=as_json)
    files = {part: str(getattr(done, part)) for part in ("csv", "png", "svg", "note")}
    if as_json:
        click.echo(json.dumps({"figure": figure.name, **files}))
        return
    click.echo(done.note.read_text(encoding="utf-8"))
    click.echo("wrote " + ", ".join(files.values()))
