"""Open a model by its name on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from cereval.errors import InvalidInput
from cereval.models.any_llm_model import open_any
from cereval.models.base import Model, Settings
from cereval.models.local import local_gguf, open_gguf
from cereval.models.openai_model import PROVIDERS, open_openai
from cereval.models.prices import Price
from cereval.models.python_model import open_python
from cereval.models.retries import Retries
from cereval.models.scripted import GIVEN, ScriptedModel

KINDS = (
    "openai/NAME",
    *(f"{name}/NAME" for name in PROVIDERS),
    *(
        "any/PROVIDER/NAME",
        "python:module:function",
        "gguf:PATH",
        "local/smollm2",
        "scripted/ACCURACY",
        f"{GIVEN}FIELD",
    ),
)
PREFIXES = (
    "openai/",
    *(f"{name}/" for name in PROVIDERS),
    "any/",
    "python:",
    "gguf:",
    "local/",
    "scripted/",
    GIVEN,
)


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Hold all about a model but its name.

    `answer_key` (question -> answer) is what a scripted model knows.
    """

    base_url: str | None = None
    settings: Settings = field(default_factory=Settings)
    price: Price | None = None
    retries: Retries = field(default_factory=Retries)
    timeout_s: float = 120.0
    connections: int = 32
    batch: bool = False
    answer_key: Mapping[str, str] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.timeout_s < float("inf"):
            raise InvalidInput("timeout", "a number of seconds > 0", self.timeout_s)


def open_model(name: str | Callable[..., Any], options: ModelOptions | None = None) -> Model:
    """Open the model that `openai/NAME`, `anthropic/NAME`, `python:...`, `gguf:PATH`, ... stands for, or a function.

    >>> open_model("scripted/0.5", ModelOptions(answer_key={"1+1": "2"})).name
    'scripted/0.5'
    """
    options = options or ModelOptions()
    common: dict[str, Any] = {"settings": options.settings, "timeout_s": options.timeout_s}
    if not isinstance(name, str):
        return open_python(name, connections=options.connections, **common)
    prefix = prefix_of(name)
    rest = name.removeprefix(prefix)
    if options.base_url is not None and prefix != "openai/":
        raise InvalidInput("base_url", "left out unless the model is openai/NAME", options.base_url)
    match prefix:
        case "python:":
            return open_python(rest, connections=options.connections, **common)
        case "gguf:":
            return open_gguf(rest, **common)
        case "local/":
            return open_gguf(local_gguf(rest), name=name, **common)
        case "scripted/":
            return _open_scripted(rest, options)
        case "given/":
            raise InvalidInput("model", "one that can be asked: given/FIELD is for answers in the data", name)
    if prefix == "any/":
        return open_any(rest, price=options.price, retries=options.retries, **common)
    common |= {"base_url": options.base_url, "price": options.price, "retries": options.retries}
    common["batch"] = options.batch
    return open_openai(rest, provider=prefix.removesuffix("/"), **common)


def prefix_of(name: str) -> str:
    """Return what a model's name begins with; refuse one that stands for no kind of model.

    >>> prefix_of("openai/gpt-4o")
    'openai/'
    """
    for prefix in PREFIXES:
        if name.startswith(prefix) and len(name) > len(prefix):
            return prefix
    prefix = name.partition("/")[0]
    near = get_close_matches(prefix, [one.rstrip("/:") for one in PREFIXES], n=1) if "/" in name else []
    hint = f" (did you mean {near[0]}/?)" if near and near[0] != prefix else ""
    raise InvalidInput("model", "one of " + ", ".join(KINDS) + hint, name)


def _open_scripted(accuracy: str, options: ModelOptions) -> Model:
    try:
        chance = float(accuracy)
    except ValueError:
        raise InvalidInput("model", "scripted/ and an accuracy such as 0.7", f"scripted/{accuracy}") from None
    if not options.answer_key:
        raise InvalidInput("model", "openai/NAME or python:... where the data has no answers", "scripted")
    return ScriptedModel(options.answer_key, chance, seed=options.seed, name=f"scripted/{accuracy}")
