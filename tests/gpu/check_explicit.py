"""Words of explicit synchronisation on a GPU: elements of swizzled tiles, waits that may fail, copies by each thread.

    python3 tests/gpu/check_explicit.py package FOLDER [TARGET]    where tkc compiles; no GPU needed
    python3 tests/gpu/check_explicit.py run FOLDER                 where a GPU and PyTorch are

The programs are those of `tests/emulator`; what they should make is compared bit by bit, in 50 launches each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

LAUNCHES = 50


def package(folder: str, target: str = "sm_90a") -> None:
    tests = Path(__file__).parents[1]
    sys.path[:0] = [str(tests), str(tests.parent)]
    from emulator.test_explicit import POLLING
    from emulator.test_explicit_copies import ARRIVALS, GROUPS, UNCOUNTED
    from emulator.test_explicit_elements import TILES
    from emulator.test_explicit_pipes import SPELLED
    from emulator.test_halves import BY_TURNS
    from programs import changed

    import tkc

    programs = {
        "polling": POLLING,
        "groups": GROUPS,
        "counted": ARRIVALS,
        "open_pipe": SPELLED[target],
        **({"warpgroups_by_turns": BY_TURNS} if target == "sm_90a" else {}),
        "uncounted": changed(ARRIVALS, *UNCOUNTED),
        **{f"tiles_{n}": TILES.format(dtype="bf16", bn=n) for n in (16, 24, 32, 64, 128)},
    }
    for name, text in programs.items():
        kernel = tkc.compile(text, target=target)
        kernel.cubin()
        kernel.save(Path(folder) / name)
    print(f"{len(programs)} packages in {folder}")


def run(folder: str) -> None:
    import torch

    import tkc

    def uniform(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return (torch.rand(shape, device="cuda") * 2 - 1).to(dtype)

    def poison(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.full(shape, float("nan"), device="cuda", dtype=dtype)

    def polling(kernel: tkc.Kernel) -> bool:
        x, y = uniform(1000, 1096), poison(1000, 1096, dtype=torch.bfloat16)
        counters = [torch.zeros(1, device="cuda", dtype=torch.int32) for _ in range(2)]
        kernel.launch(x, y, *counters)
        return torch.equal(x, y)

    def groups(kernel: tkc.Kernel) -> bool:
        x, v = uniform(1024, 1920), uniform(1920, dtype=torch.float32)
        y, s = poison(1024, 1920, dtype=torch.bfloat16), poison(1920)
        kernel.launch(x, y, v, s)
        return torch.equal(x, y) and torch.equal(s, v * 2)

    def copies(kernel: tkc.Kernel) -> bool:
        x, y = uniform(4096, 1600), poison(4096, 1600)
        kernel.launch(x, y)
        return torch.equal(y, x.float() + 1)

    def tiles(kernel: tkc.Kernel) -> bool:
        x, v, y = uniform(32, 1096), uniform(1096), poison(32, 1096)
        exact = x.flip(0).float() * 3 + 0.25
        kernel.launch(x, y, v)
        return torch.equal(y, exact) and torch.equal(x, exact.bfloat16())

    def open_pipe(kernel: tkc.Kernel) -> bool:
        a, b = (torch.randint(-4, 5, (n, 1096), device="cuda").bfloat16() for n in (1000, 520))
        c = poison(1000, 520)
        kernel.launch(a, b, c)
        return torch.equal(c, a.float() @ b.float().T)

    checks: dict[str, Callable[[tkc.Kernel], bool]] = {
        "polling": polling,
        "groups": groups,
        "counted": copies,
        "uncounted": copies,
        "open_pipe": open_pipe,
        "warpgroups_by_turns": open_pipe,
        **{f"tiles_{n}": tiles for n in (16, 24, 32, 64, 128)},
    }
    for name, check in checks.items():
        package = next((Path(folder) / name).glob("*.json"), None)
        if package is None:
            print(f"{name}: not of this target")
            continue
        kernel = tkc.load(package)
        wrong = sum(not check(kernel) for _ in range(LAUNCHES))
        assert not wrong, f"{name}: {wrong} of {LAUNCHES} launches are wrong"
        print(f"{name}: right in {LAUNCHES} launches")
    print("all right")


if __name__ == "__main__":
    {"package": package, "run": run}[sys.argv[1]](*sys.argv[2:])
