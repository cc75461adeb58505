"""Stop and resume runs from the page; a run is resumed by a process of its own, as from the command line.

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

LONGEST_ERROR = 2000


class Actions:
    def __init__(self, store: SqlStore, url: str) -> None:
        self.store, self.url = store, url
        self._errors: dict[str, str] = {}

    def error(self, run_id: str) -> str:
        """Return the last words of a process that could not resume a run."""
        return self._errors.get(run_id, "")

    def stop(self, run: Run) -> None:
        """Ask the process that works on a run to stop it, as Ctrl-C does."""
        if run.status != "running":
            raise Misuse(f"run {run.run_id} is {run.status}: nobody works on it")
        self.store.mark(run.run_id, STOPPING)

    def resume(self, run: Run, eps: str = "", max_calls: str = "") -> None:
        """Go on with a run, towards a closer goal or within another budget."""
        if run.status in GOING:
            raise Misuse(f"run {run.run_id} is {run.status}")
        given = []
        # Nothing but numbers reaches the command line.
        if eps:
            given += ["--eps", str(_number("--eps", eps, float))]
            Estimate(float(given[-1]))
        if max_calls:
            given += ["--max-calls", str(_number("--max-calls", max_calls, int))]
            if int(given[-1]) < 1:
                raise InvalidInput("--max-calls", "a whole number >= 1", max_calls)
        self._errors.pop(run.run_id, None)
        threading.Thread(target=self._carry_out, args=(run.run_id, given), daemon=True).start()

    def _carry_out(self, run_id: str, given: list[str]) -> None:
        # The password goes through the environment: others can read a command line.
        address, environment = make_url(self.url), dict(os.environ)
        if address.password is not None:
            environment["PGPASSWORD"] = str(address.password)
            address = address.set(password=None)
        where = ["--store", address.render_as_string(hide_password=False), "--display", "none"]
        # -P: a file of the current folder must not stand in for a module. A session of its own: the Ctrl-C that ends
        # the server does not end the run.
        command = [sys.executable, "-P", "-m", "cereval", "resume", run_id, *where, *given]
        with tempfile.TemporaryFile() as output:
            code = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                check=False,
            ).returncode
            output.seek(0)
            text = output.read().decode("utf-8", "replace").strip()
        if code == 1:
            self._errors[run_id] = text[-LONGEST_ERROR:] or "it could not run"


def _number(name: str, value: str, kind: type[float] | type[int]) -> float:
    try:
        return kind(value)
    except ValueError:
        raise InvalidInput(name, "a number", value) from None
