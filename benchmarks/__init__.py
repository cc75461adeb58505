"""Measurements: coverage, calls, engine cost. One command each: `python -m benchmarks.coverage`."""
