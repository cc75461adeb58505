"""Templates into pages: one environment for every kind of page, with escaping on.

Everything that a model or a data file wrote goes through the filter `text`: made printable, cut, and escaped.
"""

from __future__ import annotations

import base64
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from cereval.report import wording
from cereval.text import printable

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup

LARGEST_CERTIFICATE = 4 * 2**20
"""Bytes of a certificate that is attached to the page; a larger one is only named."""


def rendered(template: str, **variables: Any) -> str:
    """The page that a template makes: self-contained, its style inside."""
    page: str = _environment().get_template(template).render(style=drawing(_file("page.css")), **variables)
    return page


def drawing(text: str) -> Markup:
    """A text of our own that goes into a page as it is, such as a drawing."""
    from markupsafe import Markup

    return Markup(text)


def attachment(certificate: Any) -> Markup:
    """The certificate as a `data:` address, so that the page alone is enough to verify it."""
    content = b"" if certificate is None else json.dumps(certificate, indent=1).encode()
    if not content or len(content) > LARGEST_CERTIFICATE:
        return drawing("")
    return drawing("data:application/json;base64," + base64.b64encode(content).decode())


@cache
def _environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(_file),
    )
    environment.filters |= {
        "percent": wording.percent,
        "money": wording.money,
        "duration": wording.duration,
        "text": lambda value, limit=400: printable(str(value), limit, lines=True),
    }
    return environment


def _file(name: str) -> str:
    assert __package__
    return (files(__package__) / name).read_text(encoding="utf-8")
