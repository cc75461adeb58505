"""Live inside other evaluation tools."""
