"""Arithmetic of several sizes, comparison, parity and sequences."""

from __future__ import annotations

from cereval.datasets.bank.base import Dice, Question, Topic, words, yes_or_no

SMALL_NUMBERS = words(
    """
    two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty
    """
)


def numeral(number: int) -> tuple[str, ...]:
    """A number as digits and, where it is small, as a word; "one" is left out, for it is in many a sentence.

    >>> numeral(7), numeral(1200)
    (('7', 'seven'), ('1200', '1,200'))
    """
    if 2 <= number < 2 + len(SMALL_NUMBERS):
        return (str(number), SMALL_NUMBERS[number - 2])
    return (str(number),) if number < 1000 else (str(number), f"{number:,}")


def _addition(low: int, high: int, size: str) -> Topic:
    def make(dice: Dice) -> Question:
        a, b = dice.number(low, high), dice.number(low, high)
        return Question(f"{a} + {b} =", numeral(a + b))

    return Topic(f"addition, {size}", len(str(high)), 65, make)


def _subtraction(high: int) -> Topic:
    def make(dice: Dice) -> Question:
        b, rest = dice.number(1, high), dice.number(1, high)
        return Question(f"{b + rest} - {b} =", numeral(rest))

    return Topic("subtraction", 1 if high < 10 else 2, 60, make)


def _multiplication(high: int, name: str, level: int, count: int) -> Topic:
    def make(dice: Dice) -> Question:
        a, b = dice.number(2, 9), dice.number(2 if high < 10 else 11, high)
        return Question(f"{a} * {b} =", numeral(a * b))

    return Topic(name, level, count, make)


def _parity(dice: Dice) -> Question:
    number, kind = dice.number(1, 99), dice.choice(("even", "odd"))
    return Question(
        f"Is {number} an {kind} number? Answer yes or no.", yes_or_no((number % 2 == 0) == (kind == "even"))
    )


def _comparison(dice: Dice) -> Question:
    a, b = dice.number(1, 99), dice.number(1, 99)
    return Question(f"Is {a} greater than {b}? Answer yes or no.", yes_or_no(a > b))


def _sequence(steps: tuple[int, ...], first: int, level: int) -> Topic:
    def make(dice: Dice) -> Question:
        step, start = dice.choice(steps), dice.number(1, first)
        shown = ", ".join(str(start + step * k) for k in range(4))
        return Question(f"Which number comes next: {shown}, ...?", numeral(start + 4 * step))

    return Topic("sequences", level, 50, make)


TOPICS = (
    _addition(1, 9, "one digit"),
    _addition(10, 99, "larger numbers"),
    _addition(100, 999, "larger numbers"),
    _subtraction(9),
    _subtraction(49),
    _multiplication(9, "multiplication table", 2, 60),
    _multiplication(99, "multiplication, larger numbers", 3, 50),
    Topic("even or odd", 1, 75, _parity, repeats=True),
    Topic("comparison", 1, 75, _comparison, repeats=True),
    _sequence((1, 2, 5, 10), 20, 2),
    _sequence((3, 4, 6, 7, 8, 9), 60, 3),
)
