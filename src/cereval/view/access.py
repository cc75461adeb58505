"""Who may look and act: the names of the server, one-time addresses, sessions, the origin of requests.

Everything but `/healthz` needs a session or the secret. A browser gets its session by an address with a one-time token,
which `cereval view` prints; then the next one is printed. Programs send the secret: `Authorization: Bearer SECRET`. A
request whose Host header names another place (DNS rebinding) is refused. A request that changes something must come
from our own pages: the browser has to say that it is of the same origin. Answers are hostile texts: no page runs a
script that is not a file of ours.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cereval.errors import InvalidInput
from cereval.files import settings_folder, write_whole

SECRET_VARIABLE = "CEREVAL_VIEW_TOKEN"
SHORTEST_SECRET = 16
SESSION_S = 7 * 86_400
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
    "cache-control": "no-store",
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


# -- the secret and what is made from it ------------------------------------------------------------------------------


def view_secret() -> str:
    """Take the secret from the environment or the user's settings, where it is made at first.

    It outlives the server, so that sessions do: people who label go on after a restart.
    """
    given = os.environ.get(SECRET_VARIABLE)
    if given is not None:
        return checked_secret(given)
    folder = settings_folder()
    path = None if folder is None else folder / "view-token"
    with suppress(OSError, UnicodeDecodeError, InvalidInput):
        if path is not None:
            return _read_secret(path)
    secret = secrets.token_urlsafe(24)
    with suppress(OSError):  # else it lasts as long as the server
        if path is not None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(path, secret + "\n")
    return secret


def _read_secret(path: Path) -> str:
    status = path.stat()
    if status.st_mode & 0o077 or (hasattr(os, "geteuid") and status.st_uid != os.geteuid()):
        raise InvalidInput(str(path), "a file that nobody else can read", oct(status.st_mode))
    return checked_secret(path.read_text(encoding="ascii").strip())


def checked_secret(secret: str) -> str:
    """Refuse a secret that could be guessed, or that no header can carry; it is not repeated in the refusal."""
    if not re.fullmatch(f"[A-Za-z0-9_.~-]{{{SHORTEST_SECRET},}}", secret):
        wanted = f"{SHORTEST_SECRET} or more letters, digits and -._~"
        raise InvalidInput(SECRET_VARIABLE, wanted, f"a text of {len(secret)} characters")
    return secret


@dataclass(slots=True)
class Keys:
    """What opens the view: the secret, one one-time token at a time, and sessions signed with the secret.

    announce: is told a token as soon as it is good for something.
    """

    secret: str = field(repr=False)
    announce: Callable[[str], None] = lambda _: None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    def spend(self, token: str) -> bool:
        """Tell whether a token is the one that is good now; it is good no more."""
        if not _are_equal(token, self.token):
            return False
        self.token = secrets.token_urlsafe(24)
        self.announce(self.token)
        return True

    def new_session(self, port: int) -> str:
        begin = f"{secrets.token_urlsafe(24)}.{int(time.time())}"
        return f"{begin}.{self._sign(begin, port)}"

    def is_session(self, cookie: str, port: int) -> bool:
        begin, _, signature = cookie.rpartition(".")
        if not _are_equal(signature, self._sign(begin, port)):
            return False
        return 0 <= time.time() - int(begin.rpartition(".")[2]) < SESSION_S

    def _sign(self, text: str, port: int) -> str:
        message = f"session {port} {text}".encode("utf-8", "surrogatepass")
        return hmac.new(self.secret.encode(), message, hashlib.sha256).hexdigest()


def _are_equal(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), known.encode())


# -- the guard --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Guard:
    """Refuse before any page is made: an ASGI layer."""

    app: ASGIApp
    host: str
    keys: Keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._refuse(Request(scope)) or self.app
        await answer(scope, receive, send_with_headers)

    def _refuse(self, request: Request) -> Response | None:
        """Return the answer to a request that gets no page; None: it may go on."""
        if not self._is_known_host(request.headers):
            return PlainTextResponse("this name does not lead here (Host header)\n", 421)
        if request.url.path == OPEN:
            return None
        server = request.scope.get("server") or (None, None)
        port = int(server[1] or 0)
        cookie = f"cereval_view_{port}"
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        is_program = _are_equal(bearer, self.keys.secret)
        is_known = is_program or self.keys.is_session(request.cookies.get(cookie, ""), port)
        token = request.query_params.get("token") if request.method == "GET" else None
        if token is not None and (is_known or self.keys.spend(token)):
            answer = _go_on(request)
            if not is_known:
                session = self.keys.new_session(port)
                answer.set_cookie(cookie, session, httponly=True, samesite="strict", max_age=SESSION_S)
            return answer
        if not is_known:
            lost = "open the newest address that `cereval view` printed; each works for one browser\n"
            return PlainTextResponse(lost, 401)
        if request.method not in SAFE and not (is_program or _is_same_origin(request)):
            return PlainTextResponse("refused: the request comes from another site\n", 403)
        return None

    def _is_known_host(self, headers: Headers) -> bool:
        """Tell whether a request names this server; bound to all addresses it cannot know, and the session decides."""
        if self.host in EVERYWHERE:
            return True
        try:
            name = urlsplit(f"//{headers.get('host', '')}").hostname or ""
        except ValueError:
            return False
        return name == self.host.strip("[]").lower() or (is_loopback(self.host) and is_loopback(name))


def _go_on(request: Request) -> Response:
    """Lead to the same address without its token.

    By a page instead of a redirect: it is this site that leads on, so that the browser sends the new cookie along
    whoever led it here.
    """
    rest = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
    target = "/" + quote(request.url.path.lstrip("/")) + (f"?{urlencode(rest)}" if rest else "")
    lead = f'<meta http-equiv="refresh" content="0;url={escape(target)}">'
    return HTMLResponse(f'<!doctype html><link rel="icon" href="data:,">{lead}')


def _is_same_origin(request: Request) -> bool:
    """Tell whether the browser says that a request was made by our own page."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        return False
    return (origin is not None or site is not None) and site in (None, "same-origin")
