"""Dates, clock times and units."""

from __future__ import annotations

from cereval.datasets.bank.base import Dice, Question, Topic, words
from cereval.datasets.bank.numbers import numeral

DAYS = words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = words("January February March April May June July August September October November December")
UNITS = (
    ("minutes", "hours", 60),
    ("seconds", "minutes", 60),
    ("hours", "days", 24),
    ("days", "weeks", 7),
    ("centimeters", "meters", 100),
    ("millimeters", "centimeters", 10),
    ("meters", "kilometers", 1000),
    ("inches", "feet", 12),
    ("feet", "yards", 3),
    ("grams", "kilograms", 1000),
    ("milliliters", "liters", 1000),
)


def _weekday(dice: Dice) -> Question:
    start, days = dice.number(0, 6), dice.number(2, 9)
    side, sign = dice.choice((("after", 1), ("before", -1)))
    answer = DAYS[(start + sign * days) % 7]
    return Question(f"Which day of the week is {days} days {side} {DAYS[start]}?", (answer,))


def _next_month(dice: Dice) -> Question:
    start = dice.number(0, 11)
    side, sign = dice.choice((("after", 1), ("before", -1)))
    return Question(f"Which month comes right {side} {MONTHS[start]}?", (MONTHS[(start + sign) % 12],))


def _later_month(dice: Dice) -> Question:
    start, months = dice.number(0, 11), dice.number(2, 10)
    return Question(
        f"Which month is {months} months after {MONTHS[start]}?", (MONTHS[(start + months) % 12],)
    )


def _in_units(dice: Dice) -> Question:
    small, large, factor = dice.choice(UNITS)
    amount = dice.number(2, 20)
    return Question(f"How many {small} are in {amount} {large}?", numeral(amount * factor))


TOPICS = (
    Topic("months", 1, 24, _next_month),
    Topic("months", 3, 40, _later_month),
    Topic("days of the week", 3, 50, _weekday),
    Topic("units", 2, 100, _in_units),
)
