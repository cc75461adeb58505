"""`cereval export --format`: what a run certifies, for other tools, model cards and pull requests."""

from __future__ import annotations

import hashlib
import json
import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

import cereval
from cereval.cli.main import main
from cereval.integrations.exports import escaped
from cereval.integrations.logs import import_logs

QUESTIONS = [{"question": f"{n} + 1 =", "answer": str(n + 1), "category": "xy"[n % 2]} for n in range(200)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A store with one run of every kind that matters here: their ids by kind, and the store's URL."""
    url = f"sqlite:///{tmp_path_factory.mktemp('store') / 'runs.db'}"
    mean = cereval.evaluate(QUESTIONS, model="scripted/0.8", eps=0.15, store=url, seed=1)
    tasks = cereval.tasks(QUESTIONS, model="scripted/0.8", goal=cereval.Macro(0.2), store=url, seed=1)
    both = ["scripted/0.3", "scripted/0.9"]
    pair = cereval.compare(QUESTIONS, *both, store=url, seed=1)
    return {"url": url, "mean": mean.run_id, "tasks": tasks.run_id, "pair": pair.run_id}


def exported(store: dict[str, str], kind: str, path: Path, *flags: str) -> str:
    command = ["export", store[kind], "--store", store["url"], "-o", str(path), *flags]
    assert main(command) == 0, command
    return path.read_text(encoding="utf-8")


def test_every_eval_ever_has_the_certified_interval(store: dict[str, str], tmp_path: Path) -> None:
    flags = ("--format", "every-eval-ever", "--organization", "us")
    record = json.loads(exported(store, "mean", tmp_path / "e.json", *flags))
    (result,) = record["evaluation_results"]
    interval = result["score_details"]["uncertainty"]["confidence_interval"]
    assert record["schema_version"] == "0.3.0"
    assert record["source_metadata"]["source_organization_name"] == "us"
    assert interval["lower"] <= result["score_details"]["score"] <= interval["upper"]
    assert interval["confidence_level"] == 0.95
    assert "anytime" in interval["method"]
    asked = result["score_details"]["uncertainty"]["num_samples"]
    assert isinstance(asked, int)
    assert 0 < asked < 200
    # The same run is the same record.
    (tmp_path / "again").mkdir()
    assert json.loads(exported(store, "mean", tmp_path / "again" / "e.json", *flags)) == record


@pytest.mark.parametrize("kind", ["mean", "tasks"])
def test_every_eval_ever_has_its_samples_beside_it(store: dict[str, str], tmp_path: Path, kind: str) -> None:
    path = tmp_path / "e_samples.jsonl"
    record = json.loads(exported(store, kind, tmp_path / "e.json", "--format", "every-eval-ever"))
    about, rows = (
        record["detailed_evaluation_results"],
        [json.loads(line) for line in path.read_text().splitlines()],
    )
    assert about["checksum"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (about["file_path"], about["total_rows"]) == (path.name, len(rows))
    assert len(rows) == cereval.load(store[kind], store["url"]).n_evaluated
    results = {one["evaluation_result_id"]: one["evaluation_name"] for one in record["evaluation_results"]}
    assert all(results[row["evaluation_result_id"]] == row["evaluation_name"] for row in rows)
    assert {row["evaluation_id"] for row in rows} == {record["evaluation_id"]}
    # They come back in as they were written: by their texts, with their scores.
    read = import_logs([path])
    expected = {row["input"]["raw"]: row["evaluation"]["score"] for row in rows}
    (scores,) = read.scores.models.values()
    assert dict(zip(read.texts, map(float, scores), strict=True)) == expected
    assert list(read.scores.models) == ["scripted/0.8"]


def test_every_eval_ever_has_every_task(store: dict[str, str], tmp_path: Path) -> None:
    record = json.loads(exported(store, "tasks", tmp_path / "e.json", "--format", "every-eval-ever"))
    names = [one["evaluation_result_id"].rpartition("/")[2] for one in record["evaluation_results"]]
    assert names == ["all", "x", "y"]


@pytest.mark.parametrize("kind", ["mean", "tasks"])
def test_every_eval_ever_fits_its_published_schema(store: dict[str, str], tmp_path: Path, kind: str) -> None:
    package = pytest.importorskip("every_eval_ever", reason="every-eval-ever (Python >= 3.12) has the schema")
    import jsonschema

    schema = Path(package.__file__).parent / "schemas" / "eval.schema.json"
    record = json.loads(exported(store, kind, tmp_path / "e.json", "--format", "every-eval-ever"))
    jsonschema.validate(record, json.loads(schema.read_text(encoding="utf-8")))
    of_samples = json.loads(schema.with_name("instance_level_eval.schema.json").read_text(encoding="utf-8"))
    for line in (tmp_path / "e_samples.jsonl").read_text(encoding="utf-8").splitlines():
        jsonschema.validate(json.loads(line), of_samples)


def test_hugging_face_entries(store: dict[str, str], tmp_path: Path) -> None:
    flags = ("--format", "hf", "--dataset", "org/sums:easy", "--url", "https://example.org/c.json")
    (entry,) = yaml.safe_load(exported(store, "mean", tmp_path / "sums.yaml", *flags))
    assert entry["dataset"] == {"id": "org/sums", "task_id": "easy"}
    assert 60 < entry["value"] < 100
    assert "95% confidence" in entry["notes"]
    assert entry["source"]["url"] == "https://example.org/c.json"
    tasks = yaml.safe_load(
        exported(store, "tasks", tmp_path / "t.yaml", "--format", "hf", "--dataset", "org/sums")
    )
    assert [one["dataset"]["task_id"] for one in tasks] == ["x", "y"]


def test_the_hub_reads_what_is_written_for_it(store: dict[str, str], tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub reads .eval_results")
    if not hasattr(hub, "parse_eval_result_entries"):
        pytest.skip("this huggingface_hub does not read .eval_results")
    entries = yaml.safe_load(
        exported(store, "mean", tmp_path / "s.yaml", "--format", "hf", "--dataset", "org/sums")
    )
    (read,) = hub.parse_eval_result_entries(entries)
    assert (read.dataset_id, read.task_id) == ("org/sums", "default")


def test_markdown_is_a_headline_and_a_table(store: dict[str, str], tmp_path: Path) -> None:
    lines = exported(store, "mean", tmp_path / "m.md", "--format", "markdown").splitlines()
    assert lines[0].startswith("**")
    assert "95% confidence" in lines[0]
    assert lines[2] == "| model | data | score | certified interval | confidence | asked |"
    assert lines[4].count("|") == 7
    assert "certificate" in lines[6]
    assert "task" in exported(store, "tasks", tmp_path / "t.md", "--format", "markdown")
    pair = exported(store, "pair", tmp_path / "p.md", "--format", "markdown")
    assert "is better than" in pair
    assert "| models | difference | certified interval |" in pair
    assert len([line for line in pair.splitlines() if line.startswith("|")]) == 3


def test_names_cannot_become_markup() -> None:
    assert escaped("a|b\n<script> @all ![x](y) `c`") == (
        "a\\|b &lt;script&gt; &#64;all \\!\\[x\\](y) \\`c\\`"
    )


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["mean", "--format", "hf", "-o", "x.yaml"], "--dataset must be ORG/NAME"),
        (["mean", "--format", "hf", "-o", "x.yaml", "--dataset", "name"], "--dataset must be ORG/NAME"),
        (
            ["pair", "--format", "hf", "-o", "x.yaml", "--dataset", "a/b"],
            "RUN must be a run that certifies scores",
        ),
        (["pair", "--format", "every-eval-ever", "-o", "x.json"], "no place for comparisons"),
        (["mean", "--format", "markdown"], "-o must be given: a file"),
        (["mean", "--format", "mlflow", "-o", "x"], "-o must be left out"),
        (["mean", "--format", "csv", "-o", "x.jsonl"], "-o must be a file that ends in .csv"),
        (["mean", "--url", "u", "-o", "x.jsonl"], "--url must be given with --format hf or markdown"),
        (["mean"], "-o must be answers.jsonl, .csv or .parquet"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    store: dict[str, str],
    flags: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", store[flags[0]], "--store", store["url"], *flags[1:]]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_answers_are_written_as_before(store: dict[str, str], tmp_path: Path) -> None:
    rows = exported(store, "mean", tmp_path / "a.jsonl").splitlines()
    assert exported(store, "mean", tmp_path / "b.jsonl", "--format", "jsonl").splitlines() == rows
    assert json.loads(rows[0])["model"] == "scripted/0.8"


def test_mlflow_gets_metrics_and_the_certificate(
    store: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logged: dict[str, Any] = {}
    fake = ModuleType("mlflow")

    @contextmanager
    def start_run(run_name: str) -> Any:
        logged["name"] = run_name
        yield SimpleNamespace(info=SimpleNamespace(run_id="r1"))

    vars(fake).update(
        start_run=start_run,
        log_params=lambda values: logged.update(params=values),
        log_metrics=lambda values: logged.update(metrics=values),
        set_tags=lambda values: logged.update(tags=values),
        log_dict=lambda values, name: logged.update({name: values}),
    )
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    assert main(["export", store["tasks"], "--store", store["url"], "--format", "mlflow"]) == 0
    assert "logged mlflow run r1" in capsys.readouterr().out
    assert {"estimate", "lower", "upper", "x/lower", "y/upper"} <= set(logged["metrics"])
    assert logged["certificate.json"]["digest"] == logged["tags"]["cereval.digest"]


def test_wandb_gets_a_summary_and_the_certificate(
    store: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary: dict[str, Any] = {}
    saved: list[str] = []

    @contextmanager
    def init(**about: Any) -> Any:
        summary.update(about["config"])
        yield SimpleNamespace(
            id="w1", dir=str(tmp_path), summary=summary, save=lambda path, **_: saved.append(path)
        )

    fake = ModuleType("wandb")
    vars(fake)["init"] = init
    monkeypatch.setitem(sys.modules, "wandb", fake)
    assert main(["export", store["mean"], "--store", store["url"], "--format", "wandb"]) == 0
    assert "logged wandb run w1" in capsys.readouterr().out
    assert summary["lower"] <= summary["estimate"] <= summary["upper"]
    assert json.loads(Path(saved[0]).read_text(encoding="utf-8"))["digest"] == summary["digest"]


def test_junit_is_a_test_that_fails_unless_the_goal_is_certified(
    store: dict[str, str], tmp_path: Path
) -> None:
    from xml.etree import ElementTree

    def gate(minimum: float, *flags: str) -> tuple[int, Any]:
        path, data = tmp_path / "out.xml", tmp_path / "data.jsonl"
        data.write_text("\n".join(map(json.dumps, QUESTIONS)), encoding="utf-8")
        found = cereval.evaluate(
            QUESTIONS,
            model="scripted/0.8",
            goal=cereval.Threshold(minimum),
            store=store["url"],
            seed=1,
            **dict(flags),
        )
        assert (
            main(["export", found.run_id, "--store", store["url"], "-o", str(path), "--format", "junit"]) == 0
        )
        (case,) = ElementTree.parse(path).iter("testcase")
        return found.exit_code, case

    for minimum, kind in ((0.5, None), (0.95, "certified fail")):
        _, case = gate(minimum)
        failure = case.find("failure")
        assert (None if failure is None else failure.get("type")) == kind
    _, open_case = gate(0.8, ("max_calls", 5))
    assert open_case.find("failure").get("type") == "undecided"
    facts = {one.get("name"): one.get("value") for one in open_case.iter("property")}
    assert float(facts["lower"]) <= float(facts["estimate"]) <= float(facts["upper"])
    assert "95% confidence" in facts["answer"]
    pair = ElementTree.fromstring(exported(store, "pair", tmp_path / "p.xml", "--format", "junit"))
    assert pair.get("failures") == "0"
    assert "is better than" in next(
        one.get("value") for one in pair.iter("property") if one.get("name") == "answer"
    )


def test_opentelemetry_gets_an_event_for_every_mean(
    store: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = pytest.importorskip("opentelemetry._logs")
    emitted: list[Any] = []
    provider = SimpleNamespace(get_logger=lambda _: SimpleNamespace(emit=emitted.append))
    monkeypatch.setattr(logs, "get_logger_provider", lambda: provider)
    assert main(["export", store["tasks"], "--store", store["url"], "--format", "otel"]) == 0
    assert "logged 3 events gen_ai.evaluation.result" in capsys.readouterr().out
    assert {one.event_name for one in emitted} == {"gen_ai.evaluation.result"}
    assert [one.attributes["gen_ai.evaluation.name"].rpartition(": ")[2] for one in emitted][1:] == ["x", "y"]
    for one in emitted:
        value = one.attributes["gen_ai.evaluation.score.value"]
        assert one.attributes["cereval.lower"] <= value <= one.attributes["cereval.upper"]


def test_a_service_that_is_not_installed_is_named(
    store: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    assert main(["export", store["mean"], "--store", store["url"], "--format", "mlflow"]) == 1
    assert "pip install 'cereval[mlflow]'" in capsys.readouterr().err


def test_what_a_service_refuses_is_one_line(
    store: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(**_: Any) -> None:
        raise OSError("no route to the server")

    fake = ModuleType("wandb")
    vars(fake)["init"] = refuse
    monkeypatch.setitem(sys.modules, "wandb", fake)
    assert main(["export", store["mean"], "--store", store["url"], "--format", "wandb"]) == 1
    assert capsys.readouterr().err == "error: wandb refused: OSError: 'no route to the server'\n"
