"""Register tiles: out of accumulators, and arithmetic on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from xdsl.ir import Attribute, SSAValue

from tkc.diagnostics import Bug, TkcError
from tkc.ir.isa.targets import Feature
from tkc.ir.locations import location_of
from tkc.ir.ptx.emit import At
from tkc.ir.ptx.registers import reg, type_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import AccumulatorType, FragmentLayout, FragmentType
from tkc.ir.tile.types import OPERAND
from tkc.passes.lowering import narrow, numbers
from tkc.passes.lowering.state import Accumulator, Fragment, Kernel, lowers

PACKED = {"bf16": ".bf16x2", "f16": ".f16x2"}
"""The 16-bit dtypes and the conversion that makes a pair of them."""

WHOLE = {"f32": ".f32", "i32": ".s32", "u32": ".u32", "i64": ".s64"}
"""The dtypes of which a register holds one element, and what conversions call them."""


def kind_of(dtype: str) -> str:
    """The kind of register that holds elements of a dtype, two of which one holds where they are of 8 and 16 bits."""
    return {"f32": "f32", "i64": "b64"}.get(dtype, "b32")


LOWER_HALVES = 0x5410
"""The selector of prmt that joins the lower halves of two registers, where tcgen05 leaves 16-bit sums."""

MOST_LOADED = 128
"""Columns that one tcgen05.ld.32x32b brings."""


Part = tuple[SSAValue, ...]


def fragment_type(value: SSAValue) -> FragmentType:
    assert isinstance(value.type, FragmentType)
    return value.type


def wide(k: Kernel, whole: SSAValue, start: int, count: int) -> tuple[SSAValue, SSAValue]:
    """Elements `start` up of a tuple of 32-bit values, as (even, odd)."""
    half = count // 2
    return k.emit.slice(whole, start, half, 2), k.emit.slice(whole, start + 1, half, 2)


# Accumulators --------------------------------------------------------------------------------------------------------


def _filled(k: Kernel, kind: str, number: float, like: SSAValue) -> SSAValue:
    """A number in as many registers."""
    return k.emit("mov", kind, number, results=reg(kind[1:], type_of(like).count))


def _finish(k: Kernel, op: s.ReadAccumulatorOp, parts: list[tuple[SSAValue, ...]]) -> None:
    """Zero instead, where the item had no product."""
    dtype = fragment_type(op.value).dtype.data
    if op.nonzero is not None:
        some: SSAValue | bool = k.number(op.nonzero)
        kind, none = (".f32", 0.0) if dtype == "f32" else (".b32", 0)
        if some is False:
            parts = [tuple(_filled(k, kind, none, v) for v in part) for part in parts]
        elif isinstance(some, SSAValue):
            parts = [tuple(k.emit("selp", kind, v, none, some) for v in part) for part in parts]
    k.values[op.value] = Fragment(dtype, tuple(parts))


@lowers(s.ReadAccumulatorOp, Feature.TCGEN05)
def read_tensor(k: Kernel, op: s.ReadAccumulatorOp) -> None:
    """Loads of 32 lanes by each warp, of columns in powers of two: a thread gets one row (PTX: tcgen05.ld.32x32b)."""
    accumulator: Accumulator = k.values[op.accumulator]
    columns = fragment_type(op.value).shape[1]
    kind = kind_of(fragment_type(op.value).dtype.data)
    width = op.accumulator.type
    assert isinstance(width, AccumulatorType)
    lanes = k.emit("shl", ".b32", k.bit_and(k.warp, 3), 21)
    address = k.add(k.add(accumulator.address, lanes), k.number(op.column))
    address = k.add(address, op.row_block.value.data * width.shape[1])
    loaded: list[SSAValue] = []
    done = 0
    while done < columns:
        count = min(MOST_LOADED, 1 << (columns - done).bit_length() - 1)
        place = k.add(address, done)
        loaded.append(
            k.emit("tcgen05.ld", ".32x32b", f".x{count}", place, results=reg(kind, count))
        )
        done += count
    k.emit("tcgen05.wait::ld")
    parts: list[Part] = [wide(k, one, 0, type_of(one).count) for one in loaded]
    if fragment_type(op.value).dtype.data in PACKED:
        parts = [(k.emit("prmt", *pair, LOWER_HALVES),) for pair in parts]
    _finish(k, op, parts)


@lowers(s.ReadAccumulatorOp, Feature.WGMMA)
def read_registers(k: Kernel, op: s.ReadAccumulatorOp) -> None:
    """Columns of a wgmma accumulator are its registers in order: four values for each eight columns."""
    accumulator: Accumulator = k.values[op.accumulator]
    columns, first = fragment_type(op.value).shape[1], k.number(op.column)
    if not isinstance(first, int):
        raise Bug("lower-stage-to-ptx", "registers are not found at run time")
    registers = accumulator.registers[op.row_block.value.data]
    if fragment_type(op.value).dtype.data in PACKED:
        _finish(k, op, [(k.emit.slice(registers, first // 4, columns // 4),)])
    else:
        _finish(k, op, [wide(k, registers, first // 2, columns // 2)])


def singles(k: Kernel, registers: SSAValue) -> list[SSAValue]:
    """The registers of a tuple one by one; of a single register itself."""
    count = type_of(registers).count
    return [k.emit.slice(registers, i) for i in range(count)] if count else [registers]


def in_columns(k: Kernel, fragment: Fragment) -> list[SSAValue]:
    """The registers of a fragment of 32-bit values, one by one in the order of columns."""
    found: list[SSAValue] = []
    for part in fragment.parts:
        for i in range(_count(part)):
            found += [k.emit.slice(x, i) if type_of(x).count else x for x in part]
    return found


@lowers(s.WriteAccumulatorOp, Feature.TCGEN05)
def write_tensor(k: Kernel, op: s.WriteAccumulatorOp) -> None:
    """Stores of 32 lanes by each warp (PTX: tcgen05.st.32x32b), and the wait for them; of an operand of products two
    neighbours in a column."""
    accumulator: Accumulator = k.values[op.accumulator]
    width = op.accumulator.type
    assert isinstance(width, AccumulatorType)
    registers = in_columns(k, k.values[op.fragment])
    lanes = k.emit("shl", ".b32", k.bit_and(k.warp, 3), 21)
    each = 2 if width.dtype.data == OPERAND else 1
    column = k.shift_right(k.number(op.column), each - 1)
    address = k.add(k.add(accumulator.address, lanes), column)
    address = k.add(address, op.row_block.value.data * width.shape[1] // each)
    done = 0
    while done < len(registers):
        count = min(MOST_LOADED, 1 << (len(registers) - done).bit_length() - 1)
        k.emit(
            "tcgen05.st",
            f".32x32b.x{count}",
            At(k.add(address, done), 0),
            registers[done : done + count],
        )
        done += count
    k.emit("tcgen05.wait::st")
    k.values[op.value] = replace(accumulator, started=True)


def _in_order(k: Kernel, fragment: Fragment) -> list[SSAValue]:
    """The registers of a fragment as wgmma has them: for each eight columns two of a row and two of the row 8 below."""
    if not fragment.halves:
        return in_columns(k, fragment)
    found: list[SSAValue] = []
    for upper, lower in zip(fragment.parts[::2], fragment.parts[1::2], strict=True):
        for i in range(_count(upper)):
            found += [k.emit.slice(x, i) if type_of(x).count else x for x in (*upper, *lower)]
    return found


@lowers(s.WriteAccumulatorOp, Feature.WGMMA)
def write_registers(k: Kernel, op: s.WriteAccumulatorOp) -> None:
    """The accumulator's registers with others in place of some."""
    accumulator: Accumulator = k.values[op.accumulator]
    first = k.number(op.column)
    if not isinstance(first, int):
        raise Bug("lower-stage-to-ptx", "registers are not found at run time")
    block = op.row_block.value.data
    whole = accumulator.registers[block]
    new, at = _in_order(k, k.values[op.fragment]), first // 2
    count = type_of(whole).count
    kept = [k.emit.slice(whole, i) for i in range(count)] if len(new) < count else []
    joined = k.emit.join([*kept[:at], *new, *kept[at + len(new) :]], type_of(whole).kind)
    registers = (*accumulator.registers[:block], joined, *accumulator.registers[block + 1 :])
    k.values[op.value] = replace(accumulator, registers=registers, started=True)


# Arithmetic ----------------------------------------------------------------------------------------------------------


@lowers(s.CastOp)
def cast(k: Kernel, op: s.CastOp) -> None:
    source: Fragment = k.values[op.source]
    to = fragment_type(op.value).dtype.data
    if source.dtype == to:
        k.values[op.value] = source
        return
    single = fragment_type(op.value).a_row
    if source.dtype == "f32" and to in PACKED:
        convert = _pack_single if single else _pack
    elif source.dtype in WHOLE and to in WHOLE:
        parts = tuple(
            tuple(numbers.convert(k, x, WHOLE[source.dtype], WHOLE[to]) for x in part)
            for part in source.parts
        )
        k.values[op.value] = replace(source, dtype=to, parts=parts)
        return
    elif source.dtype in PACKED and to == "f32":
        convert = _unpack_single if single else _unpack
    elif source.dtype == "f32" and to in narrow.NARROW:
        convert = narrow.pack_single if single else narrow.pack
    elif source.dtype in narrow.NARROW and to == "f32":
        convert = narrow.unpack_single if single else narrow.unpack
    else:
        raise TkcError.at(
            "TK110", f"converting {source.dtype} to {to} is not supported yet", location_of(op)
        )
    dtype = source.dtype if to == "f32" else to
    parts = tuple(convert(k, dtype, part) for part in source.parts)
    k.values[op.value] = replace(source, dtype=to, parts=parts)


def _pack(k: Kernel, dtype: str, part: Part) -> Part:
    even, odd = part
    return (k.emit("cvt.x2", ".rn", PACKED[dtype], odd, even),)


def _pack_single(k: Kernel, dtype: str, part: Part) -> Part:
    """Each value in the lower half of a register."""
    return tuple(k.emit("cvt.x2", ".rn", PACKED[dtype], 0.0, x) for x in part)


def _unpack(k: Kernel, dtype: str, part: Part) -> Part:
    return (_from_bf16 if dtype == "bf16" else _from_f16)(k, part[0])


def _unpack_single(k: Kernel, dtype: str, part: Part) -> Part:
    if dtype == "bf16":
        return tuple(k.emit("shl", ".b32", x, 16) for x in part)
    return tuple(k.emit("cvt", ".f32", ".f16", k.emit("cvt", ".u16", ".u32", x)) for x in part)


def _from_bf16(k: Kernel, pairs: SSAValue) -> tuple[SSAValue, SSAValue]:
    """bf16 is the upper half of an f32: exact."""
    return k.emit("shl", ".b32", pairs, 16), k.emit("and", ".b32", pairs, 0xFFFF0000)


def _from_f16(k: Kernel, pairs: SSAValue) -> tuple[SSAValue, SSAValue]:
    low = k.emit("cvt", ".u16", ".u32", pairs)
    high = k.emit("cvt", ".u16", ".u32", k.emit("shr", ".u32", pairs, 16))
    return k.emit("cvt", ".f32", ".f16", low), k.emit("cvt", ".f32", ".f16", high)


LOG2_E = math.log2(math.e)

UNARY: dict[str, Callable[[Kernel, Any], Any]] = {
    "neg": lambda k, a: k.emit("neg", ".f32", a),
    "abs": lambda k, a: k.emit("abs", ".f32", a),
    "exp": lambda k, a: k.emit(
        "ex2.approx", ".ftz", ".f32", k.emit("mul", ".rn", ".f32", a, LOG2_E)
    ),
    "exp2": lambda k, a: k.emit("ex2.approx", ".ftz", ".f32", a),
    "log": lambda k, a: k.emit("mul", ".rn", ".f32", k.emit("lg2.approx", ".f32", a), math.log(2)),
    "log2": lambda k, a: k.emit("lg2.approx", ".f32", a),
    "sqrt": lambda k, a: k.emit("sqrt", ".rn", ".f32", a),
    "rsqrt": lambda k, a: k.emit("rsqrt.approx", ".f32", a),
    "rcp": lambda k, a: k.emit("rcp", ".rn", ".f32", a),
    "tanh": lambda k, a: k.emit("tanh.approx", ".f32", a),
    "finite": lambda k, a: k.emit(
        "selp", ".f32", 0.0, a, k.emit("setp", ".eq", ".f32", a, -math.inf)
    ),
}
"""exp, exp2, log, log2, rsqrt and tanh are the hardware's approximations (PTX 9.7.3 gives their errors); finite is 0
for -inf and leaves all else."""

BINARY: dict[str, tuple[str, ...]] = {
    "add": ("add", ".rn", ".f32"),
    "sub": ("sub", ".rn", ".f32"),
    "mul": ("mul", ".rn", ".f32"),
    "div": ("div", ".full", ".f32"),
    "min": ("min", ".NaN", ".f32"),
    "max": ("max", ".NaN", ".f32"),
}
"""div.full is within 2 ulp; min and max pass a NaN on."""


@lowers(s.MapOp)
def elementwise(k: Kernel, op: s.MapOp) -> None:
    type = fragment_type(op.value)
    if type.dtype.data != "f32":
        raise TkcError.at(
            "TK110",
            f"arithmetic on {type.dtype.data} register tiles is not supported yet; convert with f32(x) first",
            location_of(op),
        )
    inputs = [
        Spread(fragment_type(v), k.values[v]) if isinstance(v.type, FragmentType) else k.number(v)
        for v in op.inputs
    ]
    aligned, halves = align(k, type, inputs)
    parts = tuple(
        tuple(combine(k, op.kind.data, values) for values in zip(*part, strict=True))
        for part in zip(*aligned, strict=True)
    )
    k.values[op.value] = Fragment("f32", parts, halves)


CHOICES = {"if_lt": ".lt", "if_le": ".le", "if_eq": ".eq"}
"""Comparisons by which elements are chosen; none of them holds beside a NaN."""


def combine(k: Kernel, kind: str, values: Sequence[Any]) -> SSAValue:
    """One operation of `tile.map` on registers, tuples of them, or numbers."""
    if kind in UNARY:
        return UNARY[kind](k, values[0])
    if kind in CHOICES:
        a, b, then, otherwise = (float(v) if isinstance(v, int) else v for v in values)
        if not isinstance(a, SSAValue):
            a = k.emit("mov", ".f32", a)
        return k.emit("selp", ".f32", then, otherwise, k.emit("setp", CHOICES[kind], ".f32", a, b))
    if kind == "guard_div":
        whole, by = (float(v) if isinstance(v, int) else v for v in values)
        quotient = k.emit(*BINARY["div"], whole, by)
        return k.emit("selp", ".f32", 0.0, quotient, k.emit("setp", ".eq", ".f32", by, 0.0))
    return k.emit(*BINARY[kind], *(float(v) if isinstance(v, int) else v for v in values))


class Spread(NamedTuple):
    """An operand of elementwise arithmetic."""

    type: FragmentType
    fragment: Fragment


Parts = list[tuple[Any, ...]]


def align(k: Kernel, type: FragmentType, inputs: Sequence[Any]) -> tuple[list[Parts], bool]:
    """Each operand as parts of one form, values that spread repeated; and whether the parts are halves of rows.

    In the wgmma layout a thread holds two rows 8 apart, whose columns alternate in its registers: where one value a row
    or a column takes part, tiles are taken apart into the two. One of each may also make a tile without another.
    """
    spreads = [x for x in inputs if isinstance(x, Spread)]
    whole = [x.fragment for x in spreads if x.type.shape == type.shape]
    two_rows = type.layout.data == FragmentLayout.WGMMA and not (type.a_row or type.a_column)
    halves = two_rows and (len(whole) < len(spreads) or any(f.halves for f in whole))

    beside = [x.fragment for x in spreads if x.type.shape != type.shape and x.type.a_column]
    if halves:
        whole = [halved(k, f) for f in whole]
    fit = [*whole, *([] if halves else beside)]
    each = 1 if halves and beside else math.gcd(*(_count(p) for f in fit for p in f.parts))
    if len({_form(f) for f in fit}) > 1 or each == 1:

        def shaped(fragment: Fragment) -> Fragment:
            return split(k, halved(k, fragment) if halves else fragment, each)
    else:

        def shaped(fragment: Fragment) -> Fragment:
            return halved(k, fragment) if halves else fragment

    if whole:
        form = shaped(whole[0])
    elif halves:
        form = Fragment("f32", tuple(_beside_halves(k, beside[0])), True)
    else:
        form = shaped(beside[0])
    made: list[Parts] = []
    for x in inputs:
        if not isinstance(x, Spread):
            made.append([(x,) * len(part) for part in form.parts])
        elif x.type.shape == type.shape:
            made.append([*shaped(x.fragment).parts])
        elif x.type.a_row:
            values = x.fragment.parts[0]
            count = len(values)
            made.append([(values[i % count],) * len(p) for i, p in enumerate(form.parts)])
        elif halves:
            made.append(_beside_halves(k, x.fragment))
        else:
            made.append([*shaped(x.fragment).parts])
    return made, halves


def _form(fragment: Fragment) -> tuple[Any, ...]:
    return (fragment.halves, *(_count(p) for p in fragment.parts))


def _beside_halves(k: Kernel, columns: Fragment) -> Parts:
    """One value a column beside halves of eight columns each, the same registers for upper and lower rows."""
    made: Parts = []
    for part in columns.parts:
        count = type_of(part[0]).count
        cut = [tuple(k.emit.slice(v, i, 1) for v in part) for i in range(count)]
        cut = cut if count > 1 else [part]
        made += [x for one in cut for x in (one, one)]
    return made


def halved(k: Kernel, fragment: Fragment) -> Fragment:
    """A tile of the wgmma layout with each part in two: its upper rows, its lower rows."""
    if fragment.halves:
        return fragment
    parts: Parts = []
    for part in fragment.parts:
        half = type_of(part[0]).count // 2
        parts += [tuple(k.emit.slice(v, i, half, 2) for v in part) for i in range(2)]
    return Fragment(fragment.dtype, tuple(parts), True)


def _count(part: tuple[SSAValue, ...]) -> int:
    """Registers of each tuple of a part; a single register is one."""
    return type_of(part[0]).count or 1


def split(k: Kernel, fragment: Fragment, each: int) -> Fragment:
    """The fragment in parts of `each` registers, so that fragments of different origin fit."""
    step = 2 if fragment.halves else 1
    parts: Parts = []
    for index in range(0, len(fragment.parts), step):
        count = _count(fragment.parts[index])
        for first in range(0, count, each):
            parts += [
                tuple(k.emit.slice(v, first, each) for v in part) if count > each else part
                for part in fragment.parts[index : index + step]
            ]
    return Fragment(fragment.dtype, tuple(parts), fragment.halves)


def carried_form(k: Kernel, type: Attribute, fragment: Fragment) -> Fragment:
    """A fragment as a loop carries it: tiles in parts of one register, since a loop's body may make other parts."""
    assert isinstance(type, FragmentType)
    if type.a_row:
        return fragment
    if type.layout.data == FragmentLayout.WGMMA and not type.a_column:
        fragment = halved(k, fragment)
    return split(k, fragment, 1)
