"""String tasks: copying, reversing, counting and picking letters, the order of the alphabet."""

from __future__ import annotations

from string import ascii_uppercase

from cereval.datasets.bank.base import Dice, Question, Topic, words
from cereval.datasets.bank.numbers import numeral

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
SHORT_WORDS = words(
    """
    art bag bed box bus cap cat cow cup dog ear egg fan fig fox gas hat hen ice jam key leg
    """
)
LONGER_WORDS = words(
    """
    bell bird book cake coat desk door duck farm fish gold hand lamp milk moon nest ship star
    """
)


def _copying(dice: Dice) -> Question:
    word, ask = (
        dice.choice(WORDS),
        dice.choice(("Repeat this word:", "Say this word again:", "Copy this word:")),
    )
    return Question(f"{ask} {word}", (word,))


def _reversal(dice: Dice) -> Question:
    word = dice.choice(SHORT_WORDS + LONGER_WORDS + WORDS[:40])
    return Question(f"Write the word '{word}' backwards.", (word[::-1],))


def _end_letter(dice: Dice) -> Question:
    # "a" and "i" are words too: an answer would contain them by accident.
    which = dice.choice(("first", "last"))
    word = dice.choice([word for word in WORDS if _end(word, which) not in "ai"])
    return Question(f"What is the {which} letter of the word '{word}'?", (_end(word, which),))


def _end(word: str, which: str) -> str:
    return word[0] if which == "first" else word[-1]


def _length(dice: Dice) -> Question:
    word = dice.choice(WORDS + SHORT_WORDS + LONGER_WORDS)
    return Question(f"How many letters are in the word '{word}'?", numeral(len(word)))


def _occurrences(dice: Dice) -> Question:
    word = dice.choice(WORDS)
    letter = dice.choice(sorted(set(word)))
    count = word.count(letter)
    answers = ("1", "once") if count == 1 else numeral(count)
    return Question(f"How many times does the letter '{letter}' occur in '{word}'?", answers)


def _neighbour(dice: Dice) -> Question:
    place, step = dice.choice([(p, s) for p in range(26) for s in (-1, 1) if 0 <= p + s < 26])
    answer = ascii_uppercase[place + step]
    if answer in "AI":
        return _neighbour(dice)
    side = "after" if step > 0 else "before"
    return Question(
        f"Which letter comes right {side} {ascii_uppercase[place]} in the alphabet?", (answer.lower(),)
    )


TOPICS = (
    Topic("copying a word", 1, 220, _copying, repeats=True),
    Topic("first and last letter", 1, 75, _end_letter),
    Topic("letters of the alphabet", 2, 45, _neighbour),
    Topic("counting letters", 2, 75, _length),
    Topic("counting one letter", 3, 100, _occurrences),
    Topic("reversing a word", 3, 60, _reversal),
)
