"""Placeholder."""
SEMANTICS = {}
