"""Bulk and tensor copies and their maps: the rows of `tkc.ir.isa.instructions.tma`."""

from __future__ import annotations

from collections.abc import Mapping

from tkc.ir.ptx.families import LengthRule


def _coordinates(modifiers: Mapping[str, str]) -> Mapping[str, int]:
    """`.3d` takes three coordinates, innermost first."""
    return {"coords": int(modifiers["dim"][1])}


def _rows(modifiers: Mapping[str, str]) -> Mapping[str, int]:
    """gather4 and scatter4 take a column and four rows."""
    return {"coords": 5}


LENGTHS: Mapping[str, LengthRule] = {
    "cp.async.bulk.tensor.load": _coordinates,
    "cp.async.bulk.tensor.store": _coordinates,
    "cp.reduce.async.bulk.tensor": _coordinates,
    "cp.async.bulk.prefetch.tensor": _coordinates,
    "cp.async.bulk.tensor.gather4": _rows,
    "cp.async.bulk.tensor.scatter4": _rows,
}

WIDER: frozenset[str] = frozenset()
