"""The other examples on a GPU against float64, on random data, odd sizes, poisoned outputs.

`python3 tests/gpu/check_examples.py FOLDER` where FOLDER holds the examples packaged for the GPU at hand (NAME.json),
and, as layout-DTYPE-XY.json, the GEMM in other types and operand layouts (X, Y: `t` where A, B are stored across K, else `n`),
as mixed-A-B.json gemm_e4m3 or gemm_int8 with operands of those two types (`text` of tests/emulator/test_mixed_operands.py).
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

import tkc

TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "tf32": torch.float32, "f32": torch.float32}


def uniform(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return (torch.rand(*shape, device="cuda") * 2 - 1).to(dtype)


def poison(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.full(shape, float("nan"), dtype=dtype, device="cuda")


def close(found: torch.Tensor, exact: torch.Tensor, bound: float, what: str) -> None:
    error = (torch.linalg.norm(found.double() - exact) / torch.linalg.norm(exact)).item()
    assert error < bound, f"{what}: relative error {error}"
    print(f"{what}: relative error {error:.2e}")


def bias_act(kernel: tkc.Kernel) -> None:
    for m, n, k in ((300, 264, 200), (1000, 1024, 512)):
        a, b, bias = uniform(m, k), uniform(n, k), uniform(n, dtype=torch.float32)
        r, c = uniform(m, n), poison(m, n)
        kernel.launch(a, b, bias, r, c, 0.5)
        x = 0.5 * (a.double() @ b.double().T) + bias.double()
        exact = torch.nn.functional.gelu(x, approximate="tanh") + r.double()
        close(c, exact, 4e-3, f"gemm_bias_act {m} x {n} x {k}")


def dual(kernel: tkc.Kernel) -> None:
    for m, n, k in ((300, 264, 200), (1000, 1024, 512)):
        a, b, c = uniform(m, k), uniform(n, k), poison(m, n)
        kernel.launch(a, b, c)
        close(c, a.double() @ b.double().T, 3e-3, f"gemm_dual {m} x {n} x {k}")


def clustered(name: str) -> Callable[[tkc.Kernel], None]:
    """A GEMM by several CTAs: fewer rows than one has, a last unit whose later CTAs have none, and many units."""

    def check(kernel: tkc.Kernel) -> None:
        for m, n, k in ((1, 8, 8), (300, 264, 200), (2000, 520, 1000), (4096, 4096, 4096)):
            a, b, c = uniform(m, k), uniform(n, k), poison(m, n)
            kernel.launch(a, b, c)
            close(c, a.double() @ b.double().T, 4e-3, f"{name} {m} x {n} x {k}")
        a, b, first = uniform(2000, 1000), uniform(520, 1000), None
        for _ in range(100):
            c = poison(2000, 520)
            kernel.launch(a, b, c)
            first = c if first is None else first
            assert torch.equal(first, c), f"{name}: two runs differ"
        print(f"{name}: 100 runs bit-identical")

    return check


def batched(kernel: tkc.Kernel) -> None:
    a, b, c = uniform(3, 200, 136), uniform(3, 264, 136), poison(3, 200, 264)
    kernel.launch(a, b, c)
    close(c, a.double() @ b.double().transpose(1, 2), 3e-3, "gemm_batched")


def grouped(kernel: tkc.Kernel) -> None:
    """Counts are the device's own: the same launch again with others in the same place."""
    groups, room, n, k = 8, 700, 520, 1032
    a, b = uniform(groups, room, k), uniform(groups, n, k)
    exact = a.double() @ b.double().transpose(1, 2)
    rows = torch.zeros(groups, dtype=torch.int32, device="cuda")
    for _ in range(20):
        rows.copy_(torch.randint(0, room + 1, (groups,)) * (torch.rand(groups) < 0.7))
        c = poison(groups, room, n)
        kernel.launch(rows, a, b, c)
        torch.cuda.synchronize()
        for g, count in enumerate(rows.tolist()):
            if count:
                error = torch.linalg.norm(c[g, :count].double() - exact[g, :count])
                assert error <= 4e-3 * torch.linalg.norm(exact[g, :count]), (g, count)
            assert c[g, -(-count // 128) * 128 :].isnan().all(), (g, count)
    print("gemm_grouped: 20 launches with other counts")


def grouped_list(kernel: tkc.Kernel) -> None:
    """Arrays of their own, with rows beyond the counts; `check_grouped.py` has many more."""
    for counts in ([300], [0, 130, 7, 0, 128, 1], [0, 0]):
        a, b = [uniform(x + 3, 200) for x in counts], [uniform(264, 200) for _ in counts]
        c = [poison(x + 3, 264) for x in counts]
        kernel.launch(torch.tensor(counts, dtype=torch.int32, device="cuda"), a, b, c)
        torch.cuda.synchronize()
        for g, count in enumerate(counts):
            exact = a[g][:count].double() @ b[g].double().T
            error = torch.linalg.norm(c[g][:count].double() - exact)
            assert error <= 4e-3 * torch.linalg.norm(exact), (counts, g)
            assert c[g][count:].isnan().all(), (counts, g)
    print("gemm_grouped_list: 3 sets of groups")


def int8(kernel: tkc.Kernel) -> None:
    for m, n, k in ((300, 264, 208), (1000, 1024, 4096)):
        a, b = (torch.randint(-128, 128, (x, k), dtype=torch.int8, device="cuda") for x in (m, n))
        c = poison(m, n)
        kernel.launch(a, b, c, 0.01)
        close(c, 0.01 * (a.double() @ b.double().T), 3e-3, f"gemm_int8 {m} x {n} x {k}")


def e4m3(kernel: tkc.Kernel) -> None:
    """wgmma keeps 13 bits below the largest summand's exponent, so that long sums lose more."""
    for m, n, k in ((300, 264, 208), (1000, 1024, 4096)):
        a, b = (uniform(x, k, dtype=torch.float32).to(torch.float8_e4m3fn) for x in (m, n))
        c = poison(m, n)
        kernel.launch(a, b, c)
        close(c, a.double() @ b.double().T, 4e-3, f"gemm_e4m3 {m} x {n} x {k}")


def splitk(kernel: tkc.Kernel) -> None:
    a, b = uniform(200, 4104), uniform(264, 4104)
    c = torch.ones(200, 264, device="cuda")
    kernel.launch(a, b, c)
    close(c, a.double() @ b.double().T + 1, 1e-5, "gemm_splitk")


def softmax(kernel: tkc.Kernel) -> None:
    for m, n in ((300, 1000), (7, 72)):
        x, y, lse = uniform(m, n) * 4, poison(m, n), poison(m, dtype=torch.float32)
        kernel.launch(x, y, lse)
        close(y, torch.softmax(x.double(), 1), 3e-3, f"row_softmax {m} x {n}")
        close(lse, torch.logsumexp(x.double(), 1), 1e-5, f"row_softmax {m} x {n}, LSE")


def transpose(kernel: tkc.Kernel) -> None:
    x, y = uniform(296, 1000), poison(1000, 296)
    kernel.launch(x, y)
    torch.cuda.synchronize()
    assert torch.equal(y, x.T)
    print("transpose: exact")


def axpy(kernel: tkc.Kernel) -> None:
    for n in (4, 100000):
        x, y = uniform(n, dtype=torch.float32), uniform(n, dtype=torch.float32)
        exact = 0.75 * x.double() + y.double()
        kernel.launch(x, y, 0.75)
        close(y, exact, 1e-6, f"axpy {n}")


def histogram(kernel: tkc.Kernel) -> None:
    x = torch.randint(0, 256, (1000, 5000), dtype=torch.int32, device="cuda")
    before = torch.arange(256, dtype=torch.int32, device="cuda")
    counts = before.clone()
    kernel.launch(x, counts)
    torch.cuda.synchronize()
    assert torch.equal(counts - before, torch.bincount(x.flatten(), minlength=256).int())
    print("histogram: exact")


CHECKS = {
    "gemm_bias_act": bias_act,
    "gemm_batched": batched,
    "gemm_cluster": clustered("gemm_cluster"),
    "gemm_2cta": clustered("gemm_2cta"),
    "gemm_2cta_level2": clustered("gemm_2cta_level2"),
    "gemm_bf16_level2": clustered("gemm_bf16_level2"),
    "gemm_bf16_level2_sm90": clustered("gemm_bf16_level2_sm90"),
    "gemm_cluster_level2_sm90": clustered("gemm_cluster_level2_sm90"),
    "histogram": histogram,
    "gemm_dual": dual,
    "gemm_e4m3": e4m3,
    "gemm_grouped": grouped,
    "gemm_grouped_list": grouped_list,
    "gemm_int8": int8,
    "gemm_splitk": splitk,
    "row_softmax": softmax,
    "transpose": transpose,
    "axpy": axpy,
}


def layout(path: Path) -> None:
    match = re.fullmatch(r"layout-(\w+)-([nt])([nt])", path.stem)
    assert match is not None
    dtype, across_a, across_b = match[1], match[2] == "t", match[3] == "t"
    m, n, k = 208, 272, 224
    a, b = uniform(m, k).to(TYPES[dtype]), uniform(n, k).to(TYPES[dtype])
    c = poison(m, n, dtype=torch.float32)
    tkc.load(path).launch(
        a.T.contiguous() if across_a else a, b.T.contiguous() if across_b else b, c
    )
    close(c, a.double() @ b.double().T, 1e-5, path.stem)


OPERANDS: dict[str, Callable[[int, int], torch.Tensor]] = {
    "e4m3": lambda rows, k: uniform(rows, k, dtype=torch.float32).to(torch.float8_e4m3fn),
    "e5m2": lambda rows, k: uniform(rows, k, dtype=torch.float32).to(torch.float8_e5m2),
    "s8": lambda rows, k: torch.randint(-128, 128, (rows, k), dtype=torch.int8, device="cuda"),
    "u8": lambda rows, k: torch.randint(0, 256, (rows, k), dtype=torch.uint8, device="cuda"),
}


def mixed(path: Path) -> None:
    left, right = path.stem.split("-")[1:]
    kernel = tkc.load(path)
    for m, n, k in ((300, 264, 208), (1000, 1024, 4096)):
        a, b, c = OPERANDS[left](m, k), OPERANDS[right](n, k), poison(m, n)
        factor = [0.01] if left in ("s8", "u8") else []
        kernel.launch(a, b, c, *factor)
        exact = a.double() @ b.double().T * (0.01 if factor else 1)
        close(c, exact, 4e-3, f"{path.stem} {m} x {n} x {k}")


def main(folder: str) -> None:
    torch.manual_seed(int(time.time()))
    failed = 0
    for path in sorted(Path(folder).glob("*.json")):
        check = CHECKS.get(path.stem)
        try:
            if check is not None:
                check(tkc.load(path))
            elif path.stem.startswith("layout-"):
                layout(path)
            elif path.stem.startswith("mixed-"):
                mixed(path)
        except Exception as error:  # every example gets its turn
            failed += 1
            print(f"{path.stem} FAILED: {error}")
    print("all right" if not failed else f"{failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main(*sys.argv[1:])
