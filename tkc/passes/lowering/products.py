"""Matrix products and the accumulators that they write: wgmma in registers, tcgen05 in tensor memory.

Sums are in f32, or in f16 where the accumulator is; of 8-bit integers in i32 without
saturation. Of 8-bit floats wgmma may keep fewer bits of a sum
than f32 has, so that long sums lose more than their rounding explains.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from xdsl.ir import SSAValue

from tkc.analysis.product_shapes import no_columns
from tkc.analysis.tensor_memory import LANES, SHARED_COLUMNS, columns_of
from tkc.diagnostics import Note, TkcError
from tkc.ir.isa.dtypes import DTYPES, SCALES
from tkc.ir.isa.layouts import SCALE_ATOM_SCALES, Major, SharedTile
from tkc.ir.isa.mma import MMAS, Instruction, Mma, encode_instruction, select
from tkc.ir.isa.targets import Feature
from tkc.ir.locations import location_of
from tkc.ir.ptx.emit import At
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import AccumulatorType, BufferType, Home
from tkc.passes.lowering.collector import Steps, write_products
from tkc.passes.lowering.state import Accumulator, Kernel, lowers


@lowers(s.OpenOp)
def open_accumulator(k: Kernel, op: s.OpenOp) -> None:
    declared, type = k.buffer(op.buffer)
    if type.home.data == Home.TENSOR:
        assert declared.offset is not None
        whole = s.storage(op.buffer).type  # slots are as far apart as those that they lie in
        assert isinstance(whole, BufferType)
        moved = k.mul(k.number(op.slot), columns_of(whole))
        address = k.add(k.add(k.tensor_base, moved), declared.offset.value.data)
        k.values[op.value] = Accumulator((), address, True)
        return
    groups = k.current_role().groups.value.data
    rows, columns = type.shape
    pieces = rows // groups // 64
    kind = "f32" if type.dtype.data == "f32" else "b32"
    each = columns * DTYPES[type.dtype.data].bits // 64
    registers = tuple(k.emit.undef(kind, each) for _ in range(pieces))
    k.values[op.value] = Accumulator(registers, 0, True)


@lowers(s.ZeroOp)
def zero(k: Kernel, op: s.ZeroOp) -> None:
    k.values[op.value] = replace(k.values[op.source], started=False)


@dataclass(frozen=True)
class Operand:
    """One operand of a product: its tile, which of its indices is contiguous, and the slot."""

    tile: SharedTile
    major: Major
    buffer: SSAValue
    slot: SSAValue

    def at(self, k: Kernel) -> SSAValue:
        """The descriptor of the slot."""
        return k.descriptor(self.buffer, self.slot, self.tile.descriptor(self.major))


def operand(k: Kernel, buffer: SSAValue, slot: SSAValue, major: Major) -> Operand:
    _, type = k.buffer(buffer)
    return Operand(k.tile(type), major, buffer, slot)


def moved(k: Kernel, descriptor: SSAValue, bytes: int) -> SSAValue:
    """A descriptor `bytes` further on."""
    return k.emit("add", ".u64", descriptor, bytes >> 4) if bytes else descriptor


@dataclass(frozen=True)
class Product:
    """What a stage product comes to: the hardware row, its sizes, its operands."""

    row: Mma
    m: int
    n: int
    k: int
    a: Operand
    b: Operand
    a_dtype: str
    b_dtype: str


class Scaling(NamedTuple):
    """Block scales of both operands of a product; no blocks where it has none. `alone`: those of each 128 rows of A lie
    by themselves."""

    dtype: str = ""
    block: int = 0
    alone: bool = False


UNSCALED = Scaling()


def product(k: Kernel, op: s.MmaOp | s.ScaledMmaOp, m: int, scaling: Scaling = UNSCALED) -> Product:
    """The hardware's way to do a product with `m` rows at a time, or TK203 saying what would fit."""
    group = 1 if op.pair is None else 2
    a_type, b_type, d_type = op.a.type, op.b.type, op.value.type
    assert isinstance(a_type, BufferType)
    assert isinstance(b_type, BufferType)
    assert isinstance(d_type, AccumulatorType)
    n = d_type.shape[1]
    a_major, b_major = _majors(op)
    depth = a_type.shape[1 if a_major is Major.K else 0]
    a, b, d = a_type.dtype.data, b_type.dtype.data, DTYPES[d_type.dtype.data].ptx
    rows = select(k.target.features, a, b, d, group, block=scaling.block, scale=scaling.dtype)
    rows = [r for r in rows if {a_type.bits, b_type.bits} == {r.slot}]
    place = location_of(op)
    if not rows:
        raise TkcError.at("TK203", _no_product(k, a, b, d, scaling), place)
    spans = (
        {k.tile(a_type).held, k.tile(b_type).held} if a_major is b_major is Major.K else set[int]()
    )
    row = _widest(rows, m, n, depth, spans, scaling.alone or d_type.shape[0] * group == m)
    if not row.fits(m, n):
        raise no_columns(row, m, n, a, k.target, place)
    if depth % row.k:
        raise TkcError.at(
            "TK203",
            f"a product of depth {depth} is no whole number of steps; {a} takes a multiple of {row.k}",
            place,
        )
    for name, dtype, major in (("a", a, a_major), ("b", b, b_major)):
        if major is Major.MN and dtype not in row.mn_major:
            raise TkcError.at(
                "TK115",
                f"operand {name} of {dtype} is not contiguous along the contracted axis; "
                f"{k.target.name} takes {' or '.join(row.mn_major) or 'no operand of this product'} so",
                place,
                Note(_turned(dtype)),
            )
    return Product(
        row, m, n, depth,
        operand(k, op.a, op.a_slot, a_major), operand(k, op.b, op.b_slot, b_major), a, b,
    )  # fmt: skip


def _turned(dtype: str) -> str:
    """What helps where an operand lies the wrong way round."""
    if DTYPES[dtype].bits < 8 or dtype in SCALES:
        return "an array whose contracted axis is contiguous is taken: turn it before the launch"
    return (
        "a role between can turn it into a tile of its own: `get raw, put ready: turned <- tile.T`, and the product "
        "takes `turned` for `tile.T`, `turned.T` for `tile`"
    )


def _widest(
    rows: Sequence[Mma], m: int, n: int, depth: int, spans: Collection[int], behind: bool
) -> Mma:
    """The row with the longest K step that goes into the depth, or the first row, which says what is wrong.

    A longer step than the first row's lies in one of the `spans` of K-major operands. One whose scales do not lie in
    one atom has those of the next right `behind`.
    """
    usual = rows[0]
    wider = [
        r
        for r in rows
        if spans and r.fits(m, n) and depth % r.k == 0 and not any(span % r.k_bytes for span in spans)
        and (behind or SCALE_ATOM_SCALES % max(1, r.scales_per_row) == 0)
    ]  # fmt: skip
    return max(wider, key=lambda r: r.k, default=usual)


def _majors(op: s.MmaOp | s.ScaledMmaOp) -> tuple[Major, Major]:
    """Which index of each operand is contiguous; block scales lie along K."""
    if isinstance(op, s.ScaledMmaOp):
        return Major.K, Major.K
    return (
        Major.MN if op.trans_a.value.data else Major.K,
        Major.K if op.trans_b.value.data else Major.MN,
    )


def _no_product(k: Kernel, a: str, b: str, d: str, scaling: Scaling) -> str:
    """What the target has instead, and which feature would bring this product."""
    if scaling.block:
        return _no_scaled_product(k, a, b, d, scaling)
    rows = [r for r in MMAS if r.takes(a, b, d) and not r.block]
    unit = {Feature.TCGEN05} if k.target.has({Feature.TCGEN05}) else {Feature.WGMMA}
    missing = sorted({n for r in rows if unit <= r.needs for n in r.needs - k.target.features})
    needs = f", which needs {' and '.join(missing)}" if missing else ""
    has = dict.fromkeys(
        t for r in MMAS if r.needs <= k.target.features and not r.block and r.takes(r.a[0], r.a[0], d)
        for t in r.a
    )  # fmt: skip
    fits = f"; into {d} it takes {', '.join(has)}" if has else ""
    return f"{k.target.name} has no product of {a} and {b} into {d}{needs}{fits}"


def _no_scaled_product(k: Kernel, a: str, b: str, d: str, scaling: Scaling) -> str:
    """Which scales the operands go with on the target."""
    told = f"{k.target.name} has no product of {a} and {b} with scales of {scaling.dtype} / {scaling.block}"
    fits = dict.fromkeys(
        f"{scale} / {r.block}"
        for r in MMAS if r.block and not r.sparse and r.needs <= k.target.features and r.takes(a, b, d)
        for scale in r.scales
    )  # fmt: skip
    if fits:
        return f"{told}; they go with {', '.join(fits)}"
    taken = dict.fromkeys(t for r in MMAS if r.block and r.needs <= k.target.features for t in r.a)
    return f"{told}; block-scaled operands are {', '.join(taken) or 'not to be had'}"


@lowers(s.MmaOp, Feature.TCGEN05)
def tcgen05(k: Kernel, op: s.MmaOp) -> None:
    """One instruction for each K step and 128 rows (of each CTA); the first takes no input where nothing counts yet."""
    write_products(k, op, lambda each: _steps(k, each))


def _steps(k: Kernel, op: s.MmaOp) -> Steps:
    type = op.value.type
    assert isinstance(type, AccumulatorType)
    rows = min(type.shape[0], LANES)
    all_rows = rows if op.pair is None else 2 * rows
    p = product(k, op, all_rows)
    source: Accumulator = k.values[op.source]
    word = encode_instruction(
        Instruction(
            p.row.kind, p.a_dtype, p.b_dtype, DTYPES[type.dtype.data].ptx, all_rows, p.n, p.row.k,
            a_mn_major=p.a.major is Major.MN, b_mn_major=p.b.major is Major.MN,
        )
    )  # fmt: skip
    a, b = p.a.at(k), p.b.at(k)

    def write(block: int, step: int, hint: str | None) -> None:
        into = k.add(source.address, block * p.n)
        enable = source.started if step == 0 else True
        k.emit(
            "tcgen05.mma",
            k.cta_group,
            p.row.kind,
            into,
            moved(
                k,
                a,
                p.a.tile.k_step(p.a.major, step * p.row.k)
                + p.a.tile.mn_step(p.a.major, block * rows),
            ),
            moved(k, b, p.b.tile.k_step(p.b.major, step * p.row.k)),
            idesc=word,
            enable=k.emit.imm(int(enable), "pred") if isinstance(enable, bool) else enable,
            collector_b=hint,
        )

    k.values[op.value] = replace(source, started=True)
    return Steps(type.shape[0] // rows, p.k // p.row.k, write)


@lowers(s.MmaOp, Feature.WGMMA)
def wgmma(k: Kernel, op: s.MmaOp) -> None:
    """One group: the rows of this warpgroup, 64 at a time, over all K steps."""
    p = product(k, op, 64)
    type = op.value.type
    assert isinstance(type, AccumulatorType)
    source: Accumulator = k.values[op.source]
    groups = k.current_role().groups.value.data
    pieces = len(source.registers)
    a, b = p.a.at(k), p.b.at(k)
    if groups > 1:
        share = p.a.tile.mn_step(p.a.major, 64 * pieces) >> 4
        first = k.current_role().first_warp.value.data
        warp = k.emit("sub", ".u32", k.warp, first) if first else k.warp
        ahead = k.mul(k.shift_right(warp, 2), share)
        a = k.emit("add", ".u64", a, k.emit("cvt", ".u64", ".u32", ahead))
    majors = [int(p.a.major is Major.MN), int(p.b.major is Major.MN)] if p.row.mn_major else []
    sums = DTYPES[type.dtype.data].ptx
    signs = [1, 1] if DTYPES[type.dtype.data].floating else []
    registers = list(source.registers)
    if op.alone is None:
        k.emit("wgmma.fence")
    for piece in range(pieces):
        for step in range(p.k // p.row.k):
            enable = source.started if step == 0 else True
            registers[piece] = k.emit(
                "wgmma.mma_async",
                f".m64n{p.n}k{p.row.k}",
                f".{sums}",
                f".{p.a_dtype}",
                f".{p.b_dtype}",
                moved(
                    k,
                    a,
                    p.a.tile.k_step(p.a.major, step * p.row.k)
                    + p.a.tile.mn_step(p.a.major, 64 * piece),
                ),
                moved(k, b, p.b.tile.k_step(p.b.major, step * p.row.k)),
                k.emit.imm(int(enable), "pred") if isinstance(enable, bool) else enable,
                *signs,
                *majors,
                c=registers[piece],
            )
    if op.alone is None:
        k.emit("wgmma.commit_group")
    k.values[op.value] = Accumulator(tuple(registers), 0, True)


@lowers(s.MmaWaitOp, Feature.WGMMA)
def wait(k: Kernel, op: s.MmaWaitOp) -> None:
    k.emit("wgmma.wait_group", op.pending.value.data)
    k.values[op.value] = k.values[op.source]


def alone(columns: int) -> tuple[str, ...]:
    """An allocation of more columns than CTAs share waits until it is the only one."""
    return (".exclusive",) if columns > SHARED_COLUMNS else ()


def allocate(k: Kernel, columns: int, word: int) -> None:
    """Warp 0 (of each CTA of a pair) allocates tensor memory, its address goes to shared memory."""

    def alloc() -> None:
        k.emit(
            "tcgen05.alloc", *alone(columns), k.cta_group, ".shared::cta", At(k.base, word), columns
        )
        k.emit("tcgen05.relinquish_alloc_permit", k.cta_group)

    k.emit.if_(k.emit("setp", ".eq", ".u32", k.warp, 0), alloc)


def deallocate(k: Kernel, columns: int) -> None:
    """Warp 0 frees what it allocated, after the barrier of the CTA or cluster."""

    def free() -> None:
        k.emit("bar.warp.sync", -1)
        k.emit("tcgen05.dealloc", *alone(columns), k.cta_group, k.tensor_base, columns)

    k.emit.if_(k.emit("setp", ".eq", ".u32", k.warp, 0), free)
