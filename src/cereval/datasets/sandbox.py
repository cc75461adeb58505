"""Render templates (Jinja2) that may come from anybody: in a process of its own, with a bound on time and memory.

A template may come with a task file or a store. Jinja's sandbox keeps it from Python's inside, but not from
`'%4000000000s' % 1`, from loops in loops or from texts that double. So templates are rendered in a process that can be
ended: each rendering has `LONGEST_S` seconds, and the process `MOST_MEMORY` bytes (on Linux; elsewhere the system does
not hold it to them). It sees no environment variables and imports nothing but Jinja. The process is this file run as a
program, so that nothing of cereval is imported here; it ends with the process that started it.
"""

from __future__ import annotations

import atexit
import faulthandler
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

LONGEST_S = 5.0
"""Seconds for one rendering: an ordinary one takes less than a thousandth of that."""
MOST_MEMORY = 2**30
"""Bytes that the process may use: a question of a million characters takes some 20 MB."""
LONGEST = 20_000_000
"""Characters of one rendering."""
INHERITED = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Environment variables without which Python may not start."""


class BadTemplate(Exception):
    """Say why a template cannot be rendered. kind: `syntax`, `undefined` (a name), `limit` or `other`."""

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


class Renderer:
    """Render templates in another process, which is started when it is needed and after it was ended."""

    def __init__(self, longest_s: float = LONGEST_S, most_memory: int = MOST_MEMORY) -> None:
        self.longest_s, self.most_memory = longest_s, most_memory
        self._lock = Lock()
        # By the process that started it: a fork must not talk to that of its parent.
        self._started: dict[int, subprocess.Popen[bytes]] = {}
        self._refused: set[str] = set()
        atexit.register(self.close)

    def render(self, template: str, variables: Mapping[str, Any] | None) -> str:
        """Return the text that a template makes; without variables, only check that it can be read."""
        with self._lock:
            if template not in self._refused:
                said = self._ask(json.dumps([template, variables], default=str).encode() + b"\n")
                if said:
                    kind, text = json.loads(said)
                    if kind == "text":
                        return str(text)
                    raise BadTemplate(kind, text)
                # It would be ended again: a page with a hundred renderings must not take a hundred times as long.
                self._refused.add(template)
        memory = f"{self.most_memory / 2**20:,.0f} MiB"
        raise BadTemplate("limit", f"it takes more than {self.longest_s:g} s or {memory} of memory")

    def close(self) -> None:
        process = self._started.pop(os.getpid(), None)
        if process is not None:
            process.kill()
            process.communicate()

    def _ask(self, request: bytes) -> bytes:
        process = self._started.get(os.getpid()) or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(request)
            process.stdin.flush()
            said = process.stdout.readline()
        except OSError:
            said = b""
        if not said.endswith(b"\n"):
            self.close()
            return b""
        return said

    def _start(self) -> subprocess.Popen[bytes]:
        found = [importlib.util.find_spec(name) for name in ("jinja2", "markupsafe")]
        folders = {str(Path(spec.origin).parents[1]) for spec in found if spec is not None and spec.origin}
        limits = [str(self.longest_s), str(self.most_memory)]
        process = subprocess.Popen(
            # Isolated: neither the working folder nor the environment says what is imported.
            [sys.executable, "-I", "-S", __file__, *limits, *folders],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in INHERITED if name in os.environ},
        )
        self._started[os.getpid()] = process
        return process


@lru_cache(1)
def shared_renderer() -> Renderer:
    return Renderer()


def serve(longest_s: float, most_memory: int) -> None:
    """Render what comes on stdin, a line of JSON each, until it is closed."""
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # The prompt is plain text: HTML escaping would change the question.
    environment = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined, autoescape=False)
    compiled = lru_cache(100)(environment.from_string)

    def render(template: str, variables: Mapping[str, Any] | None) -> tuple[str, str]:
        try:
            program, parts, size = compiled(template), [], 0
            for part in () if variables is None else program.generate(variables):
                size += len(part)
                if size > LONGEST:
                    return "limit", f"it makes a text of more than {LONGEST:,} characters"
                parts.append(part)
            return "text", "".join(parts)
        except MemoryError:
            os._exit(1)
        except jinja2.TemplateSyntaxError as error:
            return "syntax", f"line {error.lineno}: {error.message}"
        except jinja2.UndefinedError as error:
            return "undefined", str(error)
        except Exception as error:
            return "other", str(error)[:1000] or type(error).__name__

    _limit_memory(most_memory)
    with Path(os.devnull).open("w") as nowhere:
        for line in sys.stdin.buffer:
            # The watchdog ends the process from a thread that needs no leave from the interpreter.
            faulthandler.dump_traceback_later(longest_s, exit=True, file=nowhere)
            said = json.dumps(render(*json.loads(line))).encode() + b"\n"
            faulthandler.cancel_dump_traceback_later()
            sys.stdout.buffer.write(said)
            sys.stdout.buffer.flush()


def _limit_memory(most: int) -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    except (ImportError, ValueError, OSError):  # Windows, or a system with a lower limit already
        return


if __name__ == "__main__":
    sys.path += sys.argv[3:]
    serve(float(sys.argv[1]), int(sys.argv[2]))
