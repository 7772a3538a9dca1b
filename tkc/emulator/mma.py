"""Placeholder."""

SEMANTICS = {}
