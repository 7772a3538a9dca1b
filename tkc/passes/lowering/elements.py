"""Single elements: their addresses, loads and stores in an order, atomic updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.ptx.emit import At
from tkc.ir.stage import elements as el
from tkc.ir.stage.types import BufferType
from tkc.ir.tile.types import TensorType
from tkc.passes.lowering.fragments import PACKED
from tkc.passes.lowering.shared import Addresses
from tkc.passes.lowering.state import Kernel, lowers
from tkc.passes.lowering.vectors import Line

ATOMIC_TYPES = {"add": ".s32", "min": ".s32", "max": ".s32"}
"""The type of an update of i32; of bits where it is not listed. An f32 is added as one."""


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
    return ".f32" if value.type == f32 else ".b32"


@lowers(el.LoadElementOp)
def load(k: Kernel, op: el.LoadElementOp) -> None:
    space, place = _where(k, op)
    dtype = _dtype(op.place)
    if dtype not in PACKED:
        k.values[op.value] = k.emit("ld", *_order(op), space, _type(op.value), place)
        return
    bits = k.emit("ld", *_order(op), space, ".b16", place)
    if dtype == "f16":
        k.values[op.value] = k.emit("cvt", ".f32", ".f16", bits)
    else:
        upper = k.emit("shl", ".b32", k.emit("cvt", ".u32", ".u16", bits), 16)
        k.values[op.value] = k.emit("mov.b32_to_f32", upper)


@lowers(el.StoreElementOp)
def store(k: Kernel, op: el.StoreElementOp) -> None:
    space, place = _where(k, op)
    dtype, value = _dtype(op.place), k.register(op.source)
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
        k.values[op.value] = k.emit(f"atom.{kind}", *order, space, ".b32", at, *given)
        return
    type = ".f32" if op.value.type == f32 else ATOMIC_TYPES.get(kind, ".b32")
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
