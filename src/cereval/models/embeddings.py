"""Fetch vectors for texts from any OpenAI-compatible embeddings endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cereval.errors import CallError, InvalidInput
from cereval.forecasts.embeddings import Vectors, unit_rows
from cereval.models.openai_model import checked_url
from cereval.models.retries import Fault, Retries, fault_of, retry


@dataclass(frozen=True, slots=True)
class EmbeddingsEndpoint:
    """Say where to ask for vectors, and how: texts go out in batches, `in_flight` of them at a time.

    Servers of one's own (a `base_url`) need no key.
    """

    model: str
    base_url: str | None = None
    dimensions: int | None = None
    batch: int = 128
    in_flight: int = 4
    timeout_s: float = 120.0
    retries: Retries = field(default_factory=Retries)
    key_variable: str = "OPENAI_API_KEY"

    def __post_init__(self) -> None:
        for name, value in (("batch", self.batch), ("in_flight", self.in_flight)):
            if value < 1:
                raise InvalidInput(name, "a whole number >= 1", value)
        if self.base_url is not None:
            checked_url(self.base_url)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Fetch one row of length 1 for each text, in order."""
        return asyncio.run(self.embed_async(texts))

    async def embed_async(self, texts: Sequence[str]) -> Vectors:
        from cereval.models.client import VECTORS_LIMIT, open_client

        batches = [list(texts[i : i + self.batch]) for i in range(0, len(texts), self.batch)]
        limit = asyncio.Semaphore(self.in_flight)
        client = open_client(self.base_url, self.timeout_s, self.key_variable, VECTORS_LIMIT)
        try:
            rows = await asyncio.gather(*(self._one(client, limit, batch) for batch in batches))
        finally:
            await client.close()
        return unit_rows(np.vstack(rows))

    async def _one(self, client: Any, limit: asyncio.Semaphore, texts: list[str]) -> Vectors:
        def fault(error: Exception) -> Fault:
            return fault_of(error, client.base_url, client.key)

        async def attempt() -> Vectors:
            async with asyncio.timeout(self.timeout_s):
                body = await client.post("/embeddings", self._request(texts))
            return vectors_from(body, len(texts))

        async with limit:
            return (await retry(attempt, fault, self.retries))[0]

    def _request(self, texts: list[str]) -> dict[str, Any]:
        # Some servers refuse an empty input; a blank has no words either.
        request: dict[str, Any] = {"model": self.model, "input": [text or " " for text in texts]}
        if self.dimensions is not None:
            request["dimensions"] = self.dimensions
        return request


def vectors_from(body: Any, expected: int) -> Vectors:
    """Read the rows of an embeddings response, in the order of its `index`.

    >>> body = {"data": [{"index": 1, "embedding": [0.0]}, {"index": 0, "embedding": [1.0]}]}
    >>> vectors_from(body, 2).tolist()
    [[1.0], [0.0]]
    """
    try:
        rows = sorted(body["data"], key=lambda row: int(row["index"]))
        vectors = np.array([row["embedding"] for row in rows], dtype=np.float32)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CallError("the endpoint's answer is not a list of embeddings") from error
    if vectors.ndim != 2 or len(vectors) != expected or not np.isfinite(vectors).all():
        raise CallError(
            f"the endpoint sent {len(vectors)} vectors of unequal or bad numbers for {expected} texts"
        )
    return vectors
