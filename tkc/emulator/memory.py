"""Loads, stores, and conversions of addresses (PTX 9.7.9)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tkc.emulator.addresses import Part, resolver
from tkc.emulator.elementwise import DType, unary
from tkc.emulator.instruction import Builder, Instruction, Step
from tkc.emulator.lanes import (
    LANES,
    SELECT,
    SIGNED,
    U32,
    U64,
    UNSIGNED,
    Vec,
    constant,
    view,
)
from tkc.emulator.spaces import (
    LOCAL_WINDOW,
    PARAM_WINDOW,
    SHARED_WINDOW,
    Origin,
    holds,
)
from tkc.emulator.syntax import Name


def type_bits(kind: str) -> int:
    """Bits of a memory type: `.b32`, `.f16x2`, `.b128`."""
    digits = "".join(c for c in kind.partition("x")[0] if c.isdigit())
    return int(digits) * (2 if kind.endswith("x2") else 1)


def lanes_where(w: Any, where: Vec | None, bad: Vec) -> int:
    """The mask of the active lanes of which `bad` says so."""
    lanes = SELECT[w.mask] if where is None else SELECT[w.mask][where]
    mask = 0
    for lane in lanes[bad].tolist():
        mask |= 1 << lane
    return mask


def read_parts(
    w: Any, origin: Origin, parts: list[Part], width: int, count: int
) -> tuple[Vec, int]:
    """(values of the active lanes, mask of the lanes in which a byte was never written)."""
    memory = w.machine.memory
    unit = width // 8 * count
    bad = 0
    if len(parts) == 1 and parts[0][2] is None:
        region, offsets, _ = parts[0]
        values = memory.read(w, origin, region, offsets, width, count)
        if region.shadow is not None:
            unwritten = memory.unwritten(region, offsets, unit)
            if unwritten is not None:
                bad = lanes_where(w, None, unwritten)
        return values, bad
    active = w.mask.bit_count()
    shape = (active, count) if count > 1 else (active,)
    values = np.zeros(shape, UNSIGNED[width])
    for region, offsets, where in parts:
        values[where] = memory.read(w, origin, region, offsets, width, count, where)
        unwritten = memory.unwritten(region, offsets, unit)
        if unwritten is not None:
            bad |= lanes_where(w, where, unwritten)
    return values, bad


def write_parts(
    w: Any, origin: Origin, parts: list[Part], values: Vec, width: int, count: int, bad: int
) -> None:
    """Stores the values of the active lanes; those of the lanes in `bad` are uninitialised."""
    memory, record = w.machine.memory, w.machine.record
    for region, offsets, where in parts:
        stored = values if where is None else values[where]
        memory.write(w, origin, region, offsets, stored, width, count, where)
        if (
            record is not None
            and len(offsets) > 1
            and not holds(region, offsets, stored, width, count)
        ):
            record.overwritten(w, origin.ins, region, offsets, stored, where)
        if bad:
            lanes = SELECT[w.mask] if where is None else SELECT[w.mask][where]
            poisoned = (bad >> lanes.astype(np.int64)) & 1 == 1
            if poisoned.any():
                if region.shadow is not None:
                    memory.poison(region, offsets[poisoned], width // 8 * count)
                if region.space == "global":
                    w.machine.found(
                        "TK320", f"an uninitialised value is stored to {region.name}", origin.ins, w
                    )


def _place_result(w: Any, slot: int, values: Vec, kind: str, bits: int) -> None:
    """Writes loaded values into a register that may be wider than their type."""
    width = 8 * values.dtype.itemsize
    if bits > width:
        values = (
            values.view(SIGNED[width]).astype(SIGNED[bits])
            if kind == "s"
            else values.astype(UNSIGNED[bits])
        )
    if w.full:
        w.R[slot] = values
    else:
        w.put(slot, w.spread(values))


def _ld(i: Instruction) -> Step:
    return _load(i, "addr", _space(i))


def _load(i: Instruction, name: str, space: str) -> Step:
    """A load from the address in operand `name` of a state space."""
    kind = i.type
    bits = type_bits(kind)
    dests = i.dsts("d")
    count = len(dests)
    for slot, have in dests:
        if slot >= 0 and have < bits:
            raise ValueError(f"a destination has {have} bits, expected {bits} or more")
    width, words = (64, 2 * count) if bits == 128 else (bits, count)
    origin = Origin(i)
    resolve = resolver(i, name, space, origin, bits // 8 * count)
    i.follows = True
    sign = kind[0]

    def run(w: Any) -> None:
        values, bad = read_parts(w, origin, resolve(w), width, words)
        if words == 1:
            _place_result(w, dests[0][0], values, sign, dests[0][1])
        elif bits == 128:
            w.put(dests[0][0], w.spread(values))
        else:
            for k, (slot, have) in enumerate(dests):
                if slot >= 0:
                    _place_result(w, slot, values[:, k], sign, have)
        if bad or w.taint:
            for slot, _ in dests:
                w.taint_result(slot, bad)

    return run


def _space(i: Instruction) -> str:
    space = i.mod("space")
    if space.startswith("param"):
        return "param"
    return space


def _ld_param(i: Instruction) -> Step:
    kind = i.type
    bits = type_bits(kind)
    operand = i.one("param")
    name = operand.text if isinstance(operand, Name) else ""
    if i.program.register(i.statement.scope, name) is not None:
        # The address of a parameter in a register: those of functions lie in the thread's own memory.
        return _load(i, "param", "param" if i.program.decoding.entry else "local")
    variable = i.program.variable(i.statement.scope, name)
    if variable is None or variable.space != "param":
        raise ValueError(f"no parameter {name}")
    if variable not in i.program.function.params:
        return _load(i, "param", "local")
    assert isinstance(operand, Name)
    dests = i.dsts("d")
    dtype = UNSIGNED[bits]
    offset = operand.offset
    total = bits // 8 * len(dests)
    if offset < 0 or offset + total > variable.size:
        raise ValueError(f"{name} has {variable.size} bytes, {total} are read at {offset}")
    sign = kind[0]
    made: list[Vec] = []
    launch: list[Any] = [None]

    def run(w: Any) -> None:
        if launch[0] is not w.machine:
            launch[0] = w.machine
            made.clear()
            start = w.machine.variables[id(variable)] + offset
            raw = w.machine.params.data[start : start + total].view(dtype)
            for value, (_, have) in zip(raw.tolist(), dests, strict=True):
                one = constant(value, dtype)
                if have > bits:
                    one = (
                        one.view(SIGNED[bits]).astype(SIGNED[have])
                        if sign == "s"
                        else one.astype(UNSIGNED[have])
                    )
                made.append(one)
        for value, (slot, _) in zip(made, dests, strict=True):
            w.put(slot, value)

    return run


def _value_dtype(kind: str, bits: int) -> DType:
    if kind in ("f32", "f64"):
        return np.dtype(f"float{bits}")
    return UNSIGNED[bits]


def _st(i: Instruction) -> Step:
    kind = i.type
    bits = type_bits(kind)
    width, per_item = (64, 2) if bits == 128 else (bits, 1)
    sources = i.srcs("a", _value_dtype(kind, width))
    count = len(sources)
    for _, have in sources:
        if have < width and bits != 128:
            raise ValueError(f"a source has {have} bits, expected {bits} or more")
    slots = tuple(slot for slot, _ in sources)
    origin = Origin(i)
    name, space = ("param", "local") if i.row.name.startswith("st.param") else ("addr", _space(i))
    resolve = resolver(i, name, space, origin, bits // 8 * count)
    i.follows = True
    dtype = UNSIGNED[width]

    def run(w: Any) -> None:
        R = w.R
        if count == 1:
            values = R[slots[0]]
            if values.dtype is not dtype:
                values = _narrowed(values, dtype)
            if not w.full:
                values = values[SELECT[w.mask]]
        else:
            values = np.empty((LANES, count), dtype)
            for k, slot in enumerate(slots):
                x = R[slot]
                if x.dtype is not dtype:
                    x = _narrowed(x, dtype)
                values[:, k] = x
            if not w.full:
                values = values[SELECT[w.mask]]
        bad = w.tainted(*slots) if w.taint else 0
        write_parts(w, origin, resolve(w), values, width, count * per_item, bad)

    return run


def _narrowed(x: Vec, dtype: DType) -> Vec:
    if x.dtype.itemsize == dtype.itemsize:
        return x.view(dtype)
    return x.view(UNSIGNED[8 * x.dtype.itemsize]).astype(dtype)


_WINDOWS = {
    "global": 0,
    "const": 0,
    "shared": SHARED_WINDOW,
    "local": LOCAL_WINDOW,
    "param": PARAM_WINDOW,
}


def _cvta(back: bool) -> Builder:
    def build(i: Instruction) -> Step:
        space = i.mod("space").partition("::")[0]
        window = constant(_WINDOWS[space], U64)
        if not _WINDOWS[space]:
            return unary(i, lambda x: x, U64)
        if back:
            return unary(i, lambda x: x - window, U64)
        return unary(i, lambda x: x + window, U64)

    return build


def _mapa(i: Instruction) -> Step:
    """The rank of a shared address is its top byte."""
    d, a, rank = i.dst("d", 32), i.src("a", U32), i.src("rank", U32)
    low, shift = constant(0xFFFFFF, U32), constant(24, U32)

    def run(w: Any) -> None:
        R = w.R
        wanted = view(R[rank], U32)
        w.put(d, (view(R[a], U32) & low) | (wanted << shift))

    return run


SEMANTICS: dict[str, Builder] = {
    "ld": _ld,
    "ld.vec": _ld,
    "ld.param": _ld_param,
    "ld.param.vec": _ld_param,
    "st": _st,
    "st.vec": _st,
    "st.param": _st,
    "st.param.vec": _st,
    "cvta": _cvta(False),
    "cvta.to": _cvta(True),
    "mapa": _mapa,
}
