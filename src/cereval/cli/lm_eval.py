"""`cereval lm-eval`: lm-evaluation-harness, certified: its own arguments after ours."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cereval.cli.options import JSON
from cereval.cli.output import print_json, write_certificate
from cereval.records import FAILED, PASSED, UNDECIDED
from cereval.text import printable

if TYPE_CHECKING:
    from cereval.integrations.lm_eval import Certification

OWN = {"allow_interspersed_args": False, "ignore_unknown_options": True}


@click.command("lm-eval", context_settings=OWN)
@click.option("--eps", type=float, help="Half-width of the interval.  [default: 0.02]")
@click.option("--at-least", type=float, help="Ask instead whether the score is at least this.")
@click.option(
    "--confidence", type=float, default=0.95, show_default=True, help="Confidence of all that is said."
)
@click.option(
    "--metric",
    multiple=True,
    metavar="NAME[,FILTER]",
    help="Which metric; each task takes the first that it has. Without it, a task's first that is a mean.",
)
@click.option("--budget", type=int, metavar="N", help="Ask at most N documents of a task or group.")
@click.option(
    "--mean",
    type=click.Choice(["auto", "each", "macro", "micro"]),
    default="auto",
    show_default=True,
    help="Certify every task, or the mean of a group: tasks alike (macro) or documents alike (micro). auto: as the "
    "group adds up.",
)
@click.option("--draw-seed", type=int, help="Repeat a run's draws; without it, a seed is drawn and recorded.")
@click.option(
    "--draw-batch", type=int, default=32, show_default=True, help="Documents sent to the model at a time."
)
@click.option("--certificates", metavar="FOLDER", help="Write the certificate of every task or group there.")
@JSON
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def lm_eval(arguments: tuple[str, ...], as_json: bool, certificates: str | None, **flags: Any) -> int:
    """Run lm-evaluation-harness with as few documents as a certified score takes; needs cereval[lm-eval].

    ARGUMENTS are the harness's own, after ours: cereval lm-eval --eps 0.02 run --model hf --tasks gsm8k. Prompts,
    few-shot examples, filters, tables, --log_samples, --output_path and caches stay the harness's. Its tables show the
    certified interval beside its own figures, and the file of results holds the certificate.

    Exit codes: 0 goal reached or certified pass, 1 could not run, 2 certified fail, 3 undecided (the budget is spent).
    """
    flags["seed"], flags["batch"] = flags.pop("draw_seed"), flags.pop("draw_batch")
    found = _carried_out(arguments, flags, quiet=as_json)
    files = {} if certificates is None else _written(found, Path(certificates))
    if as_json:
        results = {one.name: one.question.result.as_dict() | _about(one) for one in found}
        print_json({"certified": results, "certificates": files})
    # A certified fail outweighs what is undecided, which outweighs what is reached.
    codes = {one.question.result.exit_code for one in found}
    return next((code for code in (FAILED, UNDECIDED) if code in codes), PASSED)


def _carried_out(arguments: tuple[str, ...], flags: dict[str, Any], *, quiet: bool) -> list[Certification]:
    """Run the harness's own command line; with `quiet` what it prints goes to stderr."""
    from contextlib import nullcontext, redirect_stdout
    from unittest.mock import patch

    from cereval.errors import CerevalError, Misuse, shown
    from cereval.imports import optional
    from cereval.integrations.lm_eval import certifying

    found: list[Certification] = []
    command = optional("lm_eval.__main__", "lm-eval").cli_evaluate
    try:
        with (
            patch.object(sys, "argv", ["lm-eval", *arguments]),
            redirect_stdout(sys.stderr) if quiet else nullcontext(),
            certifying(found.extend, **flags),
        ):
            command()
    except SystemExit as end:
        if end.code:
            raise Misuse("lm-eval refused its arguments: what it says is above") from None
    except CerevalError:
        raise
    except Exception as error:
        raise Misuse(f"lm-eval could not run: {type(error).__name__}: {shown(str(error), 400)}") from error
    if not quiet:
        for one in found:
            click.echo(printable(f"{one.name}: {one.question.result.headline()}"))
    return found


def _about(one: Certification) -> dict[str, Any]:
    metrics = sorted({f"{task.metric},{task.filter}" for task in one.tasks})
    return {"metric": " ".join(metrics), "ran": one.ran, **one.question.result.goal}


def _written(found: list[Certification], folder: Path) -> dict[str, str]:
    from cereval.errors import BadFile

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadFile(f"--certificates: {folder} cannot be made ({error.strerror})") from None
    files = {one.name: folder / f"{re.sub('[^A-Za-z0-9._-]+', '-', one.name)}.json" for one in found}
    for one in found:
        write_certificate(files[one.name], one.question.certificate())
    return {name: str(path) for name, path in files.items()}
