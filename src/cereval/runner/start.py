"""Start a run, before its first call: create it, or replay its past, in which nothing is decided again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import ValidationError, convert

from cereval.certificate.format import issue
from cereval.certificate.seal import provenance
from cereval.certificate.verify import Stored
from cereval.datasets.base import Item, content_hash
from cereval.errors import CerevalError, LogMismatch, Misuse, StoreError, shown
from cereval.methods.registry import MOST_FORECAST
from cereval.models.base import another_model
from cereval.plan import Known, Plan, about_luck
from cereval.questions import kind_of
from cereval.questions.base import Earlier, Kind
from cereval.questions.goals import in_words
from cereval.questions.log import CHUNK, Change, Log, Teller, replayed
from cereval.questions.session import AskTell, tell
from cereval.records import Certified, Draw, Scored
from cereval.runner.finding import forecasts_pay, kept_items, keys_of, known_items, run_ids, stored_items
from cereval.runner.limits import Spending
from cereval.runner.pace import calls_to_goal, cheaper_afresh
from cereval.runner.progress import WARNING, Subject, other_model_warning
from cereval.runner.samples import Samples
from cereval.store.base import CHANGED, NOTED, SERVED, Answer, Run, Store, store_flag
from cereval.version import ENGINE

Served = Mapping[str, Mapping[str, int]]
"""Of each candidate, under which names a server answered, and how often."""


@dataclass(slots=True)
class Voice:
    """Keep one model of a run: where its answers are kept, and what it has answered, by place."""

    run_id: str
    name: str
    stored: dict[int, Draw]
    results: dict[int, float | None]
    answered: bool = False
    """Whether a call has succeeded, so that what its calls cost is known and its failures are its items'."""
    held: list[tuple[Any, Answer]] = field(default_factory=list)
    """Failures since the last success: the next success makes them final."""
    failing: int = 0
    """Calls that have failed since the last success, also those that were given up as final."""
    kept: dict[int, str] = field(default_factory=dict)
    """Of the answers that were taken from the answer book, the run that paid for each, by place."""


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Hold a run ready to go on: its session has been told everything that is in the store."""

    plan: Plan
    kind: Kind
    known: Known
    session: AskTell
    changes: tuple[Change, ...]
    voices: tuple[Voice, ...]
    waiting: tuple[Draw, ...]
    spending: Spending
    notes: tuple[str, ...]
    kept_before: Mapping[str, int] = field(default_factory=dict)
    """Kept answers of the versions that a run of growing data goes on from."""
    where: str = ""
    """What names its store on a command line."""

    def certificate(self, result: Certified, served: Served | None = None) -> dict[str, Any]:
        return issue(
            self.kind,
            self.session,
            result,
            self.known,
            plan=self.plan,
            changes=self.changes,
            provenance=provenance(self.plan, self.known, self.kept(), served=served),
        )

    def kept(self) -> Counter[str]:
        """Count the consumed answers that earlier runs had paid for, by run."""
        session, several = self.session, len(self.voices) > 1
        found = Counter(self.kept_before)
        for draw, _ in session.log if any(voice.kept for voice in self.voices) else ():
            place = session.place(draw)
            payers = (self.voices[model].kept.get(place) for model in (draw.models if several else (0,)))
            found.update(payer for payer in payers if payer)
        return found


def held(plan: Plan, store: Store) -> ExitStack:
    """Hold a run and its parts; leave the stack to let go."""
    stack = ExitStack()
    try:
        for run_id in run_ids(plan):
            stack.enter_context(store.hold(run_id))
    except BaseException:
        stack.close()
        raise
    return stack


# -- the past of a run ------------------------------------------------------------------------------------------------


def start(
    plan: Plan, items: Sequence[Item], store: Store, *, reading: bool = False, teller: Teller = tell
) -> Start:
    """Create the run, or replay what the store has of it.

    reading: it is there, and nothing is written. teller: tells the session each result, for whoever watches it.
    """
    kind = kind_of(plan)
    if plan.engine != ENGINE:
        raise StoreError(
            f"run {plan.run_id} was made by engine {plan.engine}, this is engine {ENGINE}; go on with the version of "
            "cereval that its certificate names, or start a new run (another --seed)"
        )
    if not reading:
        store.add_items(plan.data_hash, (item.as_dict() for item in items))
    known = known_items(plan, items, store)
    # The session first: a request that it refuses leaves no empty run behind.
    session = kind.session(plan, known, reader(store))
    if not reading:
        for part in (plan, *kind.parts(plan)):
            store.create_run(part.run_id, part.as_dict(), part.data_hash, part.name, plan.engine)
    spending, voices = Spending(), []
    for part, name in zip(kind.parts(plan), voice_names(kind, plan), strict=True):
        voices.append(_voice(part, name, store, spending))
    changes = changes_of(store, plan.run_id)
    draws = _retold(session, voices, changes, plan, teller)
    waiting = tuple(draw for draw in draws if scores_of(session, voices, draw) is None)
    notes = (*_duplicates(items), *_notes(kind, plan, spending, store))
    before = _kept_before(kind, plan, session, store)
    told = tuple(voices)
    return Start(
        plan, kind, known, session, changes, told, waiting, spending, notes, before, store_flag(store)
    )


def voice_names(kind: Kind, plan: Plan) -> tuple[str, ...]:
    return plan.names if len(kind.parts(plan)) > 1 else (plan.name,)


def _voice(part: Plan, name: str, store: Store, spending: Spending) -> Voice:
    answers = store.answers(part.run_id, texts=False)
    for answer in answers:
        spending.add(answer.cost_usd, failed=answer.failure is not None)
    stored = {draw.index: draw for draw in _stored(part, store)}
    results = {answer.draw: answer.score for answer in answers}
    if lost := sorted(results.keys() - stored.keys()):
        raise StoreError(
            f"run {part.run_id} is damaged, or was changed by hand: answer {lost[0]} has no draw; restore a copy, or "
            "start a new run with another --seed"
        )
    answered = any(score is not None for score in results.values())
    kept = {answer.draw: answer.kept for answer in answers if answer.kept}
    return Voice(part.run_id, name, stored, results, answered, kept=kept)


def _stored(plan: Plan, store: Store) -> tuple[Draw, ...]:
    """Return the draws that a store has of a run, if they are of its items."""
    draws = store.draws(plan.run_id)
    for draw in draws:
        if not 0 <= draw.item < plan.n_items:
            allowed = f"the item of draw {draw.index} must be in 0..{plan.n_items - 1}"
            raise StoreError(
                f"the draws of run {plan.run_id} are damaged, or were changed by hand: {allowed}, got {draw.item}"
            )
    return draws


def _kept_before(kind: Kind, plan: Plan, session: AskTell, store: Store) -> Counter[str]:
    """Count the kept answers of earlier versions: a certificate of growing data covers all of them."""
    found: Counter[str] = Counter()
    before = kind.before(plan.as_dict())
    if before is None:
        return found
    consumed = Counter(entry["version"] for entry in kind.log(session))
    for number in range(len(plan.growth["sizes"]) - 1, 0, -1):
        assert before is not None
        answers = store.answers(before, texts=False)
        found.update(one.kept for one in answers if one.kept and one.draw < consumed[number])
        before = kind.before(store.run(before).plan)
    return found


def scores_of(session: AskTell, voices: Sequence[Voice], draw: Draw) -> Scored | None:
    """Return what the models of a draw have answered; None while one of them has not."""
    place, asked = session.place(draw), draw.models if len(voices) > 1 else (0,)
    if not all(place in voices[model].results for model in asked):
        return None
    return tuple(voices[model].results[place] for model in asked)


def _retold(
    session: AskTell, voices: Sequence[Voice], changes: Sequence[Change], plan: Plan, teller: Teller
) -> list[Draw]:
    """Tell a session what its models have answered; return the draws that it decided.

    The draws are those in the store. Where they are numbered by places of their own, which model is asked next is found
    again as far as the answers go.
    """
    log = _VoiceLog(session, voices, changes)
    try:
        draws = list(replayed(session, log, teller))
    except (LogMismatch, Misuse) as error:
        raise StoreError(does_not_fit(plan, str(error))) from None
    if type(session).place is not AskTell.place:
        draws += _follow(session, voices, teller)
    for draw in draws:
        check_stored(session, voices, draw, plan)
    return draws


class _VoiceLog(Log):
    """Keep the log that the voices of a run hold together; no draws where they are kept by places of their own."""

    session: AskTell
    voices: Sequence[Voice]

    def __init__(self, session: AskTell, voices: Sequence[Voice], changes: Sequence[Change]) -> None:
        placed = type(session).place is not AskTell.place
        drawn = 0 if placed else max(len(voice.stored) for voice in voices)
        draws = {place: draw for voice in voices for place, draw in voice.stored.items()}
        super().__init__({}, drawn, tuple(changes), draws)
        object.__setattr__(self, "session", session)
        object.__setattr__(self, "voices", voices)

    def scores(self, draw: Draw) -> Scored | None:
        return scores_of(self.session, self.voices, draw)


def _follow(session: AskTell, voices: Sequence[Voice], teller: Teller) -> list[Draw]:
    draws: list[Draw] = []
    while not session.done and (fresh := session.ask(CHUNK)):
        draws += fresh
        told = 0
        for draw in fresh:
            scores = scores_of(session, voices, draw)
            if scores is not None:
                teller(session, draw, scores)
                told += 1
        if not told:
            break
    return draws


def check_stored(session: AskTell, voices: Sequence[Voice], draw: Draw, plan: Plan) -> None:
    """Refuse a store whose draws are not those that the session decides."""
    place = session.place(draw)
    for model in draw.models if len(voices) > 1 else (0,):
        there = voices[model].stored.get(place)
        if there is not None and there.item != draw.item:
            found = f"draw {place} has item {there.item}, where item {draw.item} is asked"
            raise StoreError(does_not_fit(plan, found))


def does_not_fit(plan: Plan, reason: str) -> str:
    """Return what is said of a run whose stored draws are not those of its plan, with what is still possible."""
    return (
        f"the stored draws of run {plan.run_id} do not fit its plan ({reason}): the database was changed, or the run "
        f"was made by another engine or version of numpy (this is engine {ENGINE}). Nothing was asked. Start a new run "
        "with another --seed: it uses the answers that are there"
    )


def reader(store: Store) -> Earlier:
    def read(run_id: str) -> tuple[Plan, Log, tuple[Draw, ...]]:
        plan = Plan.from_dict(store.run(run_id).plan)
        draws = _stored(plan, store)
        results = {answer.draw: (answer.score,) for answer in store.answers(run_id, texts=False)}
        stored = {draw.index: draw for draw in draws}
        return plan, Log(results, len(draws), changes_of(store, run_id), stored), draws

    return read


def changed(begun: Start, store: Store, change: Change) -> Start:
    """Set a new goal or budget, then record it: one that is refused must not stay on record."""
    change.apply(begun.session)
    store.mark(begun.plan.run_id, CHANGED, change.as_dict())
    unit = "items" if begun.session.asked > 1 else "calls"
    budget = "" if change.max_calls is None else f", at most {change.max_calls:,} {unit}"
    note = f"from here on: {in_words(change.goal)}{budget}"
    return replace(begun, changes=(*begun.changes, change), notes=(*begun.notes, note))


def goal_now(begun: Start) -> Mapping[str, Any] | None:
    """Return the goal of a run where it is another than it began with."""
    if not begun.changes:
        return None
    now: Mapping[str, Any] = begun.session.goal.spec()
    return None if now == begun.plan.goal else now


def price_of_going_on(begun: Start) -> tuple[str, ...]:
    """Return what a run with a new goal or budget will cost, where a new one is likely to take fewer results.

    The bets so far were placed on the first: what they did not win is lost to a closer goal and to a larger budget
    (`benchmarks.closer` has the price, and what was forecast).
    """
    afresh = cheaper_afresh(begun.session) if begun.changes and not begun.session.done else None
    if afresh is None:
        return ()
    calls = calls_to_goal(begun.session)
    command = f"cereval resume {begun.plan.run_id}{begun.where} --new"
    return (
        f"going on with another goal or budget takes about {calls:,} results in all; a new run takes about {afresh:,}, "
        f"and uses the answers that are there: `{command}`",
    )


def changes_of(store: Store, run_id: str) -> tuple[Change, ...]:
    events = [event["detail"] for event in store.events(run_id) if event["status"] == CHANGED]
    return tuple(_change(detail, run_id) for detail in events)


def _change(detail: Mapping[str, Any], run_id: str) -> Change:
    """Return a change as the store keeps it; one that is not as it was written is refused."""
    try:
        return convert(detail, Change)
    except ValidationError:
        raise StoreError(
            f"run {run_id} is damaged, or was changed by hand: it has the change {shown(detail)}"
        ) from None


def _notes(kind: Kind, plan: Plan, spending: Spending, store: Store) -> tuple[str, ...]:
    notes = []
    if spending.calls:
        notes.append(
            f"continuing run {plan.run_id}: {spending.calls:,} answers are kept, none is asked again"
        )
    if plan.history:
        notes.append(_history_note(plan, store))
    if kind.learns and plan.target != "population" and not forecasts_pay(plan):
        notes.append(f"more than {MOST_FORECAST:,} items: categories and earlier runs are not used")
    samples = Samples.of(plan.scorer)
    if samples.count > 1:
        notes.append(samples.words(plan.target))
    if plan.target == "expected":
        notes.append(
            "the result is about the answers that would come if these questions were asked again and again"
        )
    return (*about_luck(plan), *notes, *kind.notes(plan))


def _duplicates(items: Sequence[Item]) -> tuple[str, ...]:
    """Warn of questions that the data has more than once: each copy counts."""
    copies = sum("-" in key for key in keys_of(items))
    if not copies:
        return ()
    what = "a question appears" if copies == 1 else f"{copies:,} questions appear"
    return (f"warning: {what} more than once in the data, with the same answer; every copy counts",)


def _history_note(plan: Plan, store: Store) -> str:
    elsewhere = sum(data != plan.data_hash for data in store.data_of(plan.history).values())
    many, where = len(plan.history) > 1, "on the same data"
    if elsewhere:
        rest = len(plan.history) - elsewhere
        where = (
            "on data that share questions with these"
            if not rest
            else f"({elsewhere} on data that share questions)"
        )
    runs = f"{len(plan.history)} earlier runs" if many else "an earlier run"
    are = "are" if many else "is"
    return f"history: {runs} {where} {are} used to choose questions (--no-history: without)"


def subject(begun: Start) -> Subject:
    plan, goal = begun.plan, begun.session.goal
    return Subject(
        run_id=plan.run_id,
        model=plan.name,
        data=plan.data_name or "data",
        n_items=plan.n_items,
        question=begun.kind.goal_words(plan.as_dict()) if goal is None else goal.words,
        confidence=plan.confidence,
    )


# -- what the store can say of a run ----------------------------------------------------------------------------------


def reopened(run: Run, store: Store) -> Start:
    """Return a run as the store has it, to be read: nothing is written."""
    plan = Plan.from_dict(run.plan)
    return start(plan, stored_items(plan, store), store, reading=True)


def newest_certificate(begun: Start, store: Store) -> Mapping[str, Any] | None:
    """Return the newest certificate of a run, or that of what its log has come to since; None for kinds without."""
    if not begun.kind.format:
        return None
    issued, count = store.certificates(begun.plan.run_id), begun.session.n_evaluated
    stated = issued[-1].get("result") if issued else None
    told = stated.get("n_evaluated", stated.get("calls")) if isinstance(stated, Mapping) else None
    if told is not None and told == begun.session.result().n_evaluated:
        return issued[-1]
    return begun.certificate(begun.session.result(), served_by(begun, store)) if count else None


def served_by(begun: Start, store: Store) -> Served:
    """Return of each candidate under which names a server answered, and how often."""
    found: dict[str, Counter[str]] = {}
    for voice in begun.voices:
        for event in store.events(voice.run_id):
            if event["status"] == SERVED:
                found.setdefault(voice.name, Counter()).update(_counts_in(event["detail"]))
    return found


def _counts_in(detail: Mapping[str, Any]) -> dict[str, int]:
    """Return the counts of an event; what somebody changed by hand is left out."""
    return {name: count for name, count in detail.items() if type(count) is int and count > 0}


def evidence(certificate: Any, store: Store) -> Stored | None:
    """Return what the store has of the run that a certificate names; None: it is no certificate, as checks will say."""
    try:
        return _evidence(certificate, store)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        if isinstance(error, CerevalError):
            raise
        return None


def _evidence(certificate: Mapping[str, Any], store: Store) -> Stored:
    run = store.run(str(certificate.get("run_id", "")))
    plan = Plan.from_dict(run.plan)
    items = kept_items(plan.data_hash, store)
    return Stored(
        plan=run.plan,
        log=kind_of(plan).kept(certificate, plan, reader(store)),
        changes=tuple(change.as_dict() for change in changes_of(store, run.run_id)),
        known=known_items(plan, items, store),
        data_hash=content_hash(items),
    )


FEW = 5
"""With fewer scores than this, all alike, chance says as much as the scores."""

MOST_CUT_OFF = 0.01
"""Fewer answers than this share, were they right, would move no estimate that is shown by much."""


def doubts(begun: Start, store: Store, served: Served) -> tuple[str, ...]:
    """Warn of what makes a result doubtful whatever its interval; a run that is repeated is told the same."""
    found = [note for note in begun.notes if note.startswith(WARNING)]
    for event in store.events(begun.plan.run_id):
        if event["status"] == NOTED:
            found += [str(note) for note in event["detail"].get("notes") or ()]
    models = {spec["name"]: spec["model"] for spec in begun.plan.candidates}
    found += [
        other_model_warning(name, one)
        for name, names in served.items()
        for one in names
        if another_model(models[name], one)
    ]
    for voice, spec in zip(begun.voices, begun.plan.candidates, strict=False):
        cut = 0 if spec["settings"].get("max_tokens") else store.count_cut_off(voice.run_id)
        if cut > MOST_CUT_OFF * len(voice.results):
            found.append(
                f"{WARNING}{cut:,} of {len(voice.results):,} answers of {voice.name} were cut off (finish_reason "
                "length), and are not right: raise --max-tokens"
            )
    by_candidate: dict[int, list[float]] = {}
    for draw, scores in begun.session.log:
        for model, score in zip(draw.models, scores, strict=True):
            if score is not None:
                by_candidate.setdefault(model, []).append(score)
    for model, known in sorted(by_candidate.items()):
        if len(known) >= FEW and len(set(known)) == 1 and known[0] in (0, 1):
            found.append(_all_alike(begun, begun.voices[model].name, len(known), right=known[0] == 1))
    return tuple(dict.fromkeys(found))


def _all_alike(begun: Start, name: str, count: int, *, right: bool) -> str:
    scorer = f" by the scorer {begun.session.scorer}" if begun.session.scorer else ""
    doubt = "the questions may be too easy" if right else "the prompt or the scorer may not fit the questions"
    look = f"`cereval show {begun.plan.run_id}{begun.where}`"
    return f"{WARNING}all {count:,} answers of {name} are {'right' if right else 'wrong'}{scorer}: {doubt}; {look}"
