"""Operations on two halves or four bytes at once (PTX 9.7.17, SIMD video instructions)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tkc.emulator.elementwise import ternary
from tkc.emulator.instruction import Builder, Instruction, Step
from tkc.emulator.lanes import LANES, S64, SIGNED, U32, UNSIGNED, Vec

_OPERATIONS: dict[str, Callable[[Vec, Vec], Vec]] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vabsdiff": lambda x, y: np.abs(x - y),
    "vmin": np.minimum,
    "vmax": np.maximum,
}


def _parts(count: int, kind: str) -> Callable[[Vec], Vec]:
    dtype = (SIGNED if kind[0] == "s" else UNSIGNED)[32 // count]
    return lambda x: np.ascontiguousarray(x).view(dtype).reshape(LANES, count).astype(S64)


def _simd(name: str, count: int) -> Builder:
    fn = _OPERATIONS[name]

    def build(i: Instruction) -> Step:
        kind, mode = i.type, i.mod("mode")
        left, right = _parts(count, i.mod("atype")), _parts(count, i.mod("btype"))
        bits = 32 // count
        low, high = (
            (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
        )

        def run(a: Vec, b: Vec, c: Vec) -> Vec:
            result = fn(left(a), right(b))
            if mode == "add":
                return (result.sum(axis=1) + c).astype(U32)
            if mode == "sat":
                result = np.clip(result, low, high)
            return np.ascontiguousarray(result.astype(UNSIGNED[bits])).view(U32)[:, 0]

        return ternary(i, run, U32)

    return build


SEMANTICS: dict[str, Builder] = {
    f"{name}{count}": _simd(name, count) for name in _OPERATIONS for count in (2, 4)
}
