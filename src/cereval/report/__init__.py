"""Render a run as one self-contained HTML page, without scripts and outside resources: `page_of`.

The frame shows what all kinds have: the answer, its interval, how it narrowed, its parts, samples, what it took, the
certificate, the settings. A kind may name a function (`Kind.page`) that makes `Additions` from the `Story`.

Everything that a model or a data file wrote goes through the filter `text`, or `said`: made printable, cut, escaped.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from statistics import fmean, median
from typing import Any

import jinja2
from markupsafe import Markup

from cereval.errors import BadFile, shown
from cereval.files import write_whole
from cereval.questions.base import Kind
from cereval.records import Certified, Interval, Rows, Step, Table
from cereval.report import svg
from cereval.report.frontier import precision_costs
from cereval.report.story import Asked, Randomness, Story, randomness, read_story, recorded_story
from cereval.runner.samples import Samples
from cereval.store.base import GOING, Store
from cereval.text import (
    Bounded,
    duration,
    interval,
    money,
    outwards,
    percent,
    printable,
    rounded,
    shortened,
    signed_interval,
)

WIDE, NARROW = 720, 340
SAME = 1e-9
SAMPLES = {"wrong": 6, "right": 4, "failed": 3}
LARGEST_CERTIFICATE = 4 * 2**20
"""Bytes of a certificate that is attached to the page; a larger one is only named."""
LONG_ANSWER = 24
"""Letters of an answer that is still shown in the largest type."""


@dataclass(frozen=True, slots=True)
class Page:
    run_id: str
    html: str
    result: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Section:
    """Describe a part of a page: sentences, pictures by their CSS class, a table with a bar for each row, a caption.

    Pictures and bars are drawings of our own. optional: columns that are left out on a phone. scale: the ends of the
    bars. pairs: answers of several models to one item, side by side.
    """

    title: str
    says: Sequence[Markup] = ()
    pictures: Mapping[str, str] = field(default_factory=dict)
    table: Table | None = None
    bars: Sequence[str] = ()
    scale: tuple[str, str] = ("0%", "100%")
    pairs: Sequence[Sequence[Asked]] = ()
    optional: tuple[int, ...] = ()
    caption: str = ""

    @property
    def columns(self) -> list[tuple[int, str, str]]:
        """Return the number, the name and the CSS classes of each column of the table; drawn bars replace written
        ones."""
        table = self.table or Table((), ())
        found = []
        for number, name in enumerate(table.header):
            if not (self.bars and number == table.extra):
                marks = ["n" if number in table.numbers else "wide"]
                marks += ["optional"] if number in self.optional else []
                marks += ["strong"] if name == "estimate" else []
                found.append((number, name, " ".join(marks)))
        return found


@dataclass(frozen=True, slots=True)
class Additions:
    """Hold what a kind adds to the frame.

    says: what is certified, in sentences. mean: what the bar and the chart show; None: the result, if it has limits.
    least: the smallest value there is; -1 for differences. scope: what the answers and the chart are of, where that is
    less than the result.
    """

    says: Sequence[Markup] = ()
    sections: Sequence[Section] = ()
    mean: Bounded | None = None
    least: float = 0.0
    scope: str = ""


def page_of(store: Store, run_id: str) -> Page:
    story = read_story(store, run_id)
    assert story.run is not None
    # By name, as the pages of kinds: it replays the run, and kinds know nothing of that.
    sections: Sequence[Section] = import_module("cereval.report.judge").judge_sections(store, story)
    return Page(story.run.run_id, render(story, sections), story.result.as_dict())


def recorded_page(
    kind: Kind,
    result: Certified,
    certificate: Mapping[str, Any],
    steps: Sequence[Step] = (),
    about: Mapping[str, Any] | None = None,
) -> str:
    """Render the page of a recorded evaluation. about: names of the models and the data."""
    return render(recorded_story(kind, result, certificate, steps, about or {}))


def write_page(path: Path, html: str) -> None:
    try:
        write_whole(path, html)
    except OSError as error:
        raise BadFile(f"the page cannot be written to {path} ({error.strerror}); name another file") from None


def render(story: Story, more: Sequence[Section] = ()) -> str:
    return styled("page.html", **contents(story, more))


def contents(story: Story, more: Sequence[Section] = ()) -> dict[str, Any]:
    result, added = story.result, additions(story)
    return {
        "story": story,
        "result": result,
        "title": title_of(story),
        "long": len(result.answer()) > LONG_ANSWER,
        "lead": result.headline().removeprefix(f"{result.answer()}, "),
        "bar": _bar(added, result),
        "says": added.says,
        "resumes": story.run is not None and story.run.status not in GOING,
        "sections": [
            *_chart(story, added),
            *_frontier(story),
            *more,
            *randomness_section(story),
            *added.sections,
        ],
        "samples": {kind: samples(story, kind, most) for kind, most in SAMPLES.items()},
        "totals": totals(story),
        "scope": added.scope,
        "differing": differing(story),
        "attachment": attachment(story.certificate),
        "settings": settings(story),
    }


def styled(template: str, **values: Any) -> str:
    page = environment().get_template(template).render(style=Markup(_file("page.css")), **values)
    return f"{page.strip()}\n"


def said(sentence: str, *values: object, limit: int = 120) -> Markup:
    """Return a sentence of our own, its marks kept, with values that are made printable, cut and escaped.

    >>> said("<b>{}</b> is better", "<a>")
    Markup('<b>&lt;a&gt;</b> is better')
    """
    return Markup(sentence).format(*(printable(str(value), limit) for value in values))


def counted(number: int, what: str) -> str:
    """Return a number of things.

    >>> counted(1, "call"), counted(2000, "call")
    ('1 call', '2,000 calls')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


# -- what the frame makes of a story ----------------------------------------------------------------------------------


def additions(story: Story) -> Additions:
    """Return what the kind adds; for a kind without a page of its own, the parts of the answer as a table."""
    module, _, name = story.kind.page.partition(":")
    if name:
        found: Additions = getattr(import_module(module), name)(story)
        return found
    table = story.result.table()
    least = min((step.lower for step in story.steps), default=0.0)
    return Additions(
        sections=() if table is None else (Section("In detail", table=table),),
        least=-1.0 if min(least, getattr(story.result, "lower", 0.0)) < 0 else 0.0,
    )


def title_of(story: Story) -> str:
    models = story.result.models
    if not models:
        return ""
    return " against ".join(models) if len(models) <= 2 else f"{len(models)} models"


def _mean(added: Additions, result: Any) -> Bounded | None:
    if added.mean is not None or not all(hasattr(result, name) for name in ("estimate", "lower", "upper")):
        return added.mean
    mean: Bounded = result
    return mean


def _bar(added: Additions, result: Certified) -> dict[str, Any] | None:
    mean = _mean(added, result)
    if mean is None:
        return None
    scale = ("0%", "50%", "100%") if added.least == 0 else ("-100%", "0", "+100%")
    return {"drawing": svg.interval_bar(mean.estimate, mean, added.least), "scale": scale}


def _chart(story: Story, added: Additions) -> list[Section]:
    if len(story.steps) < 2:
        return []
    last = story.steps[-1]
    ends = (signed_interval if added.least < 0 else interval)(last.lower, last.upper)
    caption = (
        "Shaded: the certified interval after each result. Line: the estimate. Dashed: the ends at the last result, "
        f"{ends}. Across: results used{added.scope}, in the order of the draws."
    )
    charts = {
        name: svg.narrowing(story.steps, width, least=added.least)
        for name, width in (("wide", WIDE), ("narrow", NARROW))
    }
    return [Section("How the interval narrowed", pictures=charts, caption=caption)]


def _frontier(story: Story) -> list[Section]:
    found = precision_costs(story)
    if found is None:
        return []
    caption = (
        "Line: half the width of the interval after each result of this run, which aimed at its end. Dashed, and ~ in "
        "the table: what a new run is expected to take that aims at a precision from its start. Across: results used."
    )
    return [Section("What precision costs", pictures=found[0], table=found[1], caption=caption)]


BANDS = ("always wrong", "up to 25%", "25% to 50%", "50% to 75%", "75% or more", "always right")
"""How often questions that were asked twice or more were answered rightly."""
RANDOM_SHOWN = 3


def randomness_section(story: Story) -> list[Section]:
    """Say which questions were answered alike each time, where some were asked twice or more."""
    if story.plan is None or story.plan.target != "expected":
        return []
    asked: dict[str, dict[str, list[Asked]]] = {}
    for one in story.asked:
        if one.answer is not None and one.answer.score is not None:
            asked.setdefault(one.model, {}).setdefault(one.item.id, []).append(one)
    several = Samples.of(story.plan.scorer).count > 1
    says, rows, bars, pairs = [], [], [], list[Sequence[Asked]]()
    for model, items in asked.items():
        found = randomness({item: _scores(own, several) for item, own in items.items()})
        if not found.again:
            continue
        of = said("<b>{}</b>: ", model) if len(asked) > 1 else ""
        says.append(of + _randomness_in_words(found))
        for name, count in zip(BANDS, _bands(found), strict=True):
            rows.append([*([model] if len(asked) > 1 else []), name, f"{count:,}"])
            bars.append(svg.interval_bar(None, Interval(0.0, count / found.again) if count else None))
        pairs += [unlike for item in found.random if (unlike := _unlike(items[item]))]
    if not says:
        return []
    header = (*(["model"] if len(asked) > 1 else []), "answered rightly", "questions", "share")
    last = len(header) - 1
    table = Table(header, [[*row, ""] for row in rows], numbers=(last - 1,), extra=last)
    caption = "Descriptive, without a guarantee: few answers to a question cannot tell a rate of 95% from always right."
    return [
        Section(
            "How random the answers are",
            says,
            table=table,
            bars=bars,
            pairs=pairs[:RANDOM_SHOWN],
            caption=caption,
        )
    ]


def _scores(answers: Sequence[Asked], several: bool) -> list[float]:
    """Return the scores of answers, of all those that were kept as one."""
    kept = [one.answer for one in answers if one.answer is not None]
    if several:
        return [float(score) for one in kept for score in one.detail.split() if score != "-"]
    return [one.score for one in kept if one.score is not None]


def _randomness_in_words(found: Randomness) -> Markup:
    return said(
        "Of {} asked twice or more, {} <b>always right</b>, {} <b>always wrong</b>, and {} <b>random</b>: right at one "
        "time and wrong at another. The variance between questions is {}, that of the answers to one question {}.",
        counted(found.again, "question"),
        *(
            f"{count:,} {'was' if count == 1 else 'were'}"
            for count in (found.right, found.wrong, len(found.random))
        ),
        f"{found.between:.3f}",
        f"{found.within:.3f}",
    )


def _bands(found: Randomness) -> list[int]:
    inner = [0, 0, 0, 0]
    for own in found.random.values():
        inner[min(int(4 * fmean(own)), 3)] += 1
    return [found.wrong, *inner, found.right]


def _unlike(answers: Sequence[Asked]) -> Sequence[Asked]:
    """Return a right and a wrong answer to a question, if both are at hand with their texts."""
    sides = [[one for one in answers if outcome(one) == side] for side in ("right", "wrong")]
    pair = [own[0] for own in sides if own and own[0].answer is not None and own[0].answer.text]
    return pair if len(pair) == 2 else ()


def samples(story: Story, kind: str, most: int) -> list[Asked]:
    """Return the first drawn of a kind, one for each model and category before any has two."""
    seen: dict[object, int] = {}
    rounds = []
    for one in story.asked:
        if outcome(one) == kind:
            number = seen[one.model, one.item.category] = seen.get((one.model, one.item.category), 0) + 1
            rounds.append((number, one.draw.index, one))
    return [one for _, _, one in sorted(rounds, key=lambda entry: entry[:2])[:most]]


def outcome(one: Asked) -> str:
    if one.answer is None:
        return "open"
    if one.answer.score is None:
        return "failed"
    return "right" if one.answer.score >= 0.5 else "wrong"


def totals(story: Story) -> list[dict[str, Any]]:
    models = tuple(dict.fromkeys(one.model for one in story.asked))
    groups = [("all", story.asked)]
    if len(models) > 1:
        groups += [(name, tuple(one for one in story.asked if one.model == name)) for name in models]
    return [_total(name, asked) for name, asked in groups]


def _total(model: str, asked: Sequence[Asked]) -> dict[str, Any]:
    answers = [one.answer for one in asked if one.answer is not None]
    costs = [answer.cost_usd for answer in answers]
    return {
        "model": model,
        "answers": len(answers),
        "failures": sum(answer.failure is not None for answer in answers),
        "input_tokens": sum(answer.input_tokens for answer in answers),
        "output_tokens": sum(answer.output_tokens for answer in answers),
        "retries": sum(answer.attempts - 1 for answer in answers),
        "median_s": median(answer.latency_s for answer in answers) if answers else 0.0,
        "cost_usd": None if None in costs else sum(cost for cost in costs if cost is not None),
    }


def differing(story: Story) -> str:
    """Return what the certificate says, where that is not what the page says."""
    there = (story.certificate or {}).get("result", {})
    if not isinstance(there, Mapping):
        return f"result {shown(there)}"
    differing = []
    for name, here in story.result.as_dict().items():
        if isinstance(here, int | float) and name in there:
            said = there[name]
            if not (isinstance(said, int | float) and here - SAME <= said <= here + SAME):
                differing.append(f"{name} {said:.6g}" if isinstance(said, float) else f"{name} {shown(said)}")
    return ", ".join(differing)


def settings(story: Story) -> Rows:
    rows = {name.capitalize(): value for name, value in story.result.rows()} | dict(story.settings)
    return [*rows.items(), *(("Note", note) for note in story.result.notes)]


def attachment(certificate: Any) -> Markup:
    """Return the certificate as a `data:` address, so that the page alone is enough to verify it."""
    content = b"" if certificate is None else json.dumps(certificate, indent=1).encode()
    if not content or len(content) > LARGEST_CERTIFICATE:
        return Markup("")
    return Markup("data:application/json;base64," + base64.b64encode(content).decode())


# -- templates --------------------------------------------------------------------------------------------------------


@cache
def environment(folder: str = "") -> jinja2.Environment:
    """Make the environment of the templates here, and of those in a folder of another room, which come first."""
    own = jinja2.FunctionLoader(_file)
    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.ChoiceLoader([jinja2.FileSystemLoader(folder), own]) if folder else own,
    )
    filters: dict[str, Callable[..., Any]] = {
        "drawing": Markup,
        "percent": rounded,
        "share": percent,
        "count": counted,
        "outwards": lambda ends: outwards(*ends),
        "money": money,
        "duration": duration,
        "number": "{:,}".format,
        "short": lambda value, limit: printable(shortened(str(value), limit), limit),
        "text": lambda value, limit=400: printable(str(value), limit, lines=True),
    }
    environment.filters |= filters
    return environment


def _file(name: str) -> str:
    assert __package__
    return (files(__package__) / name).read_text(encoding="utf-8")


# -- fleets -----------------------------------------------------------------------------------------------------------

SHOWN = ("model", "goal", "answer", "calls", "cost", "run")


def fleet_page(rows: Sequence[Mapping[str, Any]], headline: str, table: Table) -> str:
    names = list(dict.fromkeys(cells[1] for cells in table.rows))
    sections = [_fleet_section(name, rows, table) for name in names]
    sure = sorted({float(row["confidence"]) for row in rows if row.get("confidence")})
    return styled("fleet.html", headline=headline, sure=sure, runs=len(rows), sections=sections)


def _fleet_section(name: str, rows: Sequence[Mapping[str, Any]], table: Table) -> Section:
    """Return the runs on one data set; bars only where every run has a mean."""
    columns = [table.header.index(column) for column in SHOWN]
    here = [(row, cells) for row, cells in zip(rows, table.rows, strict=True) if cells[1] == name]
    cells = [tuple(cell[column] for column in columns) for _, cell in here]
    bars = [_fleet_bar(row) for row, _ in here]
    return Section(
        name, table=Table(SHOWN, cells, numbers=(3, 4)), bars=bars if all(bars) else (), optional=(1, 4)
    )


def _fleet_bar(row: Mapping[str, Any]) -> str:
    if row.get("lower") is None or not 0 <= row["lower"] <= row["upper"] <= 1 or row.get("estimate") is None:
        return ""
    return svg.interval_bar(row["estimate"], Interval(row["lower"], row["upper"]), 0.0)
