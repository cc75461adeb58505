"""A sixth kind in one folder: is the model right on more than half of the items? Nothing else knows of it.

The answer is certain: it is given when the items that were not asked can no longer change it.
"""

from __future__ import annotations

from typing import Any

from tests.questions.majority.goal import MoreThanHalf
from tests.questions.majority.session import MajorityResult, MajoritySession

from cereval.questions.base import Kind, Settings


class MajoritySettings(Settings):
    goal: MoreThanHalf
    about: dict[str, Any]


class Majority(Kind):
    name = "majority"
    goals, opens = (MoreThanHalf,), MajoritySession
    learns = by_category = False
    format = "cereval-majority/1"
    result_form, settings_form, side_form = MajorityResult, MajoritySettings, None
    audited = "counted by hand"
    audit = "tests.questions.majority.audit:MajorityAudit"
