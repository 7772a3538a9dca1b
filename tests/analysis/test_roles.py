"""Roles: how many warps they take, and how the rows of accumulators fall on warpgroups."""

from __future__ import annotations

import pytest
from passes.programs import gemm, operations, parse

from tkc.analysis.roles import accumulator_home, plan_role, rows_of
from tkc.diagnostics import TkcError
from tkc.ir.isa.targets import TARGETS
from tkc.ir.stage.types import FragmentLayout, Home
from tkc.ir.tile import ops as t

ROWS, HALF, WGMMA = FragmentLayout.ROWS, FragmentLayout.HALF_ROWS, FragmentLayout.WGMMA


def test_where_targets_keep_accumulators() -> None:
    homes = {name: accumulator_home(target) for name, target in TARGETS.items()}
    assert {n for n, h in homes.items() if h is Home.REGISTER} == {"sm_90a"}
    assert {n for n, h in homes.items() if h is None} == {"sm_90", "sm_100", "sm_120a"}


@pytest.mark.parametrize(
    ("rows", "home", "wanted"),
    [
        (64, Home.TENSOR, (64, 1, 1, HALF)),
        (128, Home.TENSOR, (128, 1, 1, ROWS)),
        (256, Home.TENSOR, (128, 1, 2, ROWS)),
        (64, Home.REGISTER, (64, 1, 1, WGMMA)),
        (128, Home.REGISTER, (64, 2, 1, WGMMA)),
        (192, Home.REGISTER, (64, 1, 3, WGMMA)),
        (256, Home.REGISTER, (64, 2, 2, WGMMA)),
        (96, Home.TENSOR, "takes 64, 128 or a multiple of 128"),
        (192, Home.TENSOR, "takes 64, 128 or a multiple of 128"),
        (96, Home.REGISTER, "takes a multiple of 64"),
        (32, Home.REGISTER, "takes a multiple of 64"),
    ],
)
def test_the_rows_of_an_accumulator(
    rows: int, home: Home, wanted: tuple[int, int, int, FragmentLayout] | str
) -> None:
    (accum,) = operations(parse(gemm(bm=rows)), t.AccumOp)
    if isinstance(wanted, str):
        with pytest.raises(TkcError, match=f"accumulator d has {rows} rows; .* {wanted}") as error:
            rows_of(accum, home)
        assert error.value.diagnostics[0].code == "TK203"
        return
    found = rows_of(accum, home)
    assert (found.unit, found.groups, found.blocks, found.layout) == wanted
    assert found.unit * found.groups * found.blocks == rows


@pytest.mark.parametrize(
    ("bm", "home", "warps"),
    [
        (128, Home.TENSOR, {"load": 1, "math": 1, "store": 4}),
        (128, Home.REGISTER, {"load": 1, "math": 8, "store": 8}),
        (64, Home.REGISTER, {"load": 1, "math": 4, "store": 4}),
    ],
)
def test_the_warps_of_the_gemm(bm: int, home: Home, warps: dict[str, int]) -> None:
    """R16: a tensor-memory reader takes four, a wgmma role four for each warpgroup, one thread's work one."""
    roles = operations(parse(gemm(bm=bm)), t.RoleOp)
    assert {r.sym_name.data: plan_role(r, home).warps for r in roles} == warps


@pytest.mark.parametrize(
    ("role", "asked", "home", "taken"),
    [
        ("load", 2, Home.TENSOR, 2),
        ("math", 4, Home.TENSOR, 4),
        ("store", 4, Home.TENSOR, 4),
        ("store", 8, Home.TENSOR, "takes 4"),
        ("store", 1, Home.TENSOR, "takes 4"),
        ("math", 4, Home.REGISTER, "takes 8"),
        ("math", 8, Home.REGISTER, 8),
        ("load", 0, Home.TENSOR, "takes 1"),
    ],
)
def test_written_warps_are_taken_where_the_role_can_use_them(
    role: str, asked: int, home: Home, taken: int | str
) -> None:
    text = gemm().replace(f'sym_name = "{role}"', f'sym_name = "{role}", warps = {asked} : i32')
    (op,) = [r for r in operations(parse(text), t.RoleOp) if r.sym_name.data == role]
    if isinstance(taken, int):
        assert plan_role(op, home).warps == taken
        return
    with pytest.raises(
        TkcError, match=f"role {role} asks for {asked} warps?; what it does {taken}"
    ) as error:
        plan_role(op, home)
    assert error.value.diagnostics[0].code == "TK208"
    assert error.value.diagnostics[0].location is not None
