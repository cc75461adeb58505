"""Render the page of a comparison of two models."""

from __future__ import annotations

from cereval.questions.compare.session import Comparison
from cereval.report import Additions, Section, counted, said
from cereval.report.story import Asked, Story
from cereval.text import signed_interval

SHOWN = 6
"""Items on which the two differ that are shown."""


def compare_page(story: Story) -> Additions:
    result = story.result
    assert isinstance(result, Comparison)
    first, second = result.models or ("the first", "the second")
    about = "Had all {} items been put to both, the mean of {} minus that of {} would lie in <b>{}</b>"
    if result.target == "population":
        about = "Over all questions of this kind, not only these {}, the mean of {} minus that of {} lies in <b>{}</b>"
    elif result.target == "expected":
        about = (
            "Over all answers they could give to these {} items, the mean of {} minus {} lies in <b>{}</b>"
        )
    says = said(
        f"{about}; the estimate is {{}}. The answer and the interval <b>hold at once</b>.",
        f"{result.n_items:,}",
        first,
        second,
        signed_interval(result.lower, result.upper),
        f"{result.difference:+.2%}",
    )
    meaning = said(
        "Both models answered the same items, so that what makes an item hard for both cancels out. {}",
        _what_it_rests_on(story),
        limit=400,
    )
    sections = (Section("What it means", says=(meaning,)), *differences_section(story, (first, second)))
    return Additions(says=(says,), sections=sections, least=-1.0)


def _what_it_rests_on(story: Story) -> str:
    result = story.result
    if result.target == "population":
        cluster = "" if story.plan is None else story.plan.scorer.get("cluster", "")
        drawn = f"The clusters of one {cluster} each" if cluster else "The items"
        return f"{drawn} are taken for independent draws from that population; the interval allows for their chances."
    if result.method == "all":
        return "All of them are in: the difference is known, but for failed calls. It is about this data set alone."
    favoured = (
        ", more often where the two were expected to disagree"
        if result.method in ("active", "memory")
        else ""
    )
    return (
        f"Items were drawn at random{favoured}; the interval allows for the chances of the draws. It is about the mean "
        f"score{' of fresh answers' if result.target == 'expected' else ''} over this data set, not about other data."
    )


def differences_section(story: Story, names: tuple[str, str]) -> list[Section]:
    both = [answers for answers in _together(story) if len(answers) == 2]
    ahead = [_score(first) - _score(second) for first, second in both]
    if not both:
        return []
    says = said(
        "Of the {} that both answered, <b>{}</b> did better on {} and <b>{}</b> on {}; else they scored alike.",
        counted(len(both), "item"),
        names[0],
        f"{sum(gap > 0 for gap in ahead):,}",
        names[1],
        f"{sum(gap < 0 for gap in ahead):,}",
    )
    differing = [answers for answers, gap in zip(both, ahead, strict=True) if gap]
    # Without their texts, as the live view reads them, answers have nothing to show here: it lists them itself.
    shown = [answers for answers in differing if any(one.answer and one.answer.text for one in answers)]
    return (
        [] if differing and not shown else [Section("Where they differ", says=(says,), pairs=shown[:SHOWN])]
    )


def _together(story: Story) -> list[list[Asked]]:
    found: dict[int, list[Asked]] = {}
    for one in story.asked:
        if one.answer is not None and one.answer.score is not None:
            found.setdefault(one.draw.index, []).append(one)
    return [found[index] for index in sorted(found)]


def _score(one: Asked) -> float:
    assert one.answer is not None
    assert one.answer.score is not None
    return one.answer.score
