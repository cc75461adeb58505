"""Speak to a provider's batches: many requests in one order, at half the price, answered within a day.

Two wire formats: files and batches as OpenAI has them (Groq too; Mistral and Together with other names and paths), and
Anthropic's message batches. What an order costs begins with `create`; everything else is free and may be repeated.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from cereval.models.retries import BadStatus, Fault, FaultError

if TYPE_CHECKING:
    from cereval.models.client import Client

OPENAI_STYLE = ("openai", "groq", "mistral", "together")
"""Providers whose batches are OpenAI's, or nearly so."""
LARGEST = 90 * 2**20
"""Bytes of one order: providers take 100 (Groq) to 256 MB (Anthropic)."""
PAGE = 100
CLOCKS_APART_S = 3600.0
"""A provider's clock may be behind ours by so much."""
LONGEST_ANSWER = 4096
"""Tokens of an answer where --max-tokens does not say: Anthropic's own format wants a number that every model takes."""
STATUS = {"success": "completed", "timeout_exceeded": "expired"}
"""What Mistral calls the ends of a batch, in OpenAI's words."""
STOP_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "refusal": "content_filter",
}
UNCLEAR = "unclear"
NOT_DONE = BadStatus(503, {}, "the batch ended before it came to this question")
"""Nobody answered, and nothing was paid."""


@dataclass(frozen=True, slots=True)
class Order:
    """One batch as it was ordered: `key` is ours, `file` and `id` the provider's; without an id it may not exist.

    calls: the names of its questions. at: when it was about to be ordered, in seconds since 1970.
    """

    key: str
    calls: tuple[str, ...]
    at: float
    file: str = ""
    id: str = ""

    def custom_id(self, call: str) -> str:
        return f"{self.key}-{call}"

    def call(self, custom_id: Any) -> str:
        """Return the question that a line of the results is about; empty: none of this order."""
        key, _, call = str(custom_id).partition("-")
        return call if key == self.key else ""


@dataclass(frozen=True, slots=True)
class Status:
    """How far a batch is. problem: why it was refused as a whole. files: where its results are."""

    name: str
    has_ended: bool
    problem: str = ""
    files: tuple[str, ...] = ()
    counts: Mapping[str, Any] = field(default_factory=dict)


Results = AsyncIterator[tuple[str, Any | BadStatus]]
"""A question, and the completion that answers it or why there is none."""


class Batches(Protocol):
    """Order, find and read the batches of one account."""

    @property
    def client(self) -> Client: ...

    async def upload(self, order: Order, requests: Mapping[str, dict[str, Any]]) -> str:
        """Send the questions ahead where they are ordered as a file; return its id. Free."""

    async def create(self, order: Order, requests: Mapping[str, dict[str, Any]]) -> str:
        """Order; return the batch's id. From here on it costs."""

    async def find(self, order: Order) -> str:
        """Return the id of the batch that was ordered; empty if none was, `UNCLEAR` while nobody can tell."""

    async def status(self, batch: str) -> Status: ...

    def results(self, order: Order, status: Status) -> Results: ...


@dataclass(frozen=True, slots=True)
class OpenAIBatches:
    """provider: who has them; a name that is not below does as OpenAI does."""

    client: Client
    provider: str = "openai"

    async def upload(self, order: Order, requests: Mapping[str, dict[str, Any]]) -> str:
        lines = [
            {
                "custom_id": order.custom_id(call),
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": requests[call],
            }
            for call in order.calls
        ]
        content = "".join(json.dumps(line) + "\n" for line in lines).encode()
        name, path, fields = f"cereval-{order.key}.jsonl", "/files", {"purpose": "batch"}
        if self.provider == "together":
            path, fields = "/files/upload", {"purpose": "batch-api", "file_name": name, "file_type": "jsonl"}
        return _text(await self.client.upload(path, name, content, fields), "id")

    async def create(self, order: Order, requests: Mapping[str, dict[str, Any]]) -> str:
        body: dict[str, Any] = {"endpoint": "/v1/chat/completions"}
        if self.provider == "mistral":
            model = requests[order.calls[0]]["model"]
            body |= {"input_files": [order.file], "model": model, "timeout_hours": 24}
        else:
            body |= {"input_file_id": order.file, "completion_window": "24h"}
        if self.provider != "together":
            body["metadata"] = {"cereval": order.key}
        return _text(_as_openai(await self.client.post(self._path, body)), "id")

    async def find(self, order: Order) -> str:
        number, after = 0, ""
        while True:
            mistral = self.provider == "mistral"
            asked = f"page_size={PAGE}&page={number}" if mistral else f"limit={PAGE}{after}"
            page = await self.client.get(f"{self._path}?{asked}")
            rows = page if isinstance(page, list) else page.get("data") or ()
            found = [_as_openai(one) for one in rows if isinstance(one, dict)]
            for one in found:
                if one["input_file_id"] == order.file:
                    return _text(one, "id")
            older = [one for one in found if one["created_at"] < order.at - CLOCKS_APART_S]
            more = len(found) == PAGE if mistral else isinstance(page, dict) and page.get("has_more")
            if older or not found or not more:
                return ""
            number, after = number + 1, f"&after={found[-1].get('id')}"

    async def status(self, batch: str) -> Status:
        answer = _as_openai(await self.client.get(f"{self._path}/{batch}"))
        name, errors = answer["status"], answer.get("errors") or answer.get("error") or []
        errors = errors.get("data") or [] if isinstance(errors, dict) else errors
        said = [str(one.get("message")) for one in errors if isinstance(one, dict)]
        problem = errors if isinstance(errors, str) else "; ".join(said)
        return Status(
            name,
            name in ("completed", "expired", "cancelled", "failed"),
            (problem or "it does not say why") if name == "failed" else "",
            answer["files"],
            answer.get("request_counts") or {},
        )

    @property
    def _path(self) -> str:
        return "/batch/jobs" if self.provider == "mistral" else "/batches"

    async def results(self, order: Order, status: Status) -> Results:
        for file in status.files:
            async for line in self.client.lines(f"/files/{file}/content"):
                if call := order.call(line.get("custom_id")):
                    yield call, _completion(line)


def _as_openai(answer: Any) -> dict[str, Any]:
    """Return a batch in OpenAI's words, as Mistral, Together (which may wrap it) or OpenAI itself describes it.

    >>> found = _as_openai({"job": {"id": "b", "status": "TIMEOUT_EXCEEDED", "input_files": ["f"], "output_file": "o"}})
    >>> found["status"], found["input_file_id"], found["files"]
    ('expired', 'f', ('o',))
    """
    inside = answer.get("job") if isinstance(answer, dict) else None
    job = inside if isinstance(inside, dict) else answer if isinstance(answer, dict) else {}
    name = str(job.get("status")).lower()
    files = [job.get(f"{one}_file_id") or job.get(f"{one}_file") for one in ("output", "error")]
    return {
        **job,
        "status": STATUS.get(name, name),
        "created_at": _moment(job.get("created_at")),
        "input_file_id": job.get("input_file_id") or next(iter(job.get("input_files") or ()), None),
        "files": tuple(str(one) for one in files if one),
    }


def _completion(line: Mapping[str, Any]) -> Any | BadStatus:
    response, error = line.get("response"), line.get("error")
    if not isinstance(response, dict) or (isinstance(error, dict) and error.get("code") == "batch_expired"):
        return NOT_DONE
    code, body = response.get("status_code"), response.get("body")
    if code == 200:
        return body
    said = body.get("error", body) if isinstance(body, dict) else error
    return BadStatus(code if isinstance(code, int) else 500, {}, said)


@dataclass(frozen=True, slots=True)
class AnthropicBatches:
    """Anthropic's message batches; chat completions are translated there and back."""

    client: Client

    async def upload(self, order: Order, requests: Mapping[str, dict[str, Any]]) -> str:  # noqa: ARG002
        return ""

    async def create(self, order: Order, requests: Mapping[str, dict[str, Any]]) -> str:
        lines = [
            {"custom_id": order.custom_id(call), "params": as_message(requests[call])} for call in order.calls
        ]
        return _text(await self.client.post("/messages/batches", {"requests": lines}), "id")

    async def find(self, order: Order) -> str:
        """A batch bears no mark of ours: one that came after the order and is as large is ours if its results are."""
        after = ""
        while True:
            page = await self.client.get(f"/messages/batches?limit={PAGE}{after}")
            found = [one for one in page.get("data") or () if isinstance(one, dict)]
            for one in found:
                if (is_order := await self._is_order(one, order)) is not False:
                    return UNCLEAR if is_order is None else _text(one, "id")
            older = [one for one in found if _moment(one.get("created_at")) < order.at - CLOCKS_APART_S]
            if older or not found or not page.get("has_more"):
                return ""
            after = f"&after_id={page.get('last_id')}"

    async def _is_order(self, one: Mapping[str, Any], order: Order) -> bool | None:
        """Tell whether a batch is what was ordered; None while that cannot be told."""
        counts = one.get("request_counts") or {}
        recent = _moment(one.get("created_at")) >= order.at - CLOCKS_APART_S
        if not recent or sum(counts.values()) != len(order.calls):
            return False
        if one.get("processing_status") != "ended":
            return None
        async for line in self.client.lines(f"/messages/batches/{one['id']}/results"):
            return bool(order.call(line.get("custom_id")))
        return False

    async def status(self, batch: str) -> Status:
        answer = await self.client.get(f"/messages/batches/{batch}")
        name, counts = str(answer.get("processing_status")), answer.get("request_counts") or {}
        was_cancelled = bool(answer.get("cancel_initiated_at"))
        if name == "ended" and was_cancelled:
            name = "cancelled"
        return Status(name, name in ("ended", "cancelled"), files=(batch,), counts=counts)

    async def results(self, order: Order, status: Status) -> Results:
        async for line in self.client.lines(f"/messages/batches/{status.files[0]}/results"):
            if call := order.call(line.get("custom_id")):
                yield call, _from_message(line.get("result"))


def as_message(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a chat completion request as Anthropic's own.

    >>> as_message({"model": "m", "messages": [{"role": "system", "content": "Be brief."},
    ...     {"role": "user", "content": "Hi"}], "stop": ["x"]})["system"]
    'Be brief.'
    """
    rest = {name: value for name, value in request.items() if name not in ("messages", "stop")}
    turns = request["messages"]
    system = "\n\n".join(turn["content"] for turn in turns if turn["role"] == "system")
    longest = rest.pop("max_completion_tokens", None) or rest.get("max_tokens") or LONGEST_ANSWER
    stop = request.get("stop")
    return {
        **rest,
        "max_tokens": longest,
        "messages": [turn for turn in turns if turn["role"] != "system"],
        **({"system": system} if system else {}),
        **({"stop_sequences": [stop] if isinstance(stop, str) else stop} if stop else {}),
    }


def _from_message(result: Any) -> Any | BadStatus:
    kind = result.get("type") if isinstance(result, dict) else None
    if kind == "errored":
        error = result.get("error") or {}
        said = error.get("error", error)
        kind = said.get("type") if isinstance(said, dict) else ""
        return BadStatus(400 if kind == "invalid_request_error" else 500, {}, said)
    if kind != "succeeded":
        return NOT_DONE
    message = result.get("message") or {}
    usage = message.get("usage") or {}
    cached, written = (
        usage.get(name) or 0 for name in ("cache_read_input_tokens", "cache_creation_input_tokens")
    )
    reason = str(message.get("stop_reason"))
    return {
        "model": message.get("model"),
        "choices": [
            {
                "message": {"content": message.get("content")},
                "finish_reason": STOP_REASONS.get(reason, reason),
            }
        ],
        "usage": {
            "prompt_tokens": (usage.get("input_tokens") or 0) + cached + written,
            "completion_tokens": usage.get("output_tokens"),
            "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        },
    }


def _moment(value: Any) -> float:
    """Read a time, in seconds or as Anthropic writes it; infinity where it is none: nothing is taken for too old."""
    if isinstance(value, int | float):
        return float(value)
    try:
        return datetime.fromisoformat(str(value)).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return float("inf")


def _text(answer: Any, name: str) -> str:
    value = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(value, str) or not value:
        raise FaultError(Fault(f"the server takes no batches: its answer has no `{name}`", everywhere=True))
    return value
