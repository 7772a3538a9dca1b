"""Two GEMMs one after another, the second reading what the first writes, on a GPU: right however their launches overlap.

`python3 tests/gpu/check_dependent.py [LAUNCHES]` compiles `examples/gemm_bf16.tk` for the GPU at hand, as it is and as
`launch dependent`, launches D = (A·Bᵀ)·Eᵀ in chains of both kinds and compares every result, bit for bit, with that of
launches that wait for one another; a chain whose second kernel does not wait (the wait taken out of its PTX) is
launched as well, and is to be seen going wrong. Prints what a chain takes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import torch

import tkc

GEMM = (Path(__file__).parents[2] / "examples" / "gemm_bf16.tk").read_text()
DEPENDENT = GEMM.replace("launch persistent", "launch persistent, dependent")
SIZES = ((128, 256, 64, 256), (300, 264, 200, 136), (1000, 1024, 512, 2048), (4096, 512, 512, 512))


def uniform(*shape: int) -> torch.Tensor:
    return (torch.rand(*shape, device="cuda") * 2 - 1).to(torch.bfloat16)


def without(word: str, kernel: tkc.Kernel, folder: Path) -> tkc.Kernel:
    """The same kernel without the lines of its PTX that hold a word."""
    kernel.save(folder)
    (contract,) = folder.glob("*.json")
    (text,) = folder.glob("*.ptx")
    text.write_text("".join(x for x in text.read_text().splitlines(True) if word not in x))
    lines = contract.read_text().splitlines(True)
    contract.write_text("".join(x for x in lines if "ptx_sha256" not in x))
    return tkc.load(contract)


def chain(
    first: tkc.Kernel, second: tkc.Kernel, a: torch.Tensor, b: torch.Tensor, e: torch.Tensor
) -> torch.Tensor:
    """D = (A·Bᵀ)·Eᵀ through a C that holds something else before."""
    c = torch.full((a.shape[0], b.shape[0]), float("nan"), dtype=torch.bfloat16, device="cuda")
    d = torch.full((a.shape[0], e.shape[0]), float("nan"), dtype=torch.bfloat16, device="cuda")
    torch.cuda.synchronize()
    first.launch(a, b, c)
    second.launch(c, e, d)
    torch.cuda.synchronize()
    return d


def seconds(
    first: tkc.Kernel, second: tkc.Kernel, a: torch.Tensor, b: torch.Tensor, e: torch.Tensor
) -> float:
    """Of a chain, in a row of fifty."""
    c = torch.empty((a.shape[0], b.shape[0]), dtype=torch.bfloat16, device="cuda")
    d = torch.empty((a.shape[0], e.shape[0]), dtype=torch.bfloat16, device="cuda")
    for count in (5, 50):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(count):
            first.launch(a, b, c)
            second.launch(c, e, d)
        torch.cuda.synchronize()
    return (time.perf_counter() - began) / 50


def main() -> None:
    launches = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    major, minor = torch.cuda.get_device_capability()
    target = f"sm_{major}{minor}a"
    plain = tkc.compile(GEMM, target=target)
    early = tkc.compile(DEPENDENT, target=target)
    assert early.contract["attributes"] == {"dependent": True}
    wrong_kinds = 0
    with tempfile.TemporaryDirectory() as folder:
        rash = without("griddepcontrol.wait", early, Path(folder))
        for m, n, k, p in SIZES:
            a, b, e = uniform(m, k), uniform(n, k), uniform(p, n)
            wanted = chain(plain, plain, a, b, e)
            c = (a.double() @ b.double().T).to(torch.bfloat16).double()
            exact = c @ e.double().T
            error = (torch.linalg.norm(wanted.double() - exact) / torch.linalg.norm(exact)).item()
            assert error < 4e-3, f"{m} x {n} x {k} x {p}: relative error {error}"
            bad = {
                name: sum(not torch.equal(chain(*kinds, a, b, e), wanted) for _ in range(launches))
                for name, kinds in (
                    ("plain, dependent", (plain, early)),
                    ("dependent, dependent", (early, early)),
                    ("dependent, rash", (early, rash)),
                )
            }
            took = {
                name: seconds(x, x, a, b, e) * 1e6
                for name, x in (("plain", plain), ("dependent", early))
            }
            print(f"{m} x {n} x {k} x {p}: wrong of {launches}: {bad}; us a chain: {took}")
            assert bad["plain, dependent"] == bad["dependent, dependent"] == 0
            wrong_kinds += bad["dependent, rash"] > 0
    print(f"without its waits it went wrong at {wrong_kinds} of {len(SIZES)} sizes")


if __name__ == "__main__":
    main()
