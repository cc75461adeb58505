"""Tasks as users have them: nothing here knows of cereval."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from inspect_ai import Epochs, Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import SampleScore, Score, accuracy, grouped, includes, mean, metric, scorer, stderr
from inspect_ai.solver import solver


@solver
def answering(right: float, breaks: float, slow: float) -> Any:
    """Answer right by the toss of a coin that belongs to the sample; break once, or be late when wrong, as asked."""
    broken = set()

    async def solve(state: Any, generate: Any) -> Any:  # noqa: ARG001
        if state.input_text not in broken and random.Random(f"breaks {state.input_text}").random() < breaks:
            broken.add(state.input_text)
            raise RuntimeError("flaky tool")
        good = random.Random(f"{state.input_text}/{state.epoch}").random() < right
        if not good:
            await asyncio.sleep(slow)
        state.output = ModelOutput.from_content("none", "yes" if good else "no")
        return state

    return solve


@scorer(metrics=[mean(), stderr()])
def graded() -> Any:
    """Give numbers."""

    async def score(state: Any, target: Any) -> Score:  # noqa: ARG001
        return Score(value=1.0 if state.output.completion == "yes" else 0.25)

    return score


@scorer(metrics={"right": [accuracy()], "polite": [mean()]})
def parts() -> Any:
    """Give several numbers at once."""

    async def score(state: Any, target: Any) -> Score:  # noqa: ARG001
        return Score(value={"right": float(state.output.completion == "yes"), "polite": 1.0})

    return score


@scorer(metrics=[mean()])
def undeclared() -> Any:
    """Give several numbers under a metric that knows of one."""

    async def score(state: Any, target: Any) -> Score:  # noqa: ARG001
        return Score(value={"strict": 0.7, "loose": 0.85})

    return score


@scorer(metrics=[accuracy()])
def letters() -> Any:
    """Give grades that Inspect does not know, and counts as 0."""

    async def score(state: Any, target: Any) -> Score:  # noqa: ARG001
        return Score(value="A")

    return score


@scorer(metrics=[mean()])
def listing() -> Any:
    async def score(state: Any, target: Any) -> Score:  # noqa: ARG001
        return Score(value=[1, 0])

    return score


@scorer(metrics=[mean()])
def silent() -> Any:
    """Give no grade at all, as a judge does whose server is down."""

    async def score(state: Any, target: Any) -> Score:  # noqa: ARG001
        return Score.unscored(reason="grader_failed")

    return score


@metric
def failures() -> Any:
    """Count what is wrong."""

    def compute(scores: list[SampleScore]) -> float:
        return sum(1.0 - one.score.as_float() for one in scores)

    return compute


@scorer(metrics=[failures(), mean(), grouped(mean(), "category")])
def counted() -> Any:
    async def score(state: Any, target: Any) -> Score:  # noqa: ARG001
        return Score(value=float(state.output.completion == "yes"))

    return score


@metric
def of_answered() -> Any:
    """Leave refusals out, which only real scores tell of."""

    def compute(scores: list[SampleScore]) -> float:
        told = [one.score.as_float() for one in scores if not (one.score.metadata or {}).get("refused")]
        return sum(told) / len(told) if told else 0.0

    return compute


@scorer(metrics=[of_answered()])
def refusing() -> Any:
    async def score(state: Any, target: Any) -> Score:  # noqa: ARG001
        good = state.output.completion == "yes"
        return Score(value=float(good), metadata={"refused": not good})

    return score


@metric(scores="unreduced")
def of_epochs() -> Any:
    def compute(scores: list[SampleScore]) -> float:
        return sum(one.score.as_float() for one in scores) / len(scores)

    return compute


@scorer(metrics=[of_epochs()])
def by_epoch() -> Any:
    async def score(state: Any, target: Any) -> Score:  # noqa: ARG001
        return Score(value=float(state.output.completion == "yes"))

    return score


JUDGES = {
    "includes": includes,
    "graded": graded,
    "parts": parts,
    "undeclared": undeclared,
    "letters": letters,
    "listing": listing,
    "silent": silent,
    "counted": counted,
    "refusing": refusing,
    "by_epoch": by_epoch,
}


@task
def quiz(
    n: int = 1000,
    right: float = 0.8,
    breaks: float = 0.0,
    slow: float = 0.0,
    judge: str = "includes",
    epochs: int = 1,
    shuffle: bool = False,
    ids: bool = True,
) -> Task:
    """Ask n questions in three categories."""
    samples = [
        Sample(
            id=f"q{i}" if ids else None,
            input=f"question {i}",
            target="yes",
            metadata={"category": "abc"[i % 3]},
        )
        for i in range(n)
    ]
    data = MemoryDataset(samples, name="quiz")
    if shuffle:
        data.shuffle()
    return Task(
        dataset=data,
        solver=answering(right, breaks, slow),
        scorer=JUDGES[judge](),
        epochs=Epochs(epochs, "mean"),
    )


@task
def same_names(seed: int = 0, scorer: str = "includes", eps: float = 0.5, task: str = "none") -> Task:
    """Take arguments that certified/cereval has too; the first sample says which arrived."""
    made = quiz(n=60, judge=scorer)
    made.metadata = {"arrived": [seed, scorer, eps, task]}
    return made
