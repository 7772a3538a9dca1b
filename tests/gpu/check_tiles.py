"""The tile copy and the elementwise kernel on a GPU: bit-exact and against float64, odd sizes, padded rows, poison.

`python3 tests/gpu/check_tiles.py FOLDER` where FOLDER holds tma_copy.json and silu_mul.json.
"""

from __future__ import annotations

import sys
import time

import torch
from check_gemm import padded, poisoned

import tkc

ROWS = (1, 7, 64, 127, 128, 129, 300, 1000)
COLUMNS = (8, 16, 64, 72, 200, 1000)


def beside(whole: torch.Tensor, columns: int) -> torch.Tensor:
    """What lies between the rows of a padded view."""
    return whole.as_strided((whole.shape[0], whole.stride(0)), (whole.stride(0), 1))[:, columns:]


def copy(kernel: tkc.Kernel) -> None:
    for m in ROWS:
        for n in COLUMNS:
            x, y = padded(m, n, n + 8), poisoned(m, n, n + 16)
            kernel.launch(x, y)
            torch.cuda.synchronize()
            assert torch.equal(x, y), f"{m} x {n}: not copied"
            assert torch.isnan(beside(y, n)).all(), f"{m} x {n}: wrote beside the tensor"
    x, y = padded(16384, 16384), poisoned(16384, 16384)
    kernel.launch(x, y)
    torch.cuda.synchronize()
    assert torch.equal(x, y)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(20):
        kernel.launch(x, y)
    end.record()
    torch.cuda.synchronize()
    bytes_moved = 2 * x.numel() * 2 * 20
    print(f"copy: right; {bytes_moved / begin.elapsed_time(end) / 1e9:.2f} TB/s at 16384 x 16384")


def silu(kernel: tkc.Kernel) -> None:
    worst = 0.0
    for m in ROWS:
        for n in COLUMNS:
            x, y, z = padded(m, n), padded(m, n), poisoned(m, n, n + 8)
            x.mul_(8)
            kernel.launch(x, y, z)
            torch.cuda.synchronize()
            reference = x.double() * torch.sigmoid(x.double()) * y.double()
            rounding = (reference.bfloat16().double() - reference).norm()
            found = (z.double() - reference).norm()
            assert found <= 1.05 * rounding + 1e-6, f"{m} x {n}: error {found}, rounding {rounding}"
            assert torch.isnan(beside(z, n)).all(), f"{m} x {n}: wrote beside the tensor"
            worst = max(worst, (found / reference.norm()).item())
    print(f"silu_mul: right, worst relative error {worst:.2e}")


def main(folder: str) -> None:
    torch.manual_seed(int(time.time()))
    copy(tkc.load(f"{folder}/tma_copy.json"))
    silu(tkc.load(f"{folder}/silu_mul.json"))
    print("all right")


if __name__ == "__main__":
    main(*sys.argv[1:])
