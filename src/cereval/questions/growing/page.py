"""Render the page of a data set that grows."""

from __future__ import annotations

from cereval.questions.growing.session import GrowingResult
from cereval.report import Additions, Section, said
from cereval.report.story import Story
from cereval.report.svg import interval_bar


def growing_page(story: Story) -> Additions:
    result = story.result
    assert isinstance(result, GrowingResult)
    if result.target == "population":
        what = "The mean over all questions of this kind. Every row below"
        until = ""
    else:
        what = "The mean over all items of the last version. It and every row below"
        until = (
            ", whatever the new items are, as long as whoever chose them did not know the seed (this page and the "
            "certificate reveal it)"
        )
    bars = [interval_bar(one.estimate, one) for one in result.versions]
    section = Section("Every version", table=result.table(), bars=bars, optional=(1, 2))
    return Additions(
        says=(said(f"{what} <b>hold at once</b>{until}."),),
        sections=(section,),
        scope=" for the last version",
    )
