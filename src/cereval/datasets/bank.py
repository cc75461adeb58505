"""Make the project's own question bank: about 2,000 short questions that cost nothing and are easy to check.

The topics differ widely in how hard they are for a small model: there, choosing the questions pays off.

    python -m cereval.datasets.bank > bank.jsonl
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from string import ascii_uppercase
from typing import Any, TypeVar

T = TypeVar("T")

SCORER = "contains"
"""Made for it: an answer is right when the number or word occurs in it as a whole word."""

THROWS_PER_QUESTION = 100


class Dice:
    """Make seeded choices. Only `Random.random` is promised to stay the same in later Pythons, so only it is used.

    >>> Dice("a").number(1, 6) == Dice("a").number(1, 6)
    True
    """

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)

    def number(self, low: int, high: int) -> int:
        """Throw a whole number from low to high, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def choice(self, values: Sequence[T]) -> T:
        return values[self.number(0, len(values) - 1)]


@dataclass(frozen=True, slots=True)
class BankQuestion:
    """Hold a short text and the answers that count, the first the canonical one."""

    text: str
    answers: tuple[str, ...]

    @property
    def gives_itself_away(self) -> bool:
        return any(re.search(rf"\b{re.escape(answer)}\b", self.text, re.I) for answer in self.answers)


@dataclass(frozen=True, slots=True)
class Topic:
    """Make `count` different questions of one category; `level` 1 is easy for a child, 3 takes pen and paper.

    An answer that only repeats the question must not count, so questions that hold their answer are left out,
    except where the question has to name it (`repeats`).
    """

    name: str
    level: int
    count: int
    make: Callable[[Dice], BankQuestion]
    repeats: bool = False

    def questions(self, seed: int) -> tuple[BankQuestion, ...]:
        """Throw the dice until enough different questions have come up."""
        dice = Dice(f"{seed} {self.name} {self.level}")
        found: dict[str, BankQuestion] = {}
        for _ in range(THROWS_PER_QUESTION * self.count):
            question = self.make(dice)
            if self.repeats or not question.gives_itself_away:
                found.setdefault(question.text, question)
            if len(found) == self.count:
                return tuple(found.values())
        raise AssertionError(f"{self.name} has only {len(found)} questions of {self.count}")


def words(text: str) -> tuple[str, ...]:
    """Split a text into words: easier on the eye than a list of literals."""
    return tuple(text.split())


def question_bank(seed: int = 0) -> tuple[dict[str, Any], ...]:
    """Make records with `id`, `question`, `answer`, `category` and `level`, the same for the same seed.

    >>> question_bank()[0]["category"]
    'addition, one digit'
    """
    return tuple(
        _record(topic, number, question)
        for topic in TOPICS
        for number, question in enumerate(topic.questions(seed), start=1)
    )


def as_jsonl(seed: int = 0) -> Iterator[str]:
    return (json.dumps(record, ensure_ascii=False) for record in question_bank(seed))


def _record(topic: Topic, number: int, question: BankQuestion) -> dict[str, Any]:
    identity = "-".join(topic.name.replace(",", "").split())
    return {
        "id": f"{identity}-{topic.level}-{number:03d}",
        "question": question.text,
        "answer": list(question.answers),
        "category": topic.name,
        "level": topic.level,
    }


# Arithmetic of several sizes, comparison, parity and sequences.

SMALL_NUMBERS = words(
    """
    two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty
    """
)


def numeral(number: int) -> tuple[str, ...]:
    """Write a number as digits and, where it is small, as a word; "one" is left out: many a sentence has it.

    >>> numeral(7), numeral(1200)
    (('7', 'seven'), ('1200', '1,200'))
    """
    if 2 <= number < 2 + len(SMALL_NUMBERS):
        return (str(number), SMALL_NUMBERS[number - 2])
    return (str(number),) if number < 1000 else (str(number), f"{number:,}")


def yes_or_no(fact: bool) -> tuple[str, ...]:
    return ("yes",) if fact else ("no",)


def _addition(low: int, high: int, size: str) -> Topic:
    def make(dice: Dice) -> BankQuestion:
        a, b = dice.number(low, high), dice.number(low, high)
        return BankQuestion(f"{a} + {b} =", numeral(a + b))

    return Topic(f"addition, {size}", len(str(high)), 65, make)


def _subtraction(high: int) -> Topic:
    def make(dice: Dice) -> BankQuestion:
        b, rest = dice.number(1, high), dice.number(1, high)
        return BankQuestion(f"{b + rest} - {b} =", numeral(rest))

    return Topic("subtraction", 1 if high < 10 else 2, 60, make)


def _multiplication(high: int, name: str, level: int, count: int) -> Topic:
    def make(dice: Dice) -> BankQuestion:
        a, b = dice.number(2, 9), dice.number(2 if high < 10 else 11, high)
        return BankQuestion(f"{a} * {b} =", numeral(a * b))

    return Topic(name, level, count, make)


def _parity(dice: Dice) -> BankQuestion:
    number, kind = dice.number(1, 99), dice.choice(("even", "odd"))
    return BankQuestion(
        f"Is {number} an {kind} number? Answer yes or no.", yes_or_no((number % 2 == 0) == (kind == "even"))
    )


def _comparison(dice: Dice) -> BankQuestion:
    a, b = dice.number(1, 99), dice.number(1, 99)
    return BankQuestion(f"Is {a} greater than {b}? Answer yes or no.", yes_or_no(a > b))


def _sequence(steps: tuple[int, ...], first: int, level: int) -> Topic:
    def make(dice: Dice) -> BankQuestion:
        step, start = dice.choice(steps), dice.number(1, first)
        shown = ", ".join(str(start + step * k) for k in range(4))
        return BankQuestion(f"Which number comes next: {shown}, ...?", numeral(start + 4 * step))

    return Topic("sequences", level, 50, make)


# Words: copying, reversing, counting and picking letters, the order of the alphabet.

WORDS = words(
    """
    anchor apple autumn balloon banana basket beach blanket bottle branch bread bridge brother bucket
    butter button cabin candle carpet castle cherry chicken circle clock cloud coffee copper corner
    cotton cousin curtain desert dinner doctor dragon eagle engine evening farmer feather finger flower
    forest friend garden ginger glass guitar hammer harbor helmet honey island jacket jungle kettle
    kitchen ladder lantern lemon letter library lizard market meadow melon mirror monkey morning
    mountain needle number ocean office onion orange oven paper parrot pencil pepper picture pillow
    pirate planet pocket potato pumpkin puzzle rabbit rainbow ribbon river rocket saddle salmon school
    shadow shelter silver singer sister spider spring stone summer table teacher temple thunder ticket
    tiger tomato tower tractor train travel tunnel turtle umbrella uncle valley village violin wagon
    water whale window winter wizard yellow zebra
    """
)
SHORT_WORDS = words("art bag bed box bus cap cat cow cup dog ear egg fan fig fox gas hat hen ice jam key leg")
LONGER_WORDS = words(
    "bell bird book cake coat desk door duck farm fish gold hand lamp milk moon nest ship star"
)


def _copying(dice: Dice) -> BankQuestion:
    word = dice.choice(WORDS)
    ask = dice.choice(("Repeat this word:", "Say this word again:", "Copy this word:"))
    return BankQuestion(f"{ask} {word}", (word,))


def _reversal(dice: Dice) -> BankQuestion:
    word = dice.choice(SHORT_WORDS + LONGER_WORDS + WORDS[:40])
    return BankQuestion(f"Write the word '{word}' backwards.", (word[::-1],))


def _end_letter(dice: Dice) -> BankQuestion:
    # "a" and "i" are words too: an answer would contain them by accident.
    which = dice.choice(("first", "last"))
    word = dice.choice([word for word in WORDS if _end(word, which) not in "ai"])
    return BankQuestion(f"What is the {which} letter of the word '{word}'?", (_end(word, which),))


def _end(word: str, which: str) -> str:
    return word[0] if which == "first" else word[-1]


def _length(dice: Dice) -> BankQuestion:
    word = dice.choice(WORDS + SHORT_WORDS + LONGER_WORDS)
    return BankQuestion(f"How many letters are in the word '{word}'?", numeral(len(word)))


def _occurrences(dice: Dice) -> BankQuestion:
    word = dice.choice(WORDS)
    letter = dice.choice(sorted(set(word)))
    count = word.count(letter)
    answers = ("1", "once") if count == 1 else numeral(count)
    return BankQuestion(f"How many times does the letter '{letter}' occur in '{word}'?", answers)


def _neighbour(dice: Dice) -> BankQuestion:
    place, step = dice.choice([(p, s) for p in range(26) for s in (-1, 1) if 0 <= p + s < 26])
    answer = ascii_uppercase[place + step]
    if answer in "AI":
        return _neighbour(dice)
    side = "after" if step > 0 else "before"
    return BankQuestion(
        f"Which letter comes right {side} {ascii_uppercase[place]} in the alphabet?", (answer.lower(),)
    )


# Dates and units.

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


def _weekday(dice: Dice) -> BankQuestion:
    start, days = dice.number(0, 6), dice.number(2, 9)
    side, sign = dice.choice((("after", 1), ("before", -1)))
    answer = DAYS[(start + sign * days) % 7]
    return BankQuestion(f"Which day of the week is {days} days {side} {DAYS[start]}?", (answer,))


def _next_month(dice: Dice) -> BankQuestion:
    start = dice.number(0, 11)
    side, sign = dice.choice((("after", 1), ("before", -1)))
    return BankQuestion(f"Which month comes right {side} {MONTHS[start]}?", (MONTHS[(start + sign) % 12],))


def _later_month(dice: Dice) -> BankQuestion:
    start, months = dice.number(0, 11), dice.number(2, 10)
    return BankQuestion(
        f"Which month is {months} months after {MONTHS[start]}?", (MONTHS[(start + months) % 12],)
    )


def _in_units(dice: Dice) -> BankQuestion:
    small, large, factor = dice.choice(UNITS)
    amount = dice.number(2, 20)
    return BankQuestion(f"How many {small} are in {amount} {large}?", numeral(amount * factor))


# What most people know.


def _pairs(text: str) -> dict[str, str]:
    """Read `key value` pairs separated by commas; underscores stand for blanks."""
    return {
        key.replace("_", " "): value.replace("_", " ")
        for key, value in (pair.split() for pair in text.split(","))
    }


CAPITALS = _pairs(
    """
    France Paris, Germany Berlin, Italy Rome, Spain Madrid, Portugal Lisbon, England London, Ireland
    Dublin, Norway Oslo, Sweden Stockholm, Finland Helsinki, Denmark Copenhagen, Poland Warsaw, Austria
    Vienna, Hungary Budapest, Greece Athens, Russia Moscow, Ukraine Kyiv, Romania Bucharest, Bulgaria
    Sofia, Serbia Belgrade, Belgium Brussels, Iceland Reykjavik, Turkey Ankara, Egypt Cairo, Morocco
    Rabat, Kenya Nairobi, Ghana Accra, Nigeria Abuja, Ethiopia Addis_Ababa, Senegal Dakar, Zambia
    Lusaka, China Beijing, Japan Tokyo, India New_Delhi, Thailand Bangkok, Vietnam Hanoi, Nepal
    Kathmandu, Iran Tehran, Iraq Baghdad, Lebanon Beirut, Jordan Amman, Canada Ottawa, Cuba Havana,
    Jamaica Kingston, Brazil Brasilia, Argentina Buenos_Aires, Chile Santiago, Peru Lima, Colombia
    Bogota, Ecuador Quito, Uruguay Montevideo, Venezuela Caracas, Australia Canberra, New_Zealand
    Wellington, Mongolia Ulaanbaatar, Cambodia Phnom_Penh, Pakistan Islamabad, Philippines Manila,
    Indonesia Jakarta, Croatia Zagreb
    """
)
CONTINENTS = {
    "Europe": """
        France Germany Italy Spain Portugal Norway Sweden Poland Austria Hungary Greece Belgium Denmark
        Ireland Romania Bulgaria Switzerland Croatia Serbia Slovakia Ukraine Iceland Estonia Latvia Lithuania
    """,
    "Africa": """
        Egypt Morocco Kenya Ghana Nigeria Ethiopia Senegal Zambia Uganda Tanzania Angola Mali Chad Somalia
        Algeria Tunisia Libya Sudan Rwanda Namibia Botswana Zimbabwe Cameroon Gabon Malawi Mozambique
    """,
    "Asia": """
        China Japan India Thailand Vietnam Nepal Iran Iraq Lebanon Jordan Mongolia Cambodia Pakistan Laos
        Malaysia Indonesia Singapore Bangladesh Afghanistan Syria Yemen Oman Qatar Bhutan
    """,
    "South America": """
        Brazil Argentina Chile Peru Colombia Ecuador Uruguay Venezuela Bolivia Paraguay Guyana Suriname
    """,
}
LANGUAGES = _pairs(
    """
    France French, Germany German, Italy Italian, Spain Spanish, Portugal Portuguese, Japan Japanese,
    Russia Russian, Poland Polish, Greece Greek, Turkey Turkish, Hungary Hungarian, Finland Finnish,
    Sweden Swedish, Norway Norwegian, Denmark Danish, Mexico Spanish, Brazil Portuguese, Egypt Arabic,
    Vietnam Vietnamese, Thailand Thai, Iran Persian, Ukraine Ukrainian, Argentina Spanish, Australia English
    """
)
PAST_TENSES = _pairs(
    """
    go went, eat ate, see saw, take took, give gave, come came, run ran, write wrote, drive drove, sing sang,
    drink drank, swim swam, begin began, break broke, speak spoke, choose chose, wear wore, fly flew,
    grow grew, know knew, throw threw, blow blew, draw drew, buy bought, bring brought, think thought,
    catch caught, teach taught, sell sold, tell told, find found, stand stood, sleep slept, keep kept,
    feel felt, leave left, lose lost, build built, send sent, spend spent, walk walked, jump jumped,
    play played, work worked, talk talked, look looked, open opened, ask asked, help helped, start started,
    cook cooked, clean cleaned, paint painted, laugh laughed, dance danced, smile smiled, stop stopped,
    study studied, carry carried, make made
    """
)
OPPOSITES = _pairs(
    """
    hot cold, big small, up down, left right, day night, black white, open closed, happy sad, fast slow,
    high low, begin end, true false, wet dry, young old, rich poor, strong weak, light dark, hard soft,
    full empty, love hate, good bad, early late, near far, inside outside, win lose, buy sell, push
    pull, above below, clean dirty, deep shallow, thick thin, wide narrow, long short, loud quiet, safe
    dangerous, tall short, front back, asleep awake, heavy light, first last, always never, give take,
    more less, rough smooth, sharp dull, sweet sour, tight loose, brave cowardly, arrive depart, friend
    enemy, import export, increase decrease, laugh cry, male female, maximum minimum, north south, east
    west, question answer, peace war, success failure, summer winter, teach learn
    """
)
PLURALS = _pairs(
    """
    child children, mouse mice, foot feet, tooth teeth, goose geese, man men, woman women, person
    people, ox oxen, leaf leaves, knife knives, wolf wolves, wife wives, box boxes, city cities, baby
    babies, dog dogs, house houses, tree trees, glass glasses, potato potatoes, tomato tomatoes, church
    churches, lady ladies, shelf shelves, car cars, cactus cacti, berry berries, dish dishes, watch
    watches, key keys, monkey monkeys, loaf loaves, half halves, hero heroes,
    cat cats, bird birds, book books, chair chairs, table tables, apple apples, river rivers, cloud clouds,
    flower flowers, train trains, school schools, bridge bridges, bus buses, fox foxes, story stories,
    country countries, party parties, family families, thief thieves, calf calves, window windows,
    garden gardens, doctor doctors, brush brushes, match matches
    """
)
COLOURS = _pairs(
    """
    the_sky blue, grass green, snow white, coal black, blood red, a_banana yellow, a_carrot orange, milk
    white, an_emerald green, a_ruby red, chocolate brown, a_lemon yellow, a_polar_bear white, a_raven
    black, an_elephant gray, a_strawberry red, spinach green, a_flamingo pink, a_pumpkin orange, the_sun
    yellow
    """
)
KINDS = {
    "an animal": "dog cat horse lion tiger cow sheep rabbit whale eagle salmon frog",
    "a fruit": "apple banana pear cherry grape mango peach plum lemon orange kiwi melon",
    "a tool": "hammer saw wrench drill screwdriver shovel axe chisel rake pliers",
    "a vehicle": "car bus truck train bicycle motorcycle airplane tractor van scooter",
}


def _about(name: str, level: int, ask: str, table: Mapping[str, str]) -> Topic:
    """Make a topic of one question for each key of a table."""
    keys = list(table)

    def make(dice: Dice) -> BankQuestion:
        key = dice.choice(keys)
        return BankQuestion(ask.format(key), (table[key],))

    return Topic(name, level, len(keys), make)


def _continent(dice: Dice) -> BankQuestion:
    continent = dice.choice(list(CONTINENTS))
    return BankQuestion(f"On which continent is {dice.choice(CONTINENTS[continent].split())}?", (continent,))


def _kind(dice: Dice) -> BankQuestion:
    truth, asked = dice.choice(list(KINDS)), dice.choice(list(KINDS))
    thing = dice.choice(KINDS[truth].split())
    article = "an" if thing[0] in "aeiou" else "a"
    return BankQuestion(f"Is {article} {thing} {asked}? Answer yes or no.", yes_or_no(truth == asked))


TOPICS: tuple[Topic, ...] = (
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
    Topic("copying a word", 1, 220, _copying, repeats=True),
    Topic("first and last letter", 1, 75, _end_letter),
    Topic("letters of the alphabet", 2, 45, _neighbour),
    Topic("counting letters", 2, 75, _length),
    Topic("counting one letter", 3, 100, _occurrences),
    Topic("reversing a word", 3, 60, _reversal),
    Topic("months", 1, 24, _next_month),
    Topic("months", 3, 40, _later_month),
    Topic("days of the week", 3, 50, _weekday),
    Topic("units", 2, 100, _in_units),
    _about("capitals", 1, "What is the capital of {}?", CAPITALS),
    _about(
        "countries of cities", 1, "In which country is the city of {}?", {v: k for k, v in CAPITALS.items()}
    ),
    Topic("continents", 1, 80, _continent),
    _about("languages", 1, "What is the main language of {}?", LANGUAGES),
    _about("opposites", 1, "What is the opposite of {}?", OPPOSITES),
    _about("plurals", 2, "What is the plural of '{}'?", PLURALS),
    _about("past tense", 2, "What is the past tense of the verb '{}'?", PAST_TENSES),
    _about("colours", 1, "What color is {}?", COLOURS),
    Topic("kinds of things", 1, 100, _kind, repeats=True),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m cereval.datasets.bank",
        description="`python -m cereval.datasets.bank > bank.jsonl`: writes the question bank.",
    )
    parser.add_argument("--seed", type=int, default=0, help="another seed, another bank")
    for line in as_jsonl(parser.parse_args().seed):
        print(line)


if __name__ == "__main__":
    main()
