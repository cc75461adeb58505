"""Importers on files that promptfoo, AlpacaEval, HELM and lighteval wrote themselves (others/README.md tells how)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cereval.errors import BadFile
from cereval.integrations.logs import import_logs, read_log

OTHERS = Path(__file__).parent / "others"
SUMS = [f"What is {n} + 1?" for n in range(6)]


def table(*folders: str, **how: Any) -> dict[str, dict[str, float | None]]:
    """The table as model -> text -> score; None: missing."""
    found = import_logs([OTHERS / folder for folder in folders], **how)
    return {
        model: {
            text: None if score != score else float(score)
            for text, score in zip(found.texts, of, strict=True)
        }
        for model, of in found.scores.models.items()
    }


@pytest.mark.parametrize(
    "file", ["promptfoo-0.121/out.json", "promptfoo-0.121/out.jsonl", "promptfoo-0.57/out.json"]
)
def test_promptfoo_in_both_layouts(file: str) -> None:
    # Two providers with one prompt are two models, although promptIdx counts 0 and 1.
    assert table(file) == {
        "small": dict(zip(SUMS, [0.5, 1, 1, None, None, 1], strict=True)),
        "large": dict(zip(SUMS, [0.5, 1, 1, None, None, 0.5], strict=True)),
    }
    assert table(file, metric="right")["large"] == dict(zip(SUMS, [0, 1, 1, None, None, 0], strict=True))
    assert table(file, metric="success")["small"] == dict(zip(SUMS, [0, 1, 1, None, None, 1], strict=True))
    with pytest.raises(BadFile, match="has no metric 'rigth'; did you mean 'right'"):
        import_logs([OTHERS / file], metric="rigth")


@pytest.mark.parametrize("name", ["promptfoo-0.121", "promptfoo-0.57"])
def test_a_second_prompt_of_promptfoo_is_another_model(name: str, tmp_path: Path) -> None:
    log = json.loads((OTHERS / name / "out.json").read_text(encoding="utf-8"))
    rows = log["results"]["results"]
    first = [row for row in rows if row["provider"]["label"] == "small"]
    label = "label" if "label" in first[0]["prompt"] else "display"
    again = [
        {
            **row,
            **({"promptIdx": 2} if "promptIdx" in row else {}),
            "prompt": {**row["prompt"], label: "~ briefly"},
        }
        for row in first
    ]
    log["results"]["results"] = rows + again
    path = tmp_path / "out.json"
    path.write_text(json.dumps(log), encoding="utf-8")
    read = read_log(path)
    assert {sample.model for sample in read.samples} == {"small (prompt 0)", "small (prompt 1)", "large"}
    assert read.notes == ("2 prompts: the same provider with another prompt is another model",)


def test_prompts_of_promptfoo_are_counted_once(tmp_path: Path) -> None:
    rows = [
        {"provider": provider, "promptIdx": number, "vars": {"q": "1 + 1"}, "score": 1}
        for number, provider in enumerate(["a", "b", "c", "a", "b", "c"])
    ]
    path = tmp_path / "out.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert read_log(path).notes == ("2 prompts: the same provider with another prompt is another model",)


def test_prompts_without_variables_are_the_questions(tmp_path: Path) -> None:
    log = json.loads((OTHERS / "promptfoo-0.121/out.json").read_text(encoding="utf-8"))
    for number, row in enumerate(log["results"]["results"]):
        row |= {"vars": {}, "promptIdx": number}
    path = tmp_path / "out.json"
    path.write_text(json.dumps(log), encoding="utf-8")
    found = import_logs([path])
    assert (sorted(found.texts), sorted(found.scores.models)) == (SUMS, ["large", "small"])


def test_alpaca_eval() -> None:
    assert table("alpaca_eval-0.6") == {"small": dict(zip(SUMS[:5], [0, 1, 0, None, 0.5], strict=True))}
    with pytest.raises(BadFile, match="has no metric 'acc'"):
        import_logs([OTHERS / "alpaca_eval-0.6"], metric="acc")


def test_helm() -> None:
    found = import_logs([OTHERS / "helm-0.5"])
    assert table("helm-0.5/sums") == {"simple/model1": dict(zip(SUMS[:5], [0, 1, 1, None, 1], strict=True))}
    # Joint and separate choices are the same questions, whatever the way to ask.
    picks = {"Pick for 0": 1.0, "Pick for 1": 0.0, "Pick for 2": 1.0}
    assert table("helm-0.5/picks") == table("helm-0.5/apart") == {"simple/model1": picks}
    assert any("5 perturbed copies were left out" in note for note in found.notes)
    assert set(found.tasks) == {"sums:trials=2", "apart"}


def test_helm_of_the_first_version_wrote_plain_texts_and_rows_for_every_metric(tmp_path: Path) -> None:
    """Rewrite a run into the layout of 0.1.0, whose `Instance.input` and `Reference.output` are str."""
    for name in ("run_spec", "scenario_state", "per_instance_stats"):
        value = json.loads((OTHERS / "helm-0.5/sums" / f"{name}.json").read_text(encoding="utf-8"))
        if name == "scenario_state":
            for state in value["request_states"]:
                instance = state["instance"]
                instance["input"] = instance["input"]["text"]
                instance["references"] = [
                    {**one, "output": one["output"]["text"]} for one in instance["references"]
                ]
        if name == "per_instance_stats":
            tokens = [{"name": {"name": "estimated_num_tokens_cost"}, "count": 1, "mean": 9.0}]
            value += [{**row, "stats": tokens} for row in value]
        (tmp_path / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    found = import_logs([tmp_path])
    assert found.scores.items == import_logs([OTHERS / "helm-0.5/sums"]).scores.items
    assert found.notes[0].endswith(
        "5 samples of HELM, metric exact_match (also there: quasi_exact_match, prefix_exact_match, "
        "quasi_prefix_exact_match); 1 without a score (failed calls and the like) are missing; "
        "5 perturbed copies were left out"
    )


@pytest.mark.parametrize(
    ("folder", "model", "sums"),
    [
        ("lighteval-0.13", "org/small", [0, 1, 1, 0]),
        ("lighteval-0.9", "org/large", [0, 1, 0]),
        ("lighteval-0.6", "org/large", [0, 1, 0]),
    ],
)
def test_lighteval_in_three_layouts(folder: str, model: str, sums: list[float]) -> None:
    found = table(folder)[model]
    assert {text: score for text, score in found.items() if text in SUMS} == dict(
        zip(SUMS, sums, strict=False)
    )
    assert {text for text in found if text not in SUMS} == {"Pick for 0", "Pick for 1", "Pick for 2"}
    assert set(table(folder, metric="f1")[model].values()) == {0.5}


def test_empty_answers_of_lighteval_are_told() -> None:
    notes = import_logs([OTHERS / "lighteval-0.13"]).notes
    assert any("1 empty answers were read as scored" in note for note in notes)


def test_a_question_is_one_row_whatever_the_tool() -> None:
    found = import_logs([OTHERS])
    assert sorted(found.texts) == sorted([*SUMS, "Pick for 0", "Pick for 1", "Pick for 2"])
    assert not found.skipped
