"""Write the files that the README and the tutorials run on: `cereval example`."""

from __future__ import annotations

from pathlib import Path

import click

from cereval.datasets import bank
from cereval.errors import BadFile
from cereval.files import write_whole


@click.command()
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
def example(folder: Path) -> int:
    """Write an example to FOLDER (default: here): questions.jsonl, a bank of 1,990 short questions for any model, and
    scores.csv, made-up scores of twelve models on them. Files that are there already are left alone."""
    for name, source in (("questions.jsonl", bank.QUESTIONS), ("scores.csv", bank.SCORES)):
        path = folder / name
        try:
            if path.exists():
                click.echo(f"{path} is there already, and was left as it is")
                continue
            write_whole(path, bank.example(source))
        except OSError as error:
            raise BadFile(f"{path} cannot be written ({error.strerror}); name another folder") from None
        click.echo(f"{path} written")
    return 0
