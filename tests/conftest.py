"""What every test shares: the same examples in every run and no stopwatch, so that a green tree stays green."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# Before numpy is imported. Tests run in as many processes as there are cores: threads for small matrices only get in
# one another's way (they took a third of all time).
for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


@pytest.fixture(autouse=True)
def seed_zero(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have seeds that nobody gives be 0, so that tests repeat; `@pytest.mark.fresh` draws them as users do."""
    if request.node.get_closest_marker("fresh") is None:
        monkeypatch.setattr("cereval.sessions.base.randbits", lambda _: 0)
    return


@pytest.fixture(autouse=True)
def own_settings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every test an empty folder of settings: what one test types is not trusted in the next."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("settings")))
