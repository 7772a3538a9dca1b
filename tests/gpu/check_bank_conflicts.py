"""Bank conflicts of shared tiles: what the compiler predicts beside what a GPU's counters say.

    python3 tests/gpu/check_bank_conflicts.py package FOLDER [TARGET]    where tkc compiles; no GPU needed
    python3 tests/gpu/check_bank_conflicts.py measure FOLDER             where a GPU, PyTorch and ncu are

`package` writes a kernel for each access pattern (FOLDER/NAME.json and .ptx, for sm_90a unless TARGET says another)
and FOLDER/predictions.json: what the compiler predicts for each tile (wavefronts of one warp instruction, as
`--remarks=swizzle` says it), and how many instructions, wavefronts and conflicts one launch has by the emulator, which
looks at every address. `measure` launches each under ncu. A kernel agrees where the wavefronts that ncu counts by
instruction exceed the ideal ones by the emulated conflicts, give or take 2 % and 8 (the setup of a CTA is shared
accesses too). The counters of the load and store pipe are printed beside: while TMA and tensor cores use shared memory
they also count as conflicts the turns that a request waits for those.
"""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROWS = """
kernel {name}(X: global[{dtype}, M, N], Y: global[{dtype}, {shape}]):
    param BM = 128, BN = {columns}
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared x: tile[{dtype}, BM, BN] * 2
    pipe inputs(x): load -> turn
    role load:
        for m, n in work:
            put inputs:
                x <- X[m, n]
    role turn, warps 4:
        for m, n in work:
            get inputs:
                {copy}
"""
"""Whole rows of a thread: 16 bytes at a time, or turned, one element at a time; bytes are turned as matrices."""

PRODUCT = """
kernel {name}(A: global[bf16, M, K], B: global[bf16, N, K], R: global[{r}, M, N], C: global[{c}, {shape}]):
    param BM = 128, BN = {columns}, BK = 64
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared a: tile[bf16, BM, BK] * 2
    shared b: tile[bf16, BN, BK] * 2
    shared r: tile[{r}, BM, BN]
    accum d: tile[f32, BM, BN]
    pipe inputs(a, b): load -> math
    pipe extra(r): load -> store
    pipe result(d): math -> store
    role load:
        for m, n in work:
            for k in blocks(K, BK):
                put inputs:
                    a <- A[m, k]
                    b <- B[n, k]
            put extra:
                r <- R[m, n]
    role math:
        for m, n in work:
            put result:
                d = 0
                for k in blocks(K, BK):
                    get inputs:
                        d += a @ b.T
    role store:
        for m, n in work:
            get result, extra:
                {copy}
"""
"""The fragment of a product: matrices of 8 x 8 for 16-bit tiles, pairs for 32-bit ones; a residual is read so, too."""

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "rows_128": (ROWS, {"dtype": "bf16", "columns": 64, "shape": "M, N", "copy": "Y[m, n] <- read(x)"}),
    "rows_64": (ROWS, {"dtype": "bf16", "columns": 32, "shape": "M, N", "copy": "Y[m, n] <- read(x)"}),
    "rows_32": (ROWS, {"dtype": "bf16", "columns": 16, "shape": "M, N", "copy": "Y[m, n] <- read(x)"}),
    "rows_plain": (ROWS, {"dtype": "bf16", "columns": 8, "shape": "M, N", "copy": "Y[m, n] <- read(x)"}),
    "rows_f32": (ROWS, {"dtype": "f32", "columns": 32, "shape": "M, N", "copy": "Y[m, n] <- read(x)"}),
    "turned_bf16": (ROWS, {"dtype": "bf16", "columns": 64, "shape": "N, M", "copy": "Y[n, m] <- read(x).T"}),
    "turned_s8": (ROWS, {"dtype": "s8", "columns": 128, "shape": "N, M", "copy": "Y[n, m] <- read(x).T"}),
    "turned_f32": (ROWS, {"dtype": "f32", "columns": 32, "shape": "N, M", "copy": "Y[n, m] <- read(x).T"}),
    "matrices_128": (PRODUCT, {"r": "bf16", "c": "bf16", "columns": 128, "shape": "M, N",
                               "copy": "C[m, n] <- bf16(read(d) + f32(read(r)))"}),
    "matrices_64": (PRODUCT, {"r": "bf16", "c": "bf16", "columns": 32, "shape": "M, N",
                              "copy": "C[m, n] <- bf16(read(d) + f32(read(r)))"}),
    "matrices_turned": (PRODUCT, {"r": "bf16", "c": "bf16", "columns": 128, "shape": "N, M",
                                  "copy": "C[n, m] <- bf16(read(d) + f32(read(r))).T"}),
    "pairs_128": (PRODUCT, {"r": "f32", "c": "f32", "columns": 64, "shape": "M, N",
                            "copy": "C[m, n] <- read(d) + read(r)"}),
    "pairs_64": (PRODUCT, {"r": "f32", "c": "f32", "columns": 16, "shape": "M, N",
                           "copy": "C[m, n] <- read(d) + read(r)"}),
    "pairs_turned": (PRODUCT, {"r": "bf16", "c": "f32", "columns": 64, "shape": "N, M",
                               "copy": "C[n, m] <- (read(d) + f32(read(r))).T"}),
}  # fmt: skip
SIZES = {"M": 256, "N": 256, "K": 128}

METRICS = {
    "conflicts.ld": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "conflicts.st": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "wavefronts.ld": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "wavefronts.st": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "all": "memory_l1_wavefronts_shared",
    "ideal": "memory_l1_wavefronts_shared_ideal",
}
"""Counters of the chip; the last two are ncu's own, by instruction, and tell where the others come from."""


def package(folder: Path, target: str) -> None:
    import ml_dtypes
    import numpy as np

    import tkc
    from tkc.driver import run
    from tkc.emulator import emulate
    from tkc.emulator.watch import Counter
    from tkc.job import Job

    numbers = np.random.default_rng()
    dtypes: dict[str, Any] = {
        "bf16": ml_dtypes.bfloat16, "f32": np.float32, "s8": np.int8,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    predictions: dict[str, Any] = {}
    for name, (text, words) in KINDS.items():
        source = text.format(name=name, **words)
        remarks = [
            d.message
            for d in run(Job(source, f"{name}.tk", target)).diagnostics
            if d.code == "TK218" and "wavefront" in d.message
        ]
        kernel = tkc.compile(source, target=target)
        kernel.save(folder)
        arrays = [
            numbers.uniform(-99, 99, [SIZES[d] for d in a["dims"]]).astype(dtypes[a["dtype"]])
            for a in kernel.contract["arguments"]
        ]
        report = emulate(kernel.ptx, **kernel.emulation(*arrays, sm_count=132), watch=Counter())
        assert not report.findings, report.findings
        counts = {k: v for k, v in report.stats.items() if k.startswith("shared_")}
        predictions[name] = {"tiles": remarks, "launch": counts}
        print(name, *remarks, sep="\n  ")
    (folder / "predictions.json").write_text(json.dumps(predictions, indent=2) + "\n")


def launch(path: str) -> None:
    import torch

    import tkc

    kernel = tkc.load(path)
    types = {"bf16": torch.bfloat16, "f32": torch.float32, "s8": torch.int8}
    arrays = [
        (torch.rand([SIZES[d] for d in a["dims"]], device="cuda") * 198 - 99).to(types[a["dtype"]])
        for a in kernel.contract["arguments"]
    ]
    kernel.launch(*arrays)
    torch.cuda.synchronize()


def counters(path: Path) -> dict[str, float]:
    """What ncu counts in one launch; a counter that this ncu does not have is missing."""
    command = [
        "ncu",
        "--csv",
        "--page",
        "raw",
        "--cache-control",
        "none",
        "--metrics",
        ",".join(METRICS.values()),
    ]
    command += ["--kernel-name", path.stem, sys.executable, __file__, "launch", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [line for line in done.stdout.splitlines() if line.startswith('"')]
    if done.returncode or len(rows) < 3:
        sys.exit(f"ncu failed on {path.stem}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    names, _, values = list(csv.reader(io.StringIO("\n".join(rows))))[:3]
    found = dict(zip(names, values, strict=True))
    short = {metric: word for word, metric in METRICS.items()}
    return {
        short[name]: float(
            re.sub(r"[,;].*|,", "", value) if ";" in value else value.replace(",", "")
        )
        for name, value in found.items()
        if name in short and value
    }


def measure(folder: Path) -> int:
    predictions = json.loads((folder / "predictions.json").read_text())
    wrong = 0
    print(
        f"{'kernel':<16}{'':4}{'predicted conflicts':>20}{'counted':>10}{'wavefronts':>12}{'counted':>10}"
    )
    for name, predicted in predictions.items():
        found = counters(folder / f"{name}.json")
        expected = 0
        for way, words in (("ld", ("ld", "ldmatrix")), ("st", ("st", "stmatrix"))):
            turns, conflicts = (
                sum(predicted["launch"].get(f"shared_{what}.{word}", 0) for word in words)
                for what in ("wavefronts", "conflicts")
            )
            expected += conflicts
            counted = found.get(f"conflicts.{way}", float("nan"))
            passed = found.get(f"wavefronts.{way}", float("nan"))
            print(f"{name:<16}{way:<4}{conflicts:>20}{counted:>10.0f}{turns:>12}{passed:>10.0f}")
        excess = found["all"] - found["ideal"]
        agrees = abs(excess - expected) <= 0.02 * expected + 8
        wrong += not agrees
        print(
            f"  by instruction {excess:.0f}, predicted {expected}: {'agrees' if agrees else 'DIFFERS'}"
        )
        print(f"  {'; '.join(predicted['tiles'])}")
    print("all agree" if not wrong else f"{wrong} differ")
    return 1 if wrong else 0


def main(word: str, place: str, target: str = "sm_90a") -> int:
    if word == "package":
        package(Path(place), target)
    elif word == "launch":
        launch(place)
    elif word == "measure":
        return measure(Path(place))
    else:
        sys.exit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
