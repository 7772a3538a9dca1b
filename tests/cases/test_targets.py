"""TGT and REG: targets by their features, the assembler by its version, registers before the assembler sees them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from backend.fakes import shell_tool
from cases.products import EXAMPLES, GEMM
from ir.isa.ptx_lines import disagreements, find_ptxas
from programs import changed

import tkc
from tkc.backend.assemble import assemble
from tkc.backend.sass import instructions
from tkc.backend.tools import find
from tkc.ir.isa.instructions import all_rows
from tkc.ir.isa.targets import TARGETS, Feature

LEVEL2 = (EXAMPLES / "gemm_bf16_level2.tk").read_text(encoding="utf-8")
WITH_PTXAS = pytest.mark.skipif(find("ptxas") is None, reason="no ptxas")


@pytest.mark.parametrize("target", ["sm_90", "sm_100", "sm_120a"])
def test_TGT_1_a_target_without_the_matrix_unit_is_told_which_have_it(target: str) -> None:
    for text in (GEMM, LEVEL2):
        with pytest.raises(tkc.TkcError) as caught:
            tkc.compile(text, target=target)
        said = str(caught.value)
        assert f"needs tcgen05 or wgmma; {target} has neither [TK202]" in said
        assert "help: --target sm_90a (wgmma) or sm_100f, sm_100a, sm_103f, sm_103a" in said


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("fences", [{}, {"fences": "conservative"}])
def test_TGT_1_fences_of_tensor_memory_are_refused_on_sm_90a(side: str, fences: Any) -> None:
    """Also where fences without use are taken out, which there all of these are."""
    text = (EXAMPLES / "gemm_bf16_level2_sm90.tk").read_text(encoding="utf-8")
    products = "                fence products\n"
    text = changed(text, (products, products + f"                fence tcgen05 {side}\n"))
    with pytest.raises(tkc.TkcError) as caught:
        tkc.compile(text, target="sm_90a", **fences)
    said = str(caught.value)
    assert "needs tcgen05 and tensor memory; sm_90a has none [TK202]" in said
    assert "help: --target sm_100f, sm_100a, sm_103f, sm_103a" in said
    assert f"fence tcgen05 {side}\n" in said
    assert caught.value.diagnostics[0].location is not None
    line = caught.value.diagnostics[0].location.line
    assert text.splitlines()[line - 1].strip() == f"fence tcgen05 {side}"
    assert tkc.compile(text.replace(f"fence tcgen05 {side}\n", "\n"), target="sm_90a").ptx


@WITH_PTXAS
@pytest.mark.parametrize("target", ["sm_100a", "sm_103a", "sm_107a"])
def test_TGT_3_every_tcgen05_row_is_what_the_assembler_takes(target: str, tmp_path: Path) -> None:
    """One table, a line for each row and choice; `tests/ir/isa/test_rows_against_ptxas.py` takes every target."""
    ptxas = find_ptxas()
    assert ptxas is not None
    assert sum(row.startswith("tcgen05") for row in all_rows()) > 8
    assert disagreements(ptxas, target, (9, 5), tmp_path) == []


def test_TGT_5_register_reallocation_is_a_feature_of_sm_90a_and_not_of_sm_90() -> None:
    assert Feature.SETMAXNREG in TARGETS["sm_90a"].features
    assert Feature.SETMAXNREG not in TARGETS["sm_90"].features
    silu = (EXAMPLES / "silu_mul.tk").read_text(encoding="utf-8")
    text = changed(silu, ("role math, warps 4:", "role math, warps 4, registers 232:"),
                   ("role load:", "role load, registers 40:"))  # fmt: skip
    assert "setmaxnreg" in tkc.compile(text, target="sm_90a").ptx
    assert tkc.compile(text, target="sm_90a").ptx.count(".target") == 1
    with pytest.raises(tkc.TkcError, match=r"TK202"):
        tkc.compile(text, target="sm_90")


def test_TGT_7_only_options_that_every_assembler_has_are_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tmp_path / "said"
    fake = shell_tool(tmp_path / "ptxas", f'echo "$@" >> {said}; echo "ptxas V12.0.1"; exit 255')
    monkeypatch.setattr("tkc.backend.assemble.candidates", lambda name: [str(fake)])
    monkeypatch.setattr("tkc.backend.assemble.library", lambda name: None)
    with pytest.raises(tkc.TkcError):
        assemble(".version 8.0\n", "sm_90a")
    words = {w for w in said.read_text().split() if w.startswith("-")}
    assert words <= {"--version", "-arch=sm_90a", "-v", "-lineinfo", "-o"}


@WITH_PTXAS
def test_REG_1_reallocation_has_what_it_needs_and_a_notice_is_an_error() -> None:
    kernel = tkc.compile(GEMM, target="sm_90a")
    assert ".reqntid 384, 1, 1" in kernel.ptx
    assert ".minnctapersm 1" in kernel.ptx
    found = [i.text.split()[0] for i in instructions(kernel.sass())[0]]
    assert sum(word.startswith("USETMAXREG") for word in found) == kernel.ptx.count("setmaxnreg")
    with pytest.raises(tkc.TkcError, match=r"C7508.*\[TK211\]"):
        assemble(
            kernel.ptx.replace(".minnctapersm 1\n", "").replace(".reqntid 384, 1, 1\n", ""),
            "sm_90a",
        )


@pytest.mark.parametrize(("bm", "warpgroups"), [(256, 2), (384, 3)])
def test_REG_3_too_many_threads_for_the_product_are_refused_before_the_assembler(
    bm: int, warpgroups: int
) -> None:
    with pytest.raises(tkc.TkcError) as caught:
        tkc.compile(GEMM, target="sm_90a", params={"BM": bm, "STAGES": 1})
    said = str(caught.value)
    assert "registers of accumulators a thread" in said
    assert "[TK206]" in said


@pytest.mark.parametrize(
    ("columns", "warps", "threads", "need", "fit"),
    [
        (256, 8, 512, 154, 384),
        (224, 8, 512, 138, 384),
        (192, 8, 512, None, None),
        (192, 12, 640, 122, 512),
        (96, 16, 768, None, None),
        (96, 20, 896, 74, 768),
    ],
)
def test_REG_3_a_product_that_the_threads_leave_no_registers_for_is_refused(
    columns: int, warps: int, threads: int, need: int | None, fit: int | None
) -> None:
    """Idle warps beside it: each thread begins with an even share, and setmaxnreg comes too late for the assembler."""
    text = (EXAMPLES / "gemm_bf16_level2_sm90.tk").read_text(encoding="utf-8")
    text = re.sub(r"\n    assert BN .*", "", text)  # registers are looked at, not results
    text += f"\n    role extra, warps {warps}:\n        sync role\n"
    params = {"BN": columns, "WIDTH": 32}
    if need is None:
        kernel = tkc.compile(text, target="sm_90a", params=params)
        assert kernel.contract["block"][0] == threads
        if find("ptxas") is not None:
            kernel.assembly()
        return
    with pytest.raises(tkc.TkcError) as caught:
        tkc.compile(text, target="sm_90a", params=params)
    said = str(caught.value)
    assert (
        f"has {threads} threads, which begin with {65536 // threads // 8 * 8} registers each"
        in said
    )
    assert f"takes {need} at once" in said
    assert f"{fit} threads fit" in said


@pytest.mark.parametrize("name", ["gemm_nvfp4_clc", "gemm_nvfp4_level2", "gemm_mxfp8"])
def test_a_target_without_block_scales_says_that_and_nothing_of_shapes(name: str) -> None:
    with pytest.raises(tkc.TkcError) as caught:
        tkc.compile(EXAMPLES / f"{name}.tk", target="sm_90a")
    [told] = caught.value.diagnostics
    assert (told.code, told.message) == (
        "TK202", "products of block-scaled tiles need tcgen05; sm_90a has none",
    )  # fmt: skip
