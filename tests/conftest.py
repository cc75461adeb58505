"""What every test shares: the same examples in every run and no stopwatch, so that a green tree stays green."""

import os

from hypothesis import settings

# Before numpy is imported. Tests run in as many processes as there are cores: threads for small matrices only get in
# one another's way (a third of all time was spent on waiting for them).
for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")
