"""State the version of the package, and the number of its engine."""

__version__ = "0.2.0"

ENGINE = 1
"""Number of the rules that decide draws and intervals; it changes whenever they do.

Plans, settings, states and certificates name the engine that they were made with.
"""
