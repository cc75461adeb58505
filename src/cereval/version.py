"""State the version of the package, and the revision of its engine."""

__version__ = "0.2.0"

ENGINE = 1
"""Revision of everything that decides draws and intervals; it changes whenever one of them does.

Certificates and runs name the engine that made them; `tests/golden` fails where draws change and this number does not.
"""
