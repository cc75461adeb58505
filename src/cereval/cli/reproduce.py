"""`cereval reproduce`: one subcommand for each figure of the paper, and one for its counterexample."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from cereval.experiments.base import Figure

Command = Callable[..., None]


@click.group()
def reproduce() -> None:
    """Run the paper's experiments: each writes a CSV, a plot (PNG, SVG) and a note.

    Finished replications are kept in the CSV: an interrupted run goes on where it stopped.
    """


def common(command: Command) -> Command:
    """The options that all figures share."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the written files as one JSON object."),
        click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="Processes."),
        click.option("--replications", type=click.IntRange(1), help="Replications of each setting."),
        click.option("--quick", is_flag=True, help="A smaller version of the same figure."),
        click.option(
            "--out",
            type=click.Path(file_okay=False, path_type=Path),
            default=Path("reproduced"),
            show_default=True,
            help="Folder for the CSV, the plots and the note.",
        ),
    ):
        command = option(command)
    return command


def with_data(command: Command) -> Command:
    """The folder of recorded results."""
    return click.option(
        "--data",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        required=True,
        help="A folder of benchmarks (NAME/scores.parquet, NAME/items.parquet), or one of them.",
    )(command)


@reproduce.command()
@common
def simulation(out: Path, quick: bool, replications: int | None, jobs: int, as_json: bool) -> None:
    """S1, S2, S3: saved share over eps for Base, Seq, Cer-Eval, Oracle and the certified methods."""
    from cereval.experiments.simulation import Simulation

    _run(Simulation(replications or (2 if quick else 20)), out, jobs, as_json)


@reproduce.command()
@common
@with_data
@click.option("--model", "models", multiple=True, help="Only this model; may be repeated.")
@click.option("--embedder", default="tfidf", show_default=True, help="tfidf, characters, wordllama or noise.")
def benchmarks(
    out: Path,
    quick: bool,
    replications: int | None,
    jobs: int,
    as_json: bool,
    data: Path,
    models: tuple[str, ...],
    embedder: str,
) -> None:
    """Recorded results of real benchmarks: saved share over eps, all models."""
    from cereval.experiments.benchmarks import Benchmarks

    figure = Benchmarks(
        data,
        out,
        replications=replications or (2 if quick else 5),
        repartition_every=100 if quick else 1,
        models=models,
        embedder=embedder,
    )
    _run(figure, out, jobs, as_json)


@reproduce.command()
@common
@with_data
@click.option("--endpoint", help="Address of an OpenAI-compatible server to embed the texts with as well.")
@click.option("--endpoint-model", default="text-embedding-3-large", show_default=True, help="Its model.")
def embeddings(
    out: Path,
    quick: bool,
    replications: int | None,
    jobs: int,
    as_json: bool,
    data: Path,
    endpoint: str | None,
    endpoint_model: str,
) -> None:
    """The embedding ablation: TF-IDF, character TF-IDF, wordllama, noise, and an endpoint if given."""
    from cereval.experiments.ablation import Ablation

    fetched = () if endpoint is None else _fetched(data, out, endpoint, endpoint_model)
    figure = Ablation(
        data,
        out,
        replications=replications or (2 if quick else 5),
        repartition_every=100 if quick else 1,
        endpoint=fetched,
    )
    _run(figure, out, jobs, as_json)


@reproduce.command()
@common
@with_data
def scaling(out: Path, quick: bool, replications: int | None, jobs: int, as_json: bool, data: Path) -> None:
    """The test scaling law: needed items against mean score and model size."""
    from cereval.experiments.scaling import ScalingLaw

    _run(ScalingLaw(data, out, replications=replications or (1 if quick else 3)), out, jobs, as_json)


@reproduce.command()
@common
@with_data
@click.option("--eps", type=float, default=0.03, show_default=True, help="The half-width of every run.")
@click.option("--models", type=click.IntRange(2), help="Only the first so many models of each order.")
def team(
    out: Path,
    quick: bool,
    replications: int | None,
    jobs: int,
    as_json: bool,
    data: Path,
    eps: float,
    models: int | None,
) -> None:
    """Models one after the other, each with what the runs before it observed: calls per model."""
    from cereval.experiments.team import Team
    from cereval.goals import Estimate

    orders = replications or (2 if quick else 10)
    _run(Team(data, Estimate(eps).eps, orders, models), out, jobs, as_json)


@reproduce.command()
@common
def hubness(out: Path, quick: bool, replications: int | None, jobs: int, as_json: bool) -> None:
    """The counterexample: Cer-Eval's interval misses in most runs, the certified one covers."""
    from cereval.experiments.counterexample import ALL_CASES, Counterexample

    cases = ALL_CASES[:1] if quick else ALL_CASES
    _run(Counterexample(replications or 20, cases=cases), out, jobs, as_json)


@reproduce.command()
@click.option("--items", type=click.IntRange(2), default=14_042, show_default=True, help="Items in the pool.")
@click.option("--dimensions", type=click.IntRange(1), default=768, show_default=True, help="Of the vectors.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def partition(items: int, dimensions: int, as_json: bool) -> None:
    """Time and memory of the 1-NN partition at every step until all items are evaluated."""
    from dataclasses import asdict

    from cereval.experiments.partition_scale import partition_scale

    report = partition_scale(items, dimensions)
    if as_json:
        click.echo(json.dumps(asdict(report)))
        return
    click.echo(
        f"{report.items:,} items x {report.dimensions} dimensions, a new partition after every item: "
        f"{report.seconds:.0f} s ({report.cpu_seconds:.0f} s of CPU), {report.peak_mb:.0f} MB at most"
    )


def _run(figure: Figure, out: Path, jobs: int, as_json: bool) -> None:
    from cereval.experiments.base import reproduce as run

    done = run(figure, out, jobs=jobs, quiet=as_json)
    files: dict[str, Any] = {part: str(getattr(done, part)) for part in ("csv", "png", "svg", "note")}
    if as_json:
        click.echo(json.dumps({"figure": figure.name, **files}))
        return
    click.echo(done.note.read_text(encoding="utf-8"))
    click.echo("wrote " + ", ".join(files.values()))


def _fetched(data: Path, out: Path, endpoint: str, model: str) -> tuple[tuple[str, str, Path], ...]:
    """(name, benchmark, file) of vectors from an endpoint, fetched at most once for the same texts."""
    from cereval.experiments.recorded import fetch_embeddings, folders, load

    return tuple(
        (model, folder.name, fetch_embeddings(load(folder), endpoint, model, out)) for folder in folders(data)
    )
