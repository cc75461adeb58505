"""Use every answer where answers cost nothing: given in the data, recorded as scores, or kept of earlier runs."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

from cereval.methods.uniform import Whole
from cereval.models.scripted import is_given
from cereval.questions.compare.goal import Difference
from cereval.questions.mean.goal import Estimate
from cereval.runner.candidates import RUN
from cereval.runner.scoring import scorer_name
from cereval.scorers import JUDGES
from cereval.scorers.people import People
from cereval.settings import Settings, goal_of

KINDS = ("estimate", "compare", "rank", "tasks")
"""The kinds of question that take the whole."""

HOW_MUCH = {"estimate": Estimate, "compare": Difference}
"""Of those that may be about a population, the goal that asks how much."""

AT_ONCE = 500
"""Answers in hand at a time: written together, thousands take seconds."""


def use_all(settings: Settings, n_items: int) -> Settings:
    """Return settings that ask every item, where that costs nothing and nobody says otherwise.

    The result is then exact for the target `benchmark`. A population is estimated as well as the sample allows: its
    bets have all of it as their horizon, and a goal that is finer.
    """
    if not answers_are_free(settings) or settings["max_calls"] is not None:
        return settings
    options = {**settings.options, "method": Whole.name, "history": ["none"], "connections": AT_ONCE}
    if settings["target"] != "population":
        return replace(settings, options=options)
    usual = settings.goal == goal_of(settings.kind, {}, settings.candidates)
    goal = HOW_MUCH[settings.kind](float(f"{0.1 / sqrt(n_items):.1g}")) if usual else settings.goal
    return replace(settings, goal=goal, options={**options, "max_calls": n_items})


def answers_are_free(settings: Settings) -> bool:
    """Tell whether no call is made for a question about these candidates."""
    if (
        settings.kind not in KINDS
        or settings["method"] not in (None, "auto")
        or settings["target"] == "expected"
    ):
        return False
    scorer = settings["scorer"]
    name = "" if scorer is None or callable(scorer) else scorer_name(scorer)
    paid = settings["judge"] is not None or name in (*JUDGES, People.name)
    names = [one.model_name for one in settings.candidates]
    return not paid and all(is_given(name) or name.startswith(RUN) for name in names)
