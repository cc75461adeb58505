"""API keys: read from the environment, used, and kept out of every text that leaves this package."""

from __future__ import annotations

import os
import re

from cereval.errors import InvalidInput

HIDDEN = "[hidden]"
_LOOKS_SECRET = re.compile(r"(?i)(bearer\s+)[^\s\"',;]+|\b(?:sk|gsk|hf|xai|key)[-_][A-Za-z0-9_\-*.]{8,}")


def api_key(variable: str) -> str | None:
    """The key in an environment variable, stripped; `None` when unset or blank."""
    key = os.environ.get(variable, "").strip()
    if not all("!" <= letter <= "~" for letter in key):
        raise InvalidInput(variable, "one line of printable ASCII without blanks", HIDDEN)
    return key or None


def scrubbed(text: str, key: str | None = None) -> str:
    """The text without the key and without anything that looks like one.

    >>> scrubbed("Incorrect API key: hunter2", "hunter2")
    'Incorrect API key: [hidden]'
    >>> scrubbed("Authorization: Bearer abc.def")
    'Authorization: Bearer [hidden]'
    """
    if key:
        text = text.replace(key, HIDDEN)
    return _LOOKS_SECRET.sub(lambda match: (match[1] or "") + HIDDEN, text)
