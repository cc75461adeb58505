"""Tasks of lm-evaluation-harness as users have them, written into a folder, and models that cost nothing."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from lm_eval.api.model import LM

CHOICE = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/{name}.jsonl, train: {folder}/shots.jsonl}}}}
test_split: test
fewshot_split: train
num_fewshot: 2
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_target: answer
doc_to_choice: choices
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
  - {{metric: acc_norm, aggregation: mean, higher_is_better: true}}
metadata: {{version: 1.0}}
"""

WORDS = """
task: words
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/words.jsonl, train: {folder}/shots.jsonl}}}}
test_split: test
fewshot_split: train
num_fewshot: 1
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "yes"
generation_kwargs: {{until: ["\\n"], do_sample: false}}
filter_list:
  - name: strict
    filter: [{{function: take_first}}]
  - name: loose
    filter: [{{function: lowercase}}, {{function: take_first}}]
metric_list:
  - {{metric: exact_match, aggregation: mean, higher_is_better: true}}
metadata: {{version: 1.0}}
"""

PERPLEXITY = """
task: stories
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/words.jsonl}}}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{{{question}}}}"
metric_list:
  - {{metric: word_perplexity}}
metadata: {{version: 1.0}}
"""

GROUP = """
group: {name}
task: [sums, facts, words]
aggregate_metric_list:
  - {{metric: {metric}, aggregation: mean, weight_by_size: {by_size}}}
metadata: {{version: 1.0}}
"""


def write_tasks(folder: Path, sizes: dict[str, int]) -> None:
    """Write three tasks of these sizes, a fourth whose metric is no mean, and groups of the three."""
    for name, size in sizes.items():
        rows = [
            {"question": f"{name} {i}:", "choices": ["yes", "no", "maybe so"], "answer": i % 2}
            for i in range(size)
        ]
        _write(folder / f"{name}.jsonl", rows)
    shots = [
        {"question": f"shot {i}:", "choices": ["yes", "no", "maybe so"], "answer": i % 2} for i in range(40)
    ]
    _write(folder / "shots.jsonl", shots)
    for name in ("sums", "facts"):
        (folder / f"{name}.yaml").write_text(CHOICE.format(name=name, folder=folder), encoding="utf-8")
    (folder / "words.yaml").write_text(WORDS.format(folder=folder), encoding="utf-8")
    (folder / "stories.yaml").write_text(PERPLEXITY.format(folder=folder), encoding="utf-8")
    for name, by_size in (("by_documents", "true"), ("by_tasks", "false")):
        text = GROUP.format(name=name, metric="acc", by_size=by_size).replace(", words]", "]")
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    mixed = GROUP.format(name="mixed", metric="acc", by_size="false")
    (folder / "mixed.yaml").write_text(mixed, encoding="utf-8")


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


class Hashing(LM):
    """Every answer is a hash of the prompt; counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Any] = []

    @staticmethod
    def _number(*parts: Any) -> float:
        return int(hashlib.sha256("".join(map(str, parts)).encode()).hexdigest()[:8], 16) / 2**32

    def loglikelihood(self, requests: list[Any]) -> list[Any]:
        self.asked += requests
        return [(-self._number(*one.args), False) for one in requests]

    def loglikelihood_rolling(self, requests: list[Any]) -> list[Any]:
        self.asked += requests
        return [-self._number(*one.args) for one in requests]

    def generate_until(self, requests: list[Any]) -> list[Any]:
        self.asked += requests
        return ["yes" if self._number(one.args[0]) < 0.5 else "Yes" for one in requests]
