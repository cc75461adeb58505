"""Reproduce the figures of the paper, one subcommand for each, and its counterexample: `cereval reproduce`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.options import JSON, apply

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
    from cereval.paper.simulation import Simulation

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
    from cereval.paper.benchmarks import Benchmarks

    return Benchmarks(data, out, replications, 100 if quick else 1, **chosen)


@figure(
    DATA,
    click.option(
        "--endpoint", help="Address of an OpenAI-compatible server to embed the texts with as well."
    ),
    click.option(
        "--endpoint-model",
        default="text-embedding-3-large",
        show_default=True,
        help="The model that --endpoint serves.",
    ),
    quick=2,
    full=5,
)
def embeddings(
    data: Path, out: Path, quick: bool, replications: int, endpoint: str | None, endpoint_model: str
) -> Figure:
    """Run the embedding ablation: TF-IDF, character TF-IDF, wordllama, noise, and an endpoint if given."""
    from cereval.paper.benchmarks import Ablation
    from cereval.paper.recorded import fetch_embeddings, folders, load

    fetched = tuple(
        (endpoint_model, folder.name, fetch_embeddings(load(folder), endpoint, endpoint_model, out))
        for folder in folders(data)
        if endpoint is not None
    )
    return Ablation(data, out, replications, 100 if quick else 1, endpoint=fetched)


@figure(DATA, quick=1, full=3)
def scaling(data: Path, out: Path, replications: int, **_: Any) -> Figure:
    """Fit the test scaling law: needed items against mean score and model size."""
    from cereval.paper.benchmarks import ScalingLaw

    return ScalingLaw(data, out, replications)


@figure(
    DATA,
    click.option("--eps", type=float, default=0.03, show_default=True, help="The half-width of every run."),
    click.option("--models", type=click.IntRange(2), help="Evaluate only this many models of each order."),
    quick=2,
    full=10,
)
def team(data: Path, eps: float, models: int | None, replications: int, **_: Any) -> Figure:
    """Plot calls per model for models one after the other, each with what the runs before it observed."""
    from cereval.paper.team import Team
    from cereval.questions.mean.goal import Estimate

    return Team(data, Estimate(eps).eps, replications, models)


@figure(quick=20, full=20)
def hubness(replications: int, quick: bool, **_: Any) -> Figure:
    """Run the counterexample: Cer-Eval's interval misses in most runs, the certified one covers."""
    from cereval.paper.simulation import ALL_CASES, Counterexample

    return Counterexample(replications, cases=ALL_CASES[:1] if quick else ALL_CASES)


@reproduce.command()
@click.option("--items", type=click.IntRange(2), default=14_042, show_default=True, help="Number of items.")
@click.option(
    "--dimensions", type=click.IntRange(1), default=768, show_default=True, help="Dimensions of the vectors."
)
@JSON
def partition(items: int, dimensions: int, as_json: bool) -> None:
    """Measure time and memory of the 1-NN partition at every step until all items are evaluated."""
    from dataclasses import asdict

    from cereval.paper.simulation import partition_scale

    report = partition_scale(items, dimensions)
    if as_json:
        click.echo(json.dumps(asdict(report)))
        return
    click.echo(
        f"{report.items:,} items x {report.dimensions} dimensions, a new partition after every item: "
        f"{report.seconds:.0f} s ({report.cpu_seconds:.0f} s of CPU), {report.peak_mb:.0f} MB at most"
    )


def _run(figure: Figure, out: Path, jobs: int, as_json: bool) -> None:
    from cereval.paper.figures import reproduce as run

    done = run(figure, out, jobs=jobs, quiet=as_json)
    files = {part: str(getattr(done, part)) for part in ("csv", "png", "svg", "note")}
    if as_json:
        click.echo(json.dumps({"figure": figure.name, **files}))
        return
    click.echo(done.note.read_text(encoding="utf-8"))
    click.echo("wrote " + ", ".join(files.values()))
