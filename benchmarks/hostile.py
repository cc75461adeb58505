"""What `verify` cannot know, and traps that no statistics undoes: each shown by doing it.

    python -m benchmarks.hostile

`seeds`: try seeds until one passes a model that is too weak; its certificate verifies. `invented`: scores of a model
that nobody asked; they verify. `swap`: another checkpoint under the same name; answers that are kept are the old one's.
`temperature`: answers that change from call to call, certified as if they did not.

Against the first: `cereval seal` before the first call. Against the others no file helps: know where answers come from,
ask anew (`--fresh`), name checkpoints (`--revision`), and ask for the right mean (`--target expected`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import numpy as np

import cereval
from benchmarks.stated_models import STATED, Stated, named, new_store, questions
from benchmarks.tables import markdown
from cereval.certificate.verify import verify
from cereval.questions.mean.goal import Estimate, Threshold
from cereval.questions.mean.session import Session
from cereval.questions.replay import drive

SIZE = 300
LEAST = 0.75
MOST_SEEDS = 5000


def seeds() -> tuple[str, str]:
    """The first seed that passes a model whose mean is below the threshold."""
    model = Stated(np.random.default_rng(1).permutation(np.arange(SIZE) < 0.73 * SIZE))
    scores = model.right.astype(float)[:, None]

    def decision(seed: int) -> Any:
        session = Session(SIZE, goal=Threshold(LEAST), method="uniform", seed=seed)
        return drive(session, scores, 1).decision

    found = next((seed for seed in range(MOST_SEEDS) if decision(seed) == "above"), None)
    if found is None:
        return f"seeds 0 to {MOST_SEEDS - 1} of a model at {model.mean:.1%}", "none of them passes"
    with new_store() as store:
        run = cereval.evaluate(
            questions(SIZE), model=named(model)[0], min=LEAST, method="uniform", seed=found, store=store
        )
    said = f"at least {LEAST:.0%}: {run.decision}; verify: {verify(run.certificate).status}"
    return f"seeds 0 to {found} of a model at {model.mean:.1%}, the last one published", said


def invented() -> tuple[str, str]:
    """A model that reads the answers."""
    with new_store() as store:
        run = cereval.evaluate(
            questions(SIZE), model=named(Stated(np.ones(SIZE, bool)))[0], eps=0.05, store=store
        )
    return "scores that no model earned", f"{run}; verify: {verify(run.certificate).status}"


def swap() -> tuple[str, str]:
    """A good checkpoint, then a bad one under the same name, in one store."""
    rng = np.random.default_rng(2)
    with new_store() as store:
        (name,) = named(Stated(rng.uniform(size=SIZE) < 0.95))

        def passes(**how: Any) -> str:
            run = cereval.evaluate(questions(SIZE), model=name, min=LEAST, store=store, **how)
            return f"{run.decision} (asked {run.outcome.asked}, kept {run.outcome.kept})"

        passes()
        STATED[0] = Stated(rng.uniform(size=SIZE) < 0.4)
        told = {
            "kept answers": passes(),
            "--fresh": passes(fresh=True),
            "--revision v2": passes(revision="v2"),
        }
    return f"at least {LEAST:.0%}? 95% right, then 40% under the same name", "; ".join(
        f"{way}: {answer}" for way, answer in told.items()
    )


def temperature() -> tuple[str, str]:
    """Every answer is right with chance .5, anew at every call: its mean is .5, whatever one pass finds."""
    rng = np.random.default_rng(3)

    def found(target: str, eps: float) -> Any:
        session = Session(100, goal=Estimate(eps), target=target, seed=1)
        while not session.done:
            for draw in session.ask(1):
                session.tell(draw, float(rng.uniform() < 0.5))
        return session.result()

    once, expected = found("benchmark", 0.001), found("expected", 0.05)
    return "answers by the toss of a coin, 100 items", "; ".join(
        f"--target {one.target}: [{one.lower:.3f}, {one.upper:.3f}] after {one.n_evaluated:,} calls"
        for one in (once, expected)
    )


TRAPS: dict[str, Callable[[], tuple[str, str]]] = {
    "seeds": seeds,
    "invented": invented,
    "swap": swap,
    "temperature": temperature,
}


@click.command(help=__doc__)
@click.option("--trap", "traps", multiple=True, type=click.Choice(list(TRAPS)), help="Only this one.")
def main(traps: tuple[str, ...]) -> None:
    click.echo(markdown(["trap", "done", "found"], [[name, *TRAPS[name]()] for name in traps or TRAPS]))


if __name__ == "__main__":
    main()
