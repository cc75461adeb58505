"""Certified evaluation of language models."""
