"""`cereval import`: logs written by Inspect 0.3.285 and lm-eval 0.4.13, the other tools' layouts, hostile files."""

from __future__ import annotations

import csv
import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from cereval.cli.main import main
from cereval.datasets.tables import read_items, read_scores
from cereval.errors import BadFile
from cereval.integrations.logs import TOOLS, import_logs, read_log
from cereval.integrations.logs.base import identity

DATA = Path(__file__).parent / "data"
LM_EVAL = DATA / "lm_eval" / "dummy"


def written(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def scores(*paths: Path, **how: Any) -> dict[str, dict[str, float]]:
    """The table as text -> model -> score, without what is missing."""
    found = import_logs(paths, **how)
    return {
        text: {model: float(of[row]) for model, of in found.scores.models.items() if of[row] == of[row]}
        for row, text in enumerate(found.texts)
    }


# -- Inspect ----------------------------------------------------------------------------------------------------------


def test_an_eval_log_is_read_without_inspect() -> None:
    log = read_log(DATA / "sums.eval")
    found = {sample.text[-20:]: sample.score for sample in log.samples}
    assert (log.tool, log.metric, log.samples[0].model) == ("Inspect", "includes", "mockllm/model")
    assert found["What is 0 + 1?"] == 1.0
    assert found["What is 2 + 1?"] == 0.0
    assert found["What is 3 + 1?"] is None  # it raised: missing, and not wrong
    # Summaries cut texts short; these two differ in their last letter only.
    assert len({sample.text for sample in log.samples}) == 8
    assert {len(sample.text) for sample in log.samples} == {14, 9001}


def test_json_logs_and_eval_logs_agree() -> None:
    old, new = read_log(DATA / "sums.json"), read_log(DATA / "sums.eval")
    assert list(old.samples) == list(new.samples)[:3]


def test_epochs_are_averaged_and_scorers_can_be_chosen() -> None:
    assert set(scores(DATA / "chat.eval")["What is 0 + 1?"]) == {"mockllm/model"}
    assert scores(DATA / "chat.eval", metric="two.b")["What is 0 + 1?"] == {"mockllm/model": 0.5}
    with pytest.raises(BadFile, match="has no metric 'three'; there are 'includes'"):
        import_logs([DATA / "chat.eval"], metric="three")


def test_samples_that_share_a_text_are_told_apart_by_the_ids_that_somebody_chose() -> None:
    assert len(import_logs([DATA / "boxes.eval"]).scores.items) == 3


def test_a_log_that_was_cut_off_by_a_crash_has_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "crashed.eval"
    one = {"id": 1, "epoch": 1, "input": "Q", "target": "A", "scores": {"match": {"value": "C"}}}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_journal/start.json", json.dumps({"eval": {"model": "m", "task": "t"}}))
        archive.writestr("_journal/summaries/1.json", json.dumps([one]))
    log = read_log(path)
    assert [sample.score for sample in log.samples] == [1.0]
    assert "did not finish" in log.notes[0]


@pytest.mark.parametrize(
    ("value", "score"),
    [
        ("C", 1),
        ("I", 0),
        ("P", 0.5),
        ("N", 0),
        (True, 1),
        ("yes", 1),
        ("0.25", 0.25),
        ("maybe", None),
        (None, None),
    ],
)
def test_inspects_values_mean_what_inspect_says(tmp_path: Path, value: object, score: float | None) -> None:
    sample = {"id": 1, "epoch": 1, "input": "Q", "target": "A", "scores": {"s": {"value": value}}}
    log = {"status": "success", "eval": {"model": "m", "task": "t"}, "samples": [sample]}
    assert read_log(written(tmp_path / "log.json", log)).samples[0].score == score


# -- the other tools --------------------------------------------------------------------------------------------------


def test_one_filter_of_lm_eval_is_read_and_its_ids_are_not_trusted() -> None:
    log = read_log(next(LM_EVAL.glob("samples_sums*")))
    assert (len(log.samples), log.metric, log.samples[0].model) == (6, "exact_match", "dummy")
    assert log.notes == ("the filter 'strict' was read, not 'loose'",)
    other = read_log(next(LM_EVAL.glob("samples_sums*")), "exact_match,loose")
    assert other.notes == ("the filter 'loose' was read, not 'strict'",)


def test_the_same_question_from_two_tools_is_one_row() -> None:
    # lm-eval met the sums in the reverse order, and its ids count from there.
    found = scores(DATA / "sums.eval", DATA / "pick.eval", LM_EVAL)
    for text in ("What is 0 + 1?", "What is 5 + 1?", "Pick for 0", "Pick for 2"):
        assert set(found[text]) == {"mockllm/model", "dummy"}, text
    assert len(found) == 6 + 2 + 3


HELM = {
    "run_spec.json": {
        "name": "mmlu:subject=law,model=org_m",
        "adapter_spec": {"model": "org/m", "method": "generation"},
    },
    "scenario_state.json": {
        "request_states": [
            {
                "instance": {"id": f"id{n + 40}", "input": {"text": f"What is {n} + 1?"}, "references": []},
                "result": {"success": n != 2},
            }
            for n in range(4)
        ]
    },
    "per_instance_stats.json": [
        {
            "instance_id": f"id{n + 40}",
            **({"perturbation": {"name": "typos"}} if copy else {}),
            "stats": [
                {"name": {"name": "num_prompt_tokens"}, "mean": 40.0},
                {"name": {"name": "exact_match"}, "mean": float(n % 2)},
            ],
        }
        for n in range(4)
        for copy in (False, True)
    ],
}


def test_helm_is_matched_by_text_and_its_perturbed_copies_are_left_out(tmp_path: Path) -> None:
    for name, value in HELM.items():
        written(tmp_path / "runs" / "law" / name, value)
    found = import_logs([tmp_path / "runs"])
    assert found.scores.models["org/m"].tolist()[:2] == [0.0, 1.0]
    assert found.scores.models["org/m"][2] != found.scores.models["org/m"][2]  # the call failed
    assert "4 perturbed copies were left out" in found.notes[0]
    assert found.tasks[0] == "mmlu:subject=law"
    assert scores(tmp_path / "runs", DATA / "sums.eval")["What is 1 + 1?"] == {
        "org/m": 1.0,
        "mockllm/model": 1.0,
    }


def promptfoo(n: int, **more: Any) -> dict[str, Any]:
    row = {
        "vars": {"question": f"What is {n} + 1?"},
        "provider": {"id": "openai:gpt-4o"},
        "score": 1,
        "success": True,
    }
    return {**row, "promptIdx": 0, "failureReason": 0, **more}


def test_an_error_of_promptfoo_is_missing_and_a_wrong_answer_is_wrong(tmp_path: Path) -> None:
    rows = [
        promptfoo(0),
        promptfoo(1, score=0, failureReason=1),
        promptfoo(2, score=0, failureReason=2, error="429"),
    ]
    path = written(tmp_path / "out.json", {"results": {"version": 3, "results": rows}})
    lines = tmp_path / "out.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for one in (path, lines):
        assert [sample.score for sample in read_log(one).samples] == [1.0, 0.0, None]
    several = [promptfoo(0), promptfoo(0, promptIdx=1, score=0)]
    two = read_log(written(tmp_path / "two.json", {"results": {"results": several}}))
    assert [sample.model for sample in two.samples] == [
        "openai:gpt-4o (prompt 0)",
        "openai:gpt-4o (prompt 1)",
    ]


def test_lighteval_details(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path / "details" / "org" / "m" / "2026-11-15T10-00-00"
    folder.mkdir(parents=True)
    path = folder / "details_sums_2026-11-15T10-00-00.parquet"
    docs = [
        {"query": f"What is {n} + 1?", "choices": [str(n + 1)], "gold_index": [0], "task_name": "sums|0"}
        for n in range(3)
    ]
    values = [{"em": 1.0}, {"em": 0.0}, {"em": None}]
    pq.write_table(pa.table({"doc": docs, "model_response": ["", "", ""], "metric": values}), path)
    log = read_log(path)
    assert [(sample.model, sample.score) for sample in log.samples] == [
        ("org/m", 1.0),
        ("org/m", 0.0),
        ("org/m", None),
    ]
    assert scores(path, DATA / "sums.eval")["What is 0 + 1?"] == {"org/m": 1.0, "mockllm/model": 1.0}


def test_alpaca_eval_preferences(tmp_path: Path) -> None:
    given = [1, 2, 1.5, 0, None, 1.25]
    rows = [
        {"instruction": f"Write {n}", "generator_1": "base", "generator_2": "m", "preference": one}
        for n, one in enumerate(given)
    ]
    log = read_log(written(tmp_path / "annotations.json", rows))
    assert [sample.score for sample in log.samples] == [0.0, 1.0, 0.5, 0.5, None, 0.25]


def test_every_tool_has_a_test_of_its_own_here() -> None:
    assert [tool.name for tool in TOOLS] == [
        "Inspect",
        "lm-eval",
        "HELM",
        "promptfoo",
        "lighteval",
        "AlpacaEval",
        "Every Eval Ever",
    ]


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_writes_tables_that_replay_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, items = tmp_path / "scores.parquet", tmp_path / "items.parquet"
    command = ["import", str(DATA), "-o", str(out), "--items-output", str(items), "--json"]
    assert main(command) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["items"] == len(read_scores(out).items) == len(read_items(items).items) == 14
    assert told["models"] == ["mockllm/model", "dummy"]
    assert "is no log of samples that is known here" in told["skipped"][0]
    assert main(["replay", str(out), "--model", "dummy", "--items", str(items), "--history", "others"]) == 0
    assert "inside the interval" in capsys.readouterr().out
    assert main(["import", str(DATA / "sums.eval"), "-o", str(tmp_path / "s.csv"), "--task", "sums"]) == 0
    assert main(["import", str(DATA / "sums.eval"), "-o", str(tmp_path / "s.csv"), "--task", "none"]) == 1
    assert "a task of the logs: sums" in capsys.readouterr().err


def test_logs_go_straight_into_replay_and_history(capsys: pytest.CaptureFixture[str]) -> None:
    sums = str(next(LM_EVAL.glob("samples_sums*")))
    command = ["replay", sums, "--model", "dummy", "--history", str(DATA / "sums.eval"), "--json"]
    assert main(command) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["n_items"] == 6
    assert any("6 samples of lm-eval" in note for note in told["notes"])
    assert any(note.startswith("history: sums.eval") for note in told["notes"])


def test_items_of_your_own_data_keep_their_ids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data.jsonl"
    rows = [{"id": f"sum-{n}", "question": f"What is {n} + 1?", "answer": str(n + 1)} for n in (5, 1, 0)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    out = tmp_path / "s.parquet"
    assert main(["import", str(DATA / "sums.eval"), "-o", str(out), "--data", str(data)]) == 0
    assert set(read_scores(out).items) == {"sum-0", "sum-1", "sum-5"}
    assert "5 samples are no item of the data" in capsys.readouterr().out


# -- speed, and files of strangers ------------------------------------------------------------------------------------


def test_ten_thousand_samples_take_less_than_twenty_seconds(tmp_path: Path) -> None:
    path = tmp_path / "samples_big_2026-11-15T10-00-00.0.jsonl"
    row = json.loads(next(LM_EVAL.glob("samples_sums*")).read_text(encoding="utf-8").splitlines()[0])
    with path.open("w", encoding="utf-8") as file:
        for n in range(10_000):
            doc = {"question": f"What is {n} + 1?", "answer": str(n + 1)}
            file.write(json.dumps({**row, "doc": doc, "doc_hash": f"{n:x}", "exact_match": n % 2}) + "\n")
    inspect = tmp_path / "big.eval"
    sample = {"epoch": 1, "target": "1", "scores": {"s": {"value": "C", "explanation": "x" * 500}}}
    with zipfile.ZipFile(inspect, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "header.json", json.dumps({"status": "success", "eval": {"model": "m", "task": "t"}})
        )
        rows = [{**sample, "id": n, "input": f"What is {n} + 1?"} for n in range(10_000)]
        archive.writestr("summaries.json", json.dumps(rows))
    begun = process_time()
    found = import_logs([path, inspect])
    assert process_time() - begun < 20
    assert len(found.scores.items) == 10_000


@cache
def hostile() -> Mapping[str, bytes]:
    whole = (DATA / "sums.eval").read_bytes()
    spoilt = bytearray(whole)
    at = zipfile.ZipFile(DATA / "sums.eval").getinfo("summaries.json").header_offset
    spoilt[at + 100 : at + 200] = b"\xff" * 100
    sample = next(LM_EVAL.glob("samples_sums*")).read_bytes()
    perplexity = sample.replace(b'"exact_match": 0.0', b'"exact_match": 12.5')
    shaped = {
        "eval": {"model": ["m"], "task": 7},
        "samples": [{"input": 3, "choices": 4, "scores": {"s": {"value": {}}}}],
    }
    return {
        "cut.eval": whole[: len(whole) // 2],
        "spoilt.eval": bytes(spoilt),
        "empty.eval": b"",
        "text.eval": b"not a zip at all",
        "cut.json": b'{"eval": {"model": "m"}, "samples": [{"id": 1',
        "deep.json": b"[" * 200_000,
        "wide.json": b"[" + b"[]," * 6_000_000 + b"[]]",
        "number.json": b"[" + b"9" * 10_000 + b"]",
        "bytes.json": b'{"a": "\xff\xfe"}',
        "shaped.json": json.dumps(shaped).encode(),
        "empty.json": b"",
        "empty.jsonl": b"",
        "cut.jsonl": sample[:-40],
        "list.jsonl": b"[1, 2]\n",
        "perplexity.jsonl": perplexity,
        "broken.parquet": b"PAR1 nothing PAR1",
        "notes.txt": b"hello",
    }


@pytest.mark.parametrize("name", sorted(hostile()))
def test_a_broken_file_is_one_clear_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(hostile()[name])
    assert main(["import", str(path), "-o", str(tmp_path / "out.csv")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert name in said
    # Beside a good one it is left out, and said.
    assert main(["import", str(path), str(DATA / "sums.eval"), "-o", str(tmp_path / "out.csv")]) == 0
    assert capsys.readouterr().err.startswith("skipped: ")
    assert len(read_scores(tmp_path / "out.csv").items) == 8


def packed(path: Path, summaries: bytes, *, zstandard: bool) -> Path:
    """Write a log whose summaries are packed as Inspect packs them (Zstandard), or as it did before."""
    import pyarrow as pa

    content = pa.compress(summaries, codec="zstd", asbytes=True) if zstandard else summaries
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED if zstandard else zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "header.json", json.dumps({"status": "success", "eval": {"model": "m", "task": "t"}})
        )
        archive.writestr("summaries.json", content)
    if zstandard:
        # Python's own writer does not know the method: it is put into the headers afterwards, with the checksum.
        raw = path.read_bytes()
        sums = (zlib.crc32(content).to_bytes(4, "little"), zlib.crc32(summaries).to_bytes(4, "little"))
        method = (93).to_bytes(2, "little")
        for mark, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
            place = raw.rindex(mark) + at
            raw = raw[:place] + method + raw[place + 2 :]
        path.write_bytes(raw.replace(*sums))
    return path


@pytest.mark.parametrize("zstandard", [True, False])
def test_a_zip_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zstandard: bool) -> None:
    monkeypatch.setattr("cereval.integrations.logs.base.JSON_LIMIT", 4 * 2**20)
    sample = {"id": 1, "epoch": 1, "input": "Q", "target": "A", "scores": {"s": {"value": "C"}}}
    good = packed(tmp_path / "good.eval", json.dumps([sample]).encode(), zstandard=zstandard)
    assert [one.score for one in read_log(good).samples] == [1.0]
    bomb = packed(tmp_path / "bomb.eval", b" " * (5 * 2**20), zstandard=zstandard)
    assert bomb.stat().st_size < 2**17
    with pytest.raises(BadFile, match="at most 4 MiB of a part"):
        read_log(bomb)


def test_all_that_is_unpacked_of_one_log_is_limited_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cereval.integrations.logs.base.DATA_LIMIT", 2**20)
    path = tmp_path / "many.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"model": "m", "task": "t"}}))
        for number in range(8):
            archive.writestr(f"_journal/summaries/{number}.json", b"[" + b" " * 2**18 + b"]")
    with pytest.raises(BadFile, match="and 1 MiB of a log"):
        read_log(path)


def test_questions_that_differ_in_their_picture_only_are_two(tmp_path: Path) -> None:
    path = tmp_path / "pictures.eval"
    summary = {"epoch": 1, "target": "a cat", "scores": {"s": {"value": "C"}}}
    shown = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "What is this?"}, {"type": "text", "text": "(Image)"}],
        }
    ]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "header.json", json.dumps({"status": "success", "eval": {"model": "m", "task": "t"}})
        )
        archive.writestr("summaries.json", json.dumps([{**summary, "id": n, "input": shown} for n in (1, 2)]))
        for n in (1, 2):
            picture = {"type": "image", "image": f"attachment://{n}"}
            whole = [{"role": "user", "content": [shown[0]["content"][0], picture]}]
            archive.writestr(f"samples/{n}_epoch_1.json", json.dumps({"id": n, "input": whole}))
    assert len(import_logs([path]).scores.items) == 2


def test_pipes_folders_and_endless_files_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.eval")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadFile, match="pipe"):
        read_log(tmp_path / "pipe.eval")
    with (tmp_path / "huge.eval").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(BadFile, match="larger than"):
        read_log(tmp_path / "huge.eval")
    with pytest.raises(BadFile, match="does not exist"):
        read_log(tmp_path / "none.eval")
    with pytest.raises(BadFile, match="no log was found"):
        import_logs([tmp_path / "empty"])


def test_hostile_texts_are_harmless(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"instruction": "\ud800 half", "generator_2": "item", "preference": 2},
        {"instruction": "\x1b[31m red", "generator_2": "\x1b[2J", "preference": float("nan")},
    ]
    path = written(tmp_path / "annotations.json", rows)
    assert main(["import", str(path), "-o", str(tmp_path / "out.parquet")]) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert set(read_scores(tmp_path / "out.parquet").models) == {"model item", "\x1b[2J"}


# -- several scores, of which one is read -----------------------------------------------------------------------------


def inspect_log(path: Path, value: Any, model: str = "m", **config: Any) -> Path:
    samples = [
        {"id": n, "epoch": 1, "input": f"Q{n}", "target": "A", "scores": {"s": {"value": value}}}
        for n in range(3)
    ]
    about = {"model": model, "task": "t", "config": config}
    return written(path, {"status": "success", "eval": about, "samples": samples})


def test_a_number_beyond_all_floats_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for value in (10**400, -(10**400)):
        path = inspect_log(tmp_path / "huge.json", value)
        assert main(["import", str(path), "-o", str(tmp_path / "out.parquet")]) == 1
        error = capsys.readouterr().err
        assert "0000... for a sample; scores lie in [0, 1]" in error
        assert error.count("\n") == 1


def test_which_of_several_scores_was_read_is_said(tmp_path: Path) -> None:
    log = inspect_log(tmp_path / "log.json", {"strict": 0, "loose": 1})
    assert import_logs([log]).notes == (
        "log.json: 3 samples of Inspect, metric s.strict (also there: s.loose)",
    )
    assert import_logs([log], metric="s.loose").notes == ("log.json: 3 samples of Inspect, metric s.loose",)
    rows = [promptfoo(n, namedScores={"right": 1, "polite": 0}) for n in range(2)]
    several = import_logs([written(tmp_path / "out.json", {"results": {"results": rows}})])
    assert several.notes == (
        "out.json: 2 samples of promptfoo, metric score (also there: right, polite, success)",
    )


def test_two_scores_of_one_task_do_not_share_a_column(tmp_path: Path) -> None:
    strict = inspect_log(tmp_path / "a.json", {"strict": 0, "loose": 1})
    loose = inspect_log(tmp_path / "b.json", {"loose": 1, "strict": 0}, model="n")
    with pytest.raises(BadFile, match=r"a.json has the score s.strict of 't', b.json has s.loose: name one"):
        import_logs([strict, loose])
    found = import_logs([strict, loose], metric="s.loose")
    assert {name: of.tolist() for name, of in found.scores.models.items()} == {"m": [1, 1, 1], "n": [1, 1, 1]}
    judged = {"instruction": "Write", "generator_2": "m", "preference": 2}
    for number, baseline in enumerate(("old", "new")):
        written(tmp_path / "judged" / f"{number}.json", [{**judged, "generator_1": baseline}])
    with pytest.raises(
        BadFile, match=r"has the score preference over old of 'alpaca_eval', 1.json has preference over"
    ):
        import_logs([tmp_path / "judged"])


@pytest.mark.parametrize("value", ["A", None, "maybe"])
def test_a_log_without_any_number_is_left_out(tmp_path: Path, value: Any) -> None:
    log = inspect_log(tmp_path / "log.json", value)
    with pytest.raises(BadFile, match="none of its 3 samples has a number as s"):
        import_logs([log])


def test_reducers_of_epochs_and_metrics_where_lower_is_better_are_said(tmp_path: Path) -> None:
    log = inspect_log(tmp_path / "log.json", 1, epochs=3, epochs_reducer=["pass_at_2"])
    assert "averaged here, and were reduced by pass_at_2 there" in import_logs([log]).notes[0]
    rows = [
        {"doc_id": n, "doc": {"question": f"q{n}"}, "arguments": {}, "metrics": ["ter"], "ter": 0.5}
        for n in range(2)
    ]
    samples = tmp_path / "lm" / "samples_t_2026-11-18T10-00-00.0.jsonl"
    samples.parent.mkdir()
    samples.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    results = {"model_name": "m", "higher_is_better": {"t": {"ter": False}}}
    written(samples.with_name("results_2026-11-18T10-00-00.0.json"), results)
    assert "lower is better for ter" in import_logs([samples]).notes[0]


def test_what_helm_counts_of_every_run_is_no_score(tmp_path: Path) -> None:
    def run(*names: str) -> Path:
        for name, value in HELM.items():
            written(tmp_path / "law" / name, value)
        stats = [
            {"instance_id": f"id{n + 40}", "stats": [{"name": {"name": name}, "mean": 0.5} for name in names]}
            for n in range(4)
        ]
        written(tmp_path / "law" / "per_instance_stats.json", stats)
        return tmp_path / "law"

    assert read_log(run("num_references", "finish_reason_stop", "safety_score")).metric == "safety_score"
    with pytest.raises(
        BadFile, match=r"which metric is the score. name one with --metric: safety_score, bleu_4"
    ):
        read_log(run("num_references", "safety_score", "bleu_4"))
    with pytest.raises(BadFile, match="nothing in it was scored"):
        read_log(run("num_references", "inference_runtime"))
    assert read_log(run("num_references"), "num_references").metric == "num_references"


def test_no_cell_of_a_csv_is_a_formula(tmp_path: Path) -> None:
    rows = [
        {"instruction": '=HYPERLINK("http://x")', "generator_2": "@model", "preference": 2, "dataset": "+1"},
        {"instruction": "-2", "generator_2": "@model", "preference": 1, "dataset": "plain"},
    ]
    path = written(tmp_path / "annotations.json", rows)
    files = ["-o", str(tmp_path / "out.csv"), "--items-output", str(tmp_path / "items.csv")]
    assert main(["import", str(path), *files]) == 0
    cells = [
        cell
        for name in ("out.csv", "items.csv")
        for row in csv.reader((tmp_path / name).read_text(encoding="utf-8").splitlines())
        for cell in row
    ]
    assert "'@model" in cells
    assert '\'=HYPERLINK("http://x")' in cells
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)
    assert main(["import", str(path), "-o", str(tmp_path / "out.parquet")]) == 0
    assert set(read_scores(tmp_path / "out.parquet").models) == {"@model"}


def test_identity_is_the_content() -> None:
    assert identity("caf\u00e9") == identity("cafe\u0301")
    assert identity("a", ["x", "y"]) == identity("a", ["y", "x"]) != identity("a")


def test_every_eval_ever_samples(tmp_path: Path) -> None:
    rows = [
        {
            "evaluation_id": "sums/org/m/1",
            "model_id": "org/m",
            "evaluation_name": "sums",
            "sample_id": f"s{n}",
            "input": {"raw": f"What is {n // 2} + 1?", "reference": [str(n // 2 + 1)], "choices": None},
            "evaluation": {"score": n / 4, "is_correct": n > 1},
            "error": "timeout" if n == 3 else None,
        }
        for n in range(4)
    ]
    path = tmp_path / "e_samples.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    log = read_log(path)
    assert (log.tool, log.metric) == ("Every Eval Ever", "score")
    assert [sample.score for sample in log.samples] == [0.0, 0.25, 0.5, None]
    assert [sample.score for sample in read_log(path, "is_correct").samples] == [0.0, 0.0, 1.0, None]
    found = import_logs([path])
    assert len(found.scores.items) == 4, "two samples of one text are told apart by their ids"
    assert found.tasks == ("sums",) * 4
