"""Compiles and assembles the GEMM, says what was made of it, and runs it where a GPU is: `make demo`."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path
from time import perf_counter

import tkc

SOURCE = Path(__file__).parent / "gemm_bf16.tk"
SIZES = 1000, 1024, 512
"""M, N, K of the run on a GPU; M is ragged on purpose."""

INSTRUCTIONS = {
    "tensor cores": r"UTC\w*MMA|HGMMA",
    "tensor copies in": r"UTMALDG",
    "tensor copies out": r"UTMASTG",
    "commits to barriers": r"UTCBAR",
    "barrier operations": r"SYNCS",
    "tensor memory loads": r"LDTM",
    "shared memory stores": r"STSM?",
    "fences": r"FENCE|MEMBAR",
}
"""What is counted in the machine code, by the first part of the instruction's name."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="sm_100a")
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args()
    try:
        compile_and_tell(options.target, options.out)
        return run(options.out)
    except tkc.TkcError as error:
        print(error, file=sys.stderr)
        return 1


def compile_and_tell(target: str, out: Path) -> None:
    began = perf_counter()
    kernel = tkc.compile(SOURCE, target=target)
    compiled = perf_counter()
    assembly = kernel.assembly()
    cubin = kernel.cubin()
    assembled = perf_counter()
    contract = kernel.save(out)
    used = assembly.kernels[kernel.name]
    rows = {
        "compiled in": f"{(compiled - began) * 1e3:.0f} ms (in this process, the first time)",
        "assembled in": f"{(assembled - compiled) * 1e3:.0f} ms by {assembly.tool}",
        "PTX": f"{len(kernel.ptx):,} bytes, {kernel.ptx.count(chr(10)):,} lines",
        "cubin": f"{len(cubin):,} bytes",
        "params": ", ".join(f"{name} = {value}" for name, value in kernel.params.items()),
        "threads": f"{kernel.contract['block'][0]}",
        "registers": f"{used.registers} a thread",
        "spills": f"{used.spill_stores} bytes stored, {used.spill_loads} loaded",
        "shared memory": f"{kernel.contract['shared_bytes']:,} bytes",
        "tensor memory": f"{kernel.contract['tensor_columns']} columns",
        **count_instructions(kernel.sass()),
    }
    print(f"{SOURCE.name}: {kernel.name} for {kernel.target}")
    for name, text in rows.items():
        print(f"  {name:<22}{text}")
    print(f"written: {contract.with_suffix('.ptx')}, .cubin and .json")


def count_instructions(sass: str) -> dict[str, str]:
    """Instructions of the machine code, all of them and by what they do."""
    names = Counter(
        re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*)", sass, re.MULTILINE)
    )
    found = {"instructions": f"{names.total():,}"}
    for what, pattern in INSTRUCTIONS.items():
        if count := sum(n for name, n in names.items() if re.fullmatch(pattern, name)):
            found[what] = str(count)
    return found


def run(out: Path) -> int:
    """Runs `tkc run` on random data and compares with NumPy, where the machine has a GPU."""
    from tkc.__main__ import main as command_line
    from tkc.backend.cuda import driver

    try:
        gpu = driver().name(0)
    except tkc.TkcError as error:
        print(f"not run: {error.diagnostics[0].message}")
        return 0
    import numpy as np

    from tkc.arguments import random, save

    m, n, k = SIZES
    a, b = random((m, k), "bf16", seed=1), random((n, k), "bf16", seed=2)
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    for name, array in (("A", a), ("B", b), ("expected", expected)):
        save(str(out / f"{name}.npy"), array)
    print(f"running {m} × {n} × {k} on the {gpu}, against float64:")
    words = [f"A={out / 'A.npy'}", f"B={out / 'B.npy'}", f"C=empty({m},{n})"]
    return command_line(
        ["run", str(SOURCE), *words, "--expect", f"C={out / 'expected.npy'}", "--rtol", "3e-3"]
    )


if __name__ == "__main__":
    sys.exit(main())
