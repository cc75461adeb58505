"""SmolLM2 inside this process; skipped where the extra `local` is not installed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cereval.errors import BadFile, CerevalError
from cereval.models import ModelOptions, open_model
from cereval.models.base import Reply, Settings
from cereval.models.local import local_gguf, open_gguf


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="does not exist"):
        open_gguf(tmp_path / "no.gguf")
    (tmp_path / "text.gguf").write_text("hello")
    with pytest.raises(BadFile, match="not a GGUF file"):
        open_gguf(tmp_path / "text.gguf")


def test_smollm2_answers_the_same_twice() -> None:
    pytest.importorskip("xllamacpp", reason="pip install 'cereval[local]'")
    try:
        local_gguf("smollm2")
    except CerevalError as missing:
        pytest.skip(str(missing))

    async def ask() -> list[Reply]:
        model = open_model("local/smollm2", ModelOptions(settings=Settings(max_tokens=4)))
        chat = [{"role": "user", "content": "What is 2+3?"}]
        replies = [
            await model.answer(chat),
            await model.answer(chat),
            await model.answer(chat, top_logprobs=3),
        ]
        await model.close()
        return replies

    first, second, third = asyncio.run(ask())
    assert first.text == second.text == third.text != ""
    assert first.cost_usd == 0.0
    assert first.output_tokens <= 4
    assert len(third.first_token) == 3
