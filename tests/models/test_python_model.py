from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cereval.datasets.base import Item
from cereval.errors import CallError, InvalidInput
from cereval.imports import code_digest, load_function
from cereval.models import ModelOptions, open_model
from cereval.models.base import Reply, Settings
from cereval.models.python_model import PythonModel

SOURCE = """
import threading
import time
from cereval.models.base import Reply

def upper(messages): return messages[-1]["content"].upper()
async def lower(messages): return messages[-1]["content"].lower()
def roles(messages): return ",".join(m["role"] for m in messages)
def known(messages, item): return f"{item['id']} {item['level']} {sorted(item)}"
async def known_later(chat, facts): return facts["id"]
def tuned(messages, temperature=0.5): return str(temperature)
def paid(messages): return Reply("x", cost_usd=0.5)
def crash(messages): raise RuntimeError("no luck\\nat all")
def number(messages): return 7
def slow(messages): time.sleep(3); return "done"
def half(messages): return "\\ud800"
def text(prompt): return prompt.upper()
def annotated(prompt: str): return "no"
def three(messages, item, more): return ""
def none(): return ""
class Bot:
    def __init__(self, style): self.style = style
    async def __call__(self, messages, item): return self.style + item["id"]
bot = Bot("brief ")
four = threading.Barrier(4, timeout=60)
def meet(messages): four.wait(); return "done"
"""
CHAT = [{"role": "system", "content": "Be"}, {"role": "user", "content": "Nice"}]
ITEM = Item("q1", "Nice", ("secret",), metadata={"level": 3})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mymodels.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def ask(spec: str, times: int = 1, **options: float) -> list[Reply]:
    model = open_model(spec, ModelOptions(**options))  # type: ignore[arg-type]
    assert isinstance(model, PythonModel)
    model = model.about(ITEM.without_answer())
    try:
        return await asyncio.gather(*(model.answer(CHAT) for _ in range(times)))
    finally:
        await model.close()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("upper", "NICE"),
        ("lower", "nice"),
        ("roles", "system,user"),
        ("known", "q1 3 ['category', 'choices', 'id', 'input', 'level', 'metadata', 'question']"),
        ("known_later", "q1"),
        ("tuned", "0.5"),
        ("bot", "brief q1"),
        ("paid", "x"),
        ("half", "\ufffd"),
    ],
)
def test_functions_sync_and_async(here: Path, name: str, text: str) -> None:
    (reply,) = asyncio.run(ask(f"python:{here}/mymodels.py:{name}"))
    assert reply.text == text
    assert reply.cost_usd == (0.5 if name == "paid" else 0.0)


@pytest.mark.parametrize(
    ("name", "says"), [("crash", "RuntimeError: no luck"), ("number", "a text or a Reply, got 7")]
)
@pytest.mark.usefixtures("here")
def test_a_crash_is_a_call_error_of_one_line(name: str, says: str) -> None:
    with pytest.raises(CallError, match=says) as caught:
        asyncio.run(ask(f"python:mymodels.py:{name}"))
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("here")
def test_blocking_functions_run_side_by_side() -> None:
    """Each returns once three others have begun: without a stopwatch, which measures the machine's load too."""
    assert [reply.text for reply in asyncio.run(ask("python:mymodels.py:meet", times=20))] == ["done"] * 20


@pytest.mark.usefixtures("here")
def test_a_function_that_hangs_is_left() -> None:
    with pytest.raises(CallError, match="in time"):
        asyncio.run(ask("python:mymodels.py:slow", timeout_s=0.02))


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("python:mymodels.py:uper", "did you mean 'upper'"),
        ("python:nowhere:f", "importable module"),
        ("python:missing.py:f", "existing Python file"),
        ("python:f", "module:function"),
        ("opnai/x", "openai/NAME"),
        ("openai/", "openai/NAME"),
        ("local/llama", "smollm2"),
        ("scripted/high", "accuracy"),
        ("scripted/0.5", "no answers"),
    ],
)
@pytest.mark.usefixtures("here")
def test_names_that_stand_for_no_model(spec: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        open_model(spec)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "settings", [Settings(temperature=0.7), Settings(max_tokens=9), Settings(extra={"top_p": 0.9})]
)
def test_settings_that_a_function_does_not_get_are_refused(settings: Settings) -> None:
    with pytest.raises(
        InvalidInput, match="--temperature, --max-tokens and --set must be left out for python:"
    ):
        open_model("python:mymodels.py:upper", ModelOptions(settings=settings))


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("name", "says"),
    [("annotated", "the chat, not a text"), ("three", "missing a required"), ("none", "too many")],
)
def test_a_function_that_cannot_be_called_so_is_refused_when_opened(name: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as caught:
        open_model(f"python:mymodels.py:{name}")
    assert "answer(messages, item)" in str(caught.value)


def test_a_function_can_be_opened_itself() -> None:
    async def answer(messages: Any, item: Any) -> str:
        return f"{messages[-1]['content']} {item['id']}"

    model = open_model(answer)
    assert isinstance(model, PythonModel)
    assert model.name.endswith("test_python_model:test_a_function_can_be_opened_itself.<locals>.answer")
    assert asyncio.run(model.about({"id": "q1"}).answer(CHAT)).text == "Nice q1"


def test_an_edited_bot_is_another(here: Path) -> None:
    """Also where the function is what it was, and what it calls in its module is not."""
    spec = f"{here}/mymodels.py:upper"

    def digests() -> tuple[str, str, str]:
        bot = load_function("model", f"{here}/mymodels.py:bot")
        return code_digest(spec), code_digest(load_function("model", spec)), code_digest(bot)

    before = digests()
    assert digests() == before
    (here / "mymodels.py").write_text(SOURCE + "\nHELP = 'no'\n")
    assert all(one != other for one, other in zip(digests(), before, strict=True))


@pytest.mark.usefixtures("here")
def test_a_module_that_was_edited_is_loaded_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "edited_between.py"
    path.write_text("def answer(messages): return 'one'\n")
    assert load_function("model", "edited_between:answer")([]) == "one"
    path.write_text("def answer(messages): return 'another'\n")
    assert load_function("model", "edited_between:answer")([]) == "another"


def test_functions_made_with_other_values_differ() -> None:
    def bot(style: str) -> Any:
        return lambda messages: f"{style} {messages}"

    assert code_digest(bot("brief")) == code_digest(bot("brief"))
    assert code_digest(bot("brief")) != code_digest(bot("long"))

    class Bot:
        def __init__(self, style: str) -> None:
            self.style, self.lock = style, threading.Lock()

        def __call__(self, messages: Any) -> str:
            return f"{self.style} {messages}"

    assert code_digest(Bot("brief")) == code_digest(Bot("brief"))
    assert code_digest(Bot("brief")) != code_digest(Bot("long"))
    assert code_digest(Bot("brief").__call__) != code_digest(Bot("long").__call__)
    assert len({code_digest(partial(bot, one)) for one in ("a", "b")}) == 2


def test_code_of_a_notebook_counts_with_the_globals_that_it_uses() -> None:
    def cell(source: str) -> Any:
        scope: dict[str, Any] = {"__name__": "no_file"}
        exec(source, scope)
        return scope["bot"]

    one = "prompt = 'a'\ndef helper(): return prompt\ndef bot(messages): return helper()"
    assert code_digest(cell(one)) == code_digest(cell(one))
    assert code_digest(cell(one)) != code_digest(cell(one.replace("'a'", "'b'")))
    assert code_digest(cell(one)) != code_digest(cell(one.replace("return helper()", "return 'no'")))


@pytest.mark.usefixtures("here")
def test_an_option_that_would_be_ignored_is_refused() -> None:
    with pytest.raises(InvalidInput, match="base_url"):
        open_model("python:mymodels.py:upper", ModelOptions(base_url="http://x/v1"))


def test_code_in_folders_without_init_files_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Namespace packages in namespace packages, none of them imported yet."""
    from cereval.imports import load_function, origin_of

    (tmp_path / "outer_names" / "inner").mkdir(parents=True)
    path = tmp_path / "outer_names" / "inner" / "own.py"
    path.write_text("def answer(text):\n    return text\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert origin_of("outer_names.inner.own:answer") == str(path.resolve())
    assert load_function("model", "outer_names.inner.own:answer")("x") == "x"
