"""One row for each dtype of the language: its size and what it is called elsewhere."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DType:
    """`tensor_map` is the CU_TENSOR_MAP_DATA_TYPE_* name for whole-byte use (cuda.h); `ptx` the register type."""

    name: str
    bits: int
    floating: bool
    tensor_map: str
    ptx: str

    @property
    def bytes(self) -> int:
        """Size of one element; raises ValueError where an element is no whole number of bytes."""
        if self.bits % 8:
            raise ValueError(f"{self.name} has {self.bits} bits")
        return self.bits // 8


SCALES = ("ue8m0", "ue4m3", "ue5m3")
"""Dtypes of block scales: powers of two, e4m3 without its sign, and one bit of exponent more in its place (PTX,
"Alternate floating-point data formats")."""

SCALED = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
"""Dtypes of elements that block scales go with."""

DTYPES = {
    d.name: d
    for d in (
        DType("bf16", 16, True, "BFLOAT16", "bf16"),
        DType("f16", 16, True, "FLOAT16", "f16"),
        DType("f32", 32, True, "FLOAT32", "f32"),
        DType("tf32", 32, True, "TFLOAT32", "tf32"),
        DType("e4m3", 8, True, "UINT8", "e4m3"),
        DType("e5m2", 8, True, "UINT8", "e5m2"),
        DType("e3m2", 6, True, "16U6_ALIGN16B", "e3m2"),
        DType("e2m3", 6, True, "16U6_ALIGN16B", "e2m3"),
        DType("e2m1", 4, True, "16U4_ALIGN8B", "e2m1"),
        DType("ue8m0", 8, True, "UINT8", "ue8m0"),
        DType("ue4m3", 8, True, "UINT8", "ue4m3"),
        DType("ue5m3", 8, True, "UINT8", "ue5m3"),
        DType("s8", 8, False, "UINT8", "s8"),
        DType("u8", 8, False, "UINT8", "u8"),
        DType("i32", 32, False, "INT32", "s32"),
        DType("u32", 32, False, "UINT32", "u32"),
        DType("i64", 64, False, "INT64", "s64"),
        DType("bool", 8, False, "UINT8", "u8"),
    )
}
