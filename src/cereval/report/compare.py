"""Render the page of a comparison of two models."""

from __future__ import annotations

from cereval.report.page import Additions, Section, said
from cereval.report.story import Story
from cereval.sessions.pair import Comparison
from cereval.text import signed_interval


def compare_page(story: Story) -> Additions:
    """Add what the interval of the difference means, on a scale from -1 to 1."""
    result = story.result
    assert isinstance(result, Comparison)
    first, second = result.models or ("the first", "the second")
    says = said(
        "Had all {} items been put to both, the mean of {} minus that of {} would lie in <b>{}</b>; the estimate "
        "is {}. The answer and the interval <b>hold at once</b>.",
        f"{result.n_items:,}",
        first,
        second,
        signed_interval(result.lower, result.upper),
        f"{result.difference:+.2%}",
    )
    favoured = ", more often where the two were expected to disagree" if result.method == "active" else ""
    meaning = said(
        "Both models answered the same items, so that what makes an item hard for both cancels out. Items were drawn "
        "at random{}; the interval allows for the chances of the draws. It is about the mean score over this data set, "
        "not about other data.",
        favoured,
    )
    return Additions(says=(says,), sections=(Section("What it means", says=(meaning,)),), least=-1.0)
