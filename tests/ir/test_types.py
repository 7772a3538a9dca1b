"""Types of every dialect: two are equal exactly where they print alike, and each comes back from its text."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.parser import Parser

from tkc.ir import DIALECTS, context
from tkc.ir.stage.types import AccumulatorType, BufferType, FragmentLayout, FragmentType, Home
from tkc.ir.tile.types import AccumType, BlockType, RegsType, SharedType, SliceType, TensorType

TYPES: list[Attribute] = [
    *(t.of(dtype, dims) for t in (TensorType, SliceType, RegsType) for dtype in ("f32", "bf16")
      for dims in ((64,), (64, 32), ("M", 32), ("M", "N"))),
    *(SharedType.of(dtype, dims, depth, swizzle) for dtype in ("f32", "bf16")
      for dims in ((64, 32), (32, 64)) for depth in (1, 2) for swizzle in ("auto", "64B")),
    *(AccumType.of(dtype, dims, depth) for dtype in ("f32", "bf16") for dims in ((64, 32), (32, 64))
      for depth in (1, 2)),
    *(BlockType.of(size, extent) for size in (64, 128) for extent in ("M", "N", 256)),
    *(BufferType.of(dtype, dims, depth, home, swizzle) for dtype in ("f32", "bf16")
      for dims in ((64, 32), (32, 64)) for depth in (1, 2) for home in Home for swizzle in ("none", "64B")),
    *(AccumulatorType.of(dtype, dims) for dtype in ("f32", "bf16") for dims in ((64, 32), (32, 64))),
    *(FragmentType.of(dtype, dims, layout) for dtype in ("f32", "bf16") for dims in ((64, 32), (32, 64))
      for layout in FragmentLayout),
]  # fmt: skip


def test_two_types_are_equal_exactly_where_they_print_alike() -> None:
    for one, two in itertools.combinations(TYPES, 2):
        assert (one == two) == (str(one) == str(two)), f"{one} and {two}"
    assert len(set(TYPES)) == len({str(t) for t in TYPES})


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_a_type_comes_back_from_its_text(type: Attribute) -> None:
    assert Parser(context(), str(type)).parse_type() == type


@pytest.mark.parametrize("dialect", ["tile", "stage", "ptx"])
def test_every_parameter_of_a_type_counts_when_types_are_compared(dialect: str) -> None:
    """xDSL compares the fields of the class that it decorated; what a base holds must be a dataclass's field, too."""
    for type in DIALECTS[dialect]().attributes:
        if not issubclass(type, ParametrizedAttribute):
            continue  # Data: xDSL compares its one field
        compared = {f.name for f in dataclasses.fields(type) if f.compare}
        names = {name for name, _ in type.get_irdl_definition().parameters}
        assert names <= compared, f"{type.name}: {names - compared}"
