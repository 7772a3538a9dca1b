"""Where register tiles go in shared memory: the emitted arithmetic, run for every thread, against `isa.layouts`.

A fragment's registers are made of numbers that say which element they hold (by `isa.fragments` for the D fragment);
after the stores every element must lie where the layout and the swizzle say. Loads are checked the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from passes.ptx_machine import SHARED_BASE, Event, Thread
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i32
from xdsl.ir import Block, Region

from tkc.backend.ptx_text import print_ptx
from tkc.ir import context
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.fragments import accumulator_fragment
from tkc.ir.isa.layouts import SWIZZLES, SharedTile
from tkc.ir.isa.targets import TARGETS
from tkc.ir.ptx.emit import Emit, kernel
from tkc.ir.ptx.registers import reg
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import BufferType, FragmentLayout, FragmentType, Home
from tkc.ir.target import TARGET
from tkc.passes.lowering import fragments, shared
from tkc.passes.lowering.state import Fragment, Kernel
from tkc.passes.name_registers import NameRegistersPass

OFFSET, DEPTH, SLOT = 4096, 3, 2
FIRST_WARP = 4


def number(value: int) -> IntegerAttr:
    return IntegerAttr(value, i32)


class Harness:
    """A kernel with one buffer and one role of `warps` warps from warp 4 on; `text()` prints what was written."""

    def __init__(self, type: BufferType, warps: int, groups: int = 1) -> None:
        self.new, self.emit = kernel("k", reqntid=32 * (FIRST_WARP + warps))
        self.buffer = s.BufferOp.create(
            properties={"sym_name": StringAttr("b"), "offset": number(OFFSET)}, result_types=[type]
        )
        role = s.RoleOp.create(
            properties={
                "sym_name": StringAttr("r"),
                "warps": number(warps),
                "first_warp": number(FIRST_WARP),
                "groups": number(groups),
            },
            regions=[Region(Block())],
        )
        source = s.KernelOp.create(
            properties={"sym_name": StringAttr("k")}, regions=[Region(Block())]
        )
        self.k = k = Kernel(source, TARGETS["sm_90a"], self.emit)
        k.role = role
        k.declared[self.buffer.buffer] = self.buffer
        k.thread = self.emit.special("%tid.x")
        k.lane = self.emit.special("%laneid")
        k.warp = self.emit("shr", ".u32", k.thread, 5)
        k.base = self.emit.shared_base()
        self.warps = warps

    def scalar(self, value: int, dynamic: bool) -> Any:
        """A number that is known when lowering, or only when running."""
        return self.emit.imm(value) if dynamic else value

    def text(self) -> str:
        module = ModuleOp([self.new])
        module.attributes[TARGET] = StringAttr("sm_90a")
        NameRegistersPass().apply(context(), module)
        return print_ptx(module)

    def threads(self, load: Any = None) -> Iterator[tuple[int, list[Event]]]:
        """Number in the role and events of each thread."""
        text = self.text()
        for t in range(32 * self.warps):
            thread = Thread(32 * FIRST_WARP + t)
            if load is not None:
                thread.load = lambda name, address, count, t=t: load(t, address, count)
            yield t, thread.run(text)


def held(k: Kernel, emit: Emit, dtype: str, columns: int, layout: FragmentLayout) -> Fragment:
    """A fragment in one part as reads of accumulators and conversions make it; register i of thread t is 4096 t + i."""
    bits = DTYPES[dtype].bits
    count = columns // (2 if layout is FragmentLayout.WGMMA else 1)
    if bits == 16:
        words = emit(
            "tcgen05.ld", ".32x32b", f".x{count // 2}", k.base, results=reg("b32", count // 2)
        )
        return Fragment(dtype, ((words,),))
    words = emit("tcgen05.ld", ".32x32b", f".x{count}", k.base, results=reg("f32", count))
    return Fragment(dtype, (fragments.wide(k, words, 0, count),))


def element(layout: FragmentLayout, t: int, v: int) -> tuple[int, int] | None:
    """Row and column of value `v` of thread `t` of the role (of its warpgroup, where rows are split)."""
    match layout:
        case FragmentLayout.ROWS:
            return t, v
        case FragmentLayout.HALF_ROWS:
            return (16 * (t // 32) + t % 32, v) if t % 32 < 16 else None
        case FragmentLayout.WGMMA:
            return accumulator_fragment(t % 128, v)


def stored(harness: Harness) -> dict[int, int]:
    """Shared memory after the stores, by address of 32-bit words; a word written twice is an error."""
    memory: dict[int, int] = {}

    def write(address: int, word: int) -> None:
        assert address % 4 == 0
        assert address not in memory, f"{address} is written twice"
        memory[address] = word

    matrices: dict[tuple[int, int], dict[int, Event]] = {}
    for t, events in harness.threads(lambda t, _, count: [4096 * t + i for i in range(count)]):
        stores = [e for e in events if e.name.startswith(("st.", "stmatrix"))]
        for i, event in enumerate(stores):
            if event.name.startswith("stmatrix"):
                matrices.setdefault((t // 32, i), {})[t % 32] = event
                continue
            address, words = event.operands
            assert address % (4 * len(words)) == 0, "a vector access is aligned to its size"
            for j, word in enumerate(words):
                write(address + 4 * j, word)
    for lanes in matrices.values():
        for lane, event in lanes.items():
            for j, word in enumerate(event.operands[1]):
                row = lanes[8 * j + lane // 4].operands[0]
                assert row % 16 == 0, "a matrix row is 16 bytes at a multiple of 16"
                write(row + 4 * (lane % 4), word)
    return memory


CASES = [
    (dtype, swizzle, layout)
    for dtype in ("bf16", "f32")
    for swizzle in ("128B", "64B", "32B", "none")
    for layout in FragmentLayout
    # A row of eight 32-bit columns is 32 bytes, so a 32-bit D fragment never meets 16-byte spans.
    if (dtype, swizzle, layout) != ("f32", "none", FragmentLayout.WGMMA)
    if layout is not FragmentLayout.TURNED
]


@pytest.mark.share(2)
@pytest.mark.parametrize("dynamic", [False, True], ids=["known", "dynamic"])
@pytest.mark.parametrize(("dtype", "swizzle", "layout"), CASES)
def test_a_stored_fragment_lies_where_the_layout_says(
    dtype: str, swizzle: str, layout: FragmentLayout, dynamic: bool
) -> None:
    """Every span of a tile of two spans, in a slot that is not the first."""
    bits = DTYPES[dtype].bits
    columns = SWIZZLES[swizzle].span * 8 // bits
    rows = 128 if layout is FragmentLayout.ROWS else 64
    tile = SharedTile(rows, 2 * columns, bits, swizzle)
    for first in (0, columns):
        type = BufferType.of(dtype, (rows, 2 * columns), DEPTH, Home.SHARED, swizzle)
        harness = Harness(type, warps=4)
        k = harness.k
        block = Block(arg_types=[FragmentType.of(dtype, (rows, columns), layout), i32, i32])
        source, slot, column = block.args
        k.values[source] = held(k, harness.emit, dtype, columns, layout)
        k.values[slot] = harness.scalar(SLOT, dynamic)
        k.values[column] = harness.scalar(first, dynamic)
        op = s.StoreSharedOp.create(operands=[source, harness.buffer.buffer, slot, column])
        shared.store_shared(k, op)
        memory = stored(harness)
        base = SHARED_BASE + OFFSET + SLOT * k.slot_stride(harness.buffer.buffer)
        per_word = 32 // bits
        wanted: dict[int, int] = {}
        for t in range(128):
            for v in range(0, columns // (2 if layout is FragmentLayout.WGMMA else 1), per_word):
                place = element(layout, t, v)
                if place is not None:
                    logical = base + tile.offset(place[0], first + place[1])
                    wanted[SWIZZLES[swizzle].physical(logical)] = 4096 * t + v // per_word
        assert len(wanted) == rows * columns // per_word
        assert memory == wanted


@pytest.mark.share(2)
@pytest.mark.parametrize("dynamic", [False, True], ids=["known", "dynamic"])
@pytest.mark.parametrize("swizzle", ["128B", "64B", "32B", "none"])
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32", "i32"])
def test_a_loaded_fragment_has_its_row(dtype: str, swizzle: str, dynamic: bool) -> None:
    """Thread t loads columns of row t: the second span, then (known columns only) both at once."""
    bits = DTYPES[dtype].bits
    span = SWIZZLES[swizzle].span * 8 // bits
    tile = SharedTile(128, 2 * span, bits, swizzle)
    type = BufferType.of(dtype, (128, 2 * span), DEPTH, Home.SHARED, swizzle)
    for first, count in ((span, span), *(() if dynamic else ((0, 2 * span),))):
        harness = Harness(type, warps=4)
        k = harness.k
        block = Block(arg_types=[i32, i32])
        slot, column = block.args
        k.values[slot] = harness.scalar(SLOT, dynamic)
        k.values[column] = harness.scalar(first, dynamic)
        op = s.LoadSharedOp.create(
            operands=[harness.buffer.buffer, slot, column],
            result_types=[FragmentType.of(dtype, (128, count), FragmentLayout.ROWS)],
        )
        shared.load_shared(k, op)
        base = SHARED_BASE + OFFSET + SLOT * k.slot_stride(harness.buffer.buffer)
        for t, events in harness.threads(lambda t, address, count: [0] * count):
            loads = [e for e in events if e.name.startswith("ld.shared")]
            found = [e.operands[1] + 4 * j for e in loads for j in range(len(e.operands[0]))]
            wanted = [
                SWIZZLES[swizzle].physical(base + tile.offset(t, first + c))
                for c in range(0, count, 32 // bits)
            ]
            assert found == wanted
            assert all(e.operands[1] % 16 == 0 for e in loads)


@pytest.mark.parametrize("swizzle", ["128B", "64B", "32B"])
def test_eight_threads_on_neighbouring_rows_touch_every_bank_once(swizzle: str) -> None:
    """Eight accesses of 16 bytes are one turn of the 32 banks."""
    type = BufferType.of("f32", (128, SWIZZLES[swizzle].span // 4), 1, Home.SHARED, swizzle)
    harness = Harness(type, warps=4)
    block = Block(arg_types=[i32, i32])
    for arg in block.args:
        harness.k.values[arg] = 0
    op = s.LoadSharedOp.create(
        operands=[harness.buffer.buffer, *block.args],
        result_types=[
            FragmentType.of("f32", (128, SWIZZLES[swizzle].span // 4), FragmentLayout.ROWS)
        ],
    )
    shared.load_shared(harness.k, op)
    first = [
        next(e for e in events if e.name.startswith("ld.shared")).operands[1]
        for _, events in harness.threads(lambda t, address, count: [0] * count)
    ]
    for start in range(0, 128, 8):
        banks = {(a // 4 + j) % 32 for a in first[start : start + 8] for j in range(4)}
        assert len(banks) == 32


def test_a_role_whose_rows_are_split_stores_by_warpgroup() -> None:
    """Rows of the D fragment start at 16 times the warp's number in its warpgroup; the slot says which group's."""
    type = BufferType.of("bf16", (64, 64), 4, Home.SHARED, "128B")
    harness = Harness(type, warps=8, groups=2)
    k = harness.k
    block = Block(arg_types=[FragmentType.of("bf16", (64, 64), FragmentLayout.WGMMA), i32, i32])
    source, slot, column = block.args
    k.values[source] = held(k, harness.emit, "bf16", 64, FragmentLayout.WGMMA)
    warp = harness.emit("sub", ".u32", k.warp, FIRST_WARP)
    k.values[slot] = harness.emit("shr", ".u32", warp, 2)
    k.values[column] = 0
    shared.store_shared(
        k, s.StoreSharedOp.create(operands=[source, harness.buffer.buffer, slot, column])
    )
    memory = stored(harness)
    tile = SharedTile(64, 64, 16, "128B")
    wanted: dict[int, int] = {}
    for t in range(256):
        for v in range(0, 32, 2):
            row, col = accumulator_fragment(t % 128, v)
            base = SHARED_BASE + OFFSET + t // 128 * 64 * 64 * 2
            wanted[SWIZZLES["128B"].physical(base + tile.offset(row, col))] = 4096 * t + v // 2
    assert memory == wanted
