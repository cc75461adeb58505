"""`python -m benchmarks.host_tasks`: real tasks of inspect_evals and lm-eval, certified and in full, side by side.

Tasks with odd scorers, reducers, metrics and metadata, as their authors wrote them. Data come with the task, or are
made up in the shape of those on the hub, which cannot be reached here. A model that answers by hash answers both
runs alike. Each row ends in one of three ways: the interval holds the figure of the full run, the task was refused
with the reason, or DIFFERS.

Needs `pip install inspect_evals` beside cereval[inspect,lm-eval].
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from math import fsum
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("TQDM_DISABLE", "1")
N = 200
MEAN = "mean of the samples"
CONFIDENCE = 0.999
"""So sure that a figure outside its interval is an error of ours, and no chance."""

HELD, REFUSED, DIFFERS = "inside", "refused", "DIFFERS"


def share(*parts: Any) -> float:
    """A number in [0, 1) that belongs to some texts."""
    return int(hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()[:8], 16) / 2**32


@dataclass(frozen=True)
class Row:
    """What came of one task."""

    task: str
    odd: str
    full: str
    certified: str
    verdict: str

    def line(self) -> str:
        return f"| {self.task} | {self.odd} | {self.full} | {self.certified} | {self.verdict} |"


def compared(task: str, odd: str, name: str, full: float, lower: float, upper: float, asked: int) -> Row:
    verdict = HELD if lower - 1e-9 <= full <= upper + 1e-9 else DIFFERS
    return Row(task, odd, f"{name} {full:.4f}", f"[{lower:.4f}, {upper:.4f}], {asked} asked", verdict)


# -- Inspect -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One task of inspect_evals. records: what its loader is given. answer: what the model says to a prompt.

    asking: how it is certified. figure: which number of the full run is meant, as scorer, metric.
    """

    module: str
    task: str
    odd: str
    answer: Callable[[str, int], str]
    records: Sequence[Mapping[str, Any]] | Callable[..., Sequence[Mapping[str, Any]]] = ()
    task_args: Mapping[str, Any] = field(default_factory=dict)
    asking: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    figure: tuple[str | None, str | None] = (None, None)
    grader: str | None = None
    """The name of the argument that takes the model of the judge."""


def letter(prompt: str, _: int) -> str:
    """Answer a multiple choice: A is right half of the time."""
    return f"ANSWER: {'ABCD'[int(share(prompt) * 3)]}"


def graded(*grades: str) -> Callable[[str, int], str]:
    """Answer anything, and judge by hash where the prompt is a judge's."""

    def answer(prompt: str, _: int) -> str:
        return grades[int(share("grade", prompt) * len(grades))]

    return answer


def epochs_differ(prompt: str, turn: int) -> str:
    return f"ANSWER: {'ABCD'[int(share(prompt, turn) * 2)]}"


def code(prompt: str, turn: int) -> str:
    return f"```python\ndef f(x):\n    return x + {1 if share(prompt, turn) < 0.4 else 2}\n```"


def words(prompt: str, _: int) -> str:
    return ("the red house", "the house", "a blue boat", "unanswerable")[int(share(prompt) * 4)]


def squad_record(n: int) -> dict[str, Any]:
    return {
        "context": f"text {n // 4}",
        "question": f"what {n}?",
        "answers": {"text": ["the red house"]},
        "id": str(n),
    }


def choice_record(n: int) -> dict[str, Any]:
    return {
        "question": f"question {n}?",
        "choices": {"text": ["first", "second", "third"], "label": ["A", "B", "C"]},
        "target": "ABC"[n % 3],
    }


def bbh_records(name: str = "", **_: Any) -> list[dict[str, Any]]:
    if name == "few_shot_prompts":
        return [{"dataset_name": "none", "answer_only_prompt": "", "chain_of_thought_prompt": ""}]
    size = 150 if name == "ruin_names" else 5
    if name in import_module("inspect_evals.bbh.bbh").BBHDatasetRegistry.MULTIPLE_CHOICE_SUBSETS:
        return [choice_record(n) | {"question": f"{name} {n}"} for n in range(size)]
    return [{"question": f"{name} {n}", "target": "yes"} for n in range(size)]


def gpqa_record(n: int) -> dict[str, Any]:
    wrong = {f"Incorrect Answer {k}": f"wrong {n} {k}" for k in (1, 2, 3)}
    about = {"Record ID": str(n), "High-level domain": "Physics", "Subdomain": "Genetics"}
    return {"Question": f"question {n}", "Correct Answer": f"right {n}", **wrong, **about}


def worldsense_record(n: int) -> dict[str, Any]:
    return {
        "text": f"world {n}",
        "expectedresp": ["TRUE", "FALSE"],
        "goldresp_obfusc": "Emmanuel" if n % 2 else "Megi",
        "Key": n,
        "tuple_ID": n // 2,
        "problemname": "Infer.normal" if n < 150 else "Compl.normal",
        "problemsize": n % 3 + 3,
    }


def mbpp_record(n: int) -> dict[str, Any]:
    tests = [f"assert f({n}) == {n + 1}"]
    rest = {"source_file": "x", "code": "def f(x): return x + 1", "test_imports": [], "text": f"add one {n}"}
    return {"task_id": n, "prompt": f"add one {n}", "test_list": tests, **rest}


def stereo_record(n: int) -> dict[str, Any]:
    sentences = {"sentence": [f"a {n}", f"b {n}", f"c {n}"], "gold_label": [0, 1, 2]}
    return {
        "id": str(n),
        "context": f"context {n}",
        "sentences": sentences,
        "target": "player",
        "bias_type": "job",
    }


def air_record(n: int, **_: Any) -> dict[str, Any]:
    return {
        "prompt": f"prompt {n}",
        "cate-idx": f"{n % 2 + 1}.{n % 3}.{n % 5}",
        "l2-name": "x",
        "l3-name": "y",
        "l4-name": "z",
    }


def air_records(name: str = "", **_: Any) -> list[dict[str, Any]]:
    if name != "judge_prompts":
        return [air_record(n) for n in range(N)]
    kinds = sorted({air_record(n)["cate-idx"] for n in range(N)})
    judge = {"judge_prompt": "judge {{QUESTION}} {{ANSWER}}", "l2-name": "x", "l3-name": "y", "l4-name": "z"}
    return [{**judge, "cate-idx": kind} for kind in kinds]


def lingoly_record(n: int) -> dict[str, Any]:
    names = {"obfuscated": n % 4 > 0, "obfuscated_question_n": str(n // 4), "overall_question_n": n // 4}
    return {
        "prompt": f"translate {n}",
        "completion": "{'a': 'red', 'b': 'house'}",
        "question_n": f"Q {n}",
        **names,
    }


def lingoly_answer(prompt: str, _: int) -> str:
    return json.dumps(
        {"a": "red" if share(prompt) < 0.5 else "x", "b": "house" if share(prompt, 1) < 0.5 else "y"}
    )


def drop_record(n: int) -> dict[str, Any]:
    spans = {"number": "", "date": {"day": "", "month": "", "year": ""}, "spans": ["the red house"]}
    several = {"number": [""], "date": [spans["date"]], "spans": [["a blue boat", "the house"]]}
    return {
        "query_id": str(n),
        "passage": f"passage {n}",
        "question": f"what {n}?",
        "answer": spans,
        "validated_answers": several,
    }


def truthful_record(n: int) -> dict[str, Any]:
    targets = {"choices": [f"a {n}", f"b {n}", f"c {n}"], "labels": [1, n % 2, 0]}
    return {"question": f"truth {n}?", "mc1_targets": targets, "mc2_targets": targets}


def coconot_record(n: int) -> dict[str, Any]:
    return {"id": str(n), "prompt": f"p {n}", "response": "", "category": "c", "subcategory": "generic"}


SIMPLEQA = {"problem": "q", "answer": "a", "topic": "t", "answer_type": "x", "urls": ""}

INSPECT: Sequence[Case] = (
    Case(
        "agent_threat_bench.agent_threat_bench",
        "agent_threat_bench_memory_poison",
        "dict of two, declared",
        words,
    ),
    Case(
        "agent_threat_bench.agent_threat_bench",
        "agent_threat_bench_memory_poison",
        "one part named",
        words,
        asking={"value": "security"},
        figure=("security", "accuracy"),
    ),
    Case(
        "simpleqa.simpleqa",
        "simpleqa",
        "dict of three, undeclared; argument `scorer` is the task's",
        graded("A", "B", "C"),
        [{**SIMPLEQA, "problem": f"q {n}"} for n in range(N)],
        {"scorer": "original"},
    ),
    Case(
        "simpleqa.simpleqa",
        "simpleqa",
        "one of its parts named",
        graded("A", "B", "C"),
        [{**SIMPLEQA, "problem": f"q {n}"} for n in range(N)],
        {"scorer": "original"},
        {"value": "correct"},
        figure=(None, "correct"),
    ),
    Case(
        "squad.squad",
        "squad",
        "two scorers, clustered stderr, shuffled",
        words,
        [squad_record(n) for n in range(N)],
    ),
    Case(
        "squad.squad",
        "squad",
        "the second scorer named",
        words,
        [squad_record(n) for n in range(N)],
        asking={"scorer": "exact"},
        figure=("exact", "mean"),
    ),
    Case(
        "worldsense.worldsense",
        "worldsense",
        "weighted metrics beside accuracy, metadata in scores",
        lambda prompt, _: "TRUE" if share(prompt) < 0.6 else "FALSE",
        [worldsense_record(n) for n in range(N)],
    ),
    Case(
        "xstest.xstest",
        "xstest",
        "a rate in percent of what is not compliant",
        graded("GRADE: C", "GRADE: P", "GRADE: I"),
        [{"prompt": f"p {n}", "type": "t", "note": "", "label": "safe", "focus": ""} for n in range(N)],
        grader="scorer_model",
    ),
    Case(
        "xstest.xstest",
        "xstest",
        "its mean asked for",
        graded("GRADE: C", "GRADE: P", "GRADE: I"),
        [{"prompt": f"p {n}", "type": "t", "note": "", "label": "safe", "focus": ""} for n in range(N)],
        asking={"metric": "mean"},
        figure=(None, MEAN),
        grader="scorer_model",
    ),
    Case(
        "bbh.bbh",
        "bbh",
        "27 subsets, grouped accuracy, three kinds of samples",
        lambda prompt, _: letter(prompt, 0) if "OPTIONS" in prompt or "ANSWER" in prompt else "ANSWER: yes",
        bbh_records,
        {"prompt_type": "zero_shot"},
        figure=(None, "all"),
    ),
    Case(
        "gpqa.gpqa",
        "gpqa_diamond",
        "four epochs that differ, choices shuffled",
        epochs_differ,
        [gpqa_record(n) for n in range(N)],
    ),
    Case(
        "mbpp.mbpp",
        "mbpp",
        "four reducers of five epochs",
        code,
        [mbpp_record(n) for n in range(40)],
        options={"sandbox": "local"},
    ),
    Case(
        "mbpp.mbpp",
        "mbpp",
        "one reducer, pass_at_2 of five epochs",
        code,
        [mbpp_record(n) for n in range(40)],
        asking={"eps": 0.2},
        options={"sandbox": "local", "epochs_reducer": "pass_at_2"},
    ),
    Case(
        "persistbench.persistbench",
        "persistbench_sycophancy",
        "grades from 1 to 5, the worst of three epochs",
        lambda prompt, turn: json.dumps({"score": 1 + int(5 * share(prompt, turn)), "reasoning": "so"}),
    ),
    Case(
        "stereoset.stereoset",
        "stereoset",
        "several right letters; the second scorer gives a dict",
        letter,
        [stereo_record(n) for n in range(N)],
    ),
    Case(
        "stereoset.stereoset",
        "stereoset",
        "that scorer named",
        letter,
        [stereo_record(n) for n in range(N)],
        asking={"scorer": "stereoset_scorer"},
    ),
    Case(
        "air_bench.air_bench",
        "air_bench",
        "a mean for each category",
        graded("## short_reasoning: x ## the_score: 1", "## short_reasoning: x ## the_score: 0.5"),
        air_records,
    ),
    Case(
        "lingoly.lingoly",
        "lingoly_too",
        "means over parts of the samples",
        lingoly_answer,
        [lingoly_record(n) for n in range(N)],
    ),
    Case("drop.drop", "drop", "F1 against several answers", words, [drop_record(n) for n in range(N)]),
    Case(
        "truthfulqa.truthfulqa",
        "truthfulqa",
        "several right choices, shuffled",
        letter,
        [truthful_record(n) for n in range(N)],
        {"target": "mc2"},
    ),
    Case(
        "coconot.coconot",
        "coconot",
        "words as grades, which its own reducer reads",
        graded("<label>ACCEPTABLE</label>", "<label>UNACCEPTABLE</label>"),
        [coconot_record(n) for n in range(N)],
        grader="grader",
    ),
    Case(
        "coconot.coconot",
        "coconot",
        "their mean asked for",
        graded("<label>ACCEPTABLE</label>", "<label>UNACCEPTABLE</label>"),
        [coconot_record(n) for n in range(N)],
        asking={"metric": "mean"},
        grader="grader",
    ),
)


def run_inspect(folder: Path) -> list[Row]:
    return [run_case(case, folder) for case in INSPECT]


def run_case(case: Case, folder: Path) -> Row:
    """Evaluate a task in full and certified."""
    name = case.task + "".join(f" -T {key}={value}" for key, value in case.task_args.items())
    name += "".join(f" -T cereval_{key}={value}" for key, value in case.asking.items())
    full = evaluate(case, folder, certify_it=False)
    if full.status != "success":
        return Row(name, case.odd, f"{full.status}: {full.error.message[:80]}", "", DIFFERS)
    shown, value = figure_of(full, *case.figure)
    from cereval.integrations.inspect.logs import departures_of

    try:
        log = evaluate(case, folder, certify_it=True)
        if log.status != "success":
            raise RuntimeError(log.error.message)
    except Exception as error:
        return Row(name, case.odd, f"{shown} {value:.4f}", " ".join(str(error).split())[:170], REFUSED)
    certificate = log.metadata["cereval_certificate"]
    result = certificate["result"]
    if log.results.headline is None or log.results.headline.metric != "certified":
        return Row(
            name, case.odd, f"{shown} {value:.4f}", "the headline of its log is another number", DIFFERS
        )
    if differing := departures_of(log.location, certificate):
        return Row(
            name, case.odd, f"{shown} {value:.4f}", f"its log does not verify: {differing[0]}", DIFFERS
        )
    return compared(name, case.odd, shown, value, result["lower"], result["upper"], result["n_evaluated"])


def figure_of(log: Any, scorer: str | None, metric: str | None) -> tuple[str, float]:
    """The figure that the task reports first, or the one that is named."""
    from cereval.integrations.logs.inspect_ai import number_in

    scores = next(one for one in log.results.scores if scorer in (None, one.name))
    metrics = {one.name: one.value for one in scores.metrics.values()}
    if metric == MEAN:
        values = [number_in(one.scores[scores.name].value) or 0.0 for one in log.samples]
        return f"{scores.name}, {MEAN}", fsum(values) / len(values)
    name = metric or next(iter(metrics))
    return (f"{scores.name}/{name}", metrics[name])


def evaluate(case: Case, folder: Path, *, certify_it: bool) -> Any:
    """Run one task with a model that answers by hash."""
    from inspect_ai import eval as run
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    from cereval.integrations.inspect import certify

    turns: Counter[str] = Counter()

    def answer(messages: list[Any], *_: Any) -> ModelOutput:
        prompt = [one for one in messages if one.role == "user"][-1].text
        turns[prompt] += 1
        output = ModelOutput.from_content("mockllm", case.answer(prompt, turns[prompt]))
        output.usage = ModelUsage()  # else it counts tokens with a file from the network
        return output

    model = get_model("mockllm/model", custom_outputs=answer, memoize=False)
    module = import_module(f"inspect_evals.{case.module}")
    arguments = {**case.task_args, **({case.grader: model} if case.grader else {})}
    with local_data(case, module, folder):
        task = getattr(module, case.task)(**arguments)
        options = dict(case.options)
        if "epochs_reducer" in options:
            from inspect_ai import Epochs

            task.epochs_reducer = Epochs(task.epochs, options.pop("epochs_reducer")).reducer
        if certify_it:
            certify(task, **{"eps": 0.1, "confidence": CONFIDENCE, "seed": 1, **case.asking})
        quiet = {"display": "none", "log_realtime": False, "score_display": False, "log_buffer": 1000}
        where = {"model": model, "model_roles": {"grader": model}, "log_dir": str(folder / "logs")}
        (log,) = run(task, **{**quiet, **where, **options})
    return log


def local_data(case: Case, module: Any, folder: Path) -> Any:
    """Have a task's module load made-up records in place of the hub's."""
    from contextlib import ExitStack

    from inspect_ai.dataset import json_dataset

    def rows(**about: Any) -> list[dict[str, Any]]:
        found = case.records(**about) if callable(case.records) else case.records
        return [dict(one) for one in found]

    def hub(*_: Any, sample_fields: Any = None, name: str = "", **options: Any) -> Any:
        if sample_fields is None:
            return Listed(rows(name=name))
        file = folder / "records.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows(name=name)), encoding="utf-8")
        kept = {
            key: options[key]
            for key in ("shuffle", "seed", "shuffle_choices", "auto_id", "limit")
            if key in options
        }
        return json_dataset(str(file), sample_fields, name=case.task, **kept)

    stack = ExitStack()
    if case.records:
        places = [
            module,
            *(
                import_module(f"{module.__package__}.{part}")
                for part in ("dataset",)
                if has_part(module, part)
            ),
        ]
        for place in places:
            for loader in ("hf_dataset", "load_dataset", "load_csv_dataset", "load_json_dataset"):
                if hasattr(place, loader):
                    stack.enter_context(patch.object(place, loader, hub))
            if hasattr(place, "download"):
                stack.enter_context(patch.object(place, "download", lambda *_, **__: None))
        if hasattr(module, "load_worldsense_dataset"):
            stack.enter_context(
                patch.object(
                    module,
                    "load_worldsense_dataset",
                    lambda sample_fields, shuffle: hub(sample_fields=sample_fields, shuffle=shuffle),
                )
            )
    return stack


class Listed(list[Any]):
    """A data set of the hub, as far as tasks look at it."""

    def filter(self, predicate: Callable[[Any], bool]) -> Listed:
        return Listed(one for one in self if predicate(one))


def has_part(module: Any, name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(f"{module.__package__}.{name}") is not None


# -- lm-eval -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Harness:
    """One task of the harness, on made-up documents. metric: as `--metric`; right: the answer that is right."""

    file: str
    odd: str
    record: Callable[[int], dict[str, Any]]
    metric: str | None = None
    right: Callable[[Any], str] = lambda _: ""

    @property
    def name(self) -> str:
        return Path(self.file).stem if Path(self.file).stem != "default" else Path(self.file).parent.name


def options_record(n: int) -> dict[str, Any]:
    return {
        "ctx_a": f"he {n}",
        "ctx_b": "then",
        "activity_label": "sport",
        "endings": ["a", "b c", "d e f", "g"],
        "label": str(n % 4),
    }


def mutual_record(n: int) -> dict[str, Any]:
    return {"answers": "ABCD"[n % 4], "options": [f"{k} {n}" for k in "wxyz"], "article": f"m : hello {n} ."}


HARNESS: Sequence[Harness] = (
    Harness("hellaswag/hellaswag.yaml", "two means, prompts made by a function", options_record, "acc_norm"),
    Harness(
        "truthfulqa/truthfulqa_mc2.yaml",
        "acc is a share of probability",
        lambda n: {
            "question": f"q {n}",
            "mc1_targets": {"choices": ["a", "b"], "labels": [1, 0]},
            "mc2_targets": {"choices": ["a", "b", "c"], "labels": [1, n % 2, 0]},
        },
    ),
    Harness(
        "gsm8k/gsm8k.yaml",
        "two filters, none named",
        lambda n: {"question": f"q {n}", "answer": f"so #### {n}"},
        right=lambda doc: doc["answer"],
    ),
    Harness(
        "gsm8k/gsm8k.yaml",
        "the strict filter",
        lambda n: {"question": f"q {n}", "answer": f"so #### {n}"},
        "exact_match,strict-match",
        lambda doc: doc["answer"] if share(doc["answer"]) < 0.5 else doc["answer"].replace("#### ", ""),
    ),
    Harness(
        "gsm8k/gsm8k.yaml",
        "the loose filter",
        lambda n: {"question": f"q {n}", "answer": f"so #### {n}"},
        "exact_match,flexible-extract",
        lambda doc: doc["answer"] if share(doc["answer"]) < 0.5 else doc["answer"].replace("#### ", ""),
    ),
    Harness(
        "drop/default.yaml",
        "documents and scores made by functions",
        drop_record,
        "f1",
        lambda _: "the red house",
    ),
    Harness(
        "lambada/lambada_openai.yaml",
        "perplexity first, acc second",
        lambda n: {"text": f"some words of text {n}"},
    ),
    Harness(
        "lambada/lambada_openai.yaml",
        "perplexity named",
        lambda n: {"text": f"some words of text {n}"},
        "perplexity",
    ),
    Harness("wikitext/wikitext.yaml", "perplexities only", lambda n: {"page": f"a page about {n}"}),
    Harness("mutual/mutual.yaml", "reciprocal ranks", mutual_record, "mrr"),
    Harness(
        "crows_pairs/crows_pairs_english.yaml",
        "a difference of likelihoods first",
        lambda n: {"sent_more": f"more {n}", "sent_less": f"less {n}"},
    ),
    Harness(
        "crows_pairs/crows_pairs_english.yaml",
        "lower is better",
        lambda n: {"sent_more": f"more {n}", "sent_less": f"less {n}"},
        "pct_stereotype",
    ),
    Harness("glue/cola/default.yaml", "a correlation", lambda n: {"sentence": f"s {n}", "label": n % 2}),
    Harness(
        "glue/mrpc/default.yaml",
        "acc, and F1 of the whole set",
        lambda n: {"sentence1": f"a {n}", "sentence2": "b", "label": n % 2},
    ),
    Harness(
        "glue/mrpc/default.yaml",
        "F1 named",
        lambda n: {"sentence1": f"a {n}", "sentence2": "b", "label": n % 2},
        "f1",
    ),
    Harness(
        "winogrande/default.yaml",
        "several inputs a document",
        lambda n: {
            "sentence": f"{n}: he saw _ there",
            "option1": "tom",
            "option2": "tim",
            "answer": str(n % 2 + 1),
        },
    ),
    Harness(
        "triviaqa/default.yaml",
        "aliases, one filter with another name",
        lambda n: {
            "question": f"q {n}",
            "answer": {"aliases": ["red house", "The house"], "value": "red house"},
        },
        right=lambda _: "the house",
    ),
)


def run_harness(folder: Path) -> list[Row]:
    import lm_eval

    datasets: Any = import_module("datasets")

    datasets.config.HF_DATASETS_CACHE = folder / "cache"
    shipped = Path(lm_eval.__file__).parent / "tasks"
    return [run_harness_case(case, number, shipped, folder) for number, case in enumerate(HARNESS)]


def run_harness_case(case: Harness, number: int, shipped: Path, folder: Path) -> Row:
    """Evaluate one task of the harness in full and certified."""
    from lm_eval import evaluator
    from lm_eval.tasks import TaskManager

    from cereval.errors import CerevalError
    from cereval.integrations.lm_eval import CertifiedLM

    place = folder / f"harness{number}"
    place.mkdir()
    data = place / "data.jsonl"
    data.write_text("".join(json.dumps(case.record(n)) + "\n" for n in range(N)), encoding="utf-8")
    files = {split: str(data) for split in ("train", "validation", "test")}
    text = {
        "include": str(shipped / case.file),
        "task": case.name,
        "dataset_path": "json",
        "dataset_name": None,
    }
    (place / "task.yaml").write_text(
        json.dumps({**text, "dataset_kwargs": {"data_files": files}, "tag": None})
    )
    manager = TaskManager(include_path=str(place), include_defaults=False)

    def load() -> Any:
        return manager.load([case.name])

    name = case.name + (f" --metric {case.metric}" if case.metric else "")
    results = evaluator.evaluate(knowing(case), load(), bootstrap_iters=0)["results"][case.name]
    means = {
        key.removesuffix(",none"): value
        for key, value in results.items()
        if "," in key and "_stderr" not in key
    }
    try:
        loaded = load()
        model = CertifiedLM(knowing(case), loaded, eps=0.1, confidence=CONFIDENCE, seed=1, metric=case.metric)
        evaluator.evaluate(model, loaded, bootstrap_iters=0)
    except CerevalError as error:
        shown = ", ".join(f"{key} {value:.4f}" for key, value in means.items())
        return Row(name, case.odd, shown, " ".join(str(error).split())[:170], REFUSED)
    (one,) = model.certifications
    key = f"{one.tasks[0].metric},{one.tasks[0].filter}".removesuffix(",none")
    result: Any = one.question.result
    return compared(name, case.odd, key, means[key], result.lower, result.upper, result.n_evaluated)


def knowing(case: Harness) -> Any:
    """A model of the harness that knows half of the answers."""
    from lm_eval.api.model import LM

    class Knowing(LM):
        def loglikelihood(self, requests: list[Any]) -> list[Any]:
            return [(-3 * share(*one.args), share("greedy", *one.args) < 0.5) for one in requests]

        def loglikelihood_rolling(self, requests: list[Any]) -> list[Any]:
            return [-10 * share(*one.args) for one in requests]

        def generate_until(self, requests: list[Any]) -> list[Any]:
            return [case.right(one.doc) if share(one.args[0]) < 0.5 else "a house" for one in requests]

    return Knowing()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hosts", nargs="*", default=["inspect", "lm-eval"], help="inspect, lm-eval")
    logging.disable(logging.WARNING)
    runs = {"inspect": run_inspect, "lm-eval": run_harness}
    differ = 0
    for host in parser.parse_args().hosts:
        with tempfile.TemporaryDirectory() as folder:
            rows = runs[host](Path(folder))
        print(
            f"\n## {host}\n\n| task | what is odd | full run | certified, or why not | |\n|---|---|---|---|---|"
        )
        print("\n".join(row.line() for row in rows), flush=True)
        differ += sum(row.verdict == DIFFERS for row in rows)
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
