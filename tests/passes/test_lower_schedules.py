"""Schedules: every item is exactly one block, in bands; units share the items; the grid of the launch."""

from __future__ import annotations

import itertools
from math import prod

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from passes.programs import gemm, lowered, operations
from passes.stage_machine import Machine
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block

from tkc.ir.contract import from_attribute
from tkc.ir.emit import Emitter
from tkc.ir.stage import ops as s
from tkc.passes.lower_schedules import grid
from tkc.passes.schedules.order import block_numbers, ordered_numbers

shapes = st.lists(st.integers(1, 7), min_size=1, max_size=4)


def blocks(shape: list[int], group: int, serpentine: bool = False) -> list[tuple[int, ...]]:
    """The block numbers of items 0 up, by the emitted arithmetic."""
    block = Block(arg_types=[i32] * (len(shape) + 1))
    item, *extents = block.args
    numbers = block_numbers(Emitter(block), item, list(extents), group, serpentine)
    found: list[tuple[int, ...]] = []
    for i in range(prod(shape)):
        machine = Machine(values=dict(zip(block.args, [i, *shape], strict=True)))
        list(machine.block(block, ()))
        found.append(tuple(machine.values[n] for n in numbers))
    return found


@given(shapes, st.integers(1, 10))
@example([5, 3], 8)  # a group of more rows than there are
@example([3, 5, 2], 2)
def test_items_are_the_blocks_each_once(shape: list[int], group: int) -> None:
    found = blocks(shape, group)
    assert sorted(found) == sorted(itertools.product(*map(range, shape)))


@given(shapes, st.integers(0, 3), st.booleans())
def test_an_axis_may_be_outermost_and_go_down(
    shape: list[int], axis: int, descending: bool
) -> None:
    """All items of one of its blocks stand together, the last blocks first; the other axes keep their order."""
    axis %= len(shape)
    block = Block(arg_types=[i32] * (len(shape) + 1))
    item, *extents = block.args
    numbers = ordered_numbers(Emitter(block), item, extents, axis, descending)
    found: list[tuple[int, ...]] = []
    for i in range(prod(shape)):
        machine = Machine(values=dict(zip(block.args, [i, *shape], strict=True)))
        list(machine.block(block, ()))
        found.append(tuple(machine.values[n] for n in numbers))
    sign = -1 if descending else 1
    every = itertools.product(*map(range, shape))
    assert found == sorted(every, key=lambda n: (sign * n[axis], *n))


@given(shapes)
def test_without_bands_the_last_axis_is_fastest(shape: list[int]) -> None:
    assert blocks(shape, 1) == list(itertools.product(*map(range, shape)))


@given(shapes, st.integers(2, 10))
def test_a_band_is_walked_column_by_column(shape: list[int], group: int) -> None:
    """All items of a band of `group` rows come before those of the next; within it the column changes last."""
    if len(shape) == 1:
        assert blocks(shape, group) == [(i,) for i in range(shape[0])]
        return
    found = blocks(shape, group)
    keys = [(*outer, row // group, column, row) for *outer, row, column in found]
    assert keys == sorted(keys)


@given(st.lists(st.integers(1, 7), min_size=2, max_size=4), st.integers(1, 10))
def test_every_second_band_is_walked_backwards(shape: list[int], group: int) -> None:
    straight, found = blocks(shape, group), blocks(shape, group, serpentine=True)
    for (*outer, row, column), back in zip(straight, found, strict=True):
        there = shape[-1] - 1 - column if row // group % 2 else column
        assert back == (*outer, row, there)


@pytest.mark.parametrize("units", [1, 2, 7, 40])
def test_units_share_the_items(units: int) -> None:
    module = lowered(gemm(bm=64, bn=64, group=4), "sm_100a", "lower-schedules")
    (kernel,) = operations(module, s.KernelOp)
    sizes = {"M": 500, "N": 300, "K": 64}
    found: list[tuple[int, int]] = []
    for unit in range(units):
        roles = Machine(sizes, unit, units).kernel(kernel)
        copies = [e for e in roles["load"] if isinstance(e.op, s.TmaLoadOp)]
        found += [
            (a.operands[3], b.operands[3]) for a, b in zip(copies[::2], copies[1::2], strict=True)
        ]
    assert sorted(found) == sorted(itertools.product(range(0, 500, 64), range(0, 300, 64)))


def test_nothing_is_done_where_there_are_no_items() -> None:
    module = lowered(gemm(), "sm_100a", "lower-schedules")
    (kernel,) = operations(module, s.KernelOp)
    for sizes in ({"M": 0, "N": 64, "K": 64}, {"M": 64, "N": 0, "K": 64}):
        roles = Machine(sizes).kernel(kernel)
        assert not [e for e in roles["load"] if not isinstance(e.op, s.BulkWaitOp)]


def test_the_grid_is_one_unit_a_multiprocessor_and_no_more_than_items() -> None:
    module = lowered(gemm(bm=128, bn=256), "sm_100a", "lower-schedules")
    (kernel,) = operations(module, s.KernelOp)
    items = {
        "op": "mul",
        "of": [
            {"op": "ceildiv", "of": [{"sym": "M"}, 128]},
            {"op": "ceildiv", "of": [{"sym": "N"}, 256]},
        ],
    }
    wanted = {"op": "min", "of": [{"sym": "sm_count"}, items]}
    assert from_attribute(kernel.contract)["grid"] == [wanted, 1, 1]


def with_clusters(**sizes: int) -> s.KernelOp:
    return s.KernelOp.create(properties={n: IntegerAttr(c, i32) for n, c in sizes.items()})


def test_the_grid_covers_the_longest_of_several_schedules() -> None:
    one, most = with_clusters(), {"op": "max", "of": [{"sym": "M"}, 4]}
    assert grid([], one) == 1
    assert grid([{"sym": "M"}, 4], one) == {"op": "min", "of": [{"sym": "sm_count"}, most]}


def test_the_grid_is_as_many_units_as_are_resident_in_the_clusters_that_are_asked_for() -> None:
    resident, items = {"sym": "max_clusters"}, {"sym": "M"}
    pairs = with_clusters(cluster=2, preferred=8)
    assert grid([items], pairs) == {"op": "mul", "of": [{"op": "min", "of": [resident, items]}, 2]}
    several = with_clusters(cluster=2, minimum=8, preferred=16)
    units = {"op": "min", "of": [{"op": "mul", "of": [resident, 4]}, items]}
    assert grid([items], several) == {"op": "mul", "of": [units, 2]}
    assert grid([items], with_clusters(minimum=4)) == units
    assert grid([items], several, stolen=True) == {"op": "mul", "of": [items, 2]}
