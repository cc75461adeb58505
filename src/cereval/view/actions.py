"""Stop and resume runs from the page: a run is carried out by a process of its own, as from the command line.

What a stored plan may run or call is decided by `cereval resume` there, by the same rules (`cereval.runner.trust`): the
page cannot confirm anything.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading

from sqlalchemy import make_url

from cereval.errors import InvalidInput, Misuse
from cereval.questions.mean.goal import Estimate
from cereval.store.base import GOING, STOPPING, Run
from cereval.store.sql import SqlStore

LONGEST_SAID = 2000


class Actions:
    """Starts processes that carry out runs, and asks those that do to stop."""

    def __init__(self, store: SqlStore, url: str) -> None:
        self.store, self.url = store, url
        self._said: dict[str, str] = {}
        self._lock = threading.Lock()

    def said(self, run_id: str) -> str:
        """Give the last words of a process that could not go on with a run."""
        return self._said.get(run_id, "")

    def stop(self, run: Run) -> None:
        """Ask whoever works on a run to stop it, as Ctrl-C does."""
        if run.status != "running":
            raise Misuse(f"run {run.run_id} is {run.status}: nobody works on it")
        self.store.mark(run.run_id, STOPPING)

    def resume(self, run: Run, eps: str = "", max_calls: str = "") -> None:
        """Go on with a run; eps: towards a closer goal. max_calls: within another budget."""
        if run.status in GOING:
            raise Misuse(f"run {run.run_id} is {run.status}")
        given = [*_flag("--eps", eps), *_flag("--max-calls", max_calls)]
        with self._lock:
            self._said.pop(run.run_id, None)
        threading.Thread(target=self._carried_out, args=(run.run_id, given), daemon=True).start()

    def _carried_out(self, run_id: str, given: list[str]) -> None:
        store, secrets = _address(self.url)
        command = [
            sys.executable,
            "-m",
            "cereval",
            "resume",
            run_id,
            "--store",
            store,
            "--display",
            "none",
            *given,
        ]
        with tempfile.TemporaryFile() as output:
            # A session of its own: a Ctrl-C that ends the server does not end the run.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **secrets},
                start_new_session=True,
            )
            code = process.wait()
            output.seek(0)
            text = output.read().decode("utf-8", "replace").strip()
        if code == 1:
            self._said[run_id] = text[-LONGEST_SAID:] or "it could not run"


def _flag(name: str, value: str) -> list[str]:
    """Write a flag with a number; anything else is refused, so that no text of a form reaches a command line."""
    if not value:
        return []
    try:
        number = float(value) if name == "--eps" else int(value)
    except ValueError:
        raise InvalidInput(name, "a number", value) from None
    if name == "--eps":
        Estimate(float(number))
    elif number < 1:
        raise InvalidInput(name, "a whole number >= 1", value)
    return [name, str(number)]


def _address(url: str) -> tuple[str, dict[str, str]]:
    """Give a store's address for a command line; a password goes through the environment, where others see none."""
    address = make_url(url)
    if address.password is None:
        return url, {}
    bare = address.set(password=None)
    return bare.render_as_string(hide_password=False), {"PGPASSWORD": str(address.password)}
