"""Write Markdown for model cards and pull requests: the answer in one line, and a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cereval.integrations.exports import Exported
from cereval.records import Table
from cereval.text import interval, percent, printable, signed_interval

ESCAPED = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "@": "&#64;",
    **{one: f"\\{one}" for one in "\\`*_[]|#!~$"},
}
"""Names come from data files: none may become markup, a mention or a picture."""


def text(found: Exported, url: str | None = None, **_: str) -> str:
    known = (
        f"certificate `{found.digest[:16]}`"
        if url is None
        else f"[certificate `{found.digest[:16]}`]({_link(url)})"
    )
    table = found.result.table() or (_means(found) if found.parts else _differences(found))
    return "\n".join(
        [
            f"**{escaped(found.result.headline())}**",
            "",
            *_lines(table),
            "",
            f"{escaped(found.model)} on {escaped(found.story.data)}, run `{found.run_id}`, {known} "
            "(`cereval verify` recomputes it)",
            "",
        ]
    )


def _means(found: Exported) -> Table:
    rows = [
        (
            found.model,
            found.story.data,
            f"{part.estimate:.1%}",
            interval(part.lower, part.upper),
            percent(found.result.confidence),
            f"{part.asked:,} of {part.items:,}",
        )
        for part in found.parts
    ]
    return Table(
        ("model", "data", "score", "certified interval", "confidence", "asked"), rows, numbers=(2, 3, 4, 5)
    )


def _differences(found: Exported) -> Table:
    result = found.result
    rows = [
        (
            part.name,
            f"{part.estimate:+.1%}",
            signed_interval(part.lower, part.upper),
            percent(result.confidence),
            f"{result.n_evaluated:,} of {result.n_items:,}",
        )
        for part in result.parts()
    ]
    return Table(
        ("models", "difference", "certified interval", "confidence", "asked"), rows, numbers=(1, 2, 3, 4)
    )


def _lines(table: Table) -> Iterable[str]:
    yield _row(table.header)
    yield _row(
        ["---:" if column in table.numbers else "---" for column in range(len(table.header))], raw=True
    )
    yield from map(_row, table.rows)


def _row(cells: Sequence[str], *, raw: bool = False) -> str:
    return "| " + " | ".join(cells if raw else map(escaped, cells)) + " |"


def escaped(text: str) -> str:
    """Return a text that Markdown shows as it is.

    >>> escaped("a|b <img> @all")
    'a\\\\|b &lt;img&gt; &#64;all'
    """
    return "".join(ESCAPED.get(letter, letter) for letter in printable(" ".join(text.split()), 1000))


def _link(url: str) -> str:
    return "".join(
        letter if letter.isalnum() or letter in "-._~:/?#@!$&'*+,;=%" else f"%{ord(letter):02X}"
        for letter in url
    )
