"""Single elements: their addresses, loads and stores in an order, atomic updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import f32, i32, i64
from xdsl.ir import SSAValue

from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.ptx.emit import At
from tkc.ir.ptx.registers import reg
from tkc.ir.stage import elements as el
from tkc.ir.stage.numbers import ui32
from tkc.ir.stage.types import BufferType
from tkc.ir.tile.types import TensorType
from tkc.passes.lowering.fragments import PACKED
from tkc.passes.lowering.narrow import FLOATS, INTEGERS, NARROW
from tkc.passes.lowering.shared import Addresses
from tkc.passes.lowering.state import Kernel, lowers
from tkc.passes.lowering.vectors import Line

ATOMIC_TYPES = {
    (i32, "add"): ".s32", (i32, "min"): ".s32", (i32, "max"): ".s32",
    (ui32, "add"): ".u32", (ui32, "min"): ".u32", (ui32, "max"): ".u32",
    (i64, "add"): ".u64", (i64, "min"): ".s64", (i64, "max"): ".s64", (f32, "add"): ".f32",
}  # fmt: skip
"""The type of an update; of bits where it is not listed. Sums of 64 bits are the same with and without a sign."""


Element = el.LoadElementOp | el.StoreElementOp | el.AtomicOp | el.CopyElementsOp


def _where(k: Kernel, op: Element) -> tuple[str, At]:
    """The space and the address of an element."""
    if isinstance(op.place.type, TensorType):
        return ".global", _in_tensor(k, op.place, op.indices)
    type = op.place.type
    assert isinstance(type, BufferType)
    slot, *indices = op.indices
    if len(indices) == 2:
        row, column = indices
        return ".shared::cta", Addresses(k, op.place, slot, column).base(k.number(row), 0)(0)
    start = k.slot_address(op.place, slot)
    moved = k.mul(k.number(indices[0]), DTYPES[type.dtype.data].bits // 8)
    return ".shared::cta", k.at(start.base, start.offset, moved)


def _in_tensor(k: Kernel, tensor: SSAValue, indices: Sequence[SSAValue]) -> At:
    if not indices:
        return At(k.pointer(tensor), 0)
    numbers = [k.register(i) for i in indices]
    return At(Line(k, tensor, len(numbers) - 1, numbers).at(numbers[-1]), 0)


def _dtype(place: SSAValue) -> str:
    assert isinstance(place.type, TensorType | BufferType)
    return place.type.dtype.data


def _order(op: el.LoadElementOp | el.StoreElementOp | el.AtomicOp) -> list[str]:
    return [f".{word.data}" for word in (op.sem, op.scope) if word is not None]


def _type(value: SSAValue) -> str:
    return {f32: ".f32", i64: ".b64"}.get(value.type, ".b32")


@lowers(el.LoadElementOp)
def load(k: Kernel, op: el.LoadElementOp) -> None:
    space, place = _where(k, op)
    dtype = _dtype(op.place)
    if dtype in NARROW:
        k.values[op.value] = _load_byte(k, op, dtype, space, place)
        return
    if dtype not in PACKED:
        k.values[op.value] = k.emit("ld", *_order(op), space, _type(op.value), place)
        return
    bits = k.emit("ld", *_order(op), space, ".b16", place)
    if dtype == "f16":
        k.values[op.value] = k.emit("cvt", ".f32", ".f16", bits)
    else:
        upper = k.emit("shl", ".b32", k.emit("cvt", ".u32", ".u16", bits), 16)
        k.values[op.value] = k.emit("mov.b32_to_f32", upper)


def _load_byte(k: Kernel, op: el.LoadElementOp, dtype: str, space: str, place: At) -> SSAValue:
    """An integer extends in the load; a float of 8 bits is exact in f16."""
    if dtype in INTEGERS:
        return k.emit("ld", *_order(op), space, f".{dtype}", place, results=reg("b32"))
    byte = k.emit("ld", *_order(op), space, ".b8", place, results=reg("b16"))
    halves = k.emit("cvt.half.fp8x2", ".f16x2", FLOATS[dtype], byte)
    return k.emit("cvt", ".f32", ".f16", k.emit("cvt", ".u16", ".u32", halves))


def _store_byte(
    k: Kernel, op: el.StoreElementOp, dtype: str, space: str, place: At, value: SSAValue
) -> None:
    """What does not fit becomes the nearest that does."""
    if dtype in INTEGERS:
        least, most = INTEGERS[dtype]
        byte = k.emit("min", ".s32", k.emit("max", ".s32", value, least), most)
    else:
        byte = k.emit("cvt.fp8x2", FLOATS[dtype], 0.0, value)
    k.emit("st", *_order(op), space, ".b8", place, byte)


@lowers(el.StoreElementOp)
def store(k: Kernel, op: el.StoreElementOp) -> None:
    space, place = _where(k, op)
    dtype, value = _dtype(op.place), k.register(op.source)
    if dtype in NARROW:
        _store_byte(k, op, dtype, space, place, value)
        return
    if dtype not in PACKED:
        k.emit("st", *_order(op), space, _type(op.source), place, value)
        return
    pair = k.emit("cvt.x2", ".rn", PACKED[dtype], 0.0, value)
    k.emit("st", *_order(op), space, ".b16", place, k.emit("cvt", ".u16", ".u32", pair))


@lowers(el.AtomicOp)
def atomic(k: Kernel, op: el.AtomicOp) -> None:
    """An update whose answer nobody uses is `red`, where there is such a one."""
    space, place = _where(k, op)
    at: Any = At(k.emit("add", ".u32", place.base, place.offset), 0) if place.offset else place
    kind, order = op.kind.data, _order(op)
    given = [k.register(v) for v in op.given]
    if kind in ("exch", "cas"):
        k.values[op.value] = k.emit(f"atom.{kind}", *order, space, _type(op.value), at, *given)
        return
    type = ATOMIC_TYPES.get((op.value.type, kind), _type(op.value))
    unused = not op.value.uses.get_length() and (
        op.sem is None or op.sem.data in ("relaxed", "release")
    )
    if unused:
        k.emit("red", *order, space, f".{kind}", type, at, *given)
    else:
        k.values[op.value] = k.emit("atom", *order, space, f".{kind}", type, at, *given)


@lowers(el.CopyElementsOp)
def copy(k: Kernel, op: el.CopyElementsOp) -> None:
    """16 bytes go past the L1 cache, which only they can."""
    _, place = _where(k, op)
    bytes = op.bytes.value.data
    cache = ".cg" if bytes == 16 else ".ca"
    k.emit("cp.async", cache, ".shared::cta", place, _in_tensor(k, op.tensor, op.start), bytes)


@lowers(el.CopiesCommitOp)
def commit_copies(k: Kernel, op: el.CopiesCommitOp) -> None:
    k.emit("cp.async.commit_group")


@lowers(el.CopiesWaitOp)
def wait_copies(k: Kernel, op: el.CopiesWaitOp) -> None:
    k.emit("cp.async.wait_group", op.pending.value.data)


@lowers(el.CopiesArriveOp)
def arrive_copies(k: Kernel, op: el.CopiesArriveOp) -> None:
    counted = [] if op.uncounted is not None else [".noinc"]
    place = k.barrier_address(op.barriers, op.slot)
    k.emit("cp.async.mbarrier.arrive", *counted, ".shared::cta", place)
