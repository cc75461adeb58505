"""What every test shares: the same examples in every run and no stopwatch, so that a green tree stays green."""

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")
