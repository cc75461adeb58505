"""A stand-in for the batches of OpenAI, Mistral, Together and Anthropic: states, delays, lost and late answers, and a
ledger of what was paid for.

    python -m benchmarks.batch_server

It prints its address and serves until it is terminated. GET /ledger tells what was paid, POST /fates decides what
becomes of the next batches: completed, expired, cancelled (half of the answers came), failed, errors (a third of the
requests met a server that was down) or lost (ordered, but the client hears of an error).
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections import Counter
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

STEPS = ("validating", "in_progress", "finalizing")
MISTRAL = {
    "validating": "QUEUED",
    "in_progress": "RUNNING",
    "finalizing": "RUNNING",
    "completed": "SUCCESS",
    "expired": "TIMEOUT_EXCEEDED",
}


class Provider(ThreadingHTTPServer):
    """share: of questions that are answered rightly, by a hash of their text."""

    daemon_threads = True

    def __init__(self, share: float = 0.7, looks: int = 2) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.share, self.looks = share, looks
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.fates: list[str] = []
        self.paid: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.sizes: list[int] = []
        self.lock = threading.RLock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def forget(self, fates: list[str]) -> None:
        """Begin anew, with these fates of the batches to come."""
        self.files, self.batches, self.fates = {}, {}, fates
        self.paid, self.calls, self.sizes = Counter(), Counter(), []

    def order(self, lines: list[dict[str, Any]], **known: Any) -> dict[str, Any]:
        number = f"batch_{len(self.batches)}"
        fate = self.fates.pop(0) if self.fates else "completed"
        batch = {"id": number, "at": time.time(), "fate": fate, "lines": lines, "looks": 0, **known}
        self.batches[number] = batch
        self.sizes.append(len(lines))
        return batch

    def look(self, batch: dict[str, Any]) -> bool:
        """Tell whether a batch has ended, one look later; at its end its answers are paid for."""
        batch["looks"] += 1
        if batch["looks"] <= self.looks:
            return False
        if "answered" not in batch:
            lines = list(batch["lines"])
            random.Random(batch["id"]).shuffle(lines)
            done = {"expired": 2, "cancelled": 2}.get(batch["fate"], 1)
            batch["answered"] = [] if batch["fate"] == "failed" else lines[: len(lines) // done]
            down = len(lines) // 3 if batch["fate"] == "errors" else 0
            batch["down"], batch["answered"] = batch["answered"][:down], batch["answered"][down:]
            self.paid.update(_text(line) for line in batch["answered"])
        return True

    def right(self, text: str) -> str:
        """Answer `N + 1?`."""
        number = int(text.split()[0])
        return str(number + (1 if random.Random(number).random() < self.share else 2))


def _text(line: dict[str, Any]) -> str:
    asked = line.get("body") or line["params"]
    system = asked.get("system") or next(
        (t["content"] for t in asked["messages"] if t["role"] == "system"), ""
    )
    return f"{asked['model']} {system}: {asked['messages'][-1]['content']}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: the second of two waits 40 ms for the first one's receipt
    server: Provider

    def do_GET(self) -> None:
        self._serve("GET", b"")

    def do_POST(self) -> None:
        self._serve("POST", self.rfile.read(int(self.headers["content-length"])))

    def _serve(self, method: str, body: bytes) -> None:
        path = self.path.partition("?")[0].removeprefix("/v1")
        with self.server.lock:
            self.server.calls[f"{method} {re.sub('(batch|file|out|err)_[0-9]+', 'ID', path)}"] += 1
            status, answer = self._route(method, path, body)
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        kind = "application/octet-stream" if isinstance(answer, bytes) else "application/json"
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _route(  # noqa: C901
        self, method: str, path: str, body: bytes
    ) -> tuple[int, Any]:
        server, parts = self.server, path.strip("/").split("/")
        match method, parts:
            case "GET", ["ledger"]:
                for batch in server.batches.values():
                    while not server.look(
                        batch
                    ):  # What nobody asked for any more was answered, and is paid for
                        pass
                return 200, {"paid": server.paid, "calls": server.calls, "sizes": server.sizes}
            case "POST", ["fates"]:
                server.forget(json.loads(body))
                return 200, {}
            case "POST", ["files"] | ["files", "upload"]:
                kind = f"content-type: {self.headers['content-type']}\r\n\r\n".encode()
                sent: list[Any] = BytesParser().parsebytes(kind + body).get_payload()  # type: ignore[assignment]
                file = f"file_{len(server.files)}"
                server.files[file] = next(one.get_payload(decode=True) for one in sent if one.get_filename())
                fields = {
                    one.get_param("name", header="content-disposition"): one.get_payload() for one in sent
                }
                if parts[1:]:
                    assert (fields["purpose"], fields["file_type"]) == ("batch-api", "jsonl")
                    assert fields["file_name"].endswith(".jsonl")
                else:
                    assert fields["purpose"] == "batch"
                return 200, {"id": file, "object": "file"}
            case "POST", ["batches"] | ["batch", "jobs"]:
                asked = json.loads(body)
                (file,) = asked.get("input_files") or (asked["input_file_id"],)
                lines = [json.loads(line) for line in server.files[file].splitlines()]
                # Together takes no mark of ours, and Mistral one model for all lines.
                way = "mistral" if parts[1:] else "openai" if "metadata" in asked else "together"
                assert way != "mistral" or {line["body"]["model"] for line in lines} == {asked["model"]}
                batch = server.order(lines, input_file_id=file, way=way)
                wrap: Any = (lambda one: {"job": _described(one)}) if way == "together" else _described
                return self._ordered(batch, wrap)
            case "GET", ["batches"] | ["batch", "jobs"]:
                rows = [_described(one) for one in server.batches.values()]
                if any(one["way"] == "together" for one in server.batches.values()):
                    return 200, rows
                asked_page = int((re.findall(r"[?&]page=(\d+)", self.path) or ["0"])[0])
                if parts[1:]:
                    return 200, {"data": rows[::-1][100 * asked_page :][:100], "total": len(rows)}
                return 200, _page(rows)
            case "GET", ["batches", number] | ["batch", "jobs", number]:
                batch = server.batches[number]
                return 200, _described(batch, server.look(batch))
            case "GET", ["files", file, "content"]:
                way, _, number = file.partition("_")
                return 200, self._openai_results(server.batches[f"batch_{number}"], way)
            case "POST", ["messages", "batches"]:
                assert self.headers["x-api-key"]
                assert self.headers["anthropic-version"]
                return self._ordered(server.order(json.loads(body)["requests"]), _anthropic)
            case "GET", ["messages", "batches"]:
                return 200, _page([_anthropic(one, server.look(one)) for one in server.batches.values()])
            case "GET", ["messages", "batches", number]:
                batch = server.batches[number]
                return 200, _anthropic(batch, server.look(batch))
            case "GET", ["messages", "batches", number, "results"]:
                return 200, self._anthropic_results(server.batches[number])
        return 404, {"error": {"message": f"no {method} {path} here"}}

    def _ordered(self, batch: dict[str, Any], shown: Any) -> tuple[int, Any]:
        if batch["fate"] == "lost":
            return 500, {"error": {"message": "it is ordered all the same"}}
        return 200, shown(batch)

    def _openai_results(self, batch: dict[str, Any], way: str) -> bytes:
        answered = {line["custom_id"] for line in batch["answered"]}
        down = {line["custom_id"] for line in batch["down"]}
        rows: list[dict[str, Any]] = []
        if way == "out":
            for line in batch["answered"]:
                text, usage = self.server.right(line["body"]["messages"][-1]["content"]), _usage()
                choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
                done = {"model": line["body"]["model"], "choices": [choice], "usage": usage}
                rows.append({"custom_id": line["custom_id"], "response": {"status_code": 200, "body": done}})
        else:
            for line in batch["lines"]:
                name = line["custom_id"]
                if name in down:
                    said = {"error": {"message": "overloaded"}}
                    rows.append({"custom_id": name, "response": {"status_code": 500, "body": said}})
                elif name not in answered:
                    rows.append({"custom_id": name, "response": None, "error": {"code": "batch_expired"}})
        return "".join(json.dumps({"id": "x", "error": None, **row}) + "\n" for row in rows).encode()

    def _anthropic_results(self, batch: dict[str, Any]) -> bytes:
        answered, down = ({line["custom_id"]: line for line in batch[name]} for name in ("answered", "down"))
        rows = []
        for line in batch["lines"]:
            name = line["custom_id"]
            if name in answered:
                text = self.server.right(line["params"]["messages"][-1]["content"])
                message = {
                    "model": line["params"]["model"],
                    "content": [{"type": "text", "text": text}],
                    "stop_reason": "end_turn",
                    "usage": {"input_tokens": 100, "output_tokens": 10},
                }
                result: dict[str, Any] = {"type": "succeeded", "message": message}
            elif name in down:
                result = {
                    "type": "errored",
                    "error": {"error": {"type": "api_error", "message": "overloaded"}},
                }
            else:
                result = {"type": "canceled" if batch["fate"] == "cancelled" else "expired"}
            rows.append(json.dumps({"custom_id": name, "result": result}) + "\n")
        random.Random(batch["id"]).shuffle(rows)
        return "".join(rows).encode()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _usage() -> dict[str, int]:
    return {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def _described(batch: dict[str, Any], has_ended: bool = False) -> dict[str, Any]:
    """Describe a batch as its provider does."""
    found, way = _openai(batch, has_ended), batch["way"]
    if way == "openai":
        return found
    problem = [str(one["message"]) for one in found.pop("errors", {}).get("data", ())]
    if way == "together":
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(batch["at"]))
        return found | {
            "status": found["status"].replace("finalizing", "in_progress").upper(),
            "created_at": when,
            "error": "; ".join(problem) or None,
        }
    names = {"output_file_id": "output_file", "error_file_id": "error_file"}
    return {
        **{names.get(name, name): value for name, value in found.items() if name != "input_file_id"},
        "status": MISTRAL.get(found["status"], found["status"].upper()),
        "input_files": [found["input_file_id"]],
        "errors": [{"message": one, "count": 1} for one in problem],
    }


def _openai(batch: dict[str, Any], has_ended: bool = False) -> dict[str, Any]:
    number, fate = batch["id"].partition("_")[2], batch["fate"]
    name = STEPS[min(batch["looks"], len(STEPS)) - 1] if batch["looks"] else STEPS[0]
    if has_ended:
        name = fate if fate in ("expired", "cancelled", "failed") else "completed"
    files: dict[str, Any] = (
        {"output_file_id": f"out_{number}", "error_file_id": f"err_{number}"} if has_ended else {}
    )
    if fate == "failed":
        files = (
            {"errors": {"data": [{"code": "bad", "message": "the file is not right"}]}} if has_ended else {}
        )
    return {
        "id": batch["id"],
        "object": "batch",
        "status": name,
        "created_at": int(batch["at"]),
        "input_file_id": batch.get("input_file_id"),
        **files,
    }


def _anthropic(batch: dict[str, Any], has_ended: bool | None = None) -> dict[str, Any]:
    ended = "answered" in batch if has_ended is None else has_ended
    done = len(batch.get("answered", ()))
    counts = {"processing": 0 if ended else len(batch["lines"]), "succeeded": done if ended else 0}
    counts["expired"] = len(batch["lines"]) - sum(counts.values())
    when = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(batch["at"]))
    return {
        "id": batch["id"],
        "type": "message_batch",
        "processing_status": "ended" if ended else "in_progress",
        "created_at": when,
        "cancel_initiated_at": when if batch["fate"] == "cancelled" else None,
        "request_counts": counts,
    }


def _page(rows: list[dict[str, Any]]) -> dict[str, Any]:
    newest = rows[::-1][:100]
    return {"data": newest, "has_more": len(rows) > 100, "last_id": newest[-1]["id"] if newest else None}


def main() -> None:
    server = Provider()
    print(server.url, flush=True)
    server.serve_forever(poll_interval=0.02)


if __name__ == "__main__":
    main()
