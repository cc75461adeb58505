"""Inspect: unedited tasks are certified, whatever comes late, fails, is retried, killed or scored again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import zipfile
from math import fsum
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="needs cereval[inspect]")

from inspect_ai import Epochs, Task, eval_set, score
from inspect_ai import eval as inspect_eval
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log
from inspect_ai.scorer import exact, includes
from tests.integrations.tasks_of_users import answering, quiz
from tests.planted import plant

from cereval.certificate.verify import verify
from cereval.cli.main import main
from cereval.errors import BadFile, CerevalError, InvalidInput, Misuse
from cereval.integrations.inspect import certificate_of, certify
from cereval.integrations.inspect.logs import departures_of
from cereval.integrations.inspect.registry import certified
from cereval.integrations.inspect.source import seed_of
from cereval.integrations.question import Question, retold

N = 150
USER = Path(__file__).parent / "tasks_of_users.py"


def right(number: int, share: float = 0.8, epoch: int = 1) -> bool:
    """Tell whether the model of the tasks knows a question."""
    return random.Random(f"question {number}/{epoch}").random() < share


TRUTH = fsum(right(i) for i in range(N)) / N


@pytest.fixture
def run(tmp_path: Path) -> Any:
    def carried_out(task: Any, **options: Any) -> Any:
        quiet = {"display": "none", "log_realtime": False, "score_display": False, "log_buffer": 1000}
        where = {"model": "mockllm/model", "log_dir": str(tmp_path / "logs")}
        (log,) = inspect_eval(task, **{**quiet, **where, **options})
        return log

    return carried_out


def figures(log: Any) -> dict[str, float]:
    return {name: metric.value for name, metric in log.results.scores[0].metrics.items()}


def test_an_unedited_task_is_certified_and_its_log_verifies(
    run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    log = run(certify(quiz(n=N), eps=0.1, seed=1))
    found, certificate = figures(log), certificate_of(log)
    assert list(found)[:5] == ["certified", "certified_lower", "certified_upper", "asked", "of"]
    assert found["certified_lower"] <= TRUTH <= found["certified_upper"]
    assert found["asked"] < 80
    assert found["of"] == N
    assert log.results.headline.metric == "certified"
    assert {"accuracy", "stderr"} <= set(found)
    assert certificate["result"]["lower"] == found["certified_lower"]
    assert certificate["plan"]["candidates"][0]["model"] == "mockllm/model"
    assert log.metadata["cereval_headline"] in capsys.readouterr().err
    assert certificate_of(log.location) == certificate
    assert main(["verify", log.location]) == 0
    assert "every sample of the log" in capsys.readouterr().out
    assert len(log.samples) <= found["asked"] + 20


def test_wrong_answers_that_come_late_change_nothing(run: Any) -> None:
    quick = run(certify(quiz(n=N), eps=0.15, seed=3))
    late = run(certify(quiz(n=N, slow=0.3), eps=0.15, seed=3), max_samples=25)
    assert certificate_of(late)["log"] == certificate_of(quick)["log"]
    assert figures(late)["certified_upper"] == figures(quick)["certified_upper"]


def test_a_data_set_that_is_shuffled_when_it_is_loaded_gives_the_same_draws(run: Any) -> None:
    asked = [
        {(sample.id, sample.metadata["cereval"]["draw"]) for sample in log.samples}
        for log in (run(certify(quiz(n=N, shuffle=twice), eps=0.15, seed=3)) for twice in (False, True))
    ]
    assert asked[0] == asked[1]
    unnamed = run(certify(quiz(n=N, shuffle=True, ids=False), eps=0.15, seed=3))
    assert all(len(str(sample.id)) == 16 for sample in unnamed.samples)


def test_samples_are_run_again_where_answers_are_fresh(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    log = run(certify(quiz(n=20), eps=0.12, seed=1, target="expected"))
    certificate = certificate_of(log)
    asked = [entry["item"] for entry in certificate["log"]]
    assert certificate["plan"]["target"] == "expected"
    assert len(set(asked)) <= 20 < len(asked)
    assert len({sample.id for sample in log.samples}) == len(log.samples) >= len(asked)
    assert not departures_of(log.location, certificate)
    assert main(["verify", log.location]) == 0
    assert "warning" not in capsys.readouterr().err


def test_what_is_certified_goes_by_the_temperature(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    targets, warned = [], []
    for temperature in (None, 0.0, 1.0):
        certificate = certificate_of(run(certify(quiz(n=N), eps=0.2, seed=1), temperature=temperature))
        targets.append(certificate["plan"]["target"])
        warned.append("about the answers given now" in capsys.readouterr().err)
        assert certificate["plan"]["candidates"][0]["settings"]["temperature"] == temperature
    assert targets == ["benchmark", "benchmark", "expected"]
    assert warned == [True, False, False]
    with pytest.raises(InvalidInput, match="target"):
        certify(quiz(n=N), eps=0.1, target="population")


def test_epochs_of_the_command_line_are_one_result(run: Any) -> None:
    log = run(certify(quiz(n=N, judge="graded"), eps=0.12, seed=1), epochs=2)
    tosses = [[right(i, epoch=epoch) for epoch in (1, 2)] for i in range(N)]
    truth = fsum(fsum(1.0 if one else 0.25 for one in pair) / 2 for pair in tosses) / N
    found = figures(log)
    assert found["certified_lower"] <= truth <= found["certified_upper"]
    assert certificate_of(log)["plan"]["target"] == "expected"
    assert 0.625 in {entry["score"] for entry in certificate_of(log)["log"]}
    assert not departures_of(log.location, certificate_of(log))
    refused = run(certify(quiz(n=N), eps=0.1), epochs=Epochs(2, ["mean", "max"]))
    assert "one --epochs-reducer" in refused.error.message


def test_the_log_is_written_as_often_as_for_a_fixed_data_set(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from inspect_ai._eval.task.log import TaskLogger

    kept, asked = TaskLogger.buffer_config, []

    def noted(self: Any, log_buffer: int | None = None, log_shared: int | None = None) -> Any:
        asked.append(log_buffer)
        return kept(self, log_buffer, log_shared)

    monkeypatch.setattr(TaskLogger, "buffer_config", noted)
    run(certify(quiz(n=N), eps=0.2, seed=1), limit=12, log_buffer=None)
    run(certify(quiz(n=N), eps=0.2, seed=1), limit=12, log_buffer=2)  # somebody's own choice stands
    assert asked == [4]


def test_limit_is_a_budget(run: Any) -> None:
    log = run(certify(quiz(n=N), eps=0.02, seed=1), limit=30)
    result = certificate_of(log)["result"]
    assert (result["n_evaluated"], result["stopped"], len(log.samples)) == (30, "budget", 30)
    assert verify(certificate_of(log)).valid


def test_thresholds_tasks_and_parts_of_scores(run: Any) -> None:
    passed = run(certify(quiz(n=N), at_least=0.6, seed=1))
    assert certificate_of(passed)["result"]["decision"] == "above"
    tasks = run(certify(quiz(n=N), by="category", eps=0.2, seed=1))
    assert set(certificate_of(tasks)["result"]["tasks"]) == {"a", "b", "c"}
    assert set(figures(tasks)) == {"certified", "certified_lower", "certified_upper", "asked", "of"}
    part = run(certify(quiz(n=N, judge="parts"), value="right", eps=0.15, seed=1))
    assert figures(part)["certified_lower"] <= TRUTH <= figures(part)["certified_upper"]
    assert [row.name for row in part.results.scores] == ["parts", "right", "polite"]
    for log in (passed, tasks, part):
        assert main(["verify", log.location]) == 0


def test_past_logs_are_history_and_the_models_own_are_not(run: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "logs")
    past = run(quiz(n=N, right=0.85), model="mockllm/past")
    own = run(quiz(n=N), limit=20)
    (tmp_path / "logs" / "2020-01-01T00-00-00-00-00_broken_x.eval").write_text("no log")
    log = run(certify(quiz(n=N), eps=0.12, seed=1, history=folder))
    certificate = certificate_of(log)
    assert certificate["plan"]["history"] == {past.eval.eval_id: N}
    assert own.eval.eval_id not in certificate["plan"]["history"]
    assert figures(log)["certified_lower"] <= TRUTH <= figures(log)["certified_upper"]
    assert "accuracy" not in figures(log)  # a plain mean over unequal draws would be wrong
    assert main(["verify", log.location]) == 0
    again = score(read_eval_log(log.location), includes(), action="overwrite", display="none")
    assert figures(again) == figures(log)
    with pytest.raises(BadFile, match="nowhere does not exist"):
        certify(quiz(n=N), history="nowhere")


def test_samples_that_fail_count_as_unknown_unless_they_are_retried(run: Any) -> None:
    failing = run(certify(quiz(n=N, breaks=0.15), eps=0.15, seed=1), fail_on_error=False)
    retried = run(certify(quiz(n=N, breaks=0.15), eps=0.15, seed=1), retry_on_error=5)
    assert certificate_of(failing)["result"]["failures"] > 0
    assert certificate_of(retried)["result"]["failures"] == 0
    for log in (failing, retried):
        assert figures(log)["certified_lower"] <= TRUTH <= figures(log)["certified_upper"]
        assert main(["verify", log.location]) == 0
    assert certificate_of(retried)["log"] == certificate_of(run(certify(quiz(n=N), eps=0.15, seed=1)))["log"]


def test_scoring_again_recomputes_and_the_old_certificate_is_told_apart(run: Any, tmp_path: Path) -> None:
    from inspect_ai.log import write_eval_log

    log = run(certify(quiz(n=N), eps=0.15, seed=1))
    same = score(read_eval_log(log.location), includes(), action="overwrite", display="none")
    assert figures(same) == pytest.approx(figures(log))
    other = score(read_eval_log(log.location), exact(), action="overwrite", display="none")
    other.samples[0].scores = {"exact": other.samples[0].scores["exact"]}
    write_eval_log(other, str(tmp_path / "other.eval"))
    assert main(["verify", str(tmp_path / "other.eval")]) == 2
    changed = read_eval_log(log.location)
    draw = next(one for one in changed.samples if one.metadata["cereval"]["draw"] == 0)
    draw.scores["includes"].value = "I" if draw.scores["includes"].value == "C" else "C"
    write_eval_log(changed, str(tmp_path / "changed.eval"))
    assert departures_of(tmp_path / "changed.eval", certificate_of(log))[0].startswith("draw 0: ")


def test_files_that_are_no_logs_get_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], run: Any
) -> None:
    junk = tmp_path / "junk.eval"
    junk.write_bytes(b"PK\x03\x04" + b"\0" * 100)
    assert main(["verify", str(junk)]) == 2
    assert main(["verify", str(tmp_path / "none.eval")]) == 1
    bomb = tmp_path / "bomb.eval"
    with (
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("header.json", "w") as part,
    ):
        for _ in range(300):
            part.write(b" " * 2**20)
    assert main(["verify", str(bomb)]) == 2
    plain = run(quiz(n=5))
    assert main(["verify", plain.location]) == 2
    said = capsys.readouterr()
    assert "cannot be read as a log of Inspect" in said.out
    assert "has no certificate" in said.out
    assert "unpacks to 314,572,800 bytes" in said.out
    assert "does not exist" in said.err


def test_samples_that_no_certified_run_wrote_get_one_line(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from inspect_ai.log import write_eval_log

    log = run(certify(quiz(n=20), eps=0.4, seed=1))
    whole = Path(log.location).read_bytes()
    path, place = tmp_path / "changed.eval", whole.rindex(b"PK\x01\x02")
    path.write_bytes(whole[:place] + b"?" + whole[place + 1 :])
    assert main(["verify", str(path)]) == 2

    def without_item(log: Any) -> None:
        del log.samples[0].metadata["cereval"]["item"]

    def draw_without_end(log: Any) -> None:
        log.samples[0].metadata["cereval"]["draw"] = 1e400

    def another_reducer(log: Any) -> None:
        log.eval.config.epochs_reducer = ["nothing"]

    def escape_sequence(log: Any) -> None:
        first = min(
            log.samples, key=lambda one: (one.scores["includes"].value, one.metadata["cereval"]["draw"])
        )
        first.scores["includes"].value = "\x1b[31mC"

    for change in (without_item, draw_without_end, another_reducer, escape_sequence):
        changed = read_eval_log(log.location)
        change(changed)
        write_eval_log(changed, str(path))
        capsys.readouterr()
        assert main(["verify", str(path)]) == 2, change.__name__
        said = capsys.readouterr()
        assert said.out.startswith("invalid: "), change.__name__
        assert "\x1b" not in said.out + said.err
        assert said.err == ""


def test_what_makes_no_sense_is_refused(run: Any, tmp_path: Path) -> None:
    picked = run(certify(quiz(n=N), eps=0.1), sample_id="q3")
    assert picked.status == "error"
    assert "--sample-id leaves samples out" in picked.error.message
    for log in inspect_eval(
        certify(quiz(n=N), eps=0.2),
        model=["mockllm/a", "mockllm/b"],
        display="none",
        log_dir=str(tmp_path / "two"),
    ):
        assert log.status == "error"
        assert "call certify() once for each model" in log.error.message
    with pytest.raises(InvalidInput, match="at_least must be left out where eps is given"):
        certify(quiz(n=N), eps=0.1, at_least=0.5)
    with pytest.raises(InvalidInput, match="eps must be a number in"):
        certify(quiz(n=N), eps=2)
    with pytest.raises(InvalidInput, match="scorer must be one of includes"):
        certify(quiz(n=N), scorer="magic")
    with pytest.raises(InvalidInput, match="by must be a field of every sample"):
        certify(quiz(n=N), by="colour")
    with pytest.raises(Misuse, match="has no scorer"):
        certify(Task(dataset=[Sample(input="a")]))
    with pytest.raises(Misuse, match="draws its own samples"):
        certify(certify(quiz(n=N)))
    with pytest.raises(InvalidInput, match="the id 1 twice"):
        certify(Task(dataset=[Sample(input="a", id=1), Sample(input="b", id="1")], scorer=includes()))
    with pytest.raises(PrerequisiteError, match="confidence must be"):
        certified(task=f"{USER}@quiz", cereval_confidence=3)


def test_scores_outside_the_unit_interval_are_refused(run: Any) -> None:
    from inspect_ai.scorer import Score, mean, scorer

    @scorer(metrics=[mean()])
    def huge() -> Any:
        async def judge(state: Any, target: Any) -> Score:  # noqa: ARG001
            return Score(value=7.0)

        return judge

    data = [Sample(input=str(i)) for i in range(9)]
    log = run(certify(Task(dataset=data, solver=answering(1, 0, 0), scorer=huge()), eps=0.1))
    assert "score must be a number in [0, 1], got 7.0" in log.error.message


@pytest.mark.parametrize(
    ("judge", "value", "said"),
    [
        ("parts", None, r"parts gives several scores \(right, polite\): name one with value="),
        ("parts", "rihgt", "value must be a score of parts: right, polite, got 'rihgt'"),
    ],
)
def test_scores_with_declared_parts_are_refused_before_a_sample_is_run(
    judge: str, value: str | None, said: str
) -> None:
    with pytest.raises(CerevalError, match=said):
        certify(quiz(n=N, judge=judge), value=value)


@pytest.mark.parametrize(
    ("judge", "value", "said"),
    [
        ("undeclared", None, "undeclared gives several scores (strict, loose): name one with value="),
        ("undeclared", "stirct", "undeclared has no 'stirct': did you mean 'strict'?"),
        ("letters", None, "letters gives 'A', which is no number"),
        ("listing", None, "listing gives [1, 0], which is no number"),
        ("includes", "strict", "includes gives one score: leave value=strict out"),
    ],
)
def test_scores_that_are_not_one_number_end_the_run_at_the_first(
    run: Any, judge: str, value: str | None, said: str
) -> None:
    log = run(certify(quiz(n=N, judge=judge), eps=0.1, value=value), max_samples=4)
    assert log.status == "error"
    assert said in log.error.message
    assert len(log.samples) <= 4
    assert "cereval_certificate" not in log.metadata


def test_undeclared_parts_are_certified_by_name(run: Any) -> None:
    log = run(certify(quiz(n=40, judge="undeclared"), eps=0.1, value="loose"))
    assert figures(log)["certified_lower"] <= 0.85 <= figures(log)["certified_upper"]
    assert log.metadata["cereval_headline"].startswith("undeclared.loose: ")


def test_one_score_among_many_that_is_no_number_counts_as_unknown(run: Any) -> None:
    from inspect_ai.scorer import Score, accuracy, scorer

    @scorer(metrics=[accuracy()])
    def sometimes() -> Any:
        async def judge(state: Any, target: Any) -> Score:  # noqa: ARG001
            return Score(value="?" if state.sample_id == "q7" else "C")

        return judge

    task = quiz(n=60)
    task.scorer = [sometimes()]
    result = certificate_of(run(certify(task, eps=0.02, seed=1)))["result"]
    assert result["failures"] == 1
    assert result["lower"] <= 59 / 60 <= result["upper"]


@pytest.mark.parametrize("how", ["silent", "broken"])
def test_a_judge_that_gives_no_grades_ends_the_run_after_a_few_samples(run: Any, how: str) -> None:
    broken = quiz(n=N, judge="silent") if how == "silent" else quiz(n=N, breaks=1)
    log = run(certify(broken, eps=0.1), fail_on_error=False, max_samples=4)
    assert log.status == "error"
    why = "silent gave no score" if how == "silent" else "flaky tool"
    assert "none of the first 5 draws came to a score: " in log.error.message
    assert why in log.error.message
    assert len(log.samples) <= 10
    assert "cereval_certificate" not in log.metadata
    few = run(certify(quiz(n=N, judge="silent"), eps=0.1), limit=3)
    assert "none of the first 3 draws came to a score" in few.error.message


def test_a_metric_that_is_no_mean_must_be_named(run: Any) -> None:
    with pytest.raises(Misuse, match="counted's metric failures is not the mean of its scores"):
        certify(quiz(n=N, judge="counted"))
    with pytest.raises(Misuse, match="counted's metric failures is not the mean"):
        certify(quiz(n=N, judge="counted"), metric="failures")
    with pytest.raises(InvalidInput, match="metric must be one of failures, mean, grouped, got 'average'"):
        certify(quiz(n=N, judge="counted"), metric="average")
    for name in ("mean", "grouped"):
        found = figures(run(certify(quiz(n=N, judge="counted"), eps=0.15, metric=name, seed=1)))
        assert found["certified_lower"] <= TRUTH <= found["certified_upper"]


def test_a_metric_that_turns_out_to_be_no_mean_ends_the_run(run: Any) -> None:
    """It leaves samples out by what only real scores have, so that made-up ones cannot tell."""
    log = run(certify(quiz(n=N, judge="refusing"), eps=0.1, seed=1), max_samples=4)
    assert log.status == "error"
    assert "refusing's metric of_answered is not the mean of its scores" in log.error.message
    assert len(log.samples) <= 20
    assert "cereval_certificate" not in log.metadata
    named = figures(run(certify(quiz(n=N, judge="refusing"), eps=0.15, metric="mean", seed=1)))
    assert named["certified_lower"] <= TRUTH <= named["certified_upper"]


def test_a_metric_of_all_epochs_is_no_mean_of_their_maxima(run: Any) -> None:
    best = run(certify(quiz(n=N, judge="by_epoch"), eps=0.15, seed=1), epochs=Epochs(3, "max"))
    assert "by_epoch's metric of_epochs is not the mean of its scores" in best.error.message
    assert run(certify(quiz(n=N, judge="by_epoch"), eps=0.15, seed=1), epochs=3).status == "success"


def test_arguments_of_the_task_get_through_and_ours_have_a_prefix(run: Any) -> None:
    same = f"{USER}@same_names"
    task = certified(task=same, eps=0.2, seed=7, scorer="graded", cereval_seed=5, cereval_scorer="graded")
    assert task.metadata["arrived"] == [7, "graded", 0.5, "none"]
    assert certificate_of(run(task))["plan"]["seed"] == 5
    whole = certified(cereval_task=same, cereval_eps=0.2, task="theirs", eps=0.25)
    assert whole.metadata["arrived"] == [0, "includes", 0.25, "theirs"]
    assert whole.metadata["cereval"]["goal"]["eps"] == 0.2
    quiz_of_user = f"{USER}@quiz"
    with pytest.raises(
        PrerequisiteError, match="has no argument at_least; cereval's own are written -T cereval_at_least="
    ):
        certified(task=quiz_of_user, at_least=0.8)
    with pytest.raises(PrerequisiteError, match="has no argument at_lesat"):
        certified(task=quiz_of_user, at_lesat=0.8)
    with pytest.raises(PrerequisiteError, match="no such option; did you mean 'at_least'"):
        certified(task=quiz_of_user, cereval_atleast=0.8)
    with pytest.raises(PrerequisiteError, match="task must be given: -T task="):
        certified(eps=0.1)


def test_an_eval_set_of_two_models_runs_each_once(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "task_args": {"task": f"{USER}@quiz", "eps": 0.2, "n": N},
        "model": ["mockllm/a", "mockllm/b"],
        "log_dir": str(tmp_path / "set"),
        "display": "none",
    }
    done, logs = eval_set("cereval/certified", **options)
    assert done
    assert {log.eval.model for log in logs} == {"mockllm/a", "mockllm/b"}
    seeds = {certificate_of(log.location)["plan"]["seed"] for log in logs}
    assert seeds == {seed_of(log.eval.task_id) for log in logs}
    before = sorted((tmp_path / "set").iterdir())
    assert eval_set("cereval/certified", **options)[0]
    assert sorted((tmp_path / "set").iterdir()) == before


def test_killed_and_retried_it_ends_where_it_would_have_ended(tmp_path: Path) -> None:
    """Nor does a file of the folder stand in for a module, as in tests/cli/test_surroundings.py."""
    planted = plant(tmp_path)
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "user.py").write_text(USER.read_text(encoding="utf-8"), encoding="utf-8")
    inspect = [str(Path(sys.executable).parent / "inspect")]
    common = ["--display", "none", "--log-dir", "logs"]
    asked = [
        "-T",
        "task=evals/user.py@quiz",
        "-T",
        "eps=0.1",
        "-T",
        "n=300",
        "-T",
        "slow=1.5",
        "-T",
        "cereval_history=logs",
    ]
    (tmp_path / "logs").mkdir()
    limits = ["--max-samples", "4", "--log-buffer", "1"]
    first = subprocess.Popen(
        [*inspect, "eval", "cereval/certified", *asked, "--model", "mockllm/model", *limits, *common],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    log = _when_samples_are_in(tmp_path / "logs", 8)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert read_eval_log(str(log), header_only=True).status == "started"
    later = [*inspect, "eval-retry", str(log.relative_to(tmp_path)), "--max-samples", "64", *common]
    subprocess.run(later, cwd=tmp_path, check=True, capture_output=True, timeout=600)
    (retried,) = [one for one in (tmp_path / "logs").iterdir() if one != log]
    certificate = certificate_of(retried)
    assert certificate["plan"]["seed"] == seed_of(read_eval_log(str(log), header_only=True).eval.task_id)
    assert certificate["result"] == _uninterrupted(certificate, retried)
    assert main(["verify", str(retried)]) == 0
    assert not planted.exists()


def _when_samples_are_in(folder: Path, count: int) -> Path:
    for _ in range(12000):
        time.sleep(0.05)
        for log in folder.glob("*.eval"):
            try:
                names = zipfile.ZipFile(log).namelist()
            except zipfile.BadZipFile:
                continue
            if sum(name.startswith("samples/") for name in names) >= count:
                return log
    raise AssertionError("the run did not write its samples")


def _uninterrupted(certificate: dict[str, Any], log: Path) -> Any:
    """The result of the same question with every answer at hand: the scores belong to the samples."""
    asked = Question.from_dict({**certificate, "side_information": certificate["side_information"]})
    numbers = {
        one.metadata["cereval"]["item"]: right(int(str(one.id)[1:]))
        for one in read_eval_log(str(log)).samples or []
    }
    while not asked.session.done:
        for draw in asked.session.ask(1):
            asked.session.tell(draw, float(numbers[draw.item]))
    return asked.result.as_dict()


def test_a_release_that_lacks_a_name_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(USER.read_text(encoding="utf-8"), encoding="utf-8")
    program = """
import inspect_ai._eval.loader as loader
del loader.load_tasks
from cereval.integrations.inspect.registry import certified  # what every run of Inspect imports still works
certified(task="user.py@quiz")
"""
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert (
        "is not laid out as cereval expects (cannot import name 'load_tasks'" in ended.stderr.splitlines()[-1]
    )
    assert "install a newer cereval, or inspect-ai 0.3.278" in ended.stderr.splitlines()[-1]


def test_a_retry_on_other_data_is_refused(tmp_path: Path) -> None:
    """Inspect takes the samples of the first attempt by their ids."""
    from inspect_ai import eval_retry

    def write(target: str) -> None:
        rows = [{"id": f"q{n}", "input": f"question {n}", "target": target} for n in range(60)]
        (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")

    (tmp_path / "user.py").write_text(
        USER.read_text(encoding="utf-8")
        + f"""

@task
def filed() -> Task:
    from inspect_ai.dataset import json_dataset
    data = json_dataset({str(tmp_path / "data.jsonl")!r})
    return Task(dataset=data, solver=answering(0.8, 0.2, 0), scorer=includes())
""",
        encoding="utf-8",
    )
    where = {"log_dir": str(tmp_path / "logs"), "display": "none"}
    for target, said in (("yes", None), ("no", "asks something else: begin anew")):
        write("yes")
        task = certified(task=f"{tmp_path / 'user.py'}@filed", eps=0.2, cereval_seed=1)
        (log,) = inspect_eval(task, model="mockllm/model", max_samples=1, **where)
        assert log.status == "error"  # the flaky tool
        assert sum(one.error is None for one in log.samples) >= 3
        write(target)
        retried = eval_retry(log, retry_on_error=5, **where)[0]
        assert (retried.status == "success") is (said is None)
        assert said is None or said in retried.error.message
        assert ("cereval_certificate" in retried.metadata) is (said is None)


def test_scores_that_are_left_out_end_the_run(run: Any) -> None:
    log = run(certify(quiz(n=N), eps=0.1), score=False, max_samples=4)
    assert "includes gave no score" in log.error.message
    assert len(log.samples) <= 10


def test_a_replay_stops_where_other_scores_would_have_drawn_elsewhere() -> None:
    from cereval.integrations.question import Subject, Wish, question

    asked = question(Wish(eps=0.1, seed=4), Subject("m", "d", [str(i) for i in range(50)], {"name": "s"}))
    draws = asked.session.ask(5)
    told = {draw.index: (draw.item, 1.0) for draw in draws}
    told[3] = (draws[4].item, 1.0)
    fresh = Question.from_dict(asked.as_dict())
    retold(fresh.session, told)
    assert fresh.session.n_evaluated == 3
