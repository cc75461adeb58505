"""Before the first call: the run is found or created, its past is replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from cereval.certificate.base import issue
from cereval.certificate.seal import provenance
from cereval.certificate.verify import Stored
from cereval.datasets.base import Item, content_hash
from cereval.errors import Misuse, StoreError
from cereval.goals import in_words
from cereval.kinds import kind_of
from cereval.kinds.base import Earlier, Kind
from cereval.plan import PLAN_FORMAT, Known, Plan
from cereval.records import Certified, Draw, Scored
from cereval.runner.limits import Spending
from cereval.runner.progress import calls_to_goal
from cereval.sessions.base import AskTell, tell
from cereval.sessions.log import CHUNK, Change, Log, Teller, replayed
from cereval.store.base import Answer, Run, Store
from cereval.version import ENGINE

ENDED = ("finished", "budget")
CHANGED = "changed"
"""The status of events that record a new goal or budget."""


@dataclass(slots=True)
class Voice:
    """One model of a run: where its answers are kept, and what it has answered, by place."""

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
    """A run ready to go on: its session has been told everything that is in the store."""

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
    """The run and its parts, each once."""
    return tuple(dict.fromkeys([plan.run_id, *(part.run_id for part in kind_of(plan).parts(plan))]))


# -- plans ------------------------------------------------------------------------------------------------------------


def planned(plan: Plan, items: Sequence[Item], store: Store, *, history: bool, fresh: bool = False) -> Plan:
    """The plan with what is known of its items now; an earlier run of the same request is continued.

    fresh: unless that has ended, for then the question is asked anew.
    """
    kind = kind_of(plan)
    before = [one for one in earlier_runs(plan, store) if history or not one.history]
    going = [one for one in before if not (fresh and store.run(one.run_id).status in ENDED)]
    if going:
        return going[0]
    if kind.learns and learns(plan):
        past = past_of(plan, store) if history else {}
        names = ["groups"] if _groups(kind, plan, items) is not None else []
        names += ["history"] if past else []
        plan = replace(plan, side_information=tuple(names), history=dict(sorted(past.items())))
    return replace(plan, attempt=len(before)) if plan.run_id in {one.run_id for one in before} else plan


def earlier_runs(plan: Plan, store: Store) -> list[Plan]:
    """The runs of the same request in the store, oldest first."""
    kind = kind_of(plan)
    wanted = {one.request for one in (plan, *kind.older(plan))}
    if plan.seed_drawn and kind.first_seed is not None:
        # What the first version began where no seed was given is gone on with.
        bare = replace(plan, seed=kind.first_seed, seed_source="")
        wanted |= {one.request for one in (bare, *kind.older(bare))}
    plans = [values for _, values in store.plans(plan.data_hash) if values.get("format") == PLAN_FORMAT]
    return [one for one in map(Plan.from_dict, plans) if one.request in wanted]


def learns(plan: Plan) -> bool:
    """Whether the method looks at side information: for the others none is gathered."""
    return plan.method in ("active", "partition", "oracle", "cer-eval") or (
        plan.method == "auto" and plan.target != "population"
    )


def past_of(plan: Plan, store: Store) -> Mapping[str, int]:
    """The earlier runs on the same data that a plan may learn from, and how far each had come.

    Scores of one model each, and never of a model that is asked now.
    """
    own = kind_of(plan).names(plan)
    runs, known = teachers(store, plan.data_hash, own), store.cutoffs(plan.data_hash)
    return {run: known[run] for run in runs if known.get(run)}


def teachers(store: Store, data_hash: str, own: Sequence[str]) -> tuple[str, ...]:
    """Runs on the same data whose scores are those of one model, none of the models named `own`."""
    plans = [(run, values) for run, values in store.plans(data_hash) if values.get("format") == PLAN_FORMAT]
    return tuple(
        run
        for run, values in plans
        if kind_of(values).teaches
        and not any(same_model(str(values["model"].get("name")), name) for name in own)
    )


def same_model(stored: str, model: str) -> bool:
    """Whether a run's model is another's, with or without its provider.

    >>> same_model("openai/gpt-4o", "gpt-4o"), same_model("gpt-4o", "gpt-4")
    (True, False)
    """
    return model in (stored, stored.rpartition("/")[2])


def known_items(plan: Plan, items: Sequence[Item], store: Store) -> Known:
    """What a plan says is known, taken from the items and the store, as it was when the run started."""
    groups = _groups(kind_of(plan), plan, items) if "groups" in plan.side_information else None
    if "history" not in plan.side_information:
        return Known(groups)
    cutoffs = dict(sorted(plan.history.items()))
    return Known(groups, store.past_scores(plan.data_hash, cutoffs=cutoffs).table(plan.n_items))


def _groups(kind: Kind, plan: Plan, items: Sequence[Item]) -> Any:
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
        store.add_items(plan.data_hash, (item.as_dict() for item in items))
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
    notes, before = _notes(kind, plan, spending), _kept_before(kind, plan, session, store)
    return Start(plan, kind, known, session, changes, tuple(voices), waiting, spending, notes, before)


def voice_names(kind: Kind, plan: Plan) -> tuple[str, ...]:
    """The names of the models whose answers are kept apart."""
    return kind.names(plan) if len(kind.parts(plan)) > 1 else (plan.model_name,)


def _voice(part: Plan, name: str, store: Store, spending: Spending) -> Voice:
    answers = store.answers(part.run_id, texts=False)
    for answer in answers:
        spending.add(answer.cost_usd, failed=answer.failure is not None)
    stored = {draw.index: draw for draw in store.draws(part.run_id)}
    results = {answer.draw: answer.score for answer in answers}
    answered = any(score is not None for score in results.values())
    kept = {answer.draw: answer.kept for answer in answers if answer.kept}
    return Voice(part.run_id, name, stored, results, answered, kept=kept)


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
    """What the models of a draw have answered; None while one of them has not."""
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
    """The log that the voices of a run hold together; no draws where they are kept by places of their own."""

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
    """What is said of a run whose draws cannot be decided again, with what is still possible."""
    return (
        f"the draws of run {plan.run_id} cannot be decided again ({reason}): it was made by another engine than "
        f"this one ({ENGINE}), or its database was changed; nothing was asked, its answers are kept. Go on with the "
        "version of cereval that its certificate names, or start a new run (another --seed), which may learn from it"
    )


def reader(store: Store) -> Earlier:
    """Read earlier runs from a store, as kinds need them."""

    def read(run_id: str) -> tuple[Plan, Log, tuple[Draw, ...]]:
        plan, draws = Plan.from_dict(store.run(run_id).plan), store.draws(run_id)
        results = {answer.draw: (answer.score,) for answer in store.answers(run_id, texts=False)}
        return plan, Log(results, len(draws), changes_of(store, run_id)), draws

    return read


def changed(begun: Start, store: Store, change: Change) -> Start:
    """Set a new goal or budget, then record it: one that is refused must not stay on record."""
    asked = begun.session.goal.spec().get("eps")
    change.apply(begun.session)
    store.mark(begun.plan.run_id, CHANGED, change.as_dict())
    budget = "" if change.max_calls is None else f", at most {change.max_calls:,} calls"
    notes = [f"from here on: {in_words(change.goal)}{budget}"]
    if asked is not None and change.goal.get("eps", asked) < asked:
        notes += price_of_closer(begun.session)
    return replace(begun, changes=(*begun.changes, change), notes=(*begun.notes, *notes))


def price_of_closer(session: AskTell) -> list[str]:
    """What a goal that was made closer on the way will cost, where that can be told.

    The bets so far were all placed on the first goal: what they did not win is lost to the second. Measured, from
    .05 to .045: 1.1 to 1.7 times a new run's calls, to .03: 1.7 to 2.2 times (`benchmarks.closer`).
    """
    calls = calls_to_goal(session)
    if calls is None or session.done:
        return []
    most = min(2 * calls, session.n_items)
    return [
        f"a closer goal on the way costs more than from the start: about {calls:,} to {most:,} results in all, where "
        f"a new run takes about {calls:,} and asks nothing again that is answered already"
    ]


def changes_of(store: Store, run_id: str) -> tuple[Change, ...]:
    """The changes of a run, oldest first."""
    events = [event["detail"] for event in store.events(run_id) if event["status"] == CHANGED]
    return tuple(Change(**detail) for detail in events)


def _notes(kind: Kind, plan: Plan, spending: Spending) -> tuple[str, ...]:
    notes = []
    if spending.calls:
        notes.append(
            f"continuing run {plan.run_id}: {spending.calls:,} answers are kept, none is asked again"
        )
    if plan.history:
        many = len(plan.history) > 1
        runs = f"{len(plan.history)} earlier runs" if many else "an earlier run"
        helps = "help" if many else "helps"
        notes.append(
            f"history: {runs} on the same data {helps} to choose questions (--no-history to do without)"
        )
    return (*notes, *kind.notes(plan))


# -- what the store can say of a run ----------------------------------------------------------------------------------


def item_from(row: Mapping[str, Any]) -> Item:
    """An item as the store keeps it."""
    values = dict(row) | {"answers": tuple(row["answers"]), "choices": tuple(row["choices"])}
    values["input"] = row["input"] if isinstance(row["input"], str) else tuple(row["input"])
    return Item(**values)


def stored_items(plan: Plan, store: Store) -> tuple[Item, ...]:
    """The items of a run, as they were when it began."""
    items = tuple(item_from(row) for row in store.items(plan.data_hash))
    if content_hash(items) != plan.data_hash:
        raise StoreError(f"the items of run {plan.run_id} in the store were changed; start a new run")
    return items


def reopened(run: Run, store: Store) -> Start:
    """A run as the store has it, to be read: nothing is written."""
    plan = Plan.from_dict(run.plan)
    return start(plan, stored_items(plan, store), store, reading=True)


def newest_certificate(begun: Start, store: Store) -> Mapping[str, Any] | None:
    """The newest certificate of a run, or that of what its log has come to since; None for kinds without."""
    if not begun.kind.format:
        return None
    issued, count = store.certificates(begun.plan.run_id), begun.session.n_evaluated
    stated = issued[-1]["result"] if issued else {}
    if issued and stated.get("n_evaluated", stated.get("calls")) == begun.session.result().n_evaluated:
        return issued[-1]
    return begun.certificate(begun.session.result()) if count else None


def evidence(certificate: Mapping[str, Any], store: Store) -> Stored:
    """What the store has of the run that a certificate names."""
    run = store.run(str(certificate.get("run_id", "")))
    plan = Plan.from_dict(run.plan)
    items = tuple(item_from(row) for row in store.items(plan.data_hash))
    return Stored(
        plan=run.plan,
        log=kind_of(plan).kept(certificate, plan, reader(store)),
        changes=tuple(change.as_dict() for change in changes_of(store, run.run_id)),
        known=known_items(plan, items, store),
        data_hash=content_hash(items),
    )
