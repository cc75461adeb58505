"""Render the page of many tasks and their macro mean."""

from __future__ import annotations

from dataclasses import replace

from cereval.questions.tasks.session import TasksResult
from cereval.report import Additions, Section, said
from cereval.report.story import Story
from cereval.report.svg import interval_bar
from cereval.text import outwards


def tasks_page(story: Story) -> Additions:
    result = story.result
    assert isinstance(result, TasksResult)
    macro, table = result.macro, result.table()
    says = said(
        "The macro mean, over tasks that count alike, lies between <b>{}</b> and <b>{}</b>. It and every row below "
        "<b>hold at once</b>.",
        *outwards(macro.lower, macro.upper, 2),
    )
    rows = sorted(table.rows, key=lambda row: (-result.tasks[row[0]].estimate, row[0]))
    bars = [interval_bar(one.estimate, one) for one in (result.tasks[row[0]] for row in rows)]
    section = Section("Every task", table=replace(table, rows=rows), bars=bars, optional=(1,))
    return Additions(says=(says,), sections=(section,), mean=macro)
