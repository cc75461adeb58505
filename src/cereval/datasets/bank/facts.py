"""What most people know: capitals, continents, languages, opposites, word forms, colours, kinds of things."""

from __future__ import annotations

from collections.abc import Mapping

from cereval.datasets.bank.base import Dice, Question, Topic, yes_or_no


def _pairs(text: str) -> dict[str, str]:
    """`key value` pairs separated by commas; underscores stand for blanks."""
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
    """A topic of one question for each key of a table."""
    keys = list(table)

    def make(dice: Dice) -> Question:
        key = dice.choice(keys)
        return Question(ask.format(key), (table[key],))

    return Topic(name, level, len(keys), make)


def _continent(dice: Dice) -> Question:
    continent = dice.choice(list(CONTINENTS))
    return Question(f"On which continent is {dice.choice(CONTINENTS[continent].split())}?", (continent,))


def _kind(dice: Dice) -> Question:
    truth, asked = dice.choice(list(KINDS)), dice.choice(list(KINDS))
    thing = dice.choice(KINDS[truth].split())
    article = "an" if thing[0] in "aeiou" else "a"
    return Question(f"Is {article} {thing} {asked}? Answer yes or no.", yes_or_no(truth == asked))


TOPICS = (
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
