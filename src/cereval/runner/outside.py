"""Take answers from anywhere: questions are handed out to people, spreadsheets or other systems, and their scores
told.

The same session decides what is asked: draws are stored before they are handed out, scores come back in any order, and
count in draw order. What is out is leased for a while, so that two people are not handed the same question; after that
it is handed out again, and whoever tells first is heard.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from cereval.datasets.base import Item
from cereval.errors import InvalidInput, Misuse, StoreError, shown
from cereval.questions.session import tell, unit_score
from cereval.records import Draw
from cereval.runner.book import as_told
from cereval.runner.candidates import prompt_of
from cereval.runner.start import Start, Voice, check_stored, scores_of
from cereval.store.base import LEASED, Answer, KeptAnswer, Store


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
    """Say why no question can be handed out."""
    if begun.session.done:
        command = f"cereval resume {begun.plan.run_id}{begun.where}"
        return f"the run has ended ({begun.session.stopped}); `{command}` prints what it came to"
    out = len(_leased(begun, store))
    return f"{out:,} are out, as many as may be; tell their scores, or wait until their lease is over"


def _leased(begun: Start, store: Store) -> set[tuple[str, int]]:
    """Return the calls that are out now."""
    now, found = time.time(), set()
    for event in store.events(begun.plan.run_id):
        if event["status"] == LEASED:
            until, calls = _lease(event["detail"], begun.plan.run_id)
            found |= calls if until > now else set()
    return found


def _lease(detail: Mapping[str, Any], run_id: str) -> tuple[float, set[tuple[str, int]]]:
    """Return until when calls are out, and which."""
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
