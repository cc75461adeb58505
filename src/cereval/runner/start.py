"""Start a run, before its first call: find or create it, and replay its past."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from cereval.arrays import packed, unpacked
from cereval.certificate.base import issue
from cereval.certificate.seal import provenance
from cereval.certificate.verify import Stored
from cereval.datasets.base import Item
from cereval.datasets.fields import Fields
from cereval.datasets.large import ChainedItems, FileItems, OnDisk, hash_of, read_large
from cereval.datasets.read import read_dataset
from cereval.errors import BadFile, CerevalError, Misuse, StoreError, shown
from cereval.goals import in_words
from cereval.items.cells import ALONE
from cereval.kinds import kind_of
from cereval.kinds.base import Earlier, Kind
from cereval.plan import PLAN_FORMAT, Known, Plan
from cereval.records import Certified, Draw, Scored
from cereval.runner.limits import Spending
from cereval.runner.past import keys_of, past_of, past_table
from cereval.runner.progress import calls_to_goal, cheaper_afresh
from cereval.runner.samples import Samples
from cereval.sessions.base import AskTell, tell
from cereval.sessions.log import CHUNK, Change, Log, Teller, replayed
from cereval.store.base import Answer, Run, Store, store_flag
from cereval.store.schema import moment
from cereval.store.status import AT_WORK, CHANGED, ENDED
from cereval.version import ENGINE

END_OF_TIME = "9999"
"""Later than every moment that a store has."""


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

    def certificate(self, result: Certified) -> dict[str, Any]:
        """Seal the results consumed so far."""
        return issue(
            self.kind,
            self.session,
            result,
            self.known,
            plan=self.plan,
            changes=self.changes,
            provenance=provenance(self.plan, self.known, self.kept()),
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


def run_ids(plan: Plan) -> tuple[str, ...]:
    """Return the run and its parts, each once."""
    return tuple(dict.fromkeys([plan.run_id, *(part.run_id for part in kind_of(plan).parts(plan))]))


# -- plans ------------------------------------------------------------------------------------------------------------


def planned(
    plan: Plan,
    items: Sequence[Item],
    store: Store,
    *,
    history: bool,
    fresh: bool = False,
    since: float | None = None,
    lessons: Mapping[str, int] | None = None,
    taught: Mapping[str, int] | None = None,
) -> Plan:
    """Return the plan with what is known of its items now; an earlier run of the same request is continued.

    fresh: unless it has ended, or was killed, for then the question is asked anew; since: unless it began before that
    moment, in seconds since 1970. Of several the newest is continued. lessons: the earlier runs that may be learnt
    from, and how many draws of each; None: all that the store has. taught: runs that are history in any case.
    """
    kind = kind_of(plan)
    before = [one for one in earlier_runs(plan, store) if history or taught or not one.history]
    before = before or [one for one in _begun_in_memory(plan, items, store) if history or not one.history]
    too_old = "" if since is None else moment(since)
    going = [one for one in before if not _is_over(plan, store.run(one.run_id), fresh, too_old)]
    if going:
        return going[-1]
    if kind.learns and learns(plan):
        past = past_of(plan, items, store) if history else {}
        if lessons is not None:
            past = {run: min(lessons[run], count) for run, count in past.items() if lessons.get(run)}
        past = {**past, **(taught or {})}
        names = ["groups"] if _groups(kind, plan, items) is not None else []
        names += ["history"] if past else []
        cells = kind.crowds and bool(names) and plan.n_items > ALONE
        plan = replace(plan, side_information=tuple(names), history=dict(sorted(past.items())), cells=cells)
    if plan.run_id in {one.run_id for one in before}:
        plan = replace(plan, attempt=1 + max(one.attempt for one in before))
    return _with_parts_of_its_own(plan, store, too_old) if fresh or too_old else plan


def _with_parts_of_its_own(plan: Plan, store: Store, too_old: str) -> Plan:
    """Return a plan none of whose parts was begun by another run, or too long ago: they are shared by their seed."""
    there = {run.run_id: run for run in store.runs()} if len(run_ids(plan)) > 1 else {}
    while any(run in there and there[run].created_at < (too_old or END_OF_TIME) for run in run_ids(plan)[1:]):
        plan = replace(plan, attempt=plan.attempt + 1)
    return plan


def _is_over(plan: Plan, run: Run, fresh: bool, too_old: str) -> bool:
    """Tell whether a run does not answer a plan's question any more: a fresh one is wanted, or a later one.

    Also one that was killed: its answers may be those of another checkpoint. `resume` goes on with it, and so does the
    same command where it names the seed, for then it asks for the same questions.
    """
    if run.status in AT_WORK:
        return False
    return run.created_at < too_old or (fresh and (run.status in ENDED or plan.seed_drawn))


def left_behind(plan: Plan, store: Store) -> Run | None:
    """Return the newest run of the same request, if it is unfinished and not gone on with by this plan."""
    before = [store.run(one.run_id) for one in earlier_runs(plan, store) if one.run_id != plan.run_id]
    return before[-1] if before and before[-1].status != "finished" else None


def earlier_runs(plan: Plan, store: Store) -> list[Plan]:
    """Return the runs of the same request in the store, oldest first."""
    wanted = _requests(plan)
    plans = [values for _, values in store.plans(plan.data_hash) if values.get("format") == PLAN_FORMAT]
    return [one for one in map(Plan.from_dict, plans) if one.request in wanted]


def _requests(plan: Plan) -> set[str]:
    """Return the names that the request of a plan has had."""
    kind = kind_of(plan)
    wanted = {one.request for one in (plan, *kind.older(plan))}
    if plan.seed_drawn and kind.first_seed is not None:
        # What the first version began where no seed was given is gone on with.
        bare = replace(plan, seed=kind.first_seed, seed_source="")
        wanted |= {one.request for one in (bare, *kind.older(bare))}
    return wanted


def _begun_in_memory(plan: Plan, items: Sequence[Item], store: Store) -> list[Plan]:
    """Return the runs of the same request that were begun with all questions in memory, oldest first.

    Earlier versions read large files whole, and knew them by the hash of the questions instead of that of the file.
    """
    if not isinstance(items, FileItems):
        return []
    alike = {"format": PLAN_FORMAT, "n_items": plan.n_items, "data_name": plan.data_name}
    plans = [Plan.from_dict(values) for _, values in store.plans() if alike.items() <= values.items()]
    wanted = _requests(plan)
    found = [one for one in plans if replace(one, data_hash=plan.data_hash).request in wanted]
    whole = read_dataset(items.source, items.parts).content_hash if found else None
    return [one for one in found if one.data_hash == whole]


def learns(plan: Plan) -> bool:
    """Tell whether the method looks at side information: for the others none is gathered."""
    return plan.method in ("active", "partition", "oracle", "cer-eval", "pairs") or (
        plan.method == "auto" and plan.target != "population"
    )


def known_items(plan: Plan, items: Sequence[Item], store: Store) -> Known:
    """Return what a plan says is known, taken from the items and the store, as it was when the run started."""
    groups = _groups(kind_of(plan), plan, items) if "groups" in plan.side_information else None
    if "history" not in plan.side_information:
        return Known(groups)
    return Known(groups, past_table(plan, items, store))


def _groups(kind: Kind, plan: Plan, items: Sequence[Item]) -> Any:
    if isinstance(items, FileItems):
        return kind.coded_groups(plan, *items.groups)
    return kind.groups(plan, tuple(item.category for item in items))


# -- the past of a run ------------------------------------------------------------------------------------------------


def start(
    plan: Plan, items: Sequence[Item], store: Store, *, reading: bool = False, teller: Teller = tell
) -> Start:
    """Create the run, or replay what the store has of it.

    reading: it is there, and nothing is written. teller: tells the session each result, for whoever watches it.
    """
    kind = kind_of(plan)
    if not reading:
        keep_items(plan.data_hash, items, store)
    known = known_items(plan, items, store)
    # The session first: a request that it refuses leaves no empty run behind.
    session = kind.session(plan, known, reader(store))
    if not reading:
        for part in (plan, *kind.parts(plan)):
            store.create_run(part.run_id, part.as_dict(), part.data_hash, part.model_name, plan.revision)
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
    """Return the names of the models whose answers are kept apart."""
    return kind.names(plan) if len(kind.parts(plan)) > 1 else (plan.model_name,)


def _voice(part: Plan, name: str, store: Store, spending: Spending) -> Voice:
    answers = store.answers(part.run_id, texts=False)
    for answer in answers:
        spending.add(answer.cost_usd, failed=answer.failure is not None)
    stored = {draw.index: draw for draw in _stored(part, store)}
    results = {answer.draw: answer.score for answer in answers}
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

    Where draws are numbered by places of their own, they are decided again as far as the answers go.
    """
    log = _VoiceLog(session, voices, changes)
    try:
        draws = list(replayed(session, log, teller))
    except Misuse as error:
        raise StoreError(other_engine(plan, str(error))) from None
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
        super().__init__({}, 0 if placed else max(len(voice.stored) for voice in voices), tuple(changes))
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
        if there is not None and (there.item, there.probability) != (draw.item, draw.probability):
            raise StoreError(other_engine(plan, f"draw {place} is item {there.item}, not {draw.item}"))


def other_engine(plan: Plan, reason: str) -> str:
    """Return what is said of a run whose draws cannot be decided again, with what is still possible."""
    return (
        f"the draws of run {plan.run_id} cannot be decided again ({reason}): it was made by another engine than "
        f"this one ({ENGINE}), or its database was changed; nothing was asked, its answers are kept. Go on with the "
        "version of cereval that its certificate names, or start a new run (another --seed), which may learn from it"
    )


def reader(store: Store) -> Earlier:
    """Read earlier runs from a store, as kinds need them."""

    def read(run_id: str) -> tuple[Plan, Log, tuple[Draw, ...]]:
        plan = Plan.from_dict(store.run(run_id).plan)
        draws = _stored(plan, store)
        results = {answer.draw: (answer.score,) for answer in store.answers(run_id, texts=False)}
        return plan, Log(results, len(draws), changes_of(store, run_id)), draws

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
    # Earlier versions wrote fewer parameters.
    return None if all(now.get(name) == value for name, value in begun.plan.goal.items()) else now


def price_of_going_on(begun: Start) -> tuple[str, ...]:
    """Return what a run with a new goal or budget will cost, where a new one is likely to take fewer results.

    The bets so far were placed on the first: what they did not win is lost to a closer goal and to a larger budget
    (`benchmarks.closer` has the price, and what was forecast).
    """
    afresh = cheaper_afresh(begun.session) if begun.changes and not begun.session.done else None
    if afresh is None:
        return ()
    calls = calls_to_goal(begun.session)
    return (
        f"the stakes so far were placed on an earlier goal or budget: going on takes about {calls:,} results in all, "
        f"where a new run takes about {afresh:,} and asks nothing again that is answered already",
    )


def changes_of(store: Store, run_id: str) -> tuple[Change, ...]:
    """Return the changes of a run, oldest first."""
    events = [event["detail"] for event in store.events(run_id) if event["status"] == CHANGED]
    return tuple(_change(detail, run_id) for detail in events)


def _change(detail: Mapping[str, Any], run_id: str) -> Change:
    """Return a change as the store keeps it; one that is not as it was written is refused."""
    try:
        change = Change(**detail)
    except TypeError:
        change = None
    if change is None or not _is_change(change):
        raise StoreError(
            f"run {run_id} is damaged, or was changed by hand: it has the change {shown(detail)}"
        )
    return change


def _is_change(change: Change) -> bool:
    counts = (change.consumed, change.drawn)
    limits = (change.max_calls, change.horizon)
    return (
        isinstance(change.goal, Mapping)
        and all(type(count) is int and count >= 0 for count in counts)
        and all(limit is None or (type(limit) is int and limit >= 0) for limit in limits)
    )


def _notes(kind: Kind, plan: Plan, spending: Spending, store: Store) -> tuple[str, ...]:
    notes = []
    if spending.calls:
        notes.append(
            f"continuing run {plan.run_id}: {spending.calls:,} answers are kept, none is asked again"
        )
    if plan.history:
        notes.append(_history_note(plan, store))
    samples = Samples.of(plan.scorer)
    if samples.count > 1:
        notes.append(samples.words(plan.target))
    return (*notes, *kind.notes(plan))


def _duplicates(items: Sequence[Item]) -> tuple[str, ...]:
    """Warn of questions that the data has more than once: each copy counts.

    Files of millions are not read through for it.
    """
    if isinstance(items, OnDisk):
        return ()
    copies = sum("-" in key for key in keys_of(items))
    if not copies:
        return ()
    what = "a question appears" if copies == 1 else f"{copies:,} questions appear"
    return (f"warning: {what} more than once in the data, with the same answer; every copy counts",)


def _history_note(plan: Plan, store: Store) -> str:
    """Say which earlier runs help."""
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
    helps = "help" if many else "helps"
    without = kind_of(plan).without_history
    return f"history: {runs} {where} {helps} to choose questions ({without} to do without)"


# -- what the store can say of a run ----------------------------------------------------------------------------------


def item_from(row: Mapping[str, Any]) -> Item:
    """Return an item as the store keeps it; one that is not as it was written is refused."""
    try:
        values = dict(row) | {"answers": tuple(row["answers"]), "choices": tuple(row["choices"])}
        values["input"] = row["input"] if isinstance(row["input"], str) else tuple(row["input"])
        item = Item(**values)
    except (KeyError, TypeError):
        item = None
    if item is None or not _well_formed(item):
        raise StoreError(
            f"an item in the store was changed: {shown(row)}; restore a copy, or start a new run"
        )
    return item


def _well_formed(item: Item) -> bool:
    texts = (item.id, item.category or "", *item.answers, *item.choices)
    turns = () if isinstance(item.input, str) else item.input
    chat = all(isinstance(turn, Mapping) and isinstance(turn.get("content"), str) for turn in turns)
    return chat and all(isinstance(text, str) for text in texts) and isinstance(item.metadata, Mapping)


def keep_items(data_hash: str, items: Sequence[Item], store: Store) -> None:
    """Keep the items of a run in the store; of a large file, where it lies and how it was read."""
    if isinstance(items, OnDisk):
        store.add_source(data_hash, _whereabouts(items, store))
    else:
        store.add_items(data_hash, (item.as_dict() for item in items))


def _whereabouts(items: OnDisk, store: Store) -> dict[str, Any]:
    if isinstance(items, FileItems):
        return {
            "file": str(Path(items.source).absolute()),
            "fields": asdict(items.parts),
            "left_out": packed(items.left_out),
        }
    for data_hash, version in zip(items.hashes, items.versions, strict=True):
        keep_items(data_hash, version, store)
    return {"versions": list(items.hashes)}


def stored_items(plan: Plan, store: Store) -> Sequence[Item]:
    """Return the items of a run, as they were when it began."""
    return items_of(plan.data_hash, store, f"run {plan.run_id}")


def items_of(data_hash: str, store: Store, whose: str) -> Sequence[Item]:
    """Return the items with this hash; those of a large file from where it lies, if it is what it was."""
    source = store.source(data_hash)
    items = _kept_items(data_hash, store) if source is None else _items_elsewhere(source, store, whose)
    if hash_of(items) != data_hash:
        place = "in the store" if source is None or "file" not in source else f"in {source['file']}"
        raise StoreError(f"the items of {whose} {place} were changed; start a new run")
    return items


def _kept_items(data_hash: str, store: Store) -> tuple[Item, ...]:
    return tuple(item_from(row) for row in store.items(data_hash))


def _items_elsewhere(source: Mapping[str, Any], store: Store, whose: str) -> OnDisk:
    if "versions" in source:
        hashes = source["versions"]
        return ChainedItems([items_of(one, store, whose) for one in hashes], hashes)
    try:
        left_out = unpacked("left_out", source["left_out"], "<i8", int(source["left_out"]["shape"][0]))
        items = read_large(source["file"], Fields(**source["fields"]), left_out=left_out).items
    except (KeyError, TypeError, ValueError, IndexError):
        raise StoreError(
            f"where the items of {whose} lie was changed in the store; start a new run"
        ) from None
    except BadFile as error:
        raise StoreError(f"the items of {whose} are not where they were: {error}") from None
    assert isinstance(items, FileItems)
    return items


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
    return begun.certificate(begun.session.result()) if count else None


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
    source = store.source(plan.data_hash)
    items = (
        _kept_items(plan.data_hash, store)
        if source is None
        else _items_elsewhere(source, store, f"run {run.run_id}")
    )
    return Stored(
        plan=run.plan,
        log=kind_of(plan).kept(certificate, plan, reader(store)),
        changes=tuple(change.as_dict() for change in changes_of(store, run.run_id)),
        known=known_items(plan, items, store),
        data_hash=hash_of(items),
    )
