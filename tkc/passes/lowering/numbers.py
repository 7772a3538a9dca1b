"""Numbers of u32 and i64, and conversions between scalar types."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import bf16, f16, f32, i32, i64
from xdsl.ir import Attribute, SSAValue

from tkc.ir.stage.numbers import CONVERT, NumberOp, ui32
from tkc.ir.stage.scalar import SCALARS
from tkc.passes.lowering.state import Kernel, lowers

NAMES: dict[Attribute, str] = {
    i32: ".s32", ui32: ".u32", i64: ".s64", f32: ".f32", bf16: ".bf16", f16: ".f16",
}  # fmt: skip
BITS = {".u32": ".b32", ".s64": ".b64"}
LONGEST = 0x7FFFFFFF
"""The largest i32."""

ROWS = {"mul": "mul.lo", "mod": "rem"}
"""Kinds whose instruction has another name."""

OF_BITS = ("and", "or", "xor", "shl")


@lowers(NumberOp)
def number(k: Kernel, op: NumberOp) -> None:
    kind = op.kind.data
    if kind == CONVERT:
        source = op.inputs[0]
        k.values[op.value] = convert(
            k, k.register(source), NAMES[source.type], NAMES[op.value.type]
        )
        return
    type = NAMES[op.inputs[1 if kind == "select" else 0].type]
    if kind == "select":
        chosen, then, otherwise = (k.number(v) for v in op.inputs)
        if isinstance(chosen, bool):
            k.values[op.value] = then if chosen else otherwise
            return
        sides = [k.register(v) for v in op.inputs[1:]]
        k.values[op.value] = k.emit("selp", BITS[type], *sides, chosen)
        return
    inputs = [k.register(v) for v in op.inputs]
    if SCALARS[kind].predicate:
        k.values[op.value] = k.emit("setp", f".{kind}", type, *inputs)
    else:
        spelled = BITS[type] if kind in OF_BITS else type
        k.values[op.value] = k.emit(ROWS.get(kind, kind), spelled, *inputs)


def convert(k: Kernel, x: SSAValue, source: str, to: str) -> Any:
    """The nearest that the type has. `cvt` of floats saturates by itself and makes a NaN 0, but the lowest i64 (PTX,
    "cvt"); of integers it cuts, so what does not fit is replaced before."""
    match source, to:
        case _ if source == to:
            return x
        case ((".bf16" | ".f16"), ".f32"):
            return k.emit("cvt", to, source, x)
        case ((".bf16" | ".f16"), _):
            return convert(k, k.emit("cvt", ".f32", source, x), ".f32", to)
        case _, ".f32":
            return k.emit("cvt", ".rn", to, source, x)
        case ".f32", ".s64":
            whole = k.emit("cvt", ".rni", to, source, x)
            is_number = k.emit("setp", ".eq", ".f32", x, x)
            return k.emit("selp", ".b64", whole, k.emit.imm(0, "b64"), is_number)
        case ".f32", _:
            return k.emit("cvt", ".rni", to, source, x)
        case ".u32", ".s32":
            return k.emit("min", ".u32", x, LONGEST)
        case ".s32", ".u32":
            return k.emit("max", ".s32", x, 0)
        case ".s64", _:
            least, most = (0, 2**32 - 1) if to == ".u32" else (-LONGEST - 1, LONGEST)
            inside = k.emit("max", source, x, k.emit.imm(least, "b64"))
            inside = k.emit("min", source, inside, k.emit.imm(most, "b64"))
            return k.emit("cvt", ".u32", ".u64", inside)
        case _:
            return k.emit("cvt", to, source, x)
