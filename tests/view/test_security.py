"""Who may look and who may act."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from shown import OURS, TOKEN, begin, client, go_on, opened, questions

from cereval.errors import InvalidInput, Misuse
from cereval.store.sql import SqlStore
from cereval.view.app import listening_at
from cereval.view.security import view_token


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    found = opened(tmp_path)
    yield found
    found.close()


@pytest.fixture
def run(store: SqlStore) -> str:
    return go_on(begin(store, questions()), store, most=16)


def test_everyone_on_this_machine_may_look(store: SqlStore, run: str) -> None:
    guest = client(store, token=False)
    for path in ("/", f"/runs/{run}", "/healthz", "/trend", "/label", f"/runs/{run}/answers"):
        assert guest.get(path).status_code == 200, path


def test_acting_needs_the_token(store: SqlStore, run: str) -> None:
    for path in (f"/runs/{run}/{name}" for name in ("stop", "resume", "verify")):
        assert client(store, token=False).post(path, headers=OURS).status_code == 401
    assert [event["status"] for event in store.events(run)] == ["created"]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://127.0.0.1", "sec-fetch-site": "cross-site"},
        {},
    ],
)
def test_other_sites_cannot_act_with_our_cookie(store: SqlStore, run: str, headers: dict[str, str]) -> None:
    assert client(store).post(f"/runs/{run}/verify", headers=headers).status_code == 403


def test_a_program_may_act_with_the_token_itself(store: SqlStore, run: str) -> None:
    answer = client(store, token=False).post(
        f"/runs/{run}/verify", headers={"authorization": f"Bearer {TOKEN}"}
    )
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil", "", "10.0.0.1", "[bad"]
)
def test_names_that_are_not_ours_lead_nowhere(store: SqlStore, host: str) -> None:
    assert client(store).get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost:8765", "127.0.0.1:1", "[::1]:8765", "LOCALHOST"])
def test_names_of_this_machine_lead_here(store: SqlStore, host: str) -> None:
    assert client(store).get("/", headers={"host": host}).status_code == 200


def test_on_other_addresses_every_page_needs_the_token(store: SqlStore, run: str) -> None:
    guest = client(store, host="0.0.0.0", token=False)
    for path in ("/", f"/runs/{run}", "/static/view.js", "/events"):
        assert guest.get(path).status_code == 401, path
    assert guest.get("/healthz").status_code == 200
    assert guest.get("/", params={"token": "a-token-of-somebody-else"}).status_code == 401
    assert client(store, host="0.0.0.0").get("/").status_code == 200


def test_the_token_in_the_address_becomes_a_cookie(store: SqlStore) -> None:
    answer = client(store, token=False).get("/trend", params={"token": TOKEN, "data": "a b"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/trend?data=a+b")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_an_address_with_a_token_leads_to_no_other_site(store: SqlStore) -> None:
    answer = client(store, token=False).get("http://127.0.0.1//evil.example/", params={"token": TOKEN})
    assert not answer.headers.get("location", "").startswith("//")


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


def test_the_token_is_kept_for_its_owner_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    first = view_token()
    assert view_token() == first
    monkeypatch.setenv("CEREVAL_VIEW_TOKEN", "short")
    with pytest.raises(InvalidInput, match="16 or more") as refused:
        view_token()
    assert "'short'" not in str(refused.value)


def test_a_token_that_others_could_read_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    first = view_token()
    (tmp_path / "cereval" / "view-token").chmod(0o644)
    assert view_token() != first
    assert (tmp_path / "cereval" / "view-token").stat().st_mode & 0o077 == 0


def test_a_port_that_is_taken_gets_one_line() -> None:
    with (
        listening_at("127.0.0.1", 0) as taken,
        pytest.raises(Misuse, match="choose another --host or --port"),
    ):
        listening_at("127.0.0.1", taken.getsockname()[1])
