"""Takes a role program through the compiler's own passes to PTX, and runs that in the emulator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
from oracles.as_stage import COLUMNS, ROWS, NotInStage, as_stage
from oracles.roles import Program

from tkc.diagnostics import TkcError
from tkc.driver import run
from tkc.job import Job
from tkc.kernel import Kernel

PASSES = (
    "elect-single-thread,assign-shared,assign-tensor-memory,assign-registers,lower-stage-to-ptx,name-registers,"
    "check-target"
)


def as_kernel(program: Program, target: str) -> Kernel:
    module, _ = as_stage(program, target)
    try:
        return Kernel.of(run(Job("", "program", target, passes=PASSES), module=module))
    except TkcError as refused:
        if refused.diagnostics[0].code != "TK110":
            raise
        raise NotInStage(str(refused)) from None


def emulate(kernel: Kernel, program: Program, trips: Mapping[str, int], **options: Any) -> Any:
    """The emulator's report of one launch with these trip counts."""
    rng = np.random.default_rng(0)
    written = sum(op.name == "store" for _, op in program.ops())
    written += sum(b.home == "global" for b in program.buffers.values())
    loaded = rng.uniform(-1, 1, (ROWS, COLUMNS)).astype(ml_dtypes.bfloat16)
    arrays = [loaded, *(np.zeros_like(loaded) for _ in range(written))]
    if symbols := program.symbols():
        arrays.append(np.zeros([trips[s] for s in symbols], ml_dtypes.bfloat16))
    return kernel.emulate(*arrays, **options)
