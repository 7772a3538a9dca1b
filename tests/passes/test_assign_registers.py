"""Registers: the file is never exceeded, accumulators have room, and what is written is kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from passes.programs import gemm, lowered, operations

import tkc
from tkc.diagnostics import TkcError
from tkc.ir.isa.targets import TARGETS
from tkc.ir.stage import ops as s


def shares(text: str, target: str) -> tuple[int, dict[str, int | None]]:
    """The kernel's threads, and each role's registers."""
    module = lowered(text, target, "assign-registers")
    (kernel,) = operations(module, s.KernelOp)
    roles = operations(module, s.RoleOp)
    assert kernel.threads is not None
    return kernel.threads.value.data, {
        r.sym_name.data: None if r.registers is None else r.registers.value.data for r in roles
    }


def test_the_gemm_on_sm_90_has_240_for_products_and_24_for_loads() -> None:
    assert shares(gemm(), "sm_90a") == (384, {"load": 24, "math": 240})


def test_small_accumulators_move_no_registers() -> None:
    assert shares(gemm(bm=64, bn=64), "sm_90a") == (160, {"load": None, "math": None})


def test_accumulators_in_tensor_memory_move_no_registers() -> None:
    assert shares(gemm(), "sm_100a") == (192, {"load": None, "math": None, "store": None})


@pytest.mark.share(2)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("load", [24, 40, 104])
def test_what_is_written_is_kept_and_the_file_is_not_exceeded(target: str, load: int) -> None:
    text = gemm().replace('sym_name = "load"', f'sym_name = "load", registers = {load} : i32')
    threads, given = shares(text, target)
    assert given["load"] == load
    assert threads % 128 == 0
    module = lowered(text, target, "assign-registers")
    total = 0
    for group in range(threads // 128):
        inside = [
            r.registers.value.data
            for r in operations(module, s.RoleOp)
            if r.first_warp.value.data // 4
            <= group
            <= (r.first_warp.value.data + r.warps.value.data - 1) // 4
        ]
        total += 128 * max(inside)
    assert total <= TARGETS[target].registers_per_sm
    if target == "sm_90a":
        assert given["math"] == (65536 - 128 * load) // 256 // 8 * 8 or given["math"] == 240


def test_a_role_with_register_tiles_is_not_starved() -> None:
    """`store` reads accumulators of tensor memory; a number for `load` alone must not leave it 24 registers."""
    text = gemm().replace('sym_name = "load"', 'sym_name = "load", registers = 24 : i32')
    given = shares(text, "sm_100a")[1]
    assert given["store"] is not None
    assert given["store"] >= 128


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("bm", "bn", "held"), [(256, 256, 256), (256, 216, 216), (192, 256, 384), (192, 144, 216)]
)
def test_accumulators_without_room_are_refused(bm: int, bn: int, held: int) -> None:
    with pytest.raises(
        TkcError, match=f"role math holds {held} registers of accumulators"
    ) as error:
        lowered(gemm(bm, bn, 32, 1, 1), "sm_90a", "assign-registers")
    (found,) = error.value.diagnostics
    assert found.code == "TK206"
    assert found.location is not None
    assert "of which products leave 208" in found.message
    assert ("multiple of 128" in found.message) == (bm % 128 != 0)


EXPLICIT = """
kernel moves(A: global[f32, M, N]):
    launch persistent
    role first, warps {warps}:
        registers inc {most}
        sync cta
    role second, warps 4:
        registers dec {least}
        sync cta
"""


@pytest.mark.parametrize(
    ("warps", "most", "least", "fits"),
    [(16, 112, 24, True), (16, 120, 24, False), (8, 240, 24, True), (8, 240, 32, False)],
)
def test_registers_that_a_program_moves_itself_are_of_those_it_began_with(
    warps: int, most: int, least: int, fits: bool
) -> None:
    text = EXPLICIT.format(warps=warps, most=most, least=least)
    if fits:
        tkc.compile(text, target="sm_90a")
        return
    with pytest.raises(TkcError, match=r"this waits for ever: the \d+ threads begin with") as error:
        tkc.compile(text, target="sm_90a")
    (found,) = error.value.diagnostics
    assert found.code == "TK206"
    assert found.location is not None
    assert text.splitlines()[found.location.line - 1].strip() == f"registers inc {most}"


@pytest.mark.parametrize(
    ("most", "least", "fits"), [(240, 96, True), (240, 104, False), (168, 168, True)]
)
def test_threads_beyond_whole_warpgroups_keep_what_they_began_with(
    most: int, least: int, fits: bool
) -> None:
    """288 threads begin with 168 each, as many as 384 would: 240 and 96 for two warpgroups are those of 256 threads."""
    text = (
        EXPLICIT.format(warps=4, most=most, least=least)
        + "    role third, warps 1:\n        sync cta\n"
    )
    if fits:
        tkc.compile(text, target="sm_90a")
        return
    with pytest.raises(
        TkcError, match="the 288 threads begin with 168 registers each, 48384 together"
    ) as error:
        tkc.compile(text, target="sm_90a")
    assert error.value.diagnostics[0].code == "TK206"


def test_what_a_cta_does_not_begin_with_is_not_shared_out() -> None:
    """640 threads begin with 96 registers each: 480 * 128 in all, where the SM's file has 512 * 128."""
    text = (Path(__file__).parents[2] / "lit_tests/run/attention-ahead.tk").read_text()
    ptx = tkc.compile(text, target="sm_90a").ptx
    threads = int(re.search(r"\.reqntid (\d+)", ptx)[1])  # type: ignore[index]
    counts = [int(n) for n in re.findall(r"setmaxnreg\.\w+\.sync\.aligned\.u32 (\d+)", ptx)]
    assert threads == 640
    assert sorted(counts) == [24, 112, 112]
