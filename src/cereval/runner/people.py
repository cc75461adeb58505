"""Runs that people score: a model's replies wait in the store until enough people have labelled them.

With a judge, the model answers every item first and the judge grades all of it. The grades become one column of history
(`cereval.forecasts.history`) of the run that people score: they steer which labels are asked for. A bad judge costs
labels, never validity. People never see the grades.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cereval.datasets.base import Item
from cereval.errors import InvalidInput, Misuse, StoreError, shown
from cereval.plan import Plan
from cereval.questions import kind_of
from cereval.questions.session import tell, unit_score
from cereval.records import Draw
from cereval.runner.answers import as_text
from cereval.runner.book import as_told
from cereval.runner.candidates import prompt_of
from cereval.runner.executor import Around, EndOfAnswers, Executor
from cereval.runner.finding import run_ids
from cereval.runner.loop import Loop
from cereval.runner.prepare import Prepared, open_plan
from cereval.runner.progress import Observer, Silent
from cereval.runner.start import Start, Voice, check_stored, held, scores_of, start, subject
from cereval.scorers.people import UNSCORED, People
from cereval.store.base import LEASED, Answer, KeptAnswer, Store, store_flag
from cereval.store.writer import AnswerWriter

if TYPE_CHECKING:
    from cereval.store.labels import Labels, Rating

ELSEWHERE = "elsewhere"
"""The rater of labels that do not say whose they are."""
LOOK_S = 0.5
"""How often the store is looked into for labels."""
JUDGED = "judged"
"""What the goal of a judge's run says beside `part`."""


def people_of(plan: Plan | Mapping[str, Any]) -> People | None:
    scorer = plan.scorer if isinstance(plan, Plan) else plan.get("scorer")
    spec = scorer.get("spec") if isinstance(scorer, Mapping) else None
    if not isinstance(spec, Mapping) or spec.get("name") != People.name:
        return None
    return People(**{key: value for key, value in spec.items() if key != "name"})


@dataclass(slots=True)
class WithPeople(Around):
    """Wait for the labels of people, who score the answers.

    given: replies that are there already, by the item's number (a judge has seen them). where: what names the store
    on a command line.
    """

    labels: Labels
    runs: Sequence[str]
    people: People
    given: Mapping[int, Answer] = field(default_factory=dict)
    where: str = ""
    told: bool = False
    stopped: bool = False
    seen_at: float = 0.0
    seen: dict[tuple[str, int], list[Rating]] = field(default_factory=dict)

    async def answer(self, draw: Draw, model: int, place: int) -> Answer:
        run_id = self.runs[model]
        reply = await asyncio.to_thread(self.labels.reply, run_id, place)
        if reply is None and draw.item in self.given:
            reply = replace(self.given[draw.item], draw=place, score=0.0, detail=UNSCORED, cost_usd=0.0)
        if reply is None:
            reply = await self.inner.answer(draw, model, place)
        if reply.failure is not None or reply.detail != UNSCORED:
            return reply
        await asyncio.to_thread(self.labels.keep, run_id, reply)
        ratings = await self._rated(run_id, place)
        score = sum(one.score for one in ratings) / len(ratings)
        return replace(reply, score=score, detail=", ".join(f"{one.rater}: {one.score:g}" for one in ratings))

    async def _rated(self, run_id: str, place: int) -> list[Rating]:
        """Wait until enough people have labelled a reply, and can no longer take it back."""
        while not self.stopped:
            if time.monotonic() - self.seen_at > LOOK_S:
                self.seen_at = time.monotonic()
                self._sort(await asyncio.to_thread(self.labels.settle, self.runs))
            found = [one for one in self.seen.get((run_id, place), ()) if one.counts]
            if len(found) >= self.people.raters:
                return found
            await asyncio.sleep(LOOK_S / 2)
        raise EndOfAnswers

    def _sort(self, ratings: Sequence[Rating]) -> None:
        self.seen = {}
        for one in ratings:
            self.seen.setdefault((one.run_id, one.draw), []).append(one)

    def stopping(self) -> None:
        """Wait no longer: replies are kept, and labels too."""
        self.stopped = True

    def notices(self) -> list[str]:
        lines = self.inner.notices()
        if not self.told:
            self.told = True
            command = f"cereval view{self.where}"
            lines.append(f"waiting for labels: `{command}` takes them at /label/{self.runs[0]}")
        return lines


def with_people(executor: Executor, plan: Plan, runs: Sequence[str], store: Store) -> Executor:
    people = people_of(plan)
    if people is None:
        return executor
    if plan.target == "expected":
        raise InvalidInput("--target", "benchmark, population or weights where people score", plan.target)
    seen = _seen_by_judge(plan, store)
    return WithPeople(executor, _labels(store), list(runs), people, seen, store_flag(store))


def _labels(store: Store) -> Labels:
    """Open the labels of a store; SQLAlchemy is imported when it is used."""
    from cereval.store.labels import Labels
    from cereval.store.sql import SqlStore

    assert isinstance(store, SqlStore)
    return Labels(store)


def _seen_by_judge(plan: Plan, store: Store) -> dict[int, Answer]:
    """Give the replies that the judge of a plan has graded: people label the very same."""
    found: dict[int, Answer] = {}
    for run_id in plan.history:
        if Plan.from_dict(store.run(run_id).plan).goal.get(JUDGED):
            found |= {draw.item: answer for draw, answer, _ in store.rows(run_id) if answer.failure is None}
    return found


# -- a judge for all --------------------------------------------------------------------------------------------------


def judge_plan(plan: Plan) -> Plan | None:
    """Plan the run in which a judge grades every item of a plan that people score; None: it names no judge."""
    people = people_of(plan)
    if people is None or not plan.scorer.get("judge"):
        return None
    if kind_of(plan).parts(plan) != (plan,):
        raise InvalidInput("--judge", "left out where people score several models", plan.scorer["judge"])
    goal = {"goal": "part", "words": "graded by a judge before people label", JUDGED: True}
    scorer = {**plan.scorer, "spec": {"name": "grade", "criteria": people.criteria}}
    # Nothing but data, model, prompt and judge decides it, so that another goal or seed finds the same grades.
    return Plan(
        goal=goal,
        data_hash=plan.data_hash,
        n_items=plan.n_items,
        data_name=plan.data_name,
        candidates=plan.candidates,
        scorer=scorer,
        method="pairs",
        kind="part",
    )


def judged_before(work: Prepared) -> dict[str, int]:
    """Return what a judge has graded for a run, if it has: its history."""
    wanted = judge_plan(work.plan)
    return {} if wanted is None else {wanted.run_id: wanted.n_items}


async def judged(work: Prepared, store: Store, observer: Observer | None = None) -> dict[str, int]:
    """Have the model answer and the judge grade every item, but for what is there; return it as history."""
    wanted = judge_plan(work.plan)
    if wanted is None:
        return {}
    grading = open_plan(wanted, work.items, work.circumstances, work.functions)
    plan, watcher = grading.plan, observer or Silent()
    try:
        with held(plan, store):
            store.add_items(plan.data_hash, (item.as_dict() for item in work.items))
            store.create_run(plan.run_id, plan.as_dict(), plan.data_hash, plan.name)
            missing = range(len(store.draws(plan.run_id)), plan.n_items)
            store.add_draws(plan.run_id, [Draw(number, number, 1.0) for number in missing])
            begun = start(plan, work.items, store)
            watcher.on_start(subject(begun), begun.notes)
            for run_id in run_ids(plan):
                store.mark(run_id, "running", grading.circumstances)
            async with AnswerWriter(store) as writer:
                loop = Loop(begun, grading.executor, writer, grading.limits, watcher)
                await loop.run()
            store.mark(plan.run_id, "finished" if begun.session.done else "interrupted")
    finally:
        await grading.close()
    if not begun.session.done:
        raise Misuse("the judge has not graded every answer (budget); repeat the command to go on")
    return {plan.run_id: plan.n_items}


# -- labels given elsewhere -------------------------------------------------------------------------------------------


def rows_to_label(plan: Plan, store: Store, count: int) -> list[dict[str, Any]]:
    """Give up to `count` answers that wait for labels, for a spreadsheet or a labelling service; no model is named."""
    people = people_of(plan)
    assert people is not None
    labels, parts = _labels(store), [part.run_id for part in kind_of(plan).parts(plan)]
    rated = Counter((one.run_id, one.draw) for one in labels.ratings(parts))
    waiting = [
        one for one in labels.waiting(parts, plan.data_hash) if rated[one.run_id, one.draw] < people.raters
    ]
    prompt = prompt_of(plan.candidates[0])
    rows = []
    for one in waiting[:count]:
        item = Item.from_dict(one.item)
        text = as_text(prompt.messages(item))
        shown = {"part": one.run_id, "draw": one.draw, "item": item.id, "prompt": text, "answer": one.text}
        rows.append({**shown, "expected": item.answer or "", "score": None, "rater": ""})
    return rows


def labels_told(plan: Plan, store: Store) -> Callable[[Mapping[str, Any]], bool]:
    """Return what tells whether the label in a row that was handed out is in the store."""
    parts = [part.run_id for part in kind_of(plan).parts(plan)]
    there = {(one.run_id, one.draw, one.rater, one.score) for one in _labels(store).ratings(parts)}

    def told(row: Mapping[str, Any]) -> bool:
        part, rater = str(row.get("part") or parts[0]), str(row.get("rater") or ELSEWHERE)
        return (part, row.get("draw"), rater, row.get("score")) in there

    return told


def take_labels(plan: Plan, store: Store, rows: Iterable[Mapping[str, Any]]) -> int:
    """Record the scores of rows that `rows_to_label` gave; they count at once. Return how many there were."""
    people = people_of(plan)
    assert people is not None
    labels, parts, found = _labels(store), [part.run_id for part in kind_of(plan).parts(plan)], 0
    for number, row in enumerate(rows, start=1):
        if row.get("score") is None:
            continue
        score = unit_score(row["score"], f"row {number}, score")
        part, draw = str(row.get("part") or parts[0]), row.get("draw")
        if part not in parts or isinstance(draw, bool) or not isinstance(draw, int):
            wanted = "the part and draw of an answer that was handed out"
            raise InvalidInput(f"row {number}", wanted, f"{part}, {draw}")
        rater = str(row.get("rater") or ELSEWHERE)
        labels.rate(part, draw, rater, score, raters=people.raters, final=True)
        found += 1
    return found


# -- scores from anywhere: handed out, and told -----------------------------------------------------------------------


def hand_out(
    begun: Start,
    items: Sequence[Item],
    store: Store,
    count: int,
    lease_s: float,
    deliver: Callable[[list[dict[str, Any]]], None],
    books: Sequence[Mapping[int, KeptAnswer]] = (),
) -> list[dict[str, Any]]:
    """Deliver up to `count` questions that are neither answered nor out, then lease them; store their draws first.

    books: of each model the scores that it was told before, by the item's number: nobody is asked for them again.
    """
    taken = _leased(begun, store)
    rows: list[dict[str, Any]] = []
    prompts = [prompt_of(spec) for spec in begun.plan.candidates]
    for draw, number, place in _open_calls(begun, store, books):
        voice = begun.voices[number]
        if len(rows) >= count:
            break
        if (voice.name, place) not in taken:
            item = items[draw.item]
            text = "\n\n".join(turn["content"] for turn in prompts[number].messages(item))
            rows.append({"draw": place, "item": item.id, "model": voice.name, "prompt": text, "score": None})
    deliver(rows)
    if rows:
        out = [[row["model"], row["draw"]] for row in rows]
        store.mark(begun.plan.run_id, LEASED, {"calls": out, "until": time.time() + lease_s})
    return rows


def is_told(begun: Start, items: Sequence[Item], row: Mapping[str, Any]) -> bool:
    """Tell whether the score in a row that was handed out is in the store: that very score, to that very question."""
    try:
        voice, untold = _answer(begun, items, row, "")
    except (InvalidInput, Misuse):  # of another run, or another score
        return False
    return untold is None and row.get("draw") in begun.voices[voice].results


def why_nothing(begun: Start, store: Store) -> str:
    if begun.session.done:
        command = f"cereval resume {begun.plan.run_id}{begun.where}"
        return f"the run has ended ({begun.session.stopped}); `{command}` prints what it came to"
    out = len(_leased(begun, store))
    return f"{out:,} are out, as many as may be; tell their scores, or wait until their lease is over"


def _leased(begun: Start, store: Store) -> set[tuple[str, int]]:
    now, found = time.time(), set()
    for event in store.events(begun.plan.run_id):
        if event["status"] == LEASED:
            until, calls = _lease(event["detail"], begun.plan.run_id)
            found |= calls if until > now else set()
    return found


def _lease(detail: Mapping[str, Any], run_id: str) -> tuple[float, set[tuple[str, int]]]:
    try:
        return float(detail["until"]), {(str(model), int(place)) for model, place in detail["calls"]}
    except (KeyError, TypeError, ValueError, OverflowError):
        raise StoreError(
            f"run {run_id} is damaged, or was changed by hand: its questions are out as {shown(detail)}"
        ) from None


def _open_calls(
    begun: Start, store: Store, books: Sequence[Mapping[int, KeptAnswer]]
) -> Iterator[tuple[Draw, int, int]]:
    """Yield the calls that the session waits for, then those that it asks for next, as far as it does."""
    session, voices = begun.session, begun.voices
    waiting: Sequence[Draw] = () if session.done else begun.waiting or session.ask(1)
    while waiting:
        for draw in waiting:
            check_stored(session, voices, draw, begun.plan)
            place, asked = session.place(draw), draw.models if len(voices) > 1 else (0,)
            needed = asked if session.within_budget(draw) else ()
            missing = [number for number in needed if place not in voices[number].results]
            for number in missing:
                _keep(voices[number], draw, place, store)
                if number < len(books) and draw.item in books[number]:
                    _take_over(voices[number], as_told(books[number][draw.item], place), store)
                else:
                    yield draw, number, place
            scores = scores_of(session, voices, draw)
            if scores is not None and not session.done:
                tell(session, draw, scores)
        waiting = [] if session.done else session.ask(1)


def _take_over(voice: Voice, answer: Answer, store: Store) -> None:
    """Have a model's earlier score count for this run too."""
    store.add_answers(voice.run_id, [answer])
    voice.results[answer.draw] = answer.score
    if answer.kept:
        voice.kept[answer.draw] = answer.kept


def _keep(voice: Voice, draw: Draw, place: int, store: Store) -> None:
    if place not in voice.stored:
        voice.stored[place] = Draw(place, draw.item, draw.probability)
        store.add_draws(voice.run_id, [voice.stored[place]])


def take_in(begun: Start, items: Sequence[Item], store: Store, rows: Iterable[Mapping[str, Any]]) -> int:
    """Store the scores of questions that were handed out; return how many were new. All or none of a model's."""
    found: dict[int, list[Answer]] = {}
    for number, row in enumerate(rows, start=1):
        voice, answer = _answer(begun, items, row, f"row {number}")
        if answer is not None:
            begun.voices[voice].results[answer.draw] = answer.score
            found.setdefault(voice, []).append(answer)
    for voice, answers in found.items():
        store.add_answers(begun.voices[voice].run_id, answers)
    return sum(map(len, found.values()))


def _answer(
    begun: Start, items: Sequence[Item], row: Mapping[str, Any], place: str
) -> tuple[int, Answer | None]:
    """Return the answer in a row; None where it has no score yet, or says again what was told."""
    names = [voice.name for voice in begun.voices]
    model = str(row.get("model") or names[0])
    if model not in names:
        raise InvalidInput(f"{place}, model", "one of " + ", ".join(names), model)
    number, draw = names.index(model), row.get("draw")
    voice = begun.voices[number]
    if isinstance(draw, bool) or not isinstance(draw, int) or draw not in voice.stored:
        raise InvalidInput(f"{place}, draw", "the number of a question that was handed out", draw)
    item = items[voice.stored[draw].item].id
    # A spreadsheet's cell that would be a formula begins with an apostrophe.
    if str(row.get("item", item)) not in (item, f"'{item}"):
        raise InvalidInput(f"{place}, item", f"{item}, which draw {draw} asks", row.get("item"))
    failure = row.get("failure") or None
    if row.get("score") is None and failure is None:
        return number, None
    score = None if failure else unit_score(row["score"], f"{place}, score")
    if draw in voice.results:
        if voice.results[draw] != score:
            raise Misuse(f"{place}: draw {draw} was told already, with the score {voice.results[draw]}")
        return number, None
    text = str(row.get("answer") or "")
    return number, Answer(draw, text=text, score=score, failure=None if failure is None else str(failure))
