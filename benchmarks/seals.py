"""Seals: a plan is fixed before, something else is carried out after, and `cereval verify --seal` must say so.

    python -m benchmarks.seals --tries 1000 --out benchmarks/results/seals-YYYY-MM-DD.md

Runs of six kinds are sealed in a store that has earlier runs to learn from. Then somebody makes a later choice and has
the application carry it out: with other seeds, histories, goals, data or items, or another model, prompt or scorer. He
has the store, and so the seed and the nonce: but for choices of the seed itself he uses those that were sealed, so that
nothing but his choice can give him away. A few certificates are edited instead, with all their hashes repaired.

`departed`: the certificate is sound by itself and not what was sealed; `invalid`: it does not even follow from its log.
`named`: the verdict names what was chosen. As a control the sealed runs themselves are carried out, and must be valid.
"""

from __future__ import annotations

import asyncio
import copy
import io
import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np

import cereval
from benchmarks.parallel import CORES, run_all
from benchmarks.stated_models import questions
from benchmarks.tables import markdown, publish
from cereval.certificate.format import chained, digest
from cereval.cli.main import main as command_line
from cereval.plan import Plan, digest_of
from cereval.questions import formats, kind_of
from cereval.questions.compare.goal import Difference
from cereval.questions.log import Change
from cereval.questions.rank.goal import Order, Top
from cereval.questions.tasks.goal import Macro
from cereval.runner.finding import planned
from cereval.runner.prepare import Prepared, prepare
from cereval.runner.run import carry_out
from cereval.runner.sealing import read_seal, sealed, sealed_plan, written
from cereval.settings import ACCEPTED, Candidate, CandidateOptions, Settings, check_options, settings_of
from cereval.store.base import opened_store

SIZE, TASKS = 40, 2
EARLIER = ("scripted/0.6", "scripted/0.45")
"""Models whose runs are in the store before anything is sealed."""
CHUNK = 60
CAUGHT = ("departed", "invalid")
Random = np.random.Generator


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the application, as one would write it on a command line."""

    kind: str
    models: tuple[str, ...] = ("scripted/0.7",)
    goal: Any = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    rows: Sequence[Mapping[str, str]] = field(default_factory=lambda: questions(SIZE, TASKS))

    def with_settings(self, **given: Any) -> Question:
        """Give the same question with other settings."""
        return replace(self, settings={**self.settings, **given})

    def prepared(self, folder: Path) -> tuple[Prepared, Settings]:
        """Write the data and make it ready, as the command does."""
        data, kind = folder / "data.jsonl", KINDS.get(self.kind, self.kind)
        data.write_text("".join(json.dumps(dict(row)) + "\n" for row in self.rows))
        options = check_options({**self.settings, "store": address(folder)}, ACCEPTED[kind])
        own: Any = {name: options.pop(name) for name in CandidateOptions.__annotations__ if name in options}
        candidates = [Candidate(model, **own) for model in self.models]
        settings = settings_of(kind, str(data), candidates, options, self.goal)
        return prepare(settings), settings


KINDS = {"run --eps": "estimate", "run --at-least": "estimate", "extend": "growing"}
"""Commands whose kind of question has another name."""

QUESTIONS = (
    Question("run --eps", settings={"eps": 0.2}),
    Question("run --at-least", settings={"at_least": 0.5}),
    Question("compare", ("scripted/0.8", "scripted/0.5"), Difference(0.3)),
    Question("rank", ("scripted/0.9", "scripted/0.6", "scripted/0.2"), Order(0.3)),
    Question("tasks", goal=Macro(0.3)),
    Question("extend", settings={"eps": 0.3}),
)


def address(folder: Path) -> str:
    return f"sqlite:///{folder / 'runs.db'}"


# -- a run that was sealed --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sealed:
    """A question whose plan was sealed in a folder, and what its owner knows: the plan with seed and nonce."""

    question: Question
    folder: Path
    plan: Plan

    @classmethod
    def of(cls, question: Question, folder: Path, base: Path) -> Sealed:
        shutil.copy(base / "runs.db", folder)
        work, settings = question.prepared(folder)
        asyncio.run(work.close())
        with opened_store(settings["store"]) as store:
            seal = sealed(work.plan, work.items, store, history=settings.uses_store_history)
            plan = Plan.from_dict(store.run(seal.run_id).plan)
        written(folder / "seal.json", seal)
        return cls(question, folder, plan)

    @property
    def base(self) -> Path:
        """Find the store as it was before the seal."""
        return self.folder.parent

    def honest(self, change: Callable[[Plan], Change] | None = None) -> dict[str, Any]:
        """Carry the sealed plan out; with a change, stop on the way and go on with another goal or budget."""
        with TemporaryDirectory() as place:
            folder = Path(place)
            shutil.copy(self.folder / "runs.db", folder)
            work, settings = self.question.prepared(folder)
            with opened_store(settings["store"]) as store:
                seal = read_seal(self.folder / "seal.json")
                plan = sealed_plan(seal, work.plan, work.items, store, history=settings.uses_store_history)
                if change is None:
                    return dict(asyncio.run(carry_out(work, plan, store)).certificate)
                few = replace(work, limits=replace(work.limits, further_answers=5))
                asyncio.run(carry_out(few, plan, store))
                work, _ = self.question.prepared(folder)
                return dict(asyncio.run(carry_out(work, plan, store, change=change(plan))).certificate)

    def instead(
        self,
        question: Question | None = None,
        *,
        seed: int | None = None,
        nonce: str | None = None,
        before: Callable[[Path], None] = lambda _: None,
    ) -> dict[str, Any]:
        """Have something else carried out, in a store like the one before the seal.

        before: changes that store first. The seed and the nonce are the sealed ones where none are given.
        """
        with TemporaryDirectory() as place:
            folder = Path(place)
            shutil.copy(self.base / "runs.db", folder)
            before(folder)
            work, settings = (question or self.question).prepared(folder)
            own = replace(
                work.plan,
                seed=self.plan.seed if seed is None else seed,
                nonce=self.plan.nonce if nonce is None else nonce,
                seed_source=self.plan.seed_source,
            )
            with opened_store(settings["store"]) as store:
                plan = planned(own, work.items, store, history=settings.uses_store_history)
                return dict(asyncio.run(carry_out(work, plan, store)).certificate)

    def verdict(self, certificate: Mapping[str, Any]) -> tuple[str, list[str]]:
        """Ask `cereval verify --seal` for its verdict and its reasons."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "certificate.json"
            path.write_text(json.dumps(certificate))
            with redirect_stdout(io.StringIO()) as said:
                command_line(["verify", str(path), "--seal", str(self.folder / "seal.json"), "--json"])
        told = json.loads(said.getvalue())
        return told["status"], told["reasons"]


def earlier_runs(folder: Path, models: Sequence[str] = EARLIER) -> None:
    """Run some models, so that there is a history."""
    for model in models:
        cereval.evaluate(questions(SIZE, TASKS), model=model, eps=0.3, store=address(folder))


# -- later choices ----------------------------------------------------------------------------------------------------


def other_seed(rng: Random, run: Sealed) -> dict[str, Any]:
    return run.instead(seed=int(rng.integers(2**53)))


def other_seal(rng: Random, run: Sealed) -> dict[str, Any]:
    """Seal again, and show the certificate of the later seal."""
    return run.instead(seed=int(rng.integers(2**53)), nonce=token_hex(32))


def no_seal(rng: Random, run: Sealed) -> dict[str, Any]:
    return run.instead(seed=int(rng.integers(2**53)) if rng.random() < 0.5 else None, nonce="")


def no_history(_: Random, run: Sealed) -> dict[str, Any]:
    return run.instead(run.question.with_settings(history=False))


def more_history(rng: Random, run: Sealed) -> dict[str, Any]:
    model = f"scripted/{rng.uniform(0.1, 0.9):.3f}"
    return run.instead(before=partial(earlier_runs, models=[model]))


def less_history(rng: Random, run: Sealed) -> dict[str, Any]:
    def leave_out(folder: Path) -> None:
        with opened_store(address(folder)) as store:
            store.delete([str(rng.choice([one.run_id for one in store.runs()]))])

    return run.instead(before=leave_out)


def other_history(rng: Random, run: Sealed) -> dict[str, Any]:
    """Keep the earlier runs, and change one of their scores."""

    def edit(folder: Path) -> None:
        with closing(sqlite3.connect(folder / "runs.db")) as store:
            count = store.execute("select count(*) from answers").fetchone()[0]
            store.execute(
                "update answers set score = 1 - score where rowid in (select rowid from answers limit 1 offset ?)",
                (int(rng.integers(count)),),
            )
            store.commit()

    return run.instead(before=edit)


def other_goal(rng: Random, run: Sealed) -> dict[str, Any]:
    value = float(rng.uniform(0.31, 0.6))
    question = run.question
    goals = {
        "run --eps": question.with_settings(eps=value),
        "run --at-least": question.with_settings(at_least=value if abs(value - 0.5) > 0.01 else 0.7),
        "compare": replace(question, goal=Difference(value)),
        "rank": replace(question, goal=Order(value) if rng.random() < 0.5 else Top(1, value)),
        "tasks": replace(question, goal=Macro(value)),
        "extend": question.with_settings(eps=value),
    }
    return run.instead(goals[question.kind])


def other_confidence(rng: Random, run: Sealed) -> dict[str, Any]:
    return run.instead(run.question.with_settings(confidence=float(rng.uniform(0.6, 0.94))))


def other_budget(rng: Random, run: Sealed) -> dict[str, Any]:
    return run.instead(run.question.with_settings(max_calls=int(rng.integers(20, 200))))


def on_the_way(rng: Random, run: Sealed) -> dict[str, Any]:
    """Look at five answers, then set another goal, or another budget."""
    budget = int(rng.integers(20, 39))

    def change(plan: Plan) -> Change:
        if kind_of(plan).goal_may_change and "eps" in plan.goal and rng.random() < 0.5:
            return Change(0, 0, {**plan.goal, "eps": float(rng.uniform(0.05, 0.19))}, None)
        return Change(0, 0, {}, budget)

    return run.honest(change)


def edited_rows(rng: Random, run: Sealed, edit: Callable[[list[dict[str, str]]], None]) -> dict[str, Any]:
    rows = [dict(row) for row in run.question.rows]
    order = rng.permutation(len(rows))
    chosen = [rows[int(place)] for place in order[: int(rng.integers(1, 6))]]
    edit(chosen)
    return run.instead(replace(run.question, rows=rows))


def other_texts(rng: Random, run: Sealed) -> dict[str, Any]:
    def reword(rows: list[dict[str, str]]) -> None:
        for row in rows:
            row["question"] += rng.choice([" please", "?", " ", " (easy)"])

    return edited_rows(rng, run, reword)


def other_answers(rng: Random, run: Sealed) -> dict[str, Any]:
    def correct(rows: list[dict[str, str]]) -> None:
        for row in rows:
            row["answer"] = str(rng.integers(1000, 9999))

    return edited_rows(rng, run, correct)


def other_categories(rng: Random, run: Sealed) -> dict[str, Any]:
    def move(rows: list[dict[str, str]]) -> None:
        for row in rows:
            row["category"] = "kind 1" if row["category"] == "kind 0" else "kind 0"

    return edited_rows(rng, run, move)


def other_order(rng: Random, run: Sealed) -> dict[str, Any]:
    rows = list(run.question.rows)
    first, second = rng.choice(len(rows), 2, replace=False)
    rows[first], rows[second] = rows[second], rows[first]
    return run.instead(replace(run.question, rows=rows))


def added_items(rng: Random, run: Sealed) -> dict[str, Any]:
    more = questions(SIZE + int(rng.integers(1, 12)), TASKS)[SIZE:]
    return run.instead(replace(run.question, rows=[*run.question.rows, *more]))


def dropped_items(rng: Random, run: Sealed) -> dict[str, Any]:
    left = np.sort(rng.choice(SIZE, SIZE - int(rng.integers(1, 12)), replace=False))
    return run.instead(replace(run.question, rows=[run.question.rows[int(place)] for place in left]))


def dropped_answers(rng: Random, run: Sealed) -> dict[str, Any]:
    """Cut answers out of the certificate of the sealed run, and repair its hashes."""
    certificate = copy.deepcopy(run.honest())
    for _ in range(int(rng.integers(1, 4))):
        del certificate["log"][int(rng.integers(len(certificate["log"])))]
    return repaired(certificate)


def other_prompt(rng: Random, run: Sealed) -> dict[str, Any]:
    number = int(rng.integers(10**6))
    how: list[dict[str, Any]] = [
        {"template": f"{{{{ question }}}} ({number})"},
        {"system": f"You are number {number}."},
        {"few_shot": int(rng.integers(1, 4))},
    ]
    return run.instead(run.question.with_settings(**how[int(rng.integers(3))]))


def other_scorer(rng: Random, run: Sealed) -> dict[str, Any]:
    scorer = str(rng.choice(["contains", "numeric", "f1", f"numeric:{rng.random():.3f}"]))
    return run.instead(run.question.with_settings(scorer=scorer))


def other_model(rng: Random, run: Sealed) -> dict[str, Any]:
    models = list(run.question.models)
    models[int(rng.integers(len(models)))] = f"scripted/{rng.uniform(0.91, 0.99):.4f}"
    return run.instead(replace(run.question, models=tuple(models)))


def other_sampling(rng: Random, run: Sealed) -> dict[str, Any]:
    how: list[dict[str, Any]] = [
        {"max_tokens": int(rng.integers(1, 4000))},
        {"revision": f"v{rng.integers(99)}"},
    ]
    return run.instead(run.question.with_settings(**how[int(rng.integers(2))]))


def disguised(rng: Random, run: Sealed) -> dict[str, Any]:
    """Carry out another seed, then put the sealed plan into the certificate and repair its hashes."""
    certificate = copy.deepcopy(run.instead(seed=int(rng.integers(2**53))))
    own = run.honest()
    for name in ("plan", "provenance"):
        certificate[name] = own[name]
    return repaired(certificate)


def repaired(certificate: dict[str, Any]) -> dict[str, Any]:
    """Make all hashes of a certificate fit what it holds."""
    start = formats()[certificate["format"]].begins_with
    if "plan" in certificate:
        certificate["run_id"] = digest_of(certificate["plan"])[:12]
    certificate["chain"] = chained(digest_of(certificate[start]), certificate["log"])
    certificate["digest"] = digest(certificate)
    return certificate


@dataclass(frozen=True, slots=True)
class Choice:
    """A later choice: its family, how it is made, and the word by which a verdict names it; empty: it is invalid."""

    family: str
    make: Callable[[Random, Sealed], dict[str, Any]]
    word: str


CHOICES: dict[str, Choice] = {
    "another seed, the sealed nonce": Choice("seed", other_seed, "seed"),
    "another seal": Choice("seed", other_seal, "seed"),
    "no seal": Choice("seed", no_seal, "nonce"),
    "another seed under the sealed plan": Choice("seed", disguised, ""),
    "no history": Choice("history", no_history, "history"),
    "an earlier run more": Choice("history", more_history, "history"),
    "an earlier run less": Choice("history", less_history, "history"),
    "another score in an earlier run": Choice("history", other_history, "history"),
    "another goal": Choice("goal", other_goal, "goal"),
    "another confidence": Choice("goal", other_confidence, "confidence"),
    "another budget": Choice("goal", other_budget, "max_calls"),
    "goal or budget after five answers": Choice("goal", on_the_way, "was changed after"),
    "changed questions": Choice("data", other_texts, "data_hash"),
    "changed references": Choice("data", other_answers, "data_hash"),
    "changed categories": Choice("data", other_categories, "data_hash"),
    "another order": Choice("data", other_order, "data_hash"),
    "added items": Choice("data", added_items, "n_items"),
    "dropped items": Choice("dropped", dropped_items, "n_items"),
    "dropped answers": Choice("dropped", dropped_answers, ""),
    "prompt": Choice("asking", other_prompt, "prompt"),
    "scorer": Choice("asking", other_scorer, "scorer"),
    "model": Choice("asking", other_model, "candidates"),
    "settings of the model": Choice("asking", other_sampling, "candidates"),
}
FAMILIES = tuple(dict.fromkeys(choice.family for choice in CHOICES.values()))


# -- many tries -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Try:
    """What came of one certificate that was held against a seal; `choice` is empty for the sealed run itself."""

    kind: str
    choice: str
    status: str
    named: bool


def tries(numbers: Sequence[int]) -> list[Try]:
    """Seal a run of every kind that these tries need, carry each out as a control, then make the later choices."""
    with TemporaryDirectory() as place:
        base = Path(place)
        earlier_runs(base)
        runs: dict[int, Sealed] = {}
        found = []
        for number in numbers:
            which = number % len(QUESTIONS)
            if which not in runs:
                folder = base / str(which)
                folder.mkdir()
                runs[which] = Sealed.of(QUESTIONS[which], folder, base)
                status, _ = runs[which].verdict(runs[which].honest())
                found.append(Try(QUESTIONS[which].kind, "", status, False))
            found.append(_one(number, runs[which]))
        return found


def _one(number: int, run: Sealed) -> Try:
    rng = np.random.default_rng([18, number])
    learns = bool(run.plan.history)
    families = [family for family in FAMILIES if learns or family != "history"]
    family = families[int(rng.integers(len(families)))]
    name = str(rng.choice([name for name, choice in CHOICES.items() if choice.family == family]))
    choice = CHOICES[name]
    status, reasons = run.verdict(choice.make(rng, run))
    return Try(
        run.question.kind, name, status, bool(choice.word) and any(choice.word in one for one in reasons)
    )


def table(found: Sequence[Try]) -> str:
    """Write what became of each choice, and of the sealed runs themselves."""
    rows = []
    for name, choice in CHOICES.items():
        group = [one for one in found if one.choice == name]
        rows.append([choice.family, name, *_counts(group), sum(one.named for one in group)])
    chosen = [one for one in found if one.choice]
    rows.append(["all", "", *_counts(chosen), sum(one.named for one in chosen)])
    head = ["family", "later choice", "tries", "departed", "invalid", "not caught", "named"]
    honest = [one for one in found if not one.choice]
    kinds = ", ".join(question.kind for question in QUESTIONS)
    control = (
        f"Control: {sum(one.status == 'valid' for one in honest)} of {len(honest)} sealed runs ({kinds}) that were "
        "carried out as they were sealed are valid and followed their seal."
    )
    return markdown(head, rows) + "\n\n" + control


def _counts(group: Sequence[Try]) -> list[int]:
    by = [sum(one.status == status for one in group) for status in CAUGHT]
    return [len(group), *by, len(group) - sum(by)]


@click.command()
@click.option("--tries", "count", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--cores", type=click.IntRange(1), default=CORES, show_default=True)
@click.option("--out", type=click.Path(path_type=Path))
def main(count: int, cores: int, out: Path | None) -> None:
    """Make later choices at random, and count those that a seal does not catch."""
    chunks = [range(first, min(first + CHUNK, count)) for first in range(0, count, CHUNK)]
    found = [one for chunk in run_all(tries, chunks, "seals", cores) for one in chunk]
    publish("Later choices against a seal", "benchmarks.seals", table(found), out)
    missed = [one for one in found if (one.status != "valid" if not one.choice else one.status not in CAUGHT)]
    if missed:
        raise SystemExit(f"{len(missed)} were not judged as they should be: {missed[:5]}")


if __name__ == "__main__":
    main()
