"""Compile time against the size of a program: seconds for each IR operation at 1, 10 and 100 times the size.

`python bench/growth.py [--target sm_90a] [--passes] [--way tiles]`. Four ways to grow: statements of a role, tiles of a
pipe with their copies, loops with a put and a get each, kernels of a file. A way is linear where the last column stays
near 1 or falls; `--passes` shows each step of the largest program beside the same step of the smallest.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable
from time import perf_counter

from tkc.diagnostics import TkcError
from tkc.driver import run
from tkc.dump import Watcher
from tkc.job import Job

HEAD = """\
kernel k{number}(X: global[bf16, M, N], Z: global[f32, M, N]):
    param BM = 128, BN = 16
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
"""


def statements(n: int, number: int = 0) -> str:
    """A chain of n additions and maxima in one role."""
    lines = "".join(f"                v = max(v + {i % 7}, v * {1 + i % 3})\n" for i in range(n))
    return (
        HEAD.format(number=number)
        + f"""\
    shared x: tile[bf16, BM, BN] * 2
    pipe p(x): load -> math
    role load:
        for m, n in work:
            put p:
                x <- X[m, n]
    role math, warps 4:
        for m, n in work:
            get p:
                v = f32(read(x))
{lines}                Z[m, n] <- v
"""
    )


def tiles(n: int) -> str:
    """n tiles that ride in one pipe, each copied in and added up; they stand in 8 columns, to fit."""
    names = [f"x{i}" for i in range(n)]
    copies = "".join(f"                {name} <- X[m, n]\n" for name in names)
    sums = "".join(f"                v = v + f32(read({name}))\n" for name in names)
    return (
        HEAD.format(number=0).replace("BN = 16", "BN = 8")
        + f"""\
    shared {", ".join(names)}: tile[bf16, BM, BN]
    pipe p({", ".join(names)}): load -> math
    role load:
        for m, n in work:
            put p:
{copies}
    role math, warps 4:
        for m, n in work:
            get p:
                v = f32(read(x0))
{sums}                Z[m, n] <- v
"""
    )


def loops(n: int) -> str:
    """n loops one after another, each with an item of one pipe."""
    loop = "            for j in blocks(N, BN):\n"
    puts = f"{loop}                put p:\n                    x <- X[m, j]\n" * n
    gets = f"{loop}                get p:\n                    Z[m, j] <- f32(read(x))\n" * n
    return (
        HEAD.format(number=0).replace(
            "work: m, n in tiles(blocks(M, BM), blocks(N, BN))", "work: m in blocks(M, BM)"
        )
        + f"""\
    shared x: tile[bf16, BM, BN] * 2
    pipe p(x): load -> math
    role load:
        for m in work:
{puts}
    role math, warps 4:
        for m in work:
{gets}"""
    )


def kernels(n: int) -> str:
    """n kernels in one file."""
    return "\n".join(statements(4, number) for number in range(n))


WAYS: dict[str, tuple[Callable[[int], str], int]] = {
    "statements": (statements, 8),
    "tiles": (tiles, 1),
    "loops": (loops, 1),
    "kernels": (kernels, 1),
}
"""How a program grows, and its size at 1 ×."""


class Steps(Watcher):
    """Seconds of each step, and the most operations that the module had."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.operations = 0

    def begin(self, module, step, seconds) -> None:  # type: ignore[no-untyped-def]
        self.seconds[step.name] = seconds

    def after(self, module, step, seconds) -> None:  # type: ignore[no-untyped-def]
        self.seconds[step.name] = seconds
        self.operations = max(self.operations, sum(1 for _ in module.walk()))

    def phase(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds


def measure(text: str, target: str, rounds: int) -> tuple[float, Steps]:
    """The median of the seconds of a warm compilation, and what its steps took in one."""
    job = Job(text, "grown.tk", target)
    steps = Steps()
    run(job, [steps])
    times: list[float] = []
    for _ in range(rounds):
        began = perf_counter()
        run(job)
        times.append(perf_counter() - began)
    return statistics.median(times), steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--most", type=int, default=100, help="the largest factor")
    parser.add_argument("--passes", action="store_true", help="show each step")
    parser.add_argument("--way", choices=list(WAYS), action="append", help="only this way")
    options = parser.parse_args()
    print(
        f"{'grows by':<12}{'size':>6}{'operations':>12}{'seconds':>10}{'µs each':>9}{'to 1 ×':>8}"
    )
    for way in options.way or WAYS:
        make, base = WAYS[way]
        first: tuple[float, Steps] | None = None
        for factor in (1, 10, 100):
            if factor > options.most:
                break
            text = make(base * factor)
            try:
                seconds, steps = measure(text, options.target, 5 if factor < 100 else 2)
            except TkcError as error:
                print(f"{way:<12}{factor:>5} ×  {error.diagnostics[0].message[:90]}")
                break
            each = seconds / steps.operations
            first = first or (each, steps)
            row = f"{way:<12}{factor:>5} ×{steps.operations:>11}{seconds:>10.3f}"
            print(f"{row}{1e6 * each:>9.1f}{each / first[0]:>8.2f}")
            if options.passes and factor == min(100, options.most):
                for name, took in sorted(steps.seconds.items(), key=lambda s: -s[1])[:12]:
                    before = first[1].seconds.get(name, 0.0)
                    print(
                        f"    {name:<22}{1e3 * took:>9.1f} ms{took / seconds:>7.1%}, "
                        f"{took / before / (steps.operations / first[1].operations) if before else 0:>7.2f} × linear"
                    )
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
