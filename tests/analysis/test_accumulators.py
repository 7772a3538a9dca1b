"""Accumulators: how often each is held, and the registers of those that are held at once."""

from __future__ import annotations

import pytest
from passes.programs import gemm, lowered, operations, parse

from tkc.analysis.accumulators import accumulator_buffers, registers_held
from tkc.diagnostics import Severity, listening
from tkc.ir.isa.targets import TARGETS
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import Home
from tkc.ir.tile import ops as t


@pytest.mark.parametrize(
    ("target", "home", "bm", "bn", "depth", "held"),
    [
        ("sm_100a", Home.TENSOR, 128, 256, 2, 2),
        ("sm_100a", Home.TENSOR, 128, 256, 3, 2),
        ("sm_100a", Home.TENSOR, 256, 256, 2, 1),
        ("sm_90a", Home.REGISTER, 128, 256, 2, 1),
        ("sm_90a", Home.REGISTER, 128, 64, 1, 1),
    ],
)
def test_a_depth_is_a_capacity(
    target: str, home: Home, bm: int, bn: int, depth: int, held: int
) -> None:
    (kernel,) = operations(parse(gemm(bm, bn, 16, 1, depth)), t.KernelOp)
    with listening() as heard:
        (buffer,) = accumulator_buffers(kernel, TARGETS[target], home).values()
    assert buffer.depth.data == held
    assert buffer.home.data == home
    assert bool(heard) == (held < depth)
    warned = [d for d in heard if d.severity is Severity.WARNING]
    assert bool(warned) == (home is Home.TENSOR and depth * bm // 128 * bn > 576)


def test_a_target_without_a_home_has_none() -> None:
    (kernel,) = operations(parse(gemm()), t.KernelOp)
    assert accumulator_buffers(kernel, TARGETS["sm_120a"], None) == {}


D = '!stage.buffer<f32, [128, 64], 1, register, "none">'
A = "!stage.accumulator<f32, [128, 64]>"


def opened(name: str, buffer: str = "%d") -> str:
    return f"%{name} = stage.open {buffer}, %zero : ({D}, i32) -> ({A})"


def used(name: str, result: str) -> str:
    return f'%{result} = stage.mma_wait %{name} {{pending = 0 : i32, id = "w"}} : ({A}) -> ({A})'


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ([], 0),
        ([opened("x")], 1),
        ([opened("x"), used("x", "y"), opened("v"), used("v", "w")], 1),
        ([opened("x"), opened("v"), used("x", "y"), used("v", "w")], 2),
        (
            [opened("x"), opened("v"), used("x", "y"), opened("u"), used("u", "t"), used("v", "w")],
            2,
        ),
        ([opened("x"), used("x", "y"), opened("v"), used("y", "z"), used("v", "w")], 2),
    ],
)
def test_accumulators_that_are_held_at_once_are_summed(lines: list[str], count: int) -> None:
    body = "\n".join(lines)
    module = parse(f"""builtin.module {{
stage.kernel {{sym_name = "k", arg_names = [], contract = {{}}}} do {{
%zero = stage.const {{constant = 0 : i32}} : () -> (i32)
%d = stage.alloc {{sym_name = "d"}} : () -> ({D})
stage.role {{sym_name = "r", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32}} do {{
{body}
}}
}}
}}""")
    (role,) = operations(module, s.RoleOp)
    assert registers_held(role) == count * 128 * 64 // 128


def test_an_accumulator_is_followed_through_loops() -> None:
    """In the GEMM the sum of the loop is read behind it; each of 256 threads holds 128 of 128 x 256."""
    module = lowered(gemm(), "sm_90a", "fuse-roles")
    held = {r.sym_name.data: registers_held(r) for r in operations(module, s.RoleOp)}
    assert held == {"load": 0, "math": 128}
