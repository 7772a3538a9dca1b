"""Every synchronisation of some kernels taken away, one at a time: what `tkc check` and what the emulator say of it.

`python bench/mutation_table.py [KERNEL …] > docs/mutations.md` (all: minutes). What is taken away is an operation of
the program that `eliminate-fences` leaves. Static: the codes of the analysis. Emulator: the codes of the first of the
schedules that finds something, at two work units of one size; `wrong numbers` where it finds nothing and the result
differs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]
os.environ["TKC_CACHE"] = "off"  # each mutant is another program than its source says

import tkc  # noqa: E402
from tkc.analysis.explanation import kind_of  # noqa: E402
from tkc.analysis.happens_before.extract import program  # noqa: E402
from tkc.analysis.happens_before.findings import findings  # noqa: E402
from tkc.diagnostics import Severity, TkcError  # noqa: E402
from tkc.ir.certificates import label, read, write  # noqa: E402
from tkc.ir.stage import ops as s  # noqa: E402
from tkc.passes.eliminate_fences import EliminateFencesPass  # noqa: E402
from tkc.passes.fencing.sites import spelled  # noqa: E402

Array = np.ndarray[Any, Any]
SCHEDULES = (("eager", 0), ("lazy", 0), ("random", 1), ("pct", 2))
MOST_STEPS = 400_000


class Row(NamedTuple):
    """One mutant: what was taken away where, and the two verdicts."""

    site: str
    what: str
    static: str
    emulator: str


def flat(m: int, n: int, inputs: int, turned: bool = False) -> Callable[[], list[Array]]:
    def made() -> list[Array]:
        rng = np.random.default_rng(7)
        given = [rng.uniform(-1, 1, (m, n)).astype(ml_dtypes.bfloat16) for _ in range(inputs)]
        out = np.full((n, m) if turned else (m, n), np.nan, ml_dtypes.bfloat16)
        return [*given, out]

    return made


def gemm(m: int, n: int, k: int) -> Callable[[], list[Array]]:
    def made() -> list[Array]:
        rng = np.random.default_rng(7)
        a, b = (rng.uniform(-1, 1, (rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
        return [a, b, np.full((m, n), np.nan, ml_dtypes.bfloat16)]

    return made


KERNELS: dict[str, tuple[str, Callable[[], list[Array]]]] = {
    "gemm_bf16_level2": ("sm_100a", gemm(130, 520, 328)),
    "gemm_2cta_level2": ("sm_100a", gemm(260, 520, 328)),
    "gemm_bf16_level2_sm90": ("sm_90a", gemm(130, 264, 328)),
    "silu_mul": ("sm_90a", flat(260, 200, 2)),
    "transpose": ("sm_100a", flat(200, 264, 1, turned=True)),
}
"""Example → its target, and arrays for two tiles of it and a rest."""


@contextmanager
def without(site: str, said: list[str]) -> Iterator[None]:
    """The compiler with one operation less, past `eliminate-fences`; the static verdict is appended to `said`."""
    whole = EliminateFencesPass.apply

    def apply(self: EliminateFencesPass, ctx: Any, module: Any) -> None:
        whole(self, ctx, module)
        write(module, read(module))
        [kernel] = [op for op in module.body.block.ops if isinstance(op, s.KernelOp)]
        op = next(op for op in kernel.walk() if label(op) == site and kind_of(op))
        op.detach()
        said.append(
            codes({f.code for f in findings(program(kernel)) if f.severity is Severity.ERROR})
        )

    EliminateFencesPass.apply = apply
    try:
        yield
    finally:
        EliminateFencesPass.apply = whole


def codes(found: set[str]) -> str:
    return ", ".join(sorted(found)) or "-"


def emulated(kernel: tkc.Kernel, arrays: Callable[[], list[Array]], expected: bytes) -> str:
    verdict = "-"
    for schedule, seed in SCHEDULES:
        given = arrays()
        report = kernel.emulate(
            *given, schedule=schedule, seed=seed, sm_count=2, max_steps=MOST_STEPS
        )
        if found := {f.code for f in report.findings}:
            return codes(found)
        if given[-1].tobytes() != expected:
            verdict = "wrong numbers"
    return verdict


def rows(name: str, only: str = "") -> Iterator[Row]:
    """The mutants of a kernel; `only`: those whose site begins so."""
    target, arrays = KERNELS[name]
    path = ROOT / "examples" / f"{name}.tk"
    right = tkc.compile(path, target=target)
    given = arrays()
    assert right.emulate(*given, sm_count=2).clean
    module = right.module(after="eliminate-fences")
    for op in [op for op in module.walk() if kind_of(op) and not op.results]:
        if not label(op).startswith(only):
            continue
        said: list[str] = []
        with without(label(op), said):
            try:
                mutant = tkc.compile(path, target=target)
            except TkcError as error:
                yield Row(
                    label(op), spelled(op), *said, f"not compiled: {error.diagnostics[0].code}"
                )
                continue
        yield Row(label(op), spelled(op), *said, emulated(mutant, arrays, given[-1].tobytes()))


HEAD = """\
# Mutants, and who finds them

Made by `python bench/mutation_table.py > docs/mutations.md`; `tests/passes/test_mutation_table.py` asks a part of it
again. Each row is a kernel without one synchronisation that `eliminate-fences` leaves. *Check* is the verdict of the
static analysis, which speaks of all sizes and schedules; *emulator* that of four schedules of one small launch, with
its record of happens-before. `-`: nothing is found. A row with two `-` is a synchronisation that is not needed there.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"of {', '.join(KERNELS)}")
    names = parser.parse_args().kernels
    if unknown := [n for n in names if n not in KERNELS]:
        parser.error(f"no kernel is called {', '.join(unknown)}; there are {', '.join(KERNELS)}")
    print(HEAD)
    for name in names or KERNELS:
        print(
            f"## `{name}`, {KERNELS[name][0]}\n\n| without | what | check | emulator |\n|---|---|---|---|"
        )
        for row in rows(name):
            print(f"| `{row.site}` | `{row.what}` | {row.static} | {row.emulator} |", flush=True)
        print()


if __name__ == "__main__":
    main()
