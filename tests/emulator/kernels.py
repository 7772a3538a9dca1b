"""Small kernels for tests: a body of PTX between the usual declarations, run on NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from tkc.emulator import Report, emulate

REGISTERS = """
    .reg .pred %p<16>;
    .reg .b16 %h<32>;
    .reg .b32 %r<64>;
    .reg .b64 %d<32>;
    .reg .f32 %f<32>;
    .reg .f64 %g<16>;
"""


def text(
    body: str,
    params: tuple[str, ...] = ("out",),
    target: str = "sm_100a",
    version: str = "8.6",
    module: str = "",
) -> str:
    """A kernel `k` whose parameters are 64-bit pointers, loaded into %d0, %d1, … before the body."""
    declared = ", ".join(f".param .u64 {p}" for p in params)
    loads = "\n".join(f"ld.param.u64 %d{n}, [{p}];" for n, p in enumerate(params))
    return f"""
.version {version}
.target {target}
.address_size 64
{module}
.visible .entry k({declared})
{{
{REGISTERS}
{loads}
{body}
}}
"""


def launch(
    body: str,
    *arrays: Any,
    block: int = 32,
    grid: int = 1,
    cluster: int = 1,
    shared: int = 0,
    names: tuple[str, ...] = (),
    target: str = "sm_100a",
    module: str = "",
    **options: Any,
) -> Report:
    """Runs a body; arrays are the parameters in order."""
    params = names or tuple(f"a{n}" for n in range(len(arrays)))
    return emulate(
        text(body, params, target, module=module),
        grid=grid,
        block=block,
        cluster=(cluster, 1, 1),
        shared_bytes=shared,
        args=list(arrays),
        **options,
    )


def per_thread(
    body: str, dtype: Any = np.uint32, block: int = 32, inputs: tuple[Any, ...] = (), **options: Any
) -> np.ndarray:
    """What each thread leaves in `%r10` (or a register of that kind), one element a thread; silent runs only.

    Inputs are one element a thread, loaded into %r20, %r21, ….
    """
    size = np.dtype(dtype).itemsize
    result = {2: "%h10", 4: "%r10", 8: "%d10"}[size]
    loads = ""
    for n, array in enumerate(inputs):
        width = array.dtype.itemsize
        register = {2: "%h", 4: "%r", 8: "%d"}[width]
        loads += f"mad.wide.u32 %d30, %r0, {width}, %d{n + 1}; ld.global.b{8 * width} {register}{20 + n}, [%d30];\n"
    out = (
        np.full(block, 0xCD, dtype)
        if np.dtype(dtype).kind in "ui"
        else np.full(block, np.nan, dtype)
    )
    report = launch(
        f"mov.u32 %r0, %tid.x;\n{loads}{body}\n"
        f"mad.wide.u32 %d31, %r0, {size}, %d0; st.global.b{8 * size} [%d31], {result};\nret;",
        out,
        *inputs,
        block=block,
        **options,
    )
    assert not report.findings, "\n".join(map(str, report.findings))
    return out
