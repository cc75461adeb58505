"""Runs against servers that take 600 requests a minute: how many are refused, and how much of the limit is used.

    python -m benchmarks.rate_limits --out benchmarks/results/rate-limits-YYYY-MM-DD.md

Every row is a `cereval` command in a process of its own, for some two minutes by the clock, all at the same time. The
first ten seconds are not counted. A server counts in fixed windows of a minute, as a bucket that fills steadily, or
counts tokens a minute; it says in its headers what is left, or says nothing and refuses with a `Retry-After`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import click

from benchmarks.model_server import FaultyModel, Handler, _error, serve_locally
from benchmarks.tables import markdown, publish

LIMIT = 600
START_S = 10.0
USED, REFUSED = 0.9, 0
"""Wanted where the server says what is left: of the limit, and refusals after the start."""
ITEMS = 5000
TOKENS = 4
"""Of a question and its answer here; a limit of tokens is that of so many calls."""


class Limited(Handler):
    """Take so many requests a minute, counted in windows or as a bucket that fills steadily; say what is left or not.

    way: window, bucket, tokens (a bucket of them) or silent (a bucket of 5, without headers). minute_s: how long a
    minute lasts here.
    """

    def __init__(
        self,
        way: str,
        minute_s: float = 60.0,
        delay_s: float = 0.0,
        key: Mapping[str, str] | None = None,
        limit: int = LIMIT,
    ) -> None:
        super().__init__(FaultyModel(key or {"1+1": "2"}, 1.0, delay_s=delay_s))
        self.way, self.minute_s, self.limit, self.began = way, minute_s, limit, time.monotonic()
        self.left, self.at = float(self.limit), self.began
        self.taken: list[float] = []
        self.refused: list[float] = []
        self.most_busy = 0

    async def _response(self, line: str, headers: dict[str, str], body: bytes) -> bytes | None:
        now = time.monotonic()
        if not (self.taken or self.refused):
            self.began = self.at = now
        if self.way == "window":
            if now - self.at >= self.minute_s:
                self.left, self.at = float(self.limit), now
            full = self.at + self.minute_s - now
        else:
            most = 5.0 if self.way == "silent" else self.limit
            self.left, self.at = min(self.left + (now - self.at) * self.limit / self.minute_s, most), now
            full = (most - self.left) * self.minute_s / self.limit
        if self.left < 1:
            self.refused.append(now - self.began)
            return _error(429, "too many requests", {"retry-after-ms": "100"})
        self.left -= 1
        self.taken.append(now - self.began)
        self.most_busy = max(self.most_busy, self.busy if now - self.began > START_S else 0)
        answer = await super()._response(line, headers, body)
        if self.way == "silent" or answer is None:
            return answer
        kind, each = ("tokens", TOKENS) if self.way == "tokens" else ("requests", 1)
        said = f"x-ratelimit-limit-{kind}: {self.limit * each}\r\n"
        said += f"x-ratelimit-remaining-{kind}: {int(self.left) * each}\r\n"
        said += f"x-ratelimit-reset-{kind}: {full:.3f}s\r\n"
        head, _, rest = answer.partition(b"\r\n")
        return head + b"\r\n" + said.encode() + rest


SCENES = {
    # name: the server's way, its answers' delay, the command
    "requests, fixed windows": ("window", 0.3, "run"),
    "requests, a bucket": ("bucket", 0.3, "run"),
    "requests, a bucket; slow answers": ("bucket", 3.0, "run"),
    "tokens, a bucket": ("tokens", 0.3, "run"),
    "two prompts compared, fixed windows": ("window", 0.3, "compare"),
    "says nothing, refuses": ("silent", 0.3, "run"),
}


async def play(name: str, minutes: float, connections: int) -> list[object]:
    way, delay_s, command = SCENES[name]
    key = {f"{n} + 1?": str(n + 1) for n in range(ITEMS)}
    handler = Limited(way, delay_s=delay_s, key=key)
    line = [sys.executable, "-m", "cereval", command, "q.jsonl", "--max-minutes", str(minutes)]
    line += ["-j", str(connections), "--json", "--display", "none"]
    if command == "run":
        # No score but 1: a goal so near that it is not reached before the time is up.
        line += ["--eps", "0.0001"]
    else:
        line += ["--system", "A", "--system", "B", "--tie", "0.0001"]
    with tempfile.TemporaryDirectory() as folder:
        rows = [json.dumps({"question": question, "answer": answer}) for question, answer in key.items()]
        (Path(folder) / "q.jsonl").write_text("\n".join(rows))
        async with serve_locally(handler) as url:
            process = await asyncio.create_subprocess_exec(
                *line, "--model", "openai/m", "--base-url", url, cwd=folder, stdout=asyncio.subprocess.DEVNULL
            )
            await process.wait()
    last = max(handler.taken)
    used = sum(at > START_S for at in handler.taken) / (LIMIT * (last - START_S) / 60)
    early, late = (sum(is_late == (at > START_S) for at in handler.refused) for is_late in (False, True))
    return [name, f"{last:.0f} s", len(handler.taken), f"{used:.0%}", early, late, handler.most_busy]


@click.command(help=__doc__)
@click.option("--minutes", default=2.2)
@click.option("-j", "connections", default=64)
@click.option("--out", type=click.Path(path_type=Path))
def main(minutes: float, connections: int, out: Path | None) -> None:
    os.environ["OPENAI_API_KEY"] = "sk-test"

    async def all_of_them() -> list[list[object]]:
        return list(await asyncio.gather(*(play(name, minutes, connections) for name in SCENES)))

    rows = asyncio.run(all_of_them())
    header = ("limit", "time", "answered", "used", "refused at first", "refused later", "most in flight")
    body = markdown(header, rows) + (
        f"\n\n{LIMIT} a minute, -j {connections}; wanted where the server says what is left: {USED:.0%} used and no "
        "refusal after ten seconds."
    )
    publish("Rate limits", "benchmarks.rate_limits", body, out)


if __name__ == "__main__":
    main()
