"""Turn a parametrised or flaky test into one certified gate: `@pytest.mark.certify(min=0.8)`.

Loaded at the start of everybody's pytest, whichever version: nothing is imported here but pytest's public names; the
statistics, and what is private, come with the first marked test. A gate stands for all parameters of its test: it
draws them one by one, runs each with its real fixtures, and ends as soon as its question is decided.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cereval.questions.each.session import EachResult, EachSession
    from cereval.questions.mean.session import Session
    from cereval.records import Result

REMEMBERED = pytest.StashKey[list[Any]]()
"""Names that `--lf` was told for the time of the collection."""

LINE = "certify"
"""The property of a report that holds the answer in one line."""

RUNS_OF_ONE_TEST = 1000
"""The budget of a test without parameters, which can be repeated for ever."""

COPY, BACKEND = "__", "anyio_backend"
"""Parameters that plug-ins make, and no cases: copies of a test (pytest-repeat, flakefinder), event loops."""

DRAWN = pytest.StashKey[list[pytest.TestReport]]()
"""The reports of a case that a gate runs now."""

SAME = ", all the same"
COPIES = SAME + ": the test or a fixture of it sets the random seed, so that every run repeats the first"
"""What is said of repeats of one test that never differed."""

MOST_NAMED = 5
UNDECIDED = ("fail", "skip", "pass")
MARKER = (
    "certify(min, confidence=0.95, budget=None, undecided='fail', each=None, target='benchmark'): pass "
    "when the mean over all parameters (without parameters: the pass rate of the test itself) is proven to be at least "
    "min, fail when it is proven to be less; certify(each=0.9): pass when every case by itself, run again, is "
    "proven to pass that often"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cereval", "certified tests (cereval)")
    group.addoption("--no-certify", action="store_true", help="Run marked tests as ordinary tests.")
    group.addoption(
        "--certify-seed", type=int, metavar="N", help="Decides the draws; for repeats.  [default: drawn]"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[REMEMBERED] = []
    config.addinivalue_line("markers", MARKER)


@dataclass(frozen=True, slots=True)
class Rule:
    min: float | None = None
    confidence: float = 0.95
    budget: int | None = None
    undecided: str = "fail"
    each: float | None = None
    target: str = "benchmark"

    def __post_init__(self) -> None:
        from cereval.errors import InvalidInput
        from cereval.questions.goals import checked_confidence, in_open_unit_interval
        from cereval.questions.session import whole

        if (self.min is None) == (self.each is None):
            raise InvalidInput("min", "given, or each in its place", None if self.min is None else "both")
        in_open_unit_interval("min" if self.each is None else "each", self.asked)
        checked_confidence(self.confidence)
        if self.budget is not None:
            whole("budget", self.budget, 1)
        if self.undecided not in UNDECIDED:
            raise InvalidInput("undecided", "one of " + ", ".join(UNDECIDED), self.undecided)
        if self.target not in ("benchmark", "expected"):
            raise InvalidInput("target", "benchmark or expected", self.target)

    @property
    def asked(self) -> float:
        """The share of passes to reach: of all cases together, or of each."""
        return float(self.min or self.each or 0.0)

    def verdict(self, result: Result | EachResult) -> str:
        """Return `pass`, `fail` or, where nothing was proven, what the rule makes of that."""
        proven = {"above": "pass", "all-pass": "pass", "below": "fail", "some-fail": "fail"}
        return proven.get(str(result.decision), self.undecided)


def words(rule: Rule, result: Any, note: str = "") -> str:
    from cereval.text import SIDES, interval, percent

    if rule.each is not None:
        return _words_of_each(rule.each, result) + note
    one_test = result.target == "expected" and rule.target == "benchmark"
    pool = "of one test" if one_test else f"of {result.n_items:,} cases"
    again = ", run again and again" if rule.target == "expected" else ""
    unknown = f", {result.failures:,} without a score" if result.failures else ""
    return (
        f"at least {percent(rule.asked)}: {SIDES[result.decision]}, {result.estimate:.1%} in "
        f"{interval(result.lower, result.upper)}, {percent(result.confidence)} confidence, "
        f"{result.n_evaluated:,} runs {pool}{again}{unknown}, seed {result.seed}{note}"
    )


def _words_of_each(rate: float, result: EachResult) -> str:
    from cereval.text import percent

    said = {"all-pass": "certified pass", "some-fail": "certified fail"}.get(
        str(result.decision), "undecided"
    )
    left = result.n_items - result.passing - result.failing
    return (
        f"each at least {percent(rate)}: {said}, of {result.n_items:,} cases {result.passing:,} pass that often, "
        f"{result.failing:,} do not, {left:,} undecided, {percent(result.confidence)} confidence, "
        f"{result.n_evaluated:,} runs, seed {result.seed}"
    )


def properties(rule: Rule, result: Any, note: str = "") -> list[tuple[str, object]]:
    found = ("estimate", "lower", "upper") if rule.each is None else ("passing", "failing")
    facts = {
        "decision": result.decision or "undecided",
        "min" if rule.each is None else "each": rule.asked,
        **{name: getattr(result, name) for name in found},
        "confidence": result.confidence,
        "runs": result.n_evaluated,
        "cases": result.n_items,
        "seed": result.seed,
    }
    return [(LINE, words(rule, result, note)), *((f"{LINE}_{name}", value) for name, value in facts.items())]


# -- marked tests ----------------------------------------------------------------------------------------------------


@pytest.hookimpl(hookwrapper=True, trylast=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, None]:
    """Have `--lf` find the parameters of a gate that failed: what it remembers is the gate's name, not theirs."""
    outcome = yield
    report = outcome.get_result()
    cache: Any = collector.config.pluginmanager.get_plugin("lfplugin")
    known = {str(name) for name in cache.lastfailed} if cache is not None and cache.active else set()
    for item in report.result if known else ():
        gate = f"{collector.nodeid}::{getattr(item, 'originalname', '')}"
        if gate in known and item.nodeid not in known:
            # Newer versions of pytest remember tests by objects, older ones by texts.
            key = getattr(item, "id", item.nodeid)
            cache.lastfailed[key] = True
            collector.config.stash[REMEMBERED].append(key)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put one gate in the place of all parameters of a marked test; what was deselected is not part of it."""
    if not config.getoption("--no-certify") and not config.getoption("setuponly", False):
        items[:] = _gated(items)
    cache: Any = config.pluginmanager.get_plugin("lfplugin")
    for name in config.stash[REMEMBERED]:
        cache.lastfailed.pop(name, None)


def _gated(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    gates: dict[tuple[object, str], Gate] = {}
    for item in items:
        mark = item.get_closest_marker("certify")
        if mark is None:
            yield item
            continue
        name = getattr(item, "originalname", None) or item.name
        rule, gate = _rule(item, mark), gates.get((item.parent, name))
        if gate is None:
            assert item.parent is not None
            gates[item.parent, name] = gate = Gate.from_parent(item.parent, name=name, members=[], rule=rule)
            _leave_alone(gate)
            yield gate
        if gate.rule != rule:
            raise pytest.UsageError(f"{gate.nodeid}: one rule for all parameters, got {gate.rule} and {rule}")
        _leave_alone(item)
        gate.members.append(item)


def _leave_alone(item: pytest.Item) -> None:
    """Keep other plug-ins from what is not theirs: a time limit is for one case, and a case that is retried passes."""
    plugins = item.config.pluginmanager
    if plugins.hasplugin("timeout") and isinstance(item, Gate):
        item.add_marker(pytest.mark.timeout(0), append=False)
    if plugins.hasplugin("pytest-retry"):
        item.add_marker(pytest.mark.flaky(condition=False), append=False)


def _rule(item: pytest.Item, mark: pytest.Mark) -> Rule:
    from cereval.errors import InvalidInput

    try:
        return Rule(*mark.args, **mark.kwargs)
    except (TypeError, InvalidInput) as error:
        reason = str(error).replace("Rule.__init__()", "certify()")
        raise pytest.UsageError(
            f"{item.nodeid}: {reason}; the marker is {MARKER.partition(':')[0]}"
        ) from None


class NotCertified(Exception):
    """Say that a gate was not passed, and why."""


class Gate(pytest.Item):
    """Stand for all parameters of one marked test, of which as many are run as the answer takes."""

    def __init__(self, *, members: list[pytest.Item], rule: Rule, **rest: Any) -> None:
        super().__init__(**rest)
        self.members, self.rule = members, rule
        self.failed: dict[str, pytest.TestReport] = {}
        """The first failing report of each member, in the order of the draws."""
        self.outcomes: set[float | None] = set()
        self.randomness, self.logged = Randomness(), Logged()

    def reportinfo(self) -> tuple[Any, int | None, str]:
        path, line, name = self.members[0].reportinfo()
        return path, line, name.partition("[")[0]

    def runtest(self) -> None:
        """Draw and run parameters until the question is decided; raise what that comes to."""
        pool = self._pool()
        self.config.pluginmanager.register(self.logged)
        try:
            result = self._decided(pool)
        finally:
            self.config.pluginmanager.unregister(self.logged)
        note = self._note(result)
        self.user_properties.extend(properties(self.rule, result, note))
        conclude(self.rule, result, self._failures(), note)

    def _note(self, result: Result | EachResult) -> str:
        """Say that repeats of one test never differed: perhaps there is nothing random in it."""
        if result.target != "expected" or result.n_evaluated < 2 or len(self.outcomes) > 1:
            return ""
        always = "" if self.rule.each is not None else SAME
        return COPIES if self.randomness.are_copies else always

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, NotCertified):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def _pool(self) -> list[pytest.Item]:
        """List the parameters that no marker skips, in an order that no plug-in shuffles."""
        from _pytest.skipping import evaluate_skip_marks

        cases = sorted(self.members, key=lambda item: item.nodeid)
        pool = [item for item in cases if evaluate_skip_marks(item) is None and not _is_copy(item)]
        if not pool:
            raise pytest.skip.Exception("all of its parameters are skipped", _use_item_location=True)
        return pool

    def _session(self, pool: Sequence[pytest.Item]) -> Session | EachSession:
        from cereval.questions.each.goal import EachAtLeast
        from cereval.questions.each.session import EachSession
        from cereval.questions.mean.goal import Threshold
        from cereval.questions.mean.session import Session

        confidence, seed = self.rule.confidence, self.config.getoption("--certify-seed")
        if self.rule.each is not None:
            goal = EachAtLeast(self.rule.each)
            return EachSession(
                len(pool), goal=goal, confidence=confidence, budget=self.rule.budget, seed=seed
            )
        # Without parameters there is nothing to draw from: the one test there is runs again and again.
        again = self.rule.target == "expected" or all(
            name.startswith(COPY) or name == BACKEND for name in _case(pool[0])
        )
        return Session(
            len(pool),
            goal=Threshold(self.rule.asked),
            confidence=confidence,
            seed=seed,
            target="expected" if again else "benchmark",
            budget=self.rule.budget or (RUNS_OF_ONE_TEST if again else None),
        )

    def _decided(self, pool: Sequence[pytest.Item]) -> Result | EachResult:
        from cereval.integrations import HOPELESS

        session, told, unknown = self._session(pool), 0, list[pytest.TestReport]()
        while not (session.done or self.session.shouldstop or getattr(session, "some_fail", False)):
            for draw in session.ask(1):
                score, report = self._run(pool[draw.item])
                self.outcomes.add(score)
                if score is None:
                    unknown.append(report)
                    session.fail(draw)
                else:
                    told += 1
                    session.tell(draw, score)
            if not told and (session.done or len(unknown) >= HOPELESS):
                self._give_up(unknown)
        return session.result()

    def _run(self, item: pytest.Item) -> tuple[float | None, pytest.TestReport]:
        """Run one parameter with fresh fixtures; None where it says nothing about what is tested."""
        _renew(item)
        item.stash[DRAWN] = reports = list[pytest.TestReport]()
        self.logged.reports.clear()
        with self.randomness.of(item):
            # Everything that other plug-ins do around a test, but for what would run it again.
            self._protocol(item=item, nextitem=self)
        bad = next((report for report in (*reports, *self.logged.reports) if report.failed), None)
        if bad is not None:
            self.failed.setdefault(item.name, bad)
        scores = [value for name, value in item.user_properties if name == "score"]
        return _score(reports, bad, scores, item.name), bad or reports[-2]

    @cached_property
    def _protocol(self) -> Any:
        plugins = self.config.pluginmanager
        runners = [
            one.plugin
            for one in plugins.hook.pytest_runtest_protocol.get_hookimpls()
            if not (one.hookwrapper or one.wrapper) and one.plugin is not sys.modules[__name__]
        ]
        return plugins.subset_hook_caller("pytest_runtest_protocol", runners)

    def _give_up(self, unknown: Sequence[pytest.TestReport]) -> None:
        """End a gate none of whose first runs came to a score."""
        if all(report.skipped for report in unknown):
            reason = unknown[0].longrepr
            said = reason[2] if isinstance(reason, tuple) else str(reason)
            raise pytest.skip.Exception(said.removeprefix("Skipped: "), _use_item_location=True)
        raise NotCertified(f"none of the first {len(unknown)} runs came to a score\n{self._failures()}")

    def _failures(self) -> str:
        names = list(self.failed)
        more = [f"  ... and {len(names) - MOST_NAMED:,} more"] if len(names) > MOST_NAMED else []
        texts = [self.failed[names[0]].longreprtext] if names else []
        return "\n".join([*(f"  failed: {name}" for name in names[:MOST_NAMED]), *more, *texts])


class Logged:
    """Collect what is reported while a case runs: failed subtests, which fail no report of the case."""

    def __init__(self) -> None:
        self.reports: list[pytest.TestReport] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reports.append(report)


def _case(item: pytest.Item) -> Mapping[str, Any]:
    """Return the parameters of a test by name; none where it has none."""
    return getattr(getattr(item, "callspec", None), "params", {})


def _is_copy(item: pytest.Item) -> bool:
    """Tell whether a plug-in made it of another, which is numbered 0."""
    return any(number for name, number in _case(item).items() if name.startswith(COPY))


class Randomness:
    """Keep the state of the generators that tests share from one run of a test to the next.

    Plug-ins and hooks of conftest.py set them anew before every test (pytest-randomly), so that all repeats of a test
    would be the same. What fixtures and the test itself set stays.
    """

    def __init__(self) -> None:
        self.kept = _states()
        self.ends: set[str] = set()
        self.are_copies = False
        """Whether a run used randomness and left it as an earlier one did: something inside the test sets a seed."""

    @contextmanager
    def of(self, item: pytest.Item) -> Iterator[None]:
        """Keep the state around the phases of a run in which fixtures and the test itself are run."""
        for name in ("setup", "runtest"):
            setattr(item, name, partial(self._phase, getattr(item, name)))
        option = item.config.option
        resets = getattr(option, "randomly_reset_seed", None)
        option.randomly_reset_seed = False  # for the generators that only pytest-randomly knows
        _restore(self.kept)
        _advance()  # a run that uses no randomness leaves another state than the one before
        self.kept = begun = _states()
        try:
            yield
        finally:
            option.randomly_reset_seed = resets
            for name in ("setup", "runtest"):
                item.__dict__.pop(name, None)
            used = {
                repr(end) for start, end in zip(begun, self.kept, strict=False) if repr(start) != repr(end)
            }
            self.are_copies |= bool(used) and used <= self.ends
            self.ends |= used

    def _phase(self, plain: Callable[[], None]) -> None:
        _restore(self.kept)
        try:
            plain()
        finally:
            self.kept = _states()


def _states() -> list[Any]:
    """Read the generators that a process shares: Python's own, and numpy's where it is loaded."""
    numpy = sys.modules.get("numpy")
    return [random.getstate(), *([] if numpy is None else [numpy.random.get_state(legacy=False)])]


def _restore(states: Sequence[Any]) -> None:
    random.setstate(states[0])
    for state in states[1:]:
        sys.modules["numpy"].random.set_state(state)


def _advance() -> None:
    random.random()
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.random()


def _renew(item: pytest.Item) -> None:
    """Make a test ready for another run: new fixtures, a new instance, nothing recorded."""
    if isinstance(item, pytest.Function):
        item._initrequest()
        if type(item.parent) is pytest.Class:
            for name in ("_instance", "_obj"):
                item.__dict__.pop(name, None)
    item.user_properties = []
    item._report_sections = []


def _score(
    reports: Sequence[pytest.TestReport], bad: pytest.TestReport | None, recorded: Sequence[object], name: str
) -> float | None:
    """Return the recorded score, else 1 for a pass and 0 for a failure; None where fixtures broke or it was skipped.

    Marked xfail, a failure is still one, and an unexpected pass is a pass.
    """
    from cereval.errors import InvalidInput
    from cereval.questions.session import unit_score

    call = next((report for report in reports if report.when == "call"), None)
    expected = call is not None and hasattr(call, "wasxfail")
    broken = bad in reports and bad is not call
    if call is None or broken or (call.skipped and not expected):
        return None
    if recorded:
        try:
            return unit_score(recorded[-1], allowed=f"a number in [0, 1] ({name})")
        except InvalidInput as error:
            raise NotCertified(f'record_property("score", ...): {error}') from None
    surprising = call.failed and str(call.longrepr).startswith("[XPASS(strict)]")
    return 1.0 if surprising or (bad is None and call.passed) else 0.0


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> object | None:
    """Run a gate; its setup and teardown are those of the parameters, but for the fixtures that outlive it."""
    if DRAWN in item.stash:
        from _pytest.runner import runtestprotocol

        # The gate comes next, as far as fixtures are concerned: the same module, another test.
        item.stash[DRAWN] += runtestprotocol(item, log=False, nextitem=nextitem)
        return True
    if not isinstance(item, Gate):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    stages: Sequence[tuple[Any, Callable[[], object]]] = (
        ("setup", lambda: None),
        ("call", item.runtest),
        ("teardown", lambda: item.session._setupstate.teardown_exact(_after(item, nextitem))),
    )
    for when, work in stages:
        call = pytest.CallInfo.from_call(work, when=when, reraise=(pytest.exit.Exception, KeyboardInterrupt))
        report = item.ihook.pytest_runtest_makereport(item=item, call=call)
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _after(item: pytest.Item, nextitem: pytest.Item | None) -> pytest.Item | None:
    return None if item.session.shouldfail or item.session.shouldstop else nextitem


def conclude(rule: Rule, result: Result | EachResult, failures: str = "", note: str = "") -> None:
    verdict, said = rule.verdict(result), words(rule, result, note)
    if verdict == "skip":
        raise pytest.skip.Exception(said, _use_item_location=True)
    if verdict == "fail":
        raise NotCertified("\n".join(filter(None, [said, failures])))


# -- the fixture -----------------------------------------------------------------------------------------------------


@pytest.fixture
def certify(request: pytest.FixtureRequest) -> Callable[..., Result]:
    """Certify the mean score of cases inside a test: `certify(cases, score, min=0.8)`, several calls at a time.

    score: case -> number in [0, 1], plain or async. max_connections: calls at a time (default 8). The other keywords
    are those of the marker. Fails the test unless the mean is proven to be at least `min`; returns the result.
    """

    def certified(
        cases: Iterable[Any],
        score: Callable[[Any], Any],
        min: float,
        confidence: float = 0.95,
        budget: int | None = None,
        undecided: str = "fail",
        max_connections: int = 8,
        target: str = "benchmark",
    ) -> Result:
        from cereval.questions.evaluate import evaluate_scores
        from cereval.questions.mean.goal import Threshold

        __tracebackhide__ = True
        rule = Rule(min, confidence, budget, undecided, target=target)
        result = evaluate_scores(
            cases,
            score,
            goal=Threshold(rule.asked),
            confidence=rule.confidence,
            budget=rule.budget or (RUNS_OF_ONE_TEST if rule.target == "expected" else None),
            seed=request.config.getoption("--certify-seed"),
            target=rule.target,
            max_connections=max_connections,
        )
        request.node.user_properties.extend(properties(rule, result))
        wrong = ""
        try:
            conclude(rule, result, "\n".join(f"  {note}" for note in result.notes))
        except NotCertified as error:
            wrong = str(error)
        if wrong:  # not while the error is handled: it would be shown a second time
            pytest.fail(wrong, pytrace=False)
        return result

    return certified


# -- what is shown at the end ----------------------------------------------------------------------------------------


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print one line for each gate, whichever process ran it."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    lines = [
        f"{report.nodeid}: {value}"
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, value in report.user_properties
        if name == LINE
    ]
    if lines:
        terminalreporter.section("certified", sep="-")
    for line in lines:
        terminalreporter.write_line(line)
