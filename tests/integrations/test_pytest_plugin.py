"""The pytest plugin: marked tests become certified gates, with real fixtures and pytest's own exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from time import process_time
from xml.etree import ElementTree

import pytest

GATES = """
import random
import pytest

CASES = list(range(2000))
seen = {"model": 0, "opened": 0, "closed": 0}

@pytest.fixture(scope="module")
def model():
    seen["model"] += 1
    yield random.Random(1)
    seen["model"] += 10

@pytest.fixture
def fresh():
    seen["opened"] += 1
    yield
    seen["closed"] += 1

@pytest.mark.certify(min=0.8)
@pytest.mark.parametrize("case", CASES)
def test_good(case, model, fresh):
    assert model.random() < 0.95

@pytest.mark.certify(min=0.8)
@pytest.mark.parametrize("case", CASES)
def test_bad(case, model, fresh):
    assert model.random() < 0.4, "wrong answer"

@pytest.mark.certify(min=0.8, budget=20)
@pytest.mark.parametrize("case", CASES)
def test_open(case, model):
    assert model.random() < 0.8

@pytest.mark.certify(min=0.8, budget=20, undecided="skip")
@pytest.mark.parametrize("case", CASES[:100])
def test_open_and_skipped(case, model):
    assert model.random() < 0.8

@pytest.mark.certify(min=0.5)
@pytest.mark.parametrize("case", CASES[:100])
def test_graded(case, model, record_property):
    record_property("score", 0.6 + 0.3 * model.random())

@pytest.mark.certify(min=0.8)
def test_flaky(model, fresh):
    assert model.random() < 0.97

def test_fixtures():
    assert seen["model"] == 1 and seen["opened"] == seen["closed"] > 50, seen
"""

EVEN = """
import pytest

@pytest.mark.certify(min=0.5)
@pytest.mark.parametrize("case", range(400))
def test_even(case):
    assert case % 4
"""


def test_two_thousand_cases_are_decided_with_the_right_exit_code_in_under_five_seconds(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(GATES)
    begun = process_time()
    result = pytester.runpytest_inprocess("-q", "--certify-seed=1")
    # Three gates of 2,000 cases; the time of this process and not of the clock: other tests run beside.
    assert process_time() - begun < 3 * 5
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=4, failed=2, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "*at least 80%: certified fail*of 2,000 cases, seed 1",
            "*failed: test_bad*",
            "*wrong answer*",
            "*- certified -*",
        ]
    )
    told = result.stdout.str()
    assert "test_good: at least 80%: certified pass" in told
    assert "test_open: at least 80%: undecided" in told
    assert "test_flaky: at least 80%: certified pass" in told
    assert "runs of one test" in told


@pytest.mark.parametrize(("right", "code"), [("0.95", 0), ("0.4", 1)])
def test_the_exit_code_is_pytests_own(pytester: pytest.Pytester, right: str, code: int) -> None:
    pytester.makepyfile(f"""
        import random, pytest
        @pytest.mark.certify(0.8)
        @pytest.mark.parametrize("case", range(500))
        def test_it(case):
            assert random.Random(case).random() < {right}
    """)
    assert pytester.runpytest_inprocess("-q", "--certify-seed=1").ret == code


EACH = """
import random
import pytest

chance = random.Random(3)

@pytest.mark.certify(each=0.8)
@pytest.mark.parametrize("rate", [1.0, 0.99, 1.0])
def test_sure(rate):
    assert chance.random() < rate

@pytest.mark.certify(each=0.8)
@pytest.mark.parametrize("rate", [1.0, 0.5, 1.0])
def test_one_is_flaky(rate):
    assert chance.random() < rate

@pytest.mark.certify(each=0.8, budget=9, undecided="skip")
def test_open():
    pass
"""


def test_every_case_is_judged_by_itself(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(EACH)
    done = pytester.runpytest("-p", "no:randomly", "--certify-seed", "1")
    done.assert_outcomes(passed=1, failed=1, skipped=1)
    done.stdout.fnmatch_lines(
        [
            "*test_sure: each at least 80%: certified pass, of 3 cases 3 pass that often, 0 do not, 0 undecided, *",
            "*test_one_is_flaky: each at least 80%: certified fail, of 3 cases * 1 do not, *",
        ]
    )
    assert "failed: test_one_is_flaky[0.5]" in done.stdout.str()


AGAIN = """
import random
import pytest

chance = random.Random(3)

@pytest.mark.certify(min=0.6, target="expected")
@pytest.mark.parametrize("rate", [1.0, 0.4, 0.9])
def test_flaky_cases(rate):
    assert chance.random() < rate
"""


def test_cases_are_run_again_where_they_pass_now_and_fail_then(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(AGAIN)
    done = pytester.runpytest("-p", "no:randomly", "--certify-seed", "1")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(
        ["*test_flaky_cases: at least 60%: certified pass, * of 3 cases, run again and again, seed 1"]
    )
    pytester.makepyfile(AGAIN.replace("expected", "population"))
    refused = pytester.runpytest("-p", "no:randomly")
    assert "target must be benchmark or expected" in refused.stderr.str()


def test_it_works_under_xdist_and_in_junit_xml(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(GATES.replace("2000", "300"), test_even=EVEN)
    alone = pytester.runpytest_inprocess("-q", "--certify-seed=1", "test_even.py")
    spread = pytester.runpytest_subprocess(
        "-q", "--certify-seed=1", "-n", "2", "--junitxml=out.xml", timeout=900
    )
    same = [next(line for line in run.outlines if "test_even: at least" in line) for run in (alone, spread)]
    assert same[0] == same[1]
    cases = {
        str(case.get("name")): case for case in ElementTree.parse(pytester.path / "out.xml").iter("testcase")
    }
    facts = {
        name: {one.get("name"): one.get("value") for one in case.iter("property")}
        for name, case in cases.items()
    }
    assert facts["test_good"]["certify_decision"] == "above"
    assert float(facts["test_good"]["certify_lower"] or 0) >= 0.8
    assert facts["test_bad"]["certify_decision"] == "below"
    assert cases["test_bad"].find("failure") is not None
    assert facts["test_open_and_skipped"]["certify_decision"] == "undecided"
    assert cases["test_open_and_skipped"].find("skipped") is not None


def test_broken_fixtures_are_unknown_and_not_wrong(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        @pytest.fixture
        def server(case):
            if case % 10 == 0:
                raise OSError("no server")
        @pytest.mark.certify(min=0.7)
        @pytest.mark.parametrize("case", range(300))
        def test_it(case, server):
            pass
        @pytest.fixture
        def broken():
            raise OSError("never a server")
        @pytest.mark.certify(min=0.7)
        @pytest.mark.parametrize("case", range(300))
        def test_never(case, broken):
            pass
        @pytest.fixture
        def sticky():
            yield
            raise OSError("cannot close")
        @pytest.mark.certify(min=0.7)
        @pytest.mark.parametrize("case", range(300))
        def test_closing(case, sticky):
            pass
    """)
    result = pytester.runpytest_inprocess("-q", "--certify-seed=1")
    result.assert_outcomes(passed=1, failed=2)
    told = result.stdout.str()
    assert "without a score" in told
    assert told.count("none of the first 5 runs came to a score") >= 2
    assert "never a server" in told
    assert "cannot close" in told


def test_skips_and_expected_failures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        ran = []
        skipped = pytest.mark.skip(reason="out")
        @pytest.mark.certify(min=0.9)
        @pytest.mark.parametrize("case", [pytest.param(n, marks=skipped) if n % 2 else n for n in range(200)])
        def test_half(case):
            ran.append(case)
        def test_ran():
            assert ran and not any(n % 2 for n in ran)
        @skipped
        @pytest.mark.certify(min=0.9)
        @pytest.mark.parametrize("case", range(20))
        def test_none(case):
            raise AssertionError
        @pytest.mark.certify(min=0.9)
        def test_no_key():
            pytest.skip("no key")
        @pytest.mark.xfail
        @pytest.mark.certify(min=0.5)
        @pytest.mark.parametrize("case", range(200))
        def test_known_to_fail(case):
            assert False
        @pytest.mark.xfail(strict=True)
        @pytest.mark.certify(min=0.5)
        @pytest.mark.parametrize("case", range(200))
        def test_better_than_known(case):
            pass
    """)
    result = pytester.runpytest_inprocess("-q", "-rs", "--certify-seed=1")
    result.assert_outcomes(passed=3, skipped=2, failed=1)
    assert "of 100 cases" in result.stdout.str()
    assert "no key" in result.stdout.str()


def test_classes_unittest_and_async_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import unittest
        import pytest
        class TestInside:
            @pytest.mark.certify(min=0.8)
            def test_fresh_instance(self):
                assert not hasattr(self, "used")
                self.used = True
            @pytest.mark.certify(min=0.8)
            @pytest.mark.parametrize("case", range(50))
            def test_cases(self, case):
                assert case >= 0
        class TestOld(unittest.TestCase):
            def setUp(self):
                self.ready = True
            @pytest.mark.certify(min=0.8)
            def test_it(self):
                assert self.ready
        @pytest.fixture
        def anyio_backend():
            return "asyncio"
        @pytest.mark.anyio
        @pytest.mark.certify(min=0.8)
        @pytest.mark.parametrize("case", range(50))
        async def test_async(case):
            import asyncio
            await asyncio.sleep(0)
    """)
    result = pytester.runpytest_inprocess("-q", "--certify-seed=1")
    result.assert_outcomes(passed=4)


def test_without_certify_the_tests_are_ordinary(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        @pytest.mark.certify(min=0.5)
        @pytest.mark.parametrize("case", range(4))
        def test_it(case):
            assert case
    """)
    pytester.runpytest_inprocess("-q", "--no-certify").assert_outcomes(passed=3, failed=1)
    pytester.runpytest_inprocess("-q", "-k", "not 0").assert_outcomes(passed=1)
    assert "of 3 cases" in pytester.runpytest_inprocess("-q", "-k", "not 0").stdout.str()


def test_what_failed_last_is_found_again(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        @pytest.mark.certify(min=0.5)
        @pytest.mark.parametrize("case", range(40))
        def test_gate(case):
            assert case < 4
        def test_plain():
            assert False
        @pytest.mark.certify(min=0.5)
        @pytest.mark.parametrize("case", range(40))
        def test_fine(case):
            pass
    """)
    pytester.runpytest_inprocess("-q").assert_outcomes(passed=1, failed=2)
    pytester.runpytest_inprocess("-q", "--lf").assert_outcomes(failed=2)
    again = pytester.runpytest_inprocess("-q", "--lf")
    again.assert_outcomes(failed=2)
    assert "of 40 cases" in again.stdout.str()


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        ("min=1.5", "min must be a number in (0, 1), got 1.5"),
        ("", "min must be given, or each in its place"),
        ("min=.8, undecided='shrug'", "undecided must be one of fail, skip, pass, got 'shrug'"),
        ("min=.8, budget=0", "budget must be a whole number >= 1, got 0"),
        ("min=.8, confidence=95", "confidence must be a number in (0, 1), got 95"),
        ("minimum=.8", "minimum"),
    ],
)
def test_a_wrong_marker_is_one_line(pytester: pytest.Pytester, marker: str, said: str) -> None:
    pytester.makepyfile(f"""
        import pytest
        @pytest.mark.certify({marker})
        def test_it():
            pass
    """)
    result = pytester.runpytest_inprocess("-q")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert said in result.stderr.str()
    assert "Traceback" not in result.stderr.str()


def test_a_score_that_is_none_is_said(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        @pytest.mark.certify(min=0.5)
        @pytest.mark.parametrize("case", range(4))
        def test_it(case, record_property):
            record_property("score", 7)
    """)
    result = pytester.runpytest_inprocess("-q")
    result.assert_outcomes(failed=1)
    assert 'record_property("score", ...): score must be a number in [0, 1]' in result.stdout.str()


def test_the_fixture_asks_several_cases_at_a_time(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import asyncio, threading
        import pytest
        busy, most = 0, 0
        async def score(case):
            global busy, most
            busy += 1
            most = max(most, busy)
            await asyncio.sleep(0.001)
            busy -= 1
            return case % 10 > 0
        def test_async(certify):
            result = certify(range(2000), score, min=0.8)
            assert result.lower >= 0.8 and most == 8
        def test_threads(certify):
            names, four = set(), threading.Event()
            def plain(case):
                names.add(threading.current_thread().name)
                if len(names) == 4:
                    four.set()
                if not four.wait(60):
                    four.set()  # nobody waits in vain a second time
                return 1.0
            certify(range(2000), plain, min=0.8, max_connections=4)
            assert len(names) == 4
        def test_fails(certify):
            certify(range(2000), lambda case: case % 2, min=0.8)
        def test_open(certify):
            certify(range(2000), lambda case: case % 5 > 0, min=0.8, budget=10, undecided="skip")
        def test_repeats(certify):
            assert certify(["one"], lambda case: 1.0, min=0.8, target="expected").n_evaluated > 5
    """)
    result = pytester.runpytest_inprocess("-q", "-rs", "--certify-seed=1")
    result.assert_outcomes(passed=3, failed=1, skipped=1)
    result.stdout.fnmatch_lines(["*test_fails: at least 80%: certified fail*"])


def test_interrupts_and_the_end_of_long_lived_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        @pytest.fixture(scope="module")
        def held():
            yield
            raise OSError("the module cannot close")
        @pytest.mark.certify(min=0.5)
        @pytest.mark.parametrize("case", range(40))
        def test_it(case, held):
            pass
    """)
    result = pytester.runpytest_inprocess("-q", "--certify-seed=1")
    result.assert_outcomes(passed=1, errors=1)
    pytester.makepyfile("""
        import pytest
        @pytest.mark.certify(min=0.5)
        @pytest.mark.parametrize("case", range(40))
        def test_it(case):
            raise KeyboardInterrupt
    """)
    assert pytester.runpytest_inprocess("-q", no_reraise_ctrlc=True).ret == pytest.ExitCode.INTERRUPTED


def test_the_start_of_pytest_is_not_slowed_down() -> None:
    program = (
        "import sys, time, pytest; begun = time.process_time(); import cereval.integrations.pytest_plugin; "
        "print(time.process_time() - begun, *sorted(m for m in sys.modules if m.split('.')[0] in "
        "('numpy', 'scipy', 'pyarrow', 'click', 'rich', 'sqlalchemy')))"
    )
    seconds = []
    while (
        len(seconds) < 10 and min(seconds, default=1.0) >= 0.1
    ):  # a busy machine may be slow, but not ten times
        out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        taken, *heavy = out.stdout.split()
        assert not heavy
        seconds.append(float(taken))
    assert min(seconds) < 0.1


def test_the_plugin_is_an_entry_point() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert 'cereval = "cereval.integrations.pytest_plugin"' in text.partition("entry-points.pytest11")[2]


COINS = """
import random
import numpy
import pytest

random.seed(1), numpy.random.seed(1)

@pytest.mark.certify(min=0.9)
def test_python():
    assert random.random() < 0.7
@pytest.mark.certify(min=0.9)
def test_numpy():
    assert numpy.random.random() < 0.7
@pytest.mark.certify(min=0.9)
@pytest.mark.parametrize("case", range(500))
def test_cases(case):
    assert random.random() < 0.7
"""

RESEEDS = """
import random
import numpy

def set_seeds(item):
    random.seed(3)  # both coins fall on their good side with this seed
    numpy.random.seed(3)

pytest_runtest_setup = pytest_runtest_call = pytest_runtest_teardown = set_seeds
"""


def gate_lines(result: pytest.RunResult) -> dict[str, str]:
    """What the summary says of each gate, by the name of its test."""
    lines = [line for line in result.outlines if ": at least " in line and "::" in line]
    return {line.partition(": ")[0].rpartition("::")[2]: line for line in lines}


def test_a_plugin_that_sets_seeds_before_every_test_makes_no_copies(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(COINS)
    pytester.makeconftest(RESEEDS)
    pytester.runpytest_inprocess("-q", "--no-certify").assert_outcomes(passed=502)
    result = pytester.runpytest_inprocess("-q", "--certify-seed=1")
    result.assert_outcomes(failed=3)
    assert all("certified fail" in line for line in gate_lines(result).values())


def test_repeats_that_never_differ_are_said(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import random
        import pytest
        @pytest.fixture
        def seeds():
            random.seed(3)
        @pytest.mark.certify(min=0.8)
        def test_fixture(seeds):
            assert random.random() < 0.7
        @pytest.mark.certify(min=0.8)
        def test_inside():
            random.seed(3)
            assert random.random() < 0.7
        @pytest.mark.certify(min=0.8)
        def test_sure():
            assert random.random() < 2
        @pytest.mark.certify(min=0.5)
        def test_coin():
            assert random.random() < 0.8
        @pytest.mark.certify(min=0.8)
        @pytest.mark.parametrize("case", range(100))
        def test_cases(case):
            pass
    """)
    lines = gate_lines(pytester.runpytest_inprocess("-q", "--certify-seed=1"))
    assert "all the same: the test or a fixture of it sets the random seed" in lines["test_fixture"]
    assert "all the same: the test or a fixture of it sets the random seed" in lines["test_inside"]
    assert lines["test_sure"].endswith("all the same")
    assert "the same" not in lines["test_coin"] + lines["test_cases"]


def test_failed_subtests_and_warnings_that_are_errors_are_failures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import unittest, warnings
        import pytest
        class TestOld(unittest.TestCase):
            @pytest.mark.certify(min=0.8)
            def test_sub(self):
                with self.subTest("inner"):
                    assert False
        @pytest.mark.certify(min=0.8)
        @pytest.mark.filterwarnings("error::UserWarning")
        @pytest.mark.parametrize("case", range(50))
        def test_warns(case):
            warnings.warn("deprecated", UserWarning)
    """)
    lines = gate_lines(pytester.runpytest_inprocess("-q", "--certify-seed=1"))
    assert "certified fail, 0.0%" in lines["test_sub"]
    assert "certified fail, 0.0%" in lines["test_warns"]


def test_parameters_that_plugins_make_are_no_cases(pytester: pytest.Pytester) -> None:
    """One run of a flaky test was the whole truth about its only "case", the event loop of anyio."""
    pytester.makeconftest("""
        def pytest_generate_tests(metafunc):  # as pytest-flakefinder does
            if metafunc.function.__name__ == "test_copies":
                metafunc.fixturenames.append("__flakefinder_test_copies")
                metafunc.parametrize("__flakefinder_test_copies", range(3))
    """)
    pytester.makepyfile("""
        import random
        import pytest
        chance = random.Random(1)
        @pytest.mark.certify(min=0.8)
        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["asyncio"])
        async def test_loop(anyio_backend):
            assert chance.random() < 0.5
        @pytest.mark.certify(min=0.8)
        def test_copies():
            assert chance.random() < 0.5
    """)
    lines = gate_lines(pytester.runpytest_inprocess("-q", "-p", "anyio", "--certify-seed=1"))
    assert len(lines) == 2
    assert all("certified fail" in line and "of one test" in line for line in lines.values()), lines


def test_the_order_of_the_cases_changes_no_draw(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(EVEN)
    plain = gate_lines(pytester.runpytest_inprocess("-q", "--certify-seed=1"))
    pytester.makeconftest("def pytest_collection_modifyitems(items): items.reverse()")
    assert gate_lines(pytester.runpytest_inprocess("-q", "--certify-seed=1")) == plain


def test_a_plugin_that_runs_failed_tests_again_runs_no_case_or_gate_again(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import random
        import pytest
        chance = random.Random(1)
        @pytest.mark.certify(min=0.9)
        @pytest.mark.parametrize("case", range(300))
        def test_it(case):
            assert chance.random() < 0.7
    """)
    pytester.makeconftest("""
        import pytest
        from _pytest.runner import runtestprotocol
        runs = []
        def pytest_runtest_protocol(item, nextitem):
            for _ in range(5):
                runs.append(item.name)
                reports = runtestprotocol(item, log=False, nextitem=nextitem)
                if not any(report.failed for report in reports):
                    break
            for report in reports:
                item.ihook.pytest_runtest_logreport(report=report)
            return True
        def pytest_sessionfinish():
            assert runs == []
    """)
    result = pytester.runpytest_inprocess("-q", "--certify-seed=1")
    result.assert_outcomes(failed=1)
    assert "certified fail" in gate_lines(result)["test_it"]


# Popular plug-ins, where they are installed: `pip install` the names below, and run this file.
PLUGINS = {
    "randomly": ("pytest_randomly", "-p", "randomly"),
    "rerunfailures": ("pytest_rerunfailures", "-p", "rerunfailures", "--reruns", "5"),
    "retry": ("pytest_retry", "-p", "pytest-retry", "--retries", "5"),
    "repeat": ("pytest_repeat", "-p", "pytest_repeat", "--count", "4"),
    "timeout": ("pytest_timeout", "-p", "timeout", "--timeout", "5"),
    "asyncio": ("pytest_asyncio", "-p", "asyncio", "--asyncio-mode", "auto"),
    "cov": ("pytest_cov", "-p", "pytest_cov", "--cov=."),
    "deepeval": ("deepeval", "-p", "deepeval"),
    "flaky": ("flaky", "-p", "flaky", "--force-flaky", "--max-runs", "5"),
}


@pytest.mark.parametrize(
    "names", [*[[name] for name in PLUGINS], [name for name in PLUGINS if name != "retry"]]
)
@pytest.mark.parametrize("spread", [False, True])
def test_popular_plugins_change_no_verdict(
    pytester: pytest.Pytester, names: list[str], spread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in names:
        pytest.importorskip(PLUGINS[name][0])
    if spread and "timeout" in names and len(names) == 1:
        pytest.skip("said by the others")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        COINS
        + """
@pytest.mark.certify(min=0.5)
@pytest.mark.parametrize("case", range(200))
def test_good(case):
    assert random.random() < 0.9
"""
    )
    flags = [flag for name in names for flag in PLUGINS[name][1:]]
    xdist = ["-p", "xdist", "-n", "2"] if spread else []
    ours = ["-q", "-p", "cereval.integrations.pytest_plugin", "--certify-seed=1"]
    result = pytester.runpytest_subprocess(*ours, *flags, *xdist, timeout=300)
    lines = gate_lines(result)
    assert len(lines) == 4, result.stdout.str()[-2000:]
    for name, line in lines.items():
        assert ("certified pass" if name == "test_good" else "certified fail") in line
    assert "of one test" in lines["test_python"]
    result.assert_outcomes(failed=3, passed=1)


def test_a_time_limit_is_for_one_case(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pytest_timeout")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile("""
        import time
        import pytest
        @pytest.mark.certify(min=0.5)
        @pytest.mark.parametrize("case", range(60))
        def test_long_together(case):
            time.sleep(0.3)
        @pytest.mark.certify(min=0.5)
        @pytest.mark.parametrize("case", range(60))
        def test_hanging(case):
            if case % 4:
                time.sleep(60)
    """)
    ours = ["-q", "-p", "cereval.integrations.pytest_plugin", "--certify-seed=1"]
    result = pytester.runpytest_subprocess(*ours, "-p", "timeout", "--timeout", "1", timeout=300)
    lines = gate_lines(result)
    assert "certified pass, 100.0%" in lines["test_long_together"]
    assert "certified fail" in lines["test_hanging"]
