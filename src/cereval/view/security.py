"""Say who may look and who may act: hosts, the token, the origin of requests, and what a page may load.

On a loopback address pages may be read without the token by whoever uses this machine, and nobody else: a request
whose Host header names another place (DNS rebinding) is refused. On any other address everything but `/healthz`
needs the token. Requests that change something need it everywhere, and must come from our own pages: a cookie alone
is not enough, the browser has to say that the request is of the same origin. Answers are hostile texts: no page runs
a script that is not a file of ours.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cereval.errors import InvalidInput
from cereval.files import write_whole
from cereval.runner.trust import trusted_file

COOKIE = "cereval_view"
TOKEN_VARIABLE = "CEREVAL_VIEW_TOKEN"
SHORTEST_TOKEN = 16
SAFE = frozenset({"GET", "HEAD"})
OPEN = "/healthz"
EVERYWHERE = frozenset({"0.0.0.0", "::"})
# A page without any referrer sends its forms with the origin "null", which would be refused as another site's.
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def is_loopback(host: str) -> bool:
    """Tell whether an address is reached from this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("[::1]"), is_loopback("10.0.0.1")
    (True, True, True, False)
    """
    name = host.strip("[]").lower()
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def view_token() -> str:
    """Take the token from the environment or this user's folder of settings, where it is made at first.

    It outlives the server: people who label go on after a restart.
    """
    given = os.environ.get(TOKEN_VARIABLE)
    if given is not None:
        return checked_token(given)
    beside = trusted_file()
    path = None if beside is None else beside.with_name("view-token")
    kept = None if path is None else _kept(path)
    token = kept or secrets.token_urlsafe(24)
    if kept is None and path is not None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(path, token + "\n")
        except OSError:
            return token
    return token


def checked_token(token: str) -> str:
    """Refuse a token that could be guessed, or that no header can carry; it is not repeated in the refusal."""
    if not re.fullmatch(f"[A-Za-z0-9_.~-]{{{SHORTEST_TOKEN},}}", token):
        wanted = f"{SHORTEST_TOKEN} or more letters, digits and -._~"
        raise InvalidInput(TOKEN_VARIABLE, wanted, f"a text of {len(token)} characters")
    return token


def _kept(path: Path) -> str | None:
    """Read the token that was made before; None where others could read or change it."""
    try:
        status = path.stat()
        ours = not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & 0o077)
        text = path.read_text(encoding="ascii").strip() if ours else ""
        return checked_token(text)
    except (OSError, UnicodeDecodeError, InvalidInput):
        return None


@dataclass(frozen=True, slots=True)
class Guard:
    """Refuse before any page is made: an ASGI layer."""

    app: ASGIApp
    host: str
    token: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        answer = self._refusal(request) or self._entrance(request)
        scope.setdefault("state", {})["may_act"] = self._has_token(request)
        await (answer or self.app)(scope, receive, _with_headers(send))

    def _refusal(self, request: Request) -> Response | None:
        """Refuse a wrong host, readers without the token, and requests from elsewhere that would change something."""
        if not self._known_host(request.headers):
            return PlainTextResponse("this name does not lead here (Host header)\n", 421)
        if request.url.path == OPEN:
            return None
        token = self._has_token(request)
        if not (token or is_loopback(self.host)):
            return PlainTextResponse(
                "open the address that `cereval view` printed: it holds the token\n", 401
            )
        if request.method not in SAFE:
            if not token:
                return PlainTextResponse(
                    "open the address that `cereval view` printed: acting needs its token\n", 401
                )
            if not _same_origin(request):
                return PlainTextResponse("refused: the request comes from another site\n", 403)
        return None

    def _entrance(self, request: Request) -> Response | None:
        """Turn the token in an address into a cookie, so that it stays neither in the history nor in bookmarks."""
        given = request.query_params.get("token")
        if given is None or request.method not in SAFE or not self._is_token(given):
            return None
        rest = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
        target = "/" + request.url.path.lstrip("/") + (f"?{urlencode(rest)}" if rest else "")
        answer = RedirectResponse(target, 303)
        answer.set_cookie(COOKIE, self.token, httponly=True, samesite="strict", path="/", max_age=30 * 86_400)
        return answer

    def _known_host(self, headers: Headers) -> bool:
        """Tell whether a request names this server; bound to all addresses it cannot know, and the token decides."""
        if self.host in EVERYWHERE:
            return True
        try:
            name = urlsplit(f"//{headers.get('host', '')}").hostname or ""
        except ValueError:
            return False
        return name == self.host.strip("[]").lower() or (is_loopback(self.host) and is_loopback(name))

    def _has_token(self, request: Request) -> bool:
        carried = (
            request.cookies.get(COOKIE),
            request.headers.get("authorization", "").removeprefix("Bearer "),
            request.query_params.get("token") if request.method in SAFE else None,
        )
        return any(self._is_token(one) for one in carried if one)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())


def _same_origin(request: Request) -> bool:
    """Tell whether a request was made by our own page, or by a program that sent the token itself."""
    headers = request.headers
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is not None and urlsplit(origin).netloc != headers.get("host"):
        return False
    if site is not None and site != "same-origin":
        return False
    return origin is not None or site is not None or "authorization" in headers


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return sending
