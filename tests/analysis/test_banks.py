"""Predicted bank conflicts against the addresses that the lowered code computes, thread by thread."""

from __future__ import annotations

import pytest
from passes.lowering.test_shared import CASES, Harness, held
from xdsl.dialects.builtin import UnitAttr, i32
from xdsl.ir import Block

from tkc.analysis.banks import Prediction, predict
from tkc.ir.isa.banks import least, wavefronts
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.layouts import SWIZZLES
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import BufferType, FragmentLayout, FragmentType, Home
from tkc.passes.lowering import shared


def of_a_warp(harness: Harness) -> list[tuple[str, int, int]]:
    """(instruction, turns, least turns) for every access that the first warp of the role makes."""
    lanes = [
        [e for e in events if e.name.startswith(("ld.shared", "st.shared", "ldmatrix", "stmatrix"))]
        for t, events in harness.threads(lambda t, address, count: [0] * count)
        if t < 32
    ]
    found: list[tuple[str, int, int]] = []
    for number in range(max(map(len, lanes))):
        events = [mine[number] for mine in lanes if number < len(mine)]
        name = events[0].name
        loads = name.startswith("ld")
        places = [e.operands[1 if loads else 0] for e in events]
        words = events[0].operands[0 if loads else 1]
        count = len(words) if isinstance(words, tuple | list) else 1
        size = 16 if "matrix" in name else count * (2 if "b16" in name else 4)
        if "matrix" in name:
            places = places[: 8 * count]
        found.append((name, wavefronts(places, size), least(len(places), size)))
    return found


def lowered(
    dtype: str, swizzle: str, layout: FragmentLayout, store: bool, turned: bool
) -> tuple[Harness, Prediction | None]:
    """A whole tile of one span moved by the code of the lowering, and what is predicted of that."""
    columns = SWIZZLES[swizzle].span * 8 // DTYPES[dtype].bits
    rows = 128 if layout is FragmentLayout.ROWS else 64
    shape = (rows, columns)
    if turned:
        columns = 32 if layout is FragmentLayout.WGMMA else 16
        shape = (columns, rows)
    type = BufferType.of(dtype, shape, 1, Home.SHARED, swizzle)
    fragment = FragmentType.of(dtype, (rows, columns), layout)
    harness = Harness(type, warps=4)
    k = harness.k
    block = Block(arg_types=[fragment, i32, i32])
    source, slot, column = block.args
    k.values[slot] = k.values[column] = 0
    if store:
        k.values[source] = held(k, harness.emit, dtype, columns, layout)
        op = s.StoreSharedOp.create(
            operands=[source, harness.buffer.buffer, slot, column],
            properties={"transposed": UnitAttr()} if turned else {},
        )
        shared.store_shared(k, op)
    else:
        load = s.LoadSharedOp.create(
            operands=[harness.buffer.buffer, slot, column], result_types=[fragment]
        )
        shared.load_shared(k, load)
    return harness, predict(type, fragment, store=store, transposed=turned)


@pytest.mark.share(2)
@pytest.mark.parametrize("way", ["load", "store", "turn"])
@pytest.mark.parametrize(("dtype", "swizzle", "layout"), CASES)
def test_the_lowered_code_meets_the_banks_as_predicted(
    dtype: str, swizzle: str, layout: FragmentLayout, way: str
) -> None:
    harness, predicted = lowered(dtype, swizzle, layout, way != "load", way == "turn")
    assert predicted is not None
    found = of_a_warp(harness)
    worst = max(found, key=lambda f: f[1] - f[2])
    assert worst[1:] == (predicted.wavefronts, predicted.least), (worst, predicted)


def test_only_pairs_of_32_bit_values_meet_conflicts() -> None:
    for dtype, swizzle, layout in CASES:
        pairs = layout is FragmentLayout.WGMMA and DTYPES[dtype].bits == 32
        _, predicted = lowered(dtype, swizzle, layout, True, False)
        assert predicted is not None
        assert bool(predicted.conflicts) == (pairs and swizzle != "32B"), (dtype, swizzle, layout)
