"""Models that answer differently every time: forecasts that remember an item's own answers, beside those that do not.

    python -m benchmarks.random_models --seeds 2
    python -m benchmarks.random_models --seeds 5 --out benchmarks/results/random-models-YYYY-MM-DD.md
    python -m benchmarks.random_models --only equal --only live --out benchmarks/results/equal-models-YYYY-MM-DD.md

Rates of ten answers in --data (LiveCodeBench), 30 items of which most are always right or always wrong, and made up
ones. Every answer is a fresh toss of its item's rate, delta = .05. `uniform` is what there was before; in brackets the
share of its answers, and the worst model's. A run misses when the mean of the rates is outside the last interval.
Miss rates in hostile families: `python -m benchmarks.coverage --method memory`.

pairs: models of LiveCodeBench that are so many points apart, items asked again with memory and without (`naive`).

equal: models, or tasks of one model, that are all right four times out of five, asked for so many answers at most, by
the target that is the default where answers differ (expected), and as if models repeated themselves (benchmark). Wrong:
a model above another, or a task below four in five. live: the same by default flags and --temperature 1, against a
server on loopback.

each: of every case of test generation, is its rate at least .9? Beside asking every case 40 times. And pass^4.

large: processor time and memory at 100,000 items.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any, Literal

import click
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

import cereval
from benchmarks.coverage import DELTA, most_misses
from benchmarks.model_server import Handler, serve_locally
from benchmarks.parallel import run_all
from benchmarks.scale import peak_mb
from benchmarks.side_information import DATA
from benchmarks.stated_models import WRONG, questions
from benchmarks.tables import markdown, publish
from cereval import Candidate
from cereval.datasets.tables import read_scores
from cereval.methods.base import Setting
from cereval.methods.uniform import Uniform
from cereval.models.base import Messages, Reply, last_text
from cereval.questions.compare.session import CompareSession, Comparison
from cereval.questions.each.goal import EachAtLeast
from cereval.questions.each.session import EachSession
from cereval.questions.mean.goal import Estimate
from cereval.questions.mean.session import Session
from cereval.questions.rank.session import Ranking, RankSession
from cereval.questions.session import tell
from cereval.questions.tasks.goal import WhichFail
from cereval.questions.tasks.session import TaskSession

Floats = NDArray[np.float64]

EPS = (0.03, 0.02)
UNIFORM, MEMORY, HISTORY = WAYS = ("uniform", "memory", "memory + history")
FOLDERS = {"repair": "livecodebench_repair", "test generation": "livecodebench_testgen"}
ASKED_ONCE = "N=1"
"""In the name of a model whose rates are not known."""


@dataclass(frozen=True, slots=True)
class Job:
    """All runs of one model, by its number in a group, at one eps in one way."""

    group: str
    model: int
    eps: float
    way: str
    seeds: int
    data: Path


@dataclass(frozen=True, slots=True)
class Runs:
    """What they took: mean number of answers, and how often the interval missed."""

    job: Job
    answers: float
    misses: int


def rates_of(group: str, data: Path) -> Floats:
    """The rates of a group of models: items x models."""
    if group in FOLDERS:
        found = read_scores(next((data / FOLDERS[group]).glob("scores.*"))).models
        return np.column_stack([column for name, column in found.items() if ASKED_ONCE not in name])
    return MADE_UP[group][:, None]


def _made_up() -> dict[str, Floats]:
    rng = np.random.default_rng(3)
    rates = [1.0] * 13 + [0.0] * 9 + [0.9, 0.8, 0.7, 0.6, 0.5, 0.5, 0.4, 0.3]
    return {
        "30 items": np.array(rates),
        "442 items at .4": np.full(442, 0.4),
        "442 items at .03": np.full(442, 0.03),
        "30 items at .9": np.full(30, 0.9),
        "442 items, Beta(2,2)": rng.beta(2, 2, 442),
        "facts, 5% of 2,000": (np.arange(2000) < 100) * 1.0,
        "facts, 40% of 5,000": (np.arange(5000) < 2000) * 1.0,
    }


MADE_UP = _made_up()


def play(job: Job) -> Runs:
    table = rates_of(job.group, job.data)
    rates, misses, answers = table[:, job.model], 0, []
    history = np.delete(table, job.model, axis=1) if job.way == HISTORY else None
    for seed in range(job.seeds):
        tosses = np.random.default_rng([seed, job.model, 987])
        session = Session(
            len(rates),
            goal=Estimate(job.eps),
            target="expected",
            method=job.way.split()[0],
            history=history,
            seed=1000 * job.model + seed,
        )
        while not session.done:
            for draw in session.ask(1):
                session.tell(draw, float(tosses.random() < rates[draw.item]))
        interval = session.interval
        misses += not interval.lower <= rates.mean() <= interval.upper
        answers.append(session.n_evaluated)
    return Runs(job, float(np.mean(answers)), misses)


def jobs(data: Path, seeds: int) -> list[Job]:
    found = []
    for group in (*FOLDERS, *MADE_UP):
        models = rates_of(group, data).shape[1]
        for way in WAYS if models > 1 else WAYS[:2]:
            times = seeds if models > 1 else 10 * seeds
            found += [Job(group, model, eps, way, times, data) for model in range(models) for eps in EPS]
    return found


def theory(table: Floats, eps: float) -> tuple[float, float]:
    """Draws whose normal interval is as wide, variance known: all items alike, and the least with the rates known."""
    quantile = float(ndtri(1 - DELTA / 2)) / eps
    mean, within = table.mean(axis=0), np.sqrt(table * (1 - table)).mean(axis=0)
    return float((mean * (1 - mean)).mean()) * quantile**2, float((within**2).mean()) * quantile**2


def tabulate(measured: Sequence[Runs], data: Path) -> str:
    rows = []
    for group in dict.fromkeys(one.job.group for one in measured):
        for eps in EPS:
            found = {
                way: [
                    one for one in measured if (one.job.group, one.job.eps, one.job.way) == (group, eps, way)
                ]
                for way in WAYS
            }
            independent, least = theory(rates_of(group, data), eps)
            cells = [_cell(found[way], found[UNIFORM]) for way in WAYS]
            rows.append([group, len(found[UNIFORM]), eps, *cells, f"{independent:,.0f} / {least:,.0f}"])
    runs = [one for one in measured if one.job.way != UNIFORM]
    count, missed = sum(one.job.seeds for one in runs), sum(one.misses for one in runs)
    header = ["items", "models", "eps", *WAYS, "normal theory: independent / rates known"]
    said = (
        f"Misses with memory: {missed} of {count:,} runs; at most {most_misses(count)} with probability 99%."
    )
    return f"{markdown(header, rows)}\n\n{said}"


def _cell(runs: Sequence[Runs], before: Sequence[Runs]) -> str:
    if not runs:
        return ""
    mean, usual = (float(np.mean([one.answers for one in ones])) for ones in (runs, before))
    if runs is before:
        return f"{mean:,.0f}"
    worst = max(one.answers / other.answers for one, other in zip(runs, before, strict=True))
    beside = f"; worst {worst:.2f}" if len(runs) > 1 else ""
    return f"{mean:,.0f} ({mean / usual:.2f}{beside})"


# -- comparisons ------------------------------------------------------------------------------------------------------

NAIVE = "naive"
FRESH: Literal["expected"] = "expected"
GAPS = {"close": (0.01, 0.04), "wide": (0.06, 0.2)}
TIMES = {"close": 1, "wide": 4}
"""Comparisons of each pair: short ones vary most, beside their length."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """A comparison of two models of a group, by their numbers."""

    group: str
    gap: str
    way: str
    pair: tuple[int, int]
    seed: int
    data: Path


@dataclass(frozen=True, slots=True)
class Compared:
    """What became of it: draws, whether a winner was named, and whether the interval or the decision was wrong."""

    pairing: Pairing
    draws: int
    named: bool
    wrong: bool


def compare(pairing: Pairing) -> Compared:
    seed, rates = pairing.seed, rates_of(pairing.group, pairing.data)[:, pairing.pair]
    tosses = np.random.default_rng([seed, 55])
    session = CompareSession(len(rates), target=FRESH, seed=seed)
    if pairing.way == NAIVE:
        setting = Setting(session.pool, FRESH, DELTA, seed, session.goal.aim(None))
        session._predictor = None
        session._begin(Uniform(setting), None)
    while not session.done:
        for draw in session.ask(1):
            session.tell(draw, *(float(tosses.random() < rate) for rate in rates[draw.item]))
    result, truth = session.result(), float(rates[:, 0].mean() - rates[:, 1].mean())
    winner = {"first": 1, "second": -1}.get(str(result.decision), 0)
    wrong = not result.lower <= truth <= result.upper or winner * truth < 0
    return Compared(pairing, result.n_evaluated, winner != 0, wrong)


def pairings(data: Path, pairs: int) -> list[Pairing]:
    found = []
    for group in FOLDERS:
        means = rates_of(group, data).mean(axis=0)
        for gap, (least, most) in GAPS.items():
            apart = [
                (i, j)
                for i in range(len(means))
                for j in range(i)
                if least <= abs(means[i] - means[j]) <= most
            ]
            chosen = apart[:: max(len(apart) // pairs, 1)][:pairs]
            found += [
                Pairing(group, gap, way, pair, seed, data)
                for way in (NAIVE, FRESH)
                for seed, pair in enumerate(chosen * TIMES[gap])
            ]
    return found


def tabulate_compared(found: Sequence[Compared]) -> str:
    rows = []
    for group, gap in dict.fromkeys((one.pairing.group, one.pairing.gap) for one in found):
        own = [one for one in found if (one.pairing.group, one.pairing.gap) == (group, gap)]
        naive, memory = (
            np.array([one.draws for one in own if one.pairing.way == way]) for way in (NAIVE, FRESH)
        )
        wrong = ", ".join(
            f"{sum(one.wrong for one in own if one.pairing.way == way)}" for way in (NAIVE, FRESH)
        )
        error = (memory - naive).std() / len(naive) ** 0.5 / naive.mean()
        share = f"{memory.sum() / naive.sum():.2f} ± {error:.2f}"
        apart = "{:g} to {:g}".format(*GAPS[gap])
        means = [f"{naive.mean():,.0f}", f"{memory.mean():,.0f}"]
        rows.append([group, apart, len(naive), *means, share, wrong, most_misses(len(naive))])
    header = ["models", "apart", "comparisons", NAIVE, "memory", "share", "wrong", "bound (99%)"]
    return markdown(header, rows)


# -- equal models -----------------------------------------------------------------------------------------------------

EQUAL = 0.8
SIZES = (60, 300)
BUDGET = 600
"""Answers of each model, or to all tasks, at most; half as many of a server."""
MODELS = 3
"""In a ranking; tasks of a model."""
CHUNK = 10


@dataclass(frozen=True, slots=True)
class Alike:
    """Evaluations of equal models; live: by asking a server, instead of a session of its own."""

    kind: str
    size: int
    target: str
    seeds: range
    live: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """How many answers each took, and whether it told apart what is equal."""

    job: Alike
    answers: tuple[int, ...]
    wrong: int


def tell_apart(job: Alike) -> Named:
    if job.live:
        with tossing_server(job.seeds.start) as url:
            found = [_ask_server(job, seed, url) for seed in job.seeds]
    else:
        found = [_ask_session(job, seed) for seed in job.seeds]
    return Named(job, tuple(one.n_evaluated for one in found), sum(map(_tells_apart, found)))


def _tells_apart(result: Any) -> bool:
    if isinstance(result, Comparison):
        return result.decision in ("first", "second") or not result.lower <= 0 <= result.upper
    if isinstance(result, Ranking):
        return bool(result.order)
    return any(task.verdict == "fail" for task in result.tasks.values())


def _ask_session(job: Alike, seed: int) -> Any:
    tosses = np.random.default_rng([seed, 55])
    asked: dict[str, Any] = {"target": job.target, "seed": seed}
    session: Any
    if job.kind == "compare":
        session = CompareSession(job.size, budget=BUDGET, **asked)
    elif job.kind == "rank":
        names = [f"model {number}" for number in range(MODELS)]
        session = RankSession(job.size, names, budget=MODELS * BUDGET, **asked)
    else:
        groups = np.arange(job.size) % MODELS
        session = TaskSession(groups, goal=WhichFail(EQUAL), budget=BUDGET, **asked)
    while not session.done:
        for draw in session.ask(16):
            tell(session, draw, tuple(float(tosses.random() < EQUAL) for _ in draw.models))
    return session.result()


def _ask_server(job: Alike, seed: int, url: str) -> Any:
    """By default flags but for the temperature, the budget and the seed."""
    data = questions(job.size, MODELS)
    usual: dict[str, Any] = {"seed": seed, "store": "sqlite://"}
    models = [Candidate(f"openai/model-{number}", base_url=url, temperature=1.0) for number in range(MODELS)]
    if job.kind == "compare":
        run = cereval.compare(data, *models[:2], max_calls=BUDGET // 2, **usual)
    elif job.kind == "rank":
        run = cereval.rank(data, models, max_calls=MODELS * BUDGET // 2, **usual)
    else:
        run = cereval.tasks(data, models[0], which_fail=EQUAL, max_calls=BUDGET // 2, **usual)
    assert run.result.target == job.target, run.result.target
    return run.result


class Tossing:
    """A model that is right four times out of five, anew at every call."""

    name = "tossing"

    def __init__(self, seed: int) -> None:
        self._tosses = np.random.default_rng([seed, 7])

    async def answer(self, messages: Messages, *, top_logprobs: int = 0) -> Reply:  # noqa: ARG002
        right = self._tosses.random() < EQUAL
        return Reply(last_text(messages).split()[-1] if right else WRONG, 1, 1)

    async def close(self) -> None:
        """Nothing is open."""


@contextmanager
def tossing_server(seed: int) -> Iterator[str]:
    """Serve it on loopback, in a thread; yield the address."""
    ready: Queue[str] = Queue()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        with suppress(asyncio.CancelledError):
            async with serve_locally(Handler(Tossing(seed))) as url:
                ready.put(url)
                await asyncio.Event().wait()

    serving = loop.create_task(serve())
    thread = Thread(target=loop.run_until_complete, args=(serving,), daemon=True)
    thread.start()
    try:
        yield ready.get(timeout=30)
    finally:
        loop.call_soon_threadsafe(serving.cancel)
        thread.join()


def alike(runs: int, targets: Sequence[str], *, live: bool = False) -> list[Alike]:
    return [
        Alike(kind, size, target, range(at, min(at + CHUNK, runs)), live)
        for kind in ("compare", "rank", "tasks")
        for size in SIZES
        for target in targets
        for at in range(0, runs, CHUNK)
    ]


def tabulate_alike(found: Sequence[Named]) -> str:
    rows = []
    for one in dict.fromkeys((each.job.kind, each.job.size, each.job.target) for each in found):
        own = [each for each in found if (each.job.kind, each.job.size, each.job.target) == one]
        answers, wrong = [count for each in own for count in each.answers], sum(each.wrong for each in own)
        mean, bound = f"{np.mean(answers):,.0f}", most_misses(len(answers))
        rows.append([*one, len(answers), mean, wrong, bound, "yes" if wrong <= bound else "**NO**"])
    header = ["kind", "questions", "target", "runs", "draws", "told apart", "bound (99%)", "holds"]
    return markdown(header, rows)


# -- every case by itself -------------------------------------------------------------------------------------------

EACH, ALL_OF = 0.9, 4
OFTEN = 40
"""Answers to every case, what `--each-at-least` stands beside."""


@dataclass(frozen=True, slots=True)
class Case:
    """All cases of a model of test generation, by one seed."""

    model: int
    seed: int
    data: Path


@dataclass(frozen=True, slots=True)
class Judged:
    """What `--each-at-least` took and decided, and pass^k within .03."""

    answers: int
    passing: int
    failing: int
    size: int
    wrong: int
    drawn: int
    missed: bool


def judge_cases(case: Case) -> Judged:
    rates = rates_of("test generation", case.data)[:, case.model]
    tosses = np.random.default_rng([case.seed, case.model, 41])
    session = EachSession(len(rates), goal=EachAtLeast(EACH), seed=case.seed)
    while not session.done:
        for draw in session.ask(64):
            session.tell(draw, float(tosses.random() < rates[draw.item]))
    verdicts = session.tests
    wrong = int((verdicts.passes & (rates < EACH)).sum() + (verdicts.fails & (rates >= EACH)).sum())
    mean = Session(len(rates), goal=Estimate(0.03), target=FRESH, seed=case.seed)
    while not mean.done:
        for draw in mean.ask(1):
            mean.tell(draw, float((tosses.random(ALL_OF) < rates[draw.item]).all()))
    missed = not mean.interval.lower <= float((rates**ALL_OF).mean()) <= mean.interval.upper
    counts = int(verdicts.passes.sum()), int(verdicts.fails.sum())
    return Judged(session.n_evaluated, *counts, len(rates), wrong, ALL_OF * mean.n_evaluated, missed)


def tabulate_judged(found: Sequence[Judged]) -> str:
    answers, asked = np.array([one.answers for one in found]), OFTEN * found[0].size
    decided = np.mean([(one.passing + one.failing) / one.size for one in found])
    wrong, bound = sum(one.wrong > 0 for one in found), most_misses(len(found))
    drawn, missed = np.mean([one.drawn for one in found]), sum(one.missed for one in found)
    rows = [
        [
            f"each at least {EACH:g}",
            len(found),
            f"{answers.mean():,.0f}",
            f"{asked:,}",
            f"{decided:.1%}",
            wrong,
            bound,
        ],
        [f"pass^{ALL_OF} within .03", len(found), f"{drawn:,.0f}", f"{asked:,}", "", missed, bound],
    ]
    header = [
        "question",
        "runs",
        "answers",
        f"every case {OFTEN} times",
        "decided",
        "runs with an error",
        "bound (99%)",
    ]
    return markdown(header, rows)


# -- many items -------------------------------------------------------------------------------------------------------

LARGE, DRAWS = 100_000, 5000


def measure_large(way: str) -> tuple[str, float, float]:
    """Milliseconds a draw, opening included, and megabytes at most, in a process of its own."""
    tosses, begun = np.random.default_rng(1), time.process_time()
    session = Session(LARGE, goal=Estimate(0.001), target=FRESH, method=way, seed=1, budget=DRAWS)
    while not session.done:
        for draw in session.ask(1):
            session.tell(draw, float(tosses.random() < (draw.item % 10) / 10))
    return way, 1000 * (time.process_time() - begun) / DRAWS, peak_mb()


def tabulate_large() -> str:
    rows = []
    for way in ("uniform", "active", "memory"):
        (found,) = run_all(measure_large, [way], f"{LARGE:,} items")
        rows.append([found[0], f"{LARGE:,}", f"{DRAWS:,}", *(f"{value:.2f}" for value in found[1:])])
    return markdown(["method", "items", "draws", "ms a draw", "MB at most"], rows)


PARTS = ("answers", "pairs", "equal", "live", "each", "large")


@click.command(help=__doc__)
@click.option(
    "--seeds", default=2, show_default=True, help="Runs of each model, ten times as many of made up ones."
)
@click.option("--pairs", default=40, show_default=True, help="Comparisons of each distance.")
@click.option(
    "--equal", default=400, show_default=True, help="Evaluations of equal models, of each kind and size."
)
@click.option("--live", default=400, show_default=True, help="The same against a server.")
@click.option(
    "--each", "cases", default=200, show_default=True, help="Runs of all cases, each judged by itself."
)
@click.option("--only", type=click.Choice(PARTS), multiple=True, help="Only this table; may be repeated.")
@click.option("--data", type=click.Path(path_type=Path), default=DATA, show_default=True)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the tables, with their command, to this file."
)
def main(
    seeds: int,
    pairs: int,
    equal: int,
    live: int,
    cases: int,
    only: tuple[str, ...],
    data: Path,
    out: Path | None,
) -> None:
    parts = [_table_of(part, seeds, pairs, equal, live, cases, data) for part in only or PARTS]
    publish("Models that answer differently every time", "benchmarks.random_models", "\n\n".join(parts), out)


def _table_of(part: str, seeds: int, pairs: int, equal: int, live: int, cases: int, data: Path) -> str:
    if part == "answers":
        return tabulate(run_all(play, jobs(data, seeds), "random models"), data)
    if part == "pairs":
        return tabulate_compared(run_all(compare, pairings(data, pairs), "comparisons"))
    if part == "equal":
        return tabulate_alike(run_all(tell_apart, alike(equal, ("benchmark", FRESH)), "equal models"))
    if part == "live":
        found = run_all(tell_apart, alike(live, (FRESH,), live=True), "equal models, live")
        return f"Against a server, by default flags:\n\n{tabulate_alike(found)}"
    if part == "large":
        return tabulate_large()
    models = rates_of("test generation", data).shape[1]
    return tabulate_judged(
        run_all(judge_cases, [Case(at % models, at, data) for at in range(cases)], "cases")
    )


if __name__ == "__main__":
    main()
