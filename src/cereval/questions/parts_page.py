"""Render the page of one model's answers in a ranking or a comparison."""

from __future__ import annotations

from cereval.report.page import Additions, said
from cereval.report.story import Story


def part_page(story: Story) -> Additions:
    """Add what the answers belong to: by themselves they certify nothing."""
    whole = story.result.goal.get("of")
    where = said(" The run <code>{}</code> has it.", whole) if whole else ""
    says = said(
        "These are one model's answers in a larger question, which decided what was asked. By themselves they "
        "<b>certify nothing</b>; the certificate is that of the whole."
    )
    return Additions(says=(says + where,))
