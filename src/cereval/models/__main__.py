"""Serve a scripted or local model on loopback, for tests and demos: `python -m cereval.models`."""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
from pathlib import Path

from cereval.models.base import Model
from cereval.models.build import open_model
from cereval.models.local import LocalModel
from cereval.models.scripted import Faults, ScriptedModel
from cereval.models.server import Handler, serving


def main() -> None:
    options = _parser().parse_args()
    model = _model(options)
    if isinstance(model, LocalModel):
        # llama.cpp brings a server of its own, which honours every field of a request.
        print(model.url, flush=True)
        threading.Event().wait()
    asyncio.run(_serve(Handler(model, key=options.key, hang_s=options.hang), options.port))


def _model(options: argparse.Namespace) -> Model:
    if options.model:
        return open_model(options.model)
    return ScriptedModel(
        json.loads(Path(options.answers).read_text(encoding="utf-8")),
        options.accuracy,
        seed=options.seed,
        faults=Faults(options.fault_rate),
        delay_s=options.delay,
        slow_when_wrong_s=options.slow_when_wrong,
    )


async def _serve(handler: Handler, port: int) -> None:
    async with serving(handler, port) as url:
        print(url, flush=True)
        await asyncio.Event().wait()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m cereval.models", description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--answers", help="JSON file: question -> right answer")
    source.add_argument("--model", help="a real model to serve, such as local/smollm2")
    parser.add_argument("--accuracy", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fault-rate", type=float, default=0.0)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before every answer")
    parser.add_argument(
        "--slow-when-wrong", type=float, default=0.0, help="further seconds before wrong answers"
    )
    parser.add_argument("--hang", type=float, default=3600.0, help="seconds that a `timeout` fault lasts")
    parser.add_argument("--key", help="refuse requests with another API key")
    parser.add_argument("--port", type=int, default=0)
    return parser


if __name__ == "__main__":
    main()
