"""The bf16 GEMM on a GPU against float64: sizes, ragged edges, K = 0, poison, repeats, 2^31 elements, speed.

Run where a GPU and PyTorch are, beside a package that
`tkc compile examples/gemm_bf16.tk --target sm_90a -o DIR/gemm.ptx` made:
`python3 tests/gpu/check_gemm.py DIR/gemm.json [quick|full|speed|shapes|sanitize]`. Needs neither xdsl nor lark.
"""

from __future__ import annotations

import itertools
import sys
import time

import torch

import tkc

SIZES = (1, 8, 16, 17, 64, 127, 128, 129, 255, 1000, 4096)
BOUND = 3e-3
"""Relative Frobenius error against float64; or no more than rounding the exact result to bf16 costs, which for a handful
of elements may be more (half a unit in the last place is 3.9e-3)."""


SHAPES = (
    (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192),
    (4096, 24576, 1536), (4096, 7168, 2048), (128, 4096, 7168), (64, 2112, 7168), (8192, 8192, 512),
)  # fmt: skip
"""M, N, K of the speed table."""


def padded(rows: int, columns: int, pitch: int | None = None) -> torch.Tensor:
    """Random bf16 in [-1, 1) with rows a multiple of 16 bytes apart, the padding poisoned."""
    pitch = pitch or -(-columns // 8) * 8
    whole = torch.full((rows, pitch), float("nan"), dtype=torch.bfloat16, device="cuda")
    view = whole[:, :columns]
    view.copy_(torch.rand(rows, columns, device="cuda") * 2 - 1)
    return view


def poisoned(rows: int, columns: int, pitch: int | None = None) -> torch.Tensor:
    pitch = pitch or -(-columns // 8) * 8
    return torch.full((rows, pitch), float("nan"), dtype=torch.bfloat16, device="cuda")[:, :columns]


def error(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[float, bool]:
    """The relative error, and whether it is within bounds."""
    reference = a.double() @ b.double().T
    norm = torch.linalg.norm(reference).item() or 1.0
    found = torch.linalg.norm(c.double() - reference).item() / norm
    rounding = torch.linalg.norm(reference.bfloat16().double() - reference).item() / norm
    return found, found < BOUND or found <= rounding * 1.001


def check(kernel: tkc.Kernel, m: int, n: int, k: int) -> float:
    a, b, c = padded(m, k), padded(n, k), poisoned(m, n)
    kernel.launch(a, b, c)
    torch.cuda.synchronize()
    found, right = error(c, a, b)
    assert right, f"{m} x {n} x {k}: relative error {found}"
    if c.untyped_storage().nbytes() != c.numel() * 2:
        rest = c.as_strided((m, c.stride(0)), (c.stride(0), 1))[:, n:]
        assert torch.isnan(rest).all(), f"{m} x {n} x {k}: wrote beside the tensor"
    return found


def sizes(kernel: tkc.Kernel, chosen: list[tuple[int, int, int]]) -> None:
    worst, count, start = 0.0, 0, time.time()
    for m, n, k in chosen:
        found = check(kernel, m, n, k)
        worst, count = max(worst, found), count + 1
    print(f"sizes: {count} right, worst relative error {worst:.2e}, {time.time() - start:.1f} s")


def edges(kernel: tkc.Kernel) -> None:
    try:
        kernel.launch(padded(3, 8), padded(5, 8), poisoned(3, 5))
    except tkc.TkcError as refused:
        print("edges: refused:", str(refused).splitlines()[0])
    else:
        raise AssertionError("rows of C that are no multiple of 16 bytes were taken")
    a, b, c = padded(300, 0, 8), padded(200, 0, 8), poisoned(300, 200)
    kernel.launch(a, b, c)
    torch.cuda.synchronize()
    assert (c == 0).all(), "K = 0 leaves something other than zeros"
    kernel.launch(padded(0, 64), padded(8, 64), poisoned(0, 8))
    kernel.launch(padded(8, 64), padded(0, 64), poisoned(8, 0, 8))
    torch.cuda.synchronize()
    print("edges: K = 0 gives zeros, empty M and N launch nothing")


def repeats(kernel: tkc.Kernel, runs: int = 100) -> None:
    a, b = padded(1000, 1000), padded(520, 1000)
    first = None
    for _ in range(runs):
        c = poisoned(1000, 520)
        kernel.launch(a, b, c)
        torch.cuda.synchronize()
        first = c.clone() if first is None else first
        assert torch.equal(first, c), "two runs differ"
    print(f"repeats: {runs} runs bit-identical")


def huge(kernel: tkc.Kernel) -> None:
    m, k, n = 2**31 // 64 + 333, 64, 8
    a = torch.empty(m, k, dtype=torch.bfloat16, device="cuda").uniform_(-1, 1)
    b, c = padded(n, k), poisoned(m, n)
    assert a.numel() > 2**31
    kernel.launch(a, b, c)
    torch.cuda.synchronize()
    for start in (0, m // 2, m - 1000):
        part = slice(start, start + 1000)
        found, right = error(c[part], a[part], b)
        assert right, f"rows from {start}: relative error {found}"
    assert torch.isfinite(c).all()
    print(f"huge: {a.numel()} elements right")


def rate(run, flops: float, warm: int = 500, runs: int = 100) -> float:  # type: ignore[no-untyped-def]
    for _ in range(warm):
        run()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(runs):
        run()
    end.record()
    torch.cuda.synchronize()
    return flops * runs / (begin.elapsed_time(end) * 1e-3) / 1e12


def speed(kernel: tkc.Kernel, m: int = 4096, n: int = 4096, k: int = 4096) -> None:
    """Inputs rotated over 3 x L2, warm-up, 100 launches back to back, cuBLAS in the same run."""
    size = 2 * (m * k + n * k + m * n)
    sets = int(3 * torch.cuda.get_device_properties(0).L2_cache_size / size) + 1
    inputs = [(padded(m, k), padded(n, k), poisoned(m, n)) for _ in range(sets)]
    check(kernel, m, n, k)
    turn = itertools.cycle(inputs)

    def ours() -> None:
        kernel.launch(*next(turn))

    def cublas() -> None:
        a, b, c = next(turn)
        torch.mm(a, b.T, out=c)

    flops = 2.0 * m * n * k
    mine = rate(ours, flops)
    time.sleep(0.5)
    theirs = rate(cublas, flops)
    time.sleep(0.5)
    again = rate(ours, flops)
    print(
        f"speed {m} x {n} x {k}: {mine:.0f} and {again:.0f} TFLOP/s, cuBLAS {theirs:.0f}, ratio "
        f"{max(mine, again) / theirs:.2f}; {sets} input sets; {torch.cuda.get_device_name()}, torch {torch.__version__}"
    )


def main(path: str, mode: str = "quick") -> None:
    torch.manual_seed(int(time.time()))
    kernel = tkc.load(path)
    if mode in ("quick", "full"):
        # The copy engine writes whole 16 bytes, so rows of C are a multiple of 8 elements; A and B may be padded.
        chosen = [(m, n, k) for m in SIZES for n in SIZES if n % 8 == 0 for k in SIZES]
        if mode == "quick":
            chosen = [s for i, s in enumerate(chosen) if i % 37 == 0] + [
                (128, 256, 64),
                (4096, 4096, 4096),
            ]
        sizes(kernel, chosen)
        edges(kernel)
        repeats(kernel)
        huge(kernel)
    if mode in ("quick", "full", "speed"):
        speed(kernel)
    if mode == "shapes":
        for shape in SHAPES:
            speed(kernel, *shape)
            time.sleep(0.5)
    if mode == "sanitize":
        for m, n, k in ((1, 8, 8), (300, 520, 200), (127, 264, 0)):
            print(m, n, k, check(kernel, m, n, k))
    print("all right")


if __name__ == "__main__":
    main(*sys.argv[1:])
