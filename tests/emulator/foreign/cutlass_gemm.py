"""GEMMs of CUTLASS: compiles one of `cutlass/gemm.cu`, asks it for its launch, and builds the parameters from that."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from emulator.foreign.problem import (
    BF16,
    E4M3,
    F16,
    F32,
    FOLDER,
    I8,
    I32,
    Array,
    Expected,
    poisoned,
)
from emulator.foreign.references import Rng, uniform, wide

from tkc.emulator import Poisoned, Report, Struct, TensorMap, emulate
from tkc.emulator.formats import FORMATS
from tkc.ir.isa.layouts import scale_offset
from tkc.ir.isa.tensormap import FILLS, INTERLEAVES, MAP_TYPES

MARK = 0x0ABC << 48
"""Pointers of the host program are MARK + (number << 40) + offset."""
MAP_MARK = b"ensormap"


@dataclass(frozen=True)
class Gemm:
    """A configuration of `gemm.cu`: target, element types, whether A and B lie by rows, and a problem size."""

    number: int
    target: str
    element: str
    out: Any
    a_rows: bool
    b_rows: bool
    size: tuple[int, int, int]
    block: int = 0
    warned: frozenset[str] = frozenset()
    """Codes of what it does not do, though the manual asks for it."""


GEMMS = (
    Gemm(0, "90a", "bf16", BF16, True, False, (200, 136, 136)),
    Gemm(1, "90a", "f16", F16, False, True, (136, 200, 136)),
    Gemm(2, "90a", "e4m3", BF16, True, False, (200, 264, 272)),
    Gemm(3, "90a", "f32", F32, True, False, (136, 72, 100)),
    # Its main loop has no proxy fence between what threads copy and wgmma (A27).
    Gemm(4, "90a", "f16", F32, True, True, (136, 72, 72), warned=frozenset({"TK302"})),
    Gemm(5, "90a", "bf16", F32, True, False, (200, 136, 840)),
    Gemm(10, "100a", "bf16", BF16, True, False, (200, 136, 200)),
    Gemm(11, "100a", "e4m3", BF16, True, False, (264, 136, 272)),
    Gemm(12, "100a", "e2m1", BF16, True, False, (136, 136, 288), 16),
    Gemm(13, "100a", "e4m3", F32, True, False, (264, 136, 288), 32),
    Gemm(14, "100a", "f16", F16, False, True, (136, 264, 136)),
    Gemm(15, "100a", "i8", I32, True, False, (136, 72, 272)),
    Gemm(16, "100a", "bf16", F32, True, False, (200, 136, 840)),
)

_DTYPES = {"bf16": BF16, "f16": F16, "f32": F32, "e4m3": E4M3, "i8": I8}


def compile_gemm(gemm: Gemm, nvcc: Path, cutlass: Path, folder: Path) -> tuple[str, Path]:
    """(PTX, the host program that prints a launch)."""
    include = nvcc.parent.parent / "include"
    program = folder / f"gemm{gemm.number}"
    with tempfile.TemporaryDirectory() as kept:
        command = [
            str(nvcc), "-std=c++17", "--expt-relaxed-constexpr", f"-DCONFIG={gemm.number}",
            "-gencode", f"arch=compute_{gemm.target},code=compute_{gemm.target}", f"-I{include}",
            f"-I{include / 'cccl'}", f"-I{cutlass / 'include'}", f"-I{cutlass / 'tools/util/include'}",
            "-cudart", "none", "-keep", "-keep-dir", kept, "gemm.cu", "driver.c", "-o", str(program),
        ]  # fmt: skip
        subprocess.run(command, cwd=FOLDER / "cutlass", check=True, capture_output=True)
        ptx = next(Path(kept).glob("*.ptx")).read_text(encoding="utf-8")
    return ptx, program


@dataclass
class Launch:
    """What the host program printed."""

    numbers: Mapping[str, list[int]]
    maps: list[list[str]]
    params: bytes


def launch_of(program: Path, size: tuple[int, int, int]) -> Launch:
    printed = subprocess.run(
        [str(program), *map(str, size)], check=True, capture_output=True, text=True
    ).stdout
    numbers: dict[str, list[int]] = {}
    maps: list[list[str]] = []
    params = b""
    for line in printed.splitlines():
        word, *rest = line.split()
        if word == "map":
            maps.append(rest)
        elif word == "params":
            params = bytes.fromhex(rest[0])
        else:
            numbers[word] = [int(x) for x in rest]
    return Launch(numbers, maps, params)


def _tensor_map(words: list[str], arrays: Mapping[int, Any]) -> TensorMap:
    """A tensor map from the arguments of cuTensorMapEncodeTiled."""
    kind, address, rank = int(words[0]), int(words[1], 16) - MARK, int(words[2])
    rest = [int(x) for x in words[3:]]
    sizes, rest = rest[:rank], rest[rank:]
    strides, rest = rest[: rank - 1], rest[rank - 1 :]
    box, rest = rest[:rank], rest[rank:]
    steps, rest = rest[:rank], rest[rank:]
    by_number = {v: k for k, v in INTERLEAVES.items()}, {v: k for k, v in FILLS.items()}
    return TensorMap(
        arrays[address >> 40],
        dtype=next(t.name for t in MAP_TYPES.values() if t.driver == kind),
        sizes=sizes,
        strides=strides,
        box=box,
        element_strides=steps,
        interleave=by_number[0][rest[0]],
        swizzle=(
            "none",
            "32B",
            "64B",
            "128B",
            "128B_atom_32B",
            "128B_atom_32B_flip_8B",
            "128B_atom_64B",
        )[rest[1]],
        fill=by_number[1][rest[2]],
        offset=address & ((1 << 40) - 1),
    )


def structure(launch: Launch, arrays: Mapping[int, Any]) -> Struct:
    """The parameter: pointers and tensor maps put where the host program left its marks."""
    fields: dict[int, Any] = {}
    raw = launch.params
    for at in range(0, len(raw), 8):
        word = int.from_bytes(raw[at : at + 8], "little")
        if raw[at : at + 8] == MAP_MARK:
            fields[at] = _tensor_map(
                launch.maps[int.from_bytes(raw[at + 8 : at + 16], "little")], arrays
            )
        elif word >> 48 == MARK >> 48:
            number, offset = (word - MARK) >> 40, (word - MARK) & ((1 << 40) - 1)
            array = arrays[number]
            plain = array.array if isinstance(array, Poisoned) else array
            fields[at] = plain.view(np.uint8).reshape(-1)[offset:]
    return Struct(fields, raw)


def _operand(rng: Rng, element: str, rows: int, k: int) -> tuple[Array, Array]:
    """(array with K innermost, its values)."""
    if element == "e2m1":
        codes = rng.integers(0, 16, (rows, k), dtype=np.uint8)
        return codes[:, 0::2] | codes[:, 1::2] << 4, wide(FORMATS["e2m1"].decode(codes))
    if element == "i8":
        x = rng.integers(-90, 90, (rows, k), dtype=np.int8)
    else:
        x = uniform(rng, (rows, k), _DTYPES[element])
    return x, wide(x)


def _scales(rng: Rng, rows: int, k: int, block: int) -> tuple[Array, Array]:
    """(scales as CUTLASS lays them, the factor of each element)."""
    count = -(-k // block)
    if block == 16:
        factors = rng.uniform(0.25, 4, (rows, count)).astype(ml_dtypes.float8_e4m3fn)
        codes, values = factors.view(np.uint8), wide(factors)
    else:
        codes = rng.integers(124, 131, (rows, count), dtype=np.uint8)
        values = 2.0 ** (codes.astype(np.float64) - 127)
    groups = -(-count // 4)
    laid = np.full(-(-rows // 128) * groups * 512, 0x7F if block == 32 else 0x38, np.uint8)
    at = np.indices(codes.shape)
    laid[scale_offset(at[0], at[1], groups)] = codes
    return laid, np.repeat(values, block, 1)[:, :k]


def run_gemm(
    gemm: Gemm, ptx: str, program: Path, rng: Rng, **options: Any
) -> tuple[Report, Array, Expected]:
    """(the report, D, what D must be): D = 2 A B + C. `options` are those of `emulate`, such as the schedule."""
    m, n, k = gemm.size
    a, value_a = _operand(rng, gemm.element, m, k)
    b, value_b = _operand(rng, gemm.element, n, k)
    arrays: dict[int, Any] = {
        1: a if gemm.a_rows else np.ascontiguousarray(a.T),
        2: b if not gemm.b_rows else np.ascontiguousarray(b.T),
    }
    slack: Array | float = 0.0
    if gemm.block:
        arrays[5], scale_a = _scales(rng, m, k, gemm.block)
        arrays[6], scale_b = _scales(rng, n, k, gemm.block)
        value_a, value_b = value_a * scale_a, value_b * scale_b
    elif gemm.element == "e4m3" and gemm.target == "90a":
        slack = 2.0**-11 * (abs(value_a) @ abs(value_b).T)
    integer = np.dtype(gemm.out).kind == "i"
    c = (
        rng.integers(-50, 50, (m, n)).astype(gemm.out)
        if integer
        else uniform(rng, (m, n), gemm.out)
    )
    d = poisoned((m, n), gemm.out)
    arrays |= {3: c, 4: Poisoned(d)}
    launch = launch_of(program, gemm.size)
    space = launch.numbers["workspace"][0]
    arrays[7] = np.zeros(max(space, 1), np.uint8)
    report = emulate(
        ptx,
        grid=launch.numbers["grid"],
        block=launch.numbers["block"][0],
        cluster=launch.numbers["cluster"],
        shared_bytes=launch.numbers["shared"][0],
        args=[structure(launch, arrays)],
        **options,
    )
    want = 2 * value_a @ value_b.T + wide(c)
    unit = {F16: 2.0**-11, BF16: 2.0**-8}.get(np.dtype(gemm.out), 0.0)
    absolute = 0 if integer else 3e-3 if gemm.element == "f32" else 3e-6
    return report, d, Expected(want, 1.01 * unit, absolute, slack)
