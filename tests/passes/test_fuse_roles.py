"""Fusion: one role runs both bodies in item order; what is left of pipes and warps."""

from __future__ import annotations

from pathlib import Path

import pytest
from passes.programs import gemm, lowered, operations
from passes.stage_machine import Machine

import tkc
from tkc.analysis.happens_before import check
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import AccumulatorType


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


TO_AND_FRO = Path("lit_tests/run/accumulator-to-and-fro.tk").read_text(encoding="utf-8")


def test_an_accumulator_that_goes_to_and_fro_flows_round_the_loop() -> None:
    """What the one role leaves in it is what the other finds a turn later: the loop over K carries it."""
    module = tkc.compile(TO_AND_FRO, target="sm_90a").module(after="fuse-roles")
    assert [r.sym_name.data for r in operations(module, s.RoleOp)] == ["load", "math"]
    (opened,) = operations(module, s.OpenOp)
    assert isinstance(opened.parent_op(), s.RoleOp)
    carried = [
        op
        for op in operations(module, s.ForOp)
        if any(isinstance(r.type, AccumulatorType) for r in op.results)
    ]
    assert len(carried) == 1
    order = [type(op) for op in carried[0].body.block.ops]
    behind = len(order) - order[::-1].index(s.IfOp)  # the last sum is stored
    assert order.index(s.WriteAccumulatorOp) < order.index(s.MmaOp) < behind
    assert {p.sym_name.data for p in operations(module, s.PipeOp)} == {"inputs", "scale.staging"}


def test_what_two_roles_hand_to_one_another_keeps_its_order_when_they_are_one() -> None:
    """The weights that `soft` makes of a score are put before `mma` waits for them, in the role that is both."""
    text = Path("lit_tests/run/ahead.tk").read_text(encoding="utf-8").replace(", ahead = score", "")
    module = tkc.compile(text, target="sm_90a").module(after="fuse-roles")
    (prob,) = [p for p in operations(module, s.PipeOp) if p.sym_name.data == "prob"]
    steps = [
        op for op in module.walk() if isinstance(op, s.CommitOp | s.WaitOp) and op.ring is prob.ring
    ]
    assert [type(op) for op in steps] == [s.CommitOp, s.WaitOp]
    assert check(tkc.compile(text, target="sm_90a").module(after="eliminate-fences")) == []


def test_roles_that_wait_for_one_another_have_no_order() -> None:
    old = "put scaled: d = 0 if k.first else read(d) * 0.5\n                get added:"
    new = "get added, put scaled:\n                    d = 0 if k.first else read(d) * 0.5"
    text = TO_AND_FRO.replace(old, new)
    assert text != TO_AND_FRO
    with pytest.raises(tkc.TkcError) as raised:
        tkc.compile(text, target="sm_90a")
    (found,) = raised.value.diagnostics
    assert found.code == "TK213"
    assert "in no order of their items is each put before it is got" in found.message
    assert found.location is not None
    assert text.split("\n")[found.location.line - 1].strip().startswith(("get scaled", "get added"))
