"""Say what a fleet came to: a row for each run, and the sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from cereval.fleet.plan import Step
from cereval.records import FAILED, PASSED, UNDECIDED, Table, html_table
from cereval.text import money

COULD_NOT_RUN, INTERRUPTED = 1, 130


@dataclass(frozen=True, slots=True, repr=False)
class FleetResult:
    """Hold all runs of a fleet in the order of its file, as the rows of a table. expected: calls, before the
    first one."""

    runs: tuple[Mapping[str, Any], ...]
    expected: int
    store_url: str

    @property
    def calls(self) -> int:
        """Answers that the certificates rest on, and those not needed."""
        return sum(row["calls"] for row in self.runs)

    @property
    def asked(self) -> int:
        return sum(row.get("asked", 0) for row in self.runs)

    @property
    def cost_usd(self) -> float | None:
        costs = [row.get("cost_usd", 0.0) for row in self.runs]
        return None if None in costs else sum(costs)

    @property
    def exit_code(self) -> int:
        """0 every goal is reached, 1 a run could not run, 2 one certainly failed, 3 one is undecided, 130 stopped."""
        codes = {row["exit_code"] for row in self.runs}
        if any(row.get("interrupted") for row in self.runs):
            return INTERRUPTED
        return next((code for code in (COULD_NOT_RUN, FAILED, UNDECIDED) if code in codes), PASSED)

    def headline(self) -> str:
        certain = sum(row["exit_code"] in (PASSED, FAILED) for row in self.runs)
        return f"{certain} of {len(self.runs)} runs certified, {self.calls:,} calls"

    def table(self) -> Table:
        header = ("model", "data", "goal", "answer", "calls", "cost", "run")
        return Table(header, [_cells(row) for row in self.runs], numbers=(4, 5), names=(0, 1, 3), extra=2)

    def as_dict(self) -> dict[str, Any]:
        runs = [{name: value for name, value in row.items() if name != "lessons"} for row in self.runs]
        sums = {
            "calls": self.calls,
            "asked": self.asked,
            "cost_usd": self.cost_usd,
            "expected_calls": self.expected,
        }
        return {"runs": runs, **sums, "exit_code": self.exit_code}

    def report(self, path: str | Path) -> Path:
        from cereval.report import fleet_page, write_page

        write_page(Path(path), fleet_page(self.runs, self.headline(), self.table()))
        return Path(path)

    def to_frame(self) -> Any:
        import pandas  # type: ignore[import-untyped]

        return pandas.DataFrame(self.as_dict()["runs"])

    def __repr__(self) -> str:
        return f"<FleetResult: {self.headline()}>"

    def _repr_html_(self) -> str:
        return f"<p><b>{escape(self.headline())}</b></p>{html_table(self.table())}"


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    if "error" in row:
        answer = f"could not run: {row['error']}"
    else:
        answer = row.get("answer", "" if row.get("interrupted") else "not started")
        answer = f"{answer} (interrupted)" if row.get("interrupted") and answer else answer or "interrupted"
    cost = money(row.get("cost_usd")) if row.get("cost_usd") != 0 else ""
    name = Path(row["data"]).name if "://" not in row["data"] else row["data"]
    return row["model"], name, row["goal"], answer, f"{row['calls']:,}", cost, row["run_id"] or ""


def planned_table(steps: Sequence[Step]) -> Table:
    header = ("model", "data", "learns from", "calls", "alone", "cost")
    rows = [
        (
            step.entry.model,
            Path(step.entry.data).name,
            f"{len(step.after)} runs" if step.after else "",
            f"{'≤' if step.calls == step.most else '~'}{step.calls:,}",
            f"{'≤' if step.alone == step.most else '~'}{step.alone:,}",
            "unknown" if step.usd is None else f"~${step.usd:,.2f}" if step.usd else "",
        )
        for step in steps
    ]
    return Table(header, rows, numbers=(3, 4, 5), names=(0, 1))


def planned_words(steps: Sequence[Step]) -> str:
    calls = f"{sum(step.calls for step in steps):,} calls"
    runs, take, are = ("1 run", "takes", "is") if len(steps) == 1 else (f"{len(steps)} runs", "take", "are")
    if all(step.calls == step.most for step in steps):
        return f"{runs} {take} at most {calls}"
    return f"{runs} {are} expected to take about {calls}"


def planned_json(steps: Sequence[Step]) -> dict[str, Any]:
    costs = [step.usd for step in steps]
    known = [cost for cost in costs if cost is not None]
    return {
        "runs": [
            {
                "model": step.entry.model,
                "data": step.entry.data,
                "goal": dict(step.entry.goal),
                "after": list(step.after),
                "number": step.entry.number,
                "expected_calls": step.calls,
                "expected_calls_alone": step.alone,
                "expected_usd": step.usd,
            }
            for step in steps
        ],
        "calls": sum(step.calls for step in steps),
        "calls_alone": sum(step.alone for step in steps),
        "cost_usd": sum(known) if len(known) == len(costs) else None,
    }
