"""Give the parts of published files their form: fields, types and ranges; check what is read against it (`read_as`)."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct, ValidationError, convert

from cereval.errors import InvalidInput

T = TypeVar("T")


class Record(Struct, forbid_unknown_fields=True):
    """Give the parts of published files their form: fields, types and ranges; see `read_as`."""


Share = Annotated[float, Meta(ge=0, le=1)]
OpenShare = Annotated[float, Meta(gt=0, lt=1)]
ShareBelowOne = Annotated[float, Meta(ge=0, lt=1)]
Signed = Annotated[float, Meta(ge=-1, le=1)]
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]

WORDS = {
    "`int`": "a whole number",
    "`float`": "a number",
    "`str`": "a text",
    "`bool`": "true or false",
    "`null`": "null",
    "`array`": "a list",
    "`object`": "an object with names",
}
"""Types, as people call them."""


def read_as(form: type[T], value: Any, what: str) -> T:
    """Check and take what was read from a file, which may come from anybody.

    >>> read_as(list[Share], [0.5, 1.5], "history")
    Traceback (most recent call last):
    cereval.errors.InvalidInput: [1] of the history must be a number <= 1.0, got 1.5
    """
    try:
        return convert(value, form)
    except ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        place = path.rstrip("`").lstrip(".")
        field, received = (f"{place} of the {what}" if place else what), value
        for name in re.findall(r"[^.\[\]]+", place):
            key = int(name) if isinstance(received, list) else name
            received = received[key] if name != "..." else received
    if named := re.fullmatch("Object (contains unknown|missing required) field `(.*)`", reason):
        unknown, name = named[1] == "contains unknown", named[2]
        inside = f"{place}.{name}" if place else name
        raise InvalidInput(
            f"{inside} of the {what}", "left out" if unknown else "given", received[name] if unknown else None
        )
    reason = reason.removeprefix("Expected ").partition(", got")[0]
    for word, said in WORDS.items():
        reason = reason.replace(word, said)
    raise InvalidInput(field, reason, received)
