"""Block-scaled products beside PTX that Triton makes of `tl.dot_scaled` for sm_100: the same operands, the same bits.

Triton's kernels take scales in rows, and threads store them to tensor memory (tcgen05.st); ours take them in atoms, which
the tensor core copies (tcgen05.cp). So what agrees are two ways to the same columns, and two layouts of the elements.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulator.foreign.problem import FOLDER, launches, run
from emulator.foreign.triton_cases import CASES

import tkc
from tkc import scales

EXAMPLES = Path(__file__).parents[2] / "examples"
FORMS = {
    "mxfp8": ("gemm_mxfp8", "e4m3", "e4m3", "ue8m0"),
    "mxfp4": ("gemm_mxfp4", "e2m1", "e2m1", "ue8m0"),
    "nvfp4": ("gemm_nvfp4", "e2m1", "e2m1", "ue4m3"),
    "mx_mixed": ("gemm_mxfp8", "e5m2", "e2m1", "ue8m0"),
}


def ours(name: str, a: str, b: str) -> tkc.Kernel:
    """An example with these elements, whose result is in f32 and is multiplied by nothing."""
    text = (EXAMPLES / f"{name}.tk").read_text(encoding="utf-8")
    for old, new in (
        ("C: global[bf16", "C: global[f32"), ("bf16(read(d))", "read(d)"), ("bf16(read(d) * alpha)", "read(d)"),
        (", alpha: f32", ""),
    ):  # fmt: skip
        text = text.replace(old, new)
    if name == "gemm_mxfp8":
        text = text.replace("A: global[e4m3", f"A: global[{a}").replace(
            "a: tile[e4m3", f"a: tile[{a}"
        )
        text = text.replace("B: global[e4m3", f"B: global[{b}").replace(
            "b: tile[e4m3", f"b: tile[{b}"
        )
    return tkc.compile(text, target="sm_100a", params={"STAGES": 2})


def operand(elements: Any, row_major: Any, scale: str) -> tuple[Any, Any]:
    return elements.view(np.uint8), scales.interleave(row_major.view(np.uint8), scale)


@pytest.mark.parametrize(
    "name",
    ["mxfp8", "nvfp4", *(pytest.param(n, marks=pytest.mark.soak) for n in ("mxfp4", "mx_mixed"))],
)
def test_the_same_operands_make_the_same_bits(name: str) -> None:
    example, a, b, scale = FORMS[name]
    case = next(case for case in CASES if case.name == name)
    problem = case.make(np.random.default_rng(), case.constants)
    facts = launches()[f"{name}_sm100"]
    report = run((FOLDER / "ptx" / f"{name}_sm100.ptx").read_text(encoding="utf-8"), facts, problem)
    assert not report.findings
    given = problem.args
    assert np.unique(given["sa"].view(np.uint8)).size > 2, "scales that are alike would hide a slip"
    c = np.full(given["c"].shape, np.nan, np.float32)
    pairs = (operand(given["a"], given["sa"], scale), operand(given["b"], given["sb"], scale))
    report = ours(example, a, b).emulate(*pairs, c, sm_count=2, schedule="random")
    assert not report.findings, "\n".join(map(str, report.findings))
    assert (c.view(np.uint32) == given["c"].view(np.uint32)).all()
