from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cereval.errors import CallError, InvalidInput
from cereval.models import ModelOptions, open_model
from cereval.models.base import Reply

SOURCE = """
import threading
import time
from cereval.models.base import Reply

def upper(prompt): return prompt.upper()
async def lower(prompt): return prompt.lower()
def roles(messages): return ",".join(m["role"] for m in messages)
def paid(prompt): return Reply("x", cost_usd=0.5)
def crash(prompt): raise RuntimeError("no luck\\nat all")
def number(prompt): return 7
def slow(prompt): time.sleep(3); return "done"
def half(prompt): return "\\ud800"
four = threading.Barrier(4, timeout=60)
def meet(prompt): four.wait(); return "done"
"""
CHAT = [{"role": "system", "content": "Be"}, {"role": "user", "content": "Nice"}]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mymodels.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def ask(spec: str, times: int = 1, **options: float) -> list[Reply]:
    model = open_model(spec, ModelOptions(**options))  # type: ignore[arg-type]
    try:
        return await asyncio.gather(*(model.answer(CHAT) for _ in range(times)))
    finally:
        await model.close()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("upper", "BE\n\nNICE"),
        ("lower", "be\n\nnice"),
        ("roles", "system,user"),
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
