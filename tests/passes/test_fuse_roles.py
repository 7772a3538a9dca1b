"""Fusion: one role runs both bodies in item order; what is left of pipes and warps."""

from __future__ import annotations

import pytest
from passes.programs import gemm, lowered, operations
from passes.stage_machine import Machine

from tkc.ir.stage import ops as s


def test_the_gemm_becomes_two_roles_without_a_pipe_between_products_and_stores() -> None:
    module = lowered(gemm(), "sm_90a", "fuse-roles")
    roles = {r.sym_name.data: r for r in operations(module, s.RoleOp)}
    assert {n: (r.first_warp.value.data, r.warps.value.data) for n, r in roles.items()} == {
        "math": (0, 8),
        "load": (8, 1),
    }
    pipes = {p.sym_name.data: p for p in operations(module, s.PipeOp)}
    assert set(pipes) == {"inputs", "store.staging"}
    assert [n.data for n in pipes["store.staging"].producers] == ["math"]


def test_nothing_is_joined_where_accumulators_are_in_tensor_memory() -> None:
    before = str(lowered(gemm(), "sm_100a", "place-tiles"))
    assert str(lowered(gemm(), "sm_100a", "fuse-roles")) == before


@pytest.mark.parametrize(
    "written", [{}, {"math": 200}, {"store": 208}, {"math": 200, "store": 208}]
)
def test_the_joined_role_has_the_most_registers_of_both(written: dict[str, int]) -> None:
    text = gemm()
    for role, n in written.items():
        text = text.replace(f'sym_name = "{role}"', f'sym_name = "{role}", registers = {n} : i32')
    module = lowered(text, "sm_90a", "fuse-roles")
    (math,) = [r for r in operations(module, s.RoleOp) if r.sym_name.data == "math"]
    found = None if math.registers is None else math.registers.value.data
    assert found == max(written.values(), default=None)


def test_products_of_an_item_are_awaited_before_it_is_read() -> None:
    """On what is executed: between the last product of a tile and its first read stands a wait for all groups."""
    module = lowered(gemm(stages=1), "sm_90a", "insert-fences")
    (kernel,) = operations(module, s.KernelOp)
    events = Machine({"M": 256, "N": 512, "K": 192}).kernel(kernel)["math"]
    pending = tiles = 0
    for event in events:
        match event.op:
            case s.MmaOp():
                pending += 1
            case s.MmaWaitOp() as op:
                pending = min(pending, op.pending.value.data)
            case s.ReadAccumulatorOp():
                assert pending == 0
                tiles += 1
            case s.MbarrierArriveOp():
                assert pending == 0, "a ring of one slot: released while a product reads it"
            case _:
                pass
    assert tiles == 4 * 4
