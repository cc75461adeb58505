"""Fix everything that a run will depend on before its first call: `cereval seal`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from cereval.cli.options import writable
from cereval.cli.output import print_json
from cereval.runner.prepare import Prepared
from cereval.runner.sealing import sealed, written
from cereval.settings import Settings
from cereval.store.base import opened_store

SEALED = ("run", "gate", "compare", "rank", "tasks", "extend")
"""The commands whose runs can be sealed."""
WITHOUT: Mapping[str, Any] = {
    "seal": None,
    "certificate": None,
    "report": None,
    "display": None,
    "dry_run": False,
    "name": (),
    "tags": (),
}
"""Their options that make no sense where nothing is asked, and what they are then."""
OWN = (
    click.Option(
        ["-o", "--output"],
        callback=writable,
        metavar="FILE",
        help="Write the seal here.  [default: RUN.seal.json beside the database]",
    ),
    click.Option(
        ["--sign"],
        metavar="FILE",
        help="Sign the seal with this private Ed25519 key (PEM or OpenSSH); needs cereval[sign].",
    ),
)


@dataclass(frozen=True, slots=True)
class NewSeal:
    """Write a seal in place of a file to follow, and ask nothing. `command` is what the user typed after `seal`."""

    command: str
    output: str | None
    key: str | None


class SealGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(SEALED)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        from cereval.cli.main import load_command

        return sealing(cmd_name, load_command(cmd_name)) if cmd_name in SEALED else None


@click.group(cls=SealGroup)
def seal() -> None:
    """Fix everything that a run will depend on, before its first call, and write it to a file.

    `cereval seal run DATA --model NAME --eps 0.05 -o plan.seal.json` takes the arguments of `cereval run`, asks
    nothing, and writes what the run will depend on: data, model, prompt, scorer, goal, confidence, budget, history,
    and a commitment to the seed, which stays in the store. Give the file to somebody, or commit it. Then repeat the
    command as `cereval run ... --seal plan.seal.json`: it carries out that plan, or names what differs. Its
    certificate reveals the seed, and `cereval verify CERTIFICATE --seal plan.seal.json` names every later choice.
    """


def sealing(name: str, command: click.Command) -> click.Command:
    kept = [parameter for parameter in command.params if parameter.name not in WITHOUT]
    absent = {str(one.name): WITHOUT[str(one.name)] for one in command.params if one.name in WITHOUT}

    def callback(output: str | None, sign: str | None, **given: Any) -> Any:
        assert command.callback is not None
        return command.callback(**{**given, **absent, "seal": NewSeal(name, output, sign)})

    told = f"Seal what `cereval {name}` with the same arguments will carry out; nothing is asked."
    return click.Command(name, callback=callback, params=[*kept, *OWN], help=told, short_help=told)


def write_seal(work: Prepared, settings: Settings, new: NewSeal, *, as_json: bool) -> int:
    import asyncio

    from cereval.cli.carry_out import beside_store

    asyncio.run(work.close())
    with opened_store(settings["store"], create=True) as store:
        key = None if new.key is None else Path(new.key)
        made = sealed(work.plan, work.items, store, history=settings.uses_store_history, key=key)
        path = Path(new.output) if new.output else beside_store(store, f"{made.run_id}.seal.json")
    written(path, made)
    if as_json:
        print_json(
            {"run_id": made.run_id, "seal": str(path), "digest": made.digest, "signed": bool(made.signature)}
        )
        return 0
    click.echo(f"sealed run {made.run_id}: {made.digest}")
    click.echo(f"{path} can be shown to anybody: it does not tell the seed, which is in the store")
    click.echo(f"`cereval {new.command} ... --seal {path}` with the same arguments carries it out", err=True)
    return 0
