"""What each row does: one table from row name to builder, gathered from the files of the families."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from tkc.emulator.instruction import Builder

FAMILIES = (
    "arith",
    "logic",
    "float",
    "bits",
    "video",
    "conversion",
    "narrow",
    "memory",
    "atomic",
    "cp_async",
    "control",
    "shuffle",
    "matrix",
    "mbarrier",
    "bulk",
    "tma",
    "tensormap_edit",
    "wgmma",
    "mma",
    "sparse",
    "wmma",
    "cluster",
    "calls",
    "tcgen05",
    "tcgen05_rare",
    "tensor_moves",
)
"""Files of this room that hold semantics; each has a table `SEMANTICS` from row name to builder."""


@cache
def all_semantics() -> Mapping[str, tuple[Builder, str]]:
    """Every builder, with its family, by row name."""
    found: dict[str, tuple[Builder, str]] = {}
    for name in FAMILIES:
        table: Mapping[str, Builder] = import_module(f"tkc.emulator.{name}").SEMANTICS
        for row, builder in table.items():
            found[row] = (builder, name)
    return found


def semantic(row: str) -> tuple[Builder, str]:
    """The builder of a row and its family; raises ValueError where the emulator does not cover it."""
    found = all_semantics().get(row)
    if found is None:
        raise ValueError("is not covered")
    return found
