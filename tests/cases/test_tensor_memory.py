"""TMM: tensor memory, from allocation to release."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from cases.products import EXAMPLES, GEMM, check_product, poison, uniform
from programs import changed

import tkc
from tkc.analysis.shared_memory import Ring
from tkc.diagnostics import Severity
from tkc.driver import run
from tkc.emulator import Report
from tkc.ir.stage.ops import BarriersOp, BufferOp, KernelOp
from tkc.job import Job
from tkc.passes.assign_tensor_memory import place

NVFP4 = (EXAMPLES / "gemm_nvfp4.tk").read_text(encoding="utf-8")


def altered(edit: Callable[[str], str], text: str = GEMM, **params: int) -> Report:
    """What the emulator finds in the GEMM of bf16 when its PTX has been changed."""
    kernel = tkc.compile(text, target="sm_100a", params=params)
    ptx = edit(kernel.ptx)
    assert ptx != kernel.ptx
    a, b, c = uniform(130, 72), uniform(136, 72), poison(130, 136)
    return tkc.Kernel(kernel.contract, ptx).emulate(a, b, c, sm_count=2, schedule="lazy")


def without_last(pattern: str) -> Callable[[str], str]:
    """The text without the last line of a pattern."""

    def edit(text: str) -> str:
        last = list(re.finditer(rf"    {pattern}.*\n", text))[-1]
        return text[: last.start()] + text[last.end() :]

    return edit


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


def refused(text: str, **params: int) -> tkc.TkcError:
    with pytest.raises(tkc.TkcError) as caught:
        tkc.compile(text, target="sm_100a", params=params)
    return caught.value


def test_TMM_1_columns_given_back_before_the_loads_have_arrived_are_found() -> None:
    report = altered(
        lambda t: t.replace("    tcgen05.wait::ld.sync.aligned;\n", ""), BN=128, STAGES=2
    )
    assert "TK312" in codes(report)


def test_TMM_3_the_word_of_the_allocation_lies_beside_tiles_and_barriers() -> None:
    kernel = tkc.compile(NVFP4, target="sm_100a")
    (word,) = re.findall(r"tcgen05\.alloc\S* \[%r\d+\+(\d+)\]", kernel.ptx)
    module = kernel.module("assign-tensor-memory")
    ends = [
        op.offset.value.data + Ring.of(op).slot * Ring.of(op).depth
        for op in module.walk()
        if isinstance(op, BufferOp) and op.buffer.type.home.data == "shared"
    ]
    ends += [
        op.offset.value.data + 8 * op.depth.value.data
        for op in module.walk()
        if isinstance(op, BarriersOp)
    ]
    assert max(ends) <= int(word) <= kernel.contract["shared_bytes"] - 4


def test_TMM_5_rows_that_leave_lanes_free_are_named_where_columns_run_out() -> None:
    text = changed(
        GEMM,
        ("accum  d: tile[f32, BM, BN] * 2", "accum  d: tile[f32, BM, BN]\n    accum  e: tile[f32, BM, BN]\n"
         "    accum  f: tile[f32, BM, BN]"),
        ("pipe result(d):", "pipe result(d, e, f):"),
        ("d = 0\n", "d = 0; e = 0; f = 0\n"),
        ("d += a @ b.T", "d += a @ b.T; e += a @ b.T; f += a @ b.T"),
        ("C[m, n] <- bf16(read(d))", "C[m, n] <- bf16(read(d) + read(e) + read(f))"),
    )  # fmt: skip
    (told,) = refused(text, BM=64).diagnostics
    assert told.code == "TK205"
    assert (
        "needs 768 columns of tensor memory; the target gives 512; 256 fewer would fit"
        in told.message
    )
    assert told.notes[0].message == (
        "d takes 256 columns, of whose 128 lanes it uses 64: 128 rows take as many"
    )


def test_TMM_5_one_scale_too_many_beside_accumulators_that_fill_it() -> None:
    (told,) = refused(NVFP4, BN=256, BM=256, STAGES=1).diagnostics
    assert told.code == "TK205"
    assert re.search(r"needs \d+ columns of tensor memory; the target gives 512", told.message)
    assert [n.message for n in told.notes] == [
        "d takes 512 columns", "a.scale_columns takes 32 columns", "b.scale_columns takes 32 columns",
    ]  # fmt: skip


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_TMM_7_rings_lie_apart_and_a_power_of_two_holds_them(seed: int) -> None:
    draw = np.random.default_rng()
    text = changed(
        NVFP4, ("d: tile[f32, BM, BN] * 2", f"d: tile[f32, BM, BN] * {draw.integers(1, 4)}")
    )
    params = {
        "BM": int(draw.choice([128, 256])), "BN": 128, "BK": int(draw.choice([64, 128, 256])),
        "STAGES": int(draw.integers(1, 4)),
    }  # fmt: skip
    module = tkc.compile(text, target="sm_100a", params=params).module("assign-tensor-memory")
    (kernel,) = [op for op in module.walk() if isinstance(op, KernelOp)]
    rings, taken = place(kernel)
    spans = sorted((p.first, p.first + p.each * p.depth) for p in rings)
    assert len(spans) == 3
    assert all(end <= start for (_, end), (start, _) in pairwise(spans)), params
    assert kernel.tensor_columns is not None
    columns = kernel.tensor_columns.value.data
    assert spans[-1][1] == taken <= columns <= 512
    assert columns & (columns - 1) == 0


def test_TMM_9_columns_that_nobody_frees_are_found() -> None:
    report = altered(without_last(r"tcgen05\.dealloc"), BN=128, STAGES=2)
    assert codes(report) == {"TK311"}


def test_TMM_11_sixty_four_rows_lie_in_the_lower_half_of_each_quarter() -> None:
    check_product(GEMM, "sm_100a", 130, 72, 72, BM=64, BN=64)


@pytest.mark.parametrize(
    ("params", "said"), [({"BM": 64, "BN": 64, "STAGES": 1}, True), ({"STAGES": 2}, False)]
)  # fmt: skip
def test_a_second_cta_never_comes(params: dict[str, int], said: bool) -> None:
    """Said where columns and shared memory would be enough for one."""
    told = [
        d.message
        for d in run(Job(GEMM, "k.tk", "sm_100a", params=params)).diagnostics
        if d.code == "TK221" and d.severity is Severity.REMARK and "to itself" in d.message
    ]
    assert bool(told) == said
