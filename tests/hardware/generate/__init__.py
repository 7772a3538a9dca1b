"""Writes the recorded programs: each module of this package has `programs()`."""
