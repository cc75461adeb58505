"""Who may look and who may act."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from shown import OURS, TOKEN, begin, client, go_on, opened, questions
from starlette.testclient import TestClient

from cereval.errors import InvalidInput, Misuse
from cereval.store.sql import SqlStore
from cereval.view import access, app
from cereval.view.access import SESSION_S, Keys, view_secret

HERE = "http://127.0.0.1"
COOKIE = "cereval_view_80"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStore]:
    found = opened(tmp_path_factory.mktemp("access"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def run(store: SqlStore) -> str:
    return go_on(begin(store, questions()), store, most=16)


def guest(store: SqlStore, keys: Keys, host: str = "127.0.0.1") -> TestClient:
    made = app.make_app(store, str(store.address), host=host, keys=keys)
    return TestClient(made, base_url=HERE, follow_redirects=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_every_page_needs_a_session(store: SqlStore, run: str, host: str) -> None:
    """The store is its owner's alone, and its pages are too: others may use this machine."""
    stranger = client(store, host=host, session=False)
    for path in (
        "/",
        f"/runs/{run}",
        f"/runs/{run}/answers",
        "/trend",
        "/label",
        "/events",
        "/static/view.js",
    ):
        assert stranger.get(path).status_code == 401, path
        assert stranger.get(path, params={"token": "a-token-of-somebody-else"}).status_code == 401, path
    for action in ("stop", "resume", "verify"):
        assert stranger.post(f"/runs/{run}/{action}", headers=OURS).status_code == 401
    assert [event["status"] for event in store.events(run)] == ["created"]
    assert stranger.get("/healthz").status_code == 200
    for path in ("/", f"/runs/{run}", "/trend", "/label", "/static/view.js"):
        assert client(store, host=host).get(path).status_code == 200, path


def test_an_address_is_good_for_one_browser(store: SqlStore) -> None:
    announced: list[str] = []
    keys = Keys(TOKEN, announced.append)
    first, second, token = guest(store, keys), guest(store, keys), keys.token
    assert first.head("/", params={"token": token}).status_code == 401, "a preview of a link spends nothing"
    answer = first.get("/trend", params={"token": token, "data": 'a b"'})
    assert (answer.status_code, token in answer.text) == (200, False)
    assert 'content="0;url=/trend?data=a+b%22"' in answer.text
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert first.get("/trend").status_code == 200
    assert second.get("/trend", params={"token": token}).status_code == 401
    assert first.get("/trend", params={"token": token}).status_code == 200, "who is known may load it again"
    assert announced == [keys.token] != [token]
    assert second.get("/", params={"token": announced[0]}).status_code == 200
    values = {str(one.cookies[COOKIE]) for one in (first, second)}
    assert len(values) == 2, "every browser has a session of its own"
    assert not any(known in value for known in (TOKEN, token, keys.token) for value in values)


def test_a_session_is_good_at_one_port_for_a_week(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys(TOKEN)
    session = keys.new_session(80)
    begin, _, signature = session.rpartition(".")
    nonce, _, began = begin.rpartition(".")

    def code(value: str, name: str = COOKIE) -> int:
        return guest(store, keys).get("/trend", headers={"cookie": f"{name}={value}"}).status_code

    assert code(session) == 200
    assert code(session, "cereval_view_81") == 401
    for forged in (
        keys.new_session(81),
        Keys("another-secret-than-that").new_session(80),
        f"{nonce}.{int(began) + 1}.{signature}",
        f"{begin}.",
        TOKEN,
        "",
    ):
        assert code(forged) == 401, forged
    later = time.time() + SESSION_S
    monkeypatch.setattr(access.time, "time", lambda: later)
    assert code(session) == 401


@pytest.mark.parametrize(
    "path", ["//evil.example/", "/\\evil.example", "/%5Cevil.example", "/%2F%2Fevil.example"]
)
def test_an_address_with_a_token_leads_to_no_other_site(store: SqlStore, path: str) -> None:
    keys = Keys(TOKEN)
    answer = guest(store, keys).get(f"{HERE}{path}?token={keys.token}")
    found = re.search(r'url=(.*?)"', answer.text)
    assert found is not None
    assert re.match(r"/[^/\\]", found[1])


def test_other_sites_cannot_act_with_our_cookie(store: SqlStore, run: str) -> None:
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": f"{HERE}:9999"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": HERE, "sec-fetch-site": "cross-site"},
        {},
    ):
        assert client(store).post(f"/runs/{run}/verify", headers=headers).status_code == 403, headers


def test_a_program_acts_with_the_secret(store: SqlStore, run: str) -> None:
    program = client(store, session=False)
    for secret, code in ((TOKEN, 200), ("another-secret-than-that", 401)):
        headers = {"authorization": f"Bearer {secret}"}
        assert program.post(f"/runs/{run}/verify", headers=headers).status_code == code


def test_only_the_names_of_this_machine_lead_here(store: SqlStore) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil", "", "10.0.0.1", "[bad"):
        assert client(store).get("/trend", headers={"host": host}).status_code == 421, host
    for host in ("localhost:8765", "127.0.0.1:1", "[::1]:8765", "LOCALHOST"):
        assert client(store).get("/trend", headers={"host": host}).status_code == 200, host


def test_pages_run_no_script_but_ours(store: SqlStore, run: str) -> None:
    answer = client(store).get(f"/runs/{run}")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert "style=" not in answer.text
    assert "<style" not in answer.text


def test_the_secret_is_kept_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    first = view_secret()
    assert view_secret() == first
    kept = tmp_path / "cereval" / "view-token"
    kept.chmod(0o644)
    assert view_secret() != first, "one that others could read is made anew"
    assert kept.stat().st_mode & 0o077 == 0
    monkeypatch.setenv("CEREVAL_VIEW_TOKEN", "short")
    with pytest.raises(InvalidInput, match="16 or more") as refused:
        view_secret()
    assert "'short'" not in str(refused.value)


def test_the_browser_is_opened_without_the_token_on_its_command_line(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, opened_pages = list[str](), list[str]()

    def open_page(address: str) -> None:
        file = Path(address.removeprefix("file://"))
        assert file.parent.stat().st_mode & 0o077 == 0
        opened_pages.append(address + file.read_text())

    monkeypatch.setattr("webbrowser.open", open_page)
    monkeypatch.setattr(app._Server, "run", lambda *_, **__: None)
    app.serve(store, str(store.address), "127.0.0.1", 0, browser=True, say=said.append)
    (address,), (page,) = said, opened_pages
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=\S{32}", address)
    assert page.startswith("file://")
    assert address.partition("token=")[2] not in page.partition("<")[0]
    assert address in page


def test_a_port_that_is_taken_gets_one_line() -> None:
    with (
        app.listen("127.0.0.1", 0) as taken,
        pytest.raises(Misuse, match="choose another --host or --port"),
    ):
        app.listen("127.0.0.1", taken.getsockname()[1])
