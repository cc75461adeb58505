"""What every test shares: the same examples in every run, so that a green tree stays green."""

from hypothesis import settings

settings.register_profile("fixed", derandomize=True)
settings.load_profile("fixed")
