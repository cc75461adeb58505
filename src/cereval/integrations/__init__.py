"""Live inside other evaluation tools."""

HOPELESS = 5
"""So many draws without a score at the start say that a judge or a server is broken rather than unlucky."""
